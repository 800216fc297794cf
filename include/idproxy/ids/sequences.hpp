#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/time_zone.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/ids/template.hpp"

namespace idproxy::ids {

class Store;

class Source;

/// How the values of a rule spread over sequences, and how they are written (docs/templates.md).
struct SequenceOptions {
  std::vector<std::string> scope{};  ///< dotted fields; sorted
  std::vector<std::string> scope_as_written{};
  enum class OnMissing { error, null };
  OnMissing on_missing = OnMissing::error;
  std::uint32_t most = 10'000;  ///< sequences in memory
  Reset reset = Reset::none;
  YearStart year = kCalendarYear;  ///< with Reset::yearly
  TimeZone zone{};
  std::optional<Template> text{};
  Check check = Check::none;  ///< with `text`

  /// False: there is one sequence, and all its values are written in the same way.
  [[nodiscard]] bool any() const { return !scope.empty() || reset != Reset::none || text; }
  /// True if a document's values depend on its other fields.
  [[nodiscard]] bool by_document() const {
    return !scope.empty() || (text && !text->fields().empty());
  }
  /// True of a sequence of another period, as from period_of(), than that of now. `wall`: as
  /// Clock::wall().
  [[nodiscard]] bool is_past(std::string_view period, std::chrono::nanoseconds wall) const {
    return reset != Reset::none && period != period_of(reset, zone.date_at(wall), year);
  }
  /// True if values of different periods are the same by design.
  [[nodiscard]] bool repeats() const {
    return reset != Reset::none && !(text && text->shows_period(reset));
  }
};

/// Whether a sequence that this process does not use yet may come into use, in which the store
/// reads or makes what belongs to it.
enum class Opening { any, only_used };

/// The sequences of one rule that this process uses: so many at most. If there are more, the least
/// recently used goes, once no request uses it any more. Thread-safe.
class RecentSequences {
 public:
  /// Makes a source that writes the numbers of a sequence in this format.
  using Write = std::function<std::shared_ptr<Source>(const NumberFormat&)>;

  explicit RecentSequences(std::size_t most) : most_(most) {}

  /// The source of the sequence with this key, which `open` begins to use if it is not in use yet;
  /// null if that is not wanted. `again` tells the store that it is, the first time after renew()
  /// that a rule which has that store asks.
  template <class Open, class Again>
  [[nodiscard]] std::shared_ptr<Source> get(const std::string& key, const NumberFormat& format,
                                            Opening opening, const Open& open, const Store& store,
                                            const Again& again) {
    std::optional<Sequence> gone;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    auto found = by_key_.find(key);
    if (found == by_key_.end()) {
      if (opening == Opening::only_used) return nullptr;
      sequences_.push_front({key, open()});
      found = by_key_.emplace(sequences_.front().key, sequences_.begin()).first;
    } else if (!found->second->is_told && &store == newest_) {
      found->second->is_told = true;
      again();
    }
    sequences_.splice(sequences_.begin(), sequences_, found->second);
    if (sequences_.size() > most_) {
      by_key_.erase(sequences_.back().key);
      gone = std::move(sequences_.back());
      sequences_.pop_back();
    }
    Sequence& first = sequences_.front();
    if (!first.source || first.format != format) {
      first.source = first.write(format);
      first.format = format;
    }
    return first.source;
  }
  /// A reload: this store knows what the newest rules ask for, and nothing of the rules before.
  /// These are used for a while yet. It must exist as long as anybody asks for it.
  void renew(const Store& newest);

 private:
  struct Sequence {
    std::string key;
    Write write;
    bool is_told = true;
    NumberFormat format{};
    std::shared_ptr<Source> source{};  // in this format
  };
  const std::size_t most_;
  std::mutex mutex_;               // guards all that follows
  const Store* newest_ = nullptr;  // never followed
  std::list<Sequence> sequences_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Sequence>::iterator> by_key_;  // views of the keys
};

/// The key of a sequence, as Sequences::Chosen has it.
[[nodiscard]] std::string sequence_key(std::string_view name, std::string_view scope,
                                       std::string_view period);

/// The sequences of a rule in one collection. Fields of the document, the date, or both say which
/// of them serves a document. Thread-safe.
class Sequences {
 public:
  struct Chosen {
    /// The sequence's key within the rule, a BSON document: {c: name, s: {field: value, …}, p:
    /// "2026"}, without `s` or `p` if the rule has no scope or no reset; empty: it has neither.
    std::string key{};
    std::string scope{};    ///< `s`: also the filter that finds the documents; empty: no scope
    NumberFormat format{};  ///< of this document
    NumberFormat stored{};  ///< of all documents of the sequence
  };
  using Open = std::function<std::shared_ptr<Source>(Chosen, Opening)>;

  /// `name`: in Chosen::key. `format`: the rule's, for one without a template. `options` and
  /// `clock` must outlive this object.
  Sequences(const SequenceOptions& options, std::string name, NumberFormat format,
            const Clock& clock, Open open);

  /// The dotted fields that a document must be looked up for, each once; empty: only the date
  /// matters.
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
  /// Why no sequence serves a document with these values, by fields(), as half a sentence that
  /// shows none of them; empty: one does.
  [[nodiscard]] std::string refusal(std::span<const FieldValue> values) const;

  // Only if refusal() is empty.

  /// The sequence that serves the document now; with Opening::only_used null if it is not in use.
  [[nodiscard]] std::shared_ptr<Source> sequence(std::span<const FieldValue> values,
                                                 Opening opening = Opening::any) const {
    return open_(choose(values, clock_.wall()), opening);
  }
  /// The sequence that would have served it at another time. `wall`: as Clock::wall().
  [[nodiscard]] std::shared_ptr<Source> sequence_at(std::span<const FieldValue> values,
                                                    std::chrono::nanoseconds wall) const {
    return open_(choose(values, wall), Opening::any);
  }
  [[nodiscard]] Chosen choose(std::span<const FieldValue> values,
                              std::chrono::nanoseconds wall) const;
  /// Chosen::scope
  [[nodiscard]] std::string scope_of(std::span<const FieldValue> values) const;
  /// The texts of Template::fields(), for a rule with a template.
  [[nodiscard]] std::vector<std::string> texts_of(std::span<const FieldValue> values) const;

 private:
  const SequenceOptions& options_;
  const std::string name_;
  const NumberFormat format_;
  const Clock& clock_;
  const Open open_;
  std::vector<std::string> fields_;       // first those of the scope
  std::vector<std::size_t> in_template_;  // by Template::fields(): index in fields_
};

/// Makes `place`, of a rule's counter, that of one of its sequences, whose key is not empty.
void choose_in(CounterPlace& place, const std::string& key, const std::string& scope);

}  // namespace idproxy::ids
