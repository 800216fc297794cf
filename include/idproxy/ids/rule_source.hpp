#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/machine_lease.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/range_spec.hpp"
#include "idproxy/ids/sequences.hpp"
#include "idproxy/ids/source.hpp"

namespace idproxy::ids {

class Store;

/// What a value tells: "time", "uuid" and such, each with a text for people.
using Meaning = std::vector<std::pair<std::string_view, std::string>>;
/// That, or why the rule cannot have made the value.
using Decoded = boost::system::result<Meaning, std::string>;

/// The source of a rule's values, as configured. Thread-safe.
class RuleSource {
 public:
  /// Facts for checks and for texts. With `counter` or `gapless`, the values are numbers.
  struct About {
    /// In which counter they are. No rule may apply to the collection that holds it. With `ranges`,
    /// the place has the collection of the ranges, and no key.
    std::optional<CounterSpec> counter{};
    std::optional<RangesSpec> ranges{};
    std::optional<GaplessSpec> gapless{};  ///< of a rule without gaps
    std::optional<LeaseSpec> lease{};      ///< of a rule whose ids have a machine number
    SnowflakeLayout layout{};              ///< of these ids
    /// The field that has the numbers; its ns is the rule's glob.
    CounterField field{};
    /// True: each collection has a counter of its own, whose key is "<db>.<collection>.<field>"; in
    /// the counter's key and the field's ns, "<db>.<collection>" is then the rule's glob. False:
    /// there is one counter for all collections.
    bool per_namespace = false;
    /// If any(), each collection has several sequences; the counter's key is the name of all.
    SequenceOptions sequences{};
    bool fills_up = false;  ///< the values are of a space that fills with the documents
  };
  /// What the values of a collection come from: one of them is null.
  struct Bound {
    std::shared_ptr<Source> source{};  ///< all values
    std::shared_ptr<Sequences> sequences{};
  };

  virtual ~RuleSource() = default;

  [[nodiscard]] const About& about() const { return about_; }
  /// Sets the exceptions of the field's ns. Before any other call.
  void leave_alone(const Exceptions& except) { about_.field.except = except; }
  /// Tells the store what it must know of this rule before any of its collections is used. Called
  /// before bind(), and again with each reload that leaves the rule unchanged; then other threads
  /// may still bind it for the previous set of rules, with another Store of the same counters.
  virtual void announce(Store& /*store*/) {}
  /// For the collection `ns` ("db.collection"). May be called often; what must be remembered about
  /// a collection belongs to the store. `store`: null if no values come from it. This object, and
  /// the store, must outlive the sequences.
  [[nodiscard]] virtual Bound bind(std::string_view ns, Store* store) = 0;
  /// Appends `n` values that nobody gets, to show what they are like: numbers are 0.
  virtual void append_samples(std::size_t n, Values& out) const {
    for (; n > 0; --n) append_number(0, about_.field.format, out);
  }
  /// Whether the rule could have written a value. Of numbers with a template, only their type.
  [[nodiscard]] virtual Fit fit(bson::Type type, Bytes value) const;
  /// What a value tells, of a rule without template. `text`: a string as it is, a number in
  /// decimal, an ObjectId in hex, a UUID as 36 characters, another binary in hex as it is stored.
  [[nodiscard]] virtual Decoded decode(std::string_view text) const;

 protected:
  explicit RuleSource(About about) : about_(std::move(about)) {}

 private:
  About about_;
};

/// A rule whose collections all have one source, which needs no store.
class SharedSource final : public RuleSource {
 public:
  using Read = std::function<Decoded(std::string_view text)>;
  using Judge = std::function<bool(std::string_view text)>;

  /// `judge`: whether a text fits, for a rule that writes texts; null: a value fits that has the
  /// type and the length.
  SharedSource(std::shared_ptr<Source> source, Read read, Judge judge = nullptr)
      : RuleSource({}),
        source_(std::move(source)),
        read_(std::move(read)),
        judge_(std::move(judge)) {}

  [[nodiscard]] Bound bind(std::string_view /*ns*/, Store* /*store*/) override {
    return {.source = source_};
  }
  void append_samples(std::size_t n, Values& out) const override {
    static_cast<void>(source_->next(n, out));
  }
  [[nodiscard]] Fit fit(bson::Type type, Bytes value) const override {
    if (!judge_) return RuleSource::fit(type, value);
    if (type != bson::Type::string) return Fit::wrong_type;
    return judge_(text_in_string(value)) ? Fit::fits : Fit::wrong_form;
  }
  [[nodiscard]] Decoded decode(std::string_view text) const override { return read_(text); }

 private:
  const std::shared_ptr<Source> source_;
  const Read read_;
  const Judge judge_;
};

/// A counter, and the field that is filled from it.
struct FieldCounter {
  CounterSpec spec;
  CounterField field;
};

/// The counter of a rule with the strategy counter in the collection `ns`; if the rule has several
/// sequences there, its key is the name of all.
[[nodiscard]] FieldCounter counter_in(const RuleSource::About& about, std::string_view ns);

/// The one of a sequence. `of_all`: as from counter_in().
[[nodiscard]] FieldCounter counter_of(const RuleSource::About& about, const FieldCounter& of_all,
                                      const Sequences::Chosen& chosen);

}  // namespace idproxy::ids
