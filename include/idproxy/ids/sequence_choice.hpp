#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/time_zone.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/period.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/ids/template.hpp"

namespace idproxy::ids {

/// How the values of a rule spread over sequences, and how they are written (docs/templates.md).
struct SequenceOptions {
  std::vector<std::string> scope{};  ///< dotted fields; sorted
  enum class OnMissing { error, null };
  OnMissing on_missing = OnMissing::error;
  std::uint32_t most = 10'000;  ///< sequences in memory
  Reset reset = Reset::none;
  TimeZone zone{};
  std::optional<Template> text{};
  Check check = Check::none;  ///< with `text`

  /// False: there is one sequence, and all its values are written in the same way.
  [[nodiscard]] bool any() const { return !scope.empty() || reset != Reset::none || text; }
  /// True if values of different periods are the same by design.
  [[nodiscard]] bool repeats() const {
    return reset != Reset::none && !(text && text->shows_period(reset));
  }
};

/// Says which sequence of a rule a document's value comes from. Immutable.
class SequenceChoice {
 public:
  explicit SequenceChoice(SequenceOptions options);

  /// The dotted fields that a document must be looked up for, each once.
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
  [[nodiscard]] const SequenceOptions& options() const { return options_; }

  /// Returns why a document with these values (in the order of fields()) belongs to no sequence, as
  /// a sentence for its write error, without the values; empty: it belongs to one.
  [[nodiscard]] std::string refusal(std::span<const FieldValue> values) const;

  struct Chosen {
    /// The sequence's key within the rule, a BSON document: {c: name, s: {field: value, …}, p:
    /// "2026"}, without `s` or `p` if the rule has no scope or no reset; empty: it has neither.
    std::string key{};
    std::string scope{};    ///< `s`: also the filter that finds the documents; empty: no scope
    NumberFormat format{};  ///< of this document
    NumberFormat stored{};  ///< of all documents of the sequence
  };
  /// Only if refusal() is empty. `format`: the rule's, for a rule without a template. `wall`: now.
  [[nodiscard]] Chosen choose(std::string_view name, const NumberFormat& format,
                              std::span<const FieldValue> values,
                              std::chrono::nanoseconds wall) const;

 private:
  [[nodiscard]] bool is_missing(const FieldValue& value) const;
  [[nodiscard]] std::string refusal(std::size_t field, const FieldValue& value) const;
  [[nodiscard]] std::string scope_of(std::span<const FieldValue> values) const;
  void write(Chosen& chosen, std::span<const FieldValue> values,
             std::chrono::year_month_day day) const;

  SequenceOptions options_;
  std::vector<std::string> fields_;       // first those of the scope
  std::vector<std::size_t> in_template_;  // by Template::fields(): index in fields_
};

}  // namespace idproxy::ids
