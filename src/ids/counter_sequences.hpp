#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/sequence_choice.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/recently_used.hpp"
#include "ids/sequenced_rule.hpp"

namespace idproxy::ids {

/// The sequences of one rule that this process uses: so many at most. If there are more, the least
/// recently used gives its numbers back and goes, once no request uses it any more. Thread-safe.
class CounterSequences {
 public:
  explicit CounterSequences(std::size_t most) : counters_(most) {}

  /// Draws numbers of the counter, and writes them in `format`.
  [[nodiscard]] std::shared_ptr<Strategy> get(const CounterSpec& spec, const CounterField& field,
                                              const NumberFormat& format, Store& store);

 private:
  struct Lease;
  struct Entry {
    std::shared_ptr<Lease> lease;
    NumberFormat format{};
    std::shared_ptr<Strategy> strategy{};  // in this format
  };

  std::mutex mutex_;              // guards all that follows
  RecentlyUsed<Entry> counters_;  // by the counter's key
};

/// A rule with several counters, bound to a collection: one per sequence.
class SequencedCounter final : public SequencedRule {
 public:
  /// `use`: of the collection. `clock` and `store` must outlive it.
  SequencedCounter(CounterUse use, std::shared_ptr<const SequenceChoice> choice,
                   std::shared_ptr<CounterSequences> sequences, const Clock& clock, Store& store);

  Draw next(std::size_t n, Values& out) override;
  [[nodiscard]] std::shared_ptr<Strategy> sequence_at(std::span<const FieldValue> values,
                                                      std::chrono::nanoseconds wall) override;

 private:
  const CounterUse use_;
  const std::shared_ptr<CounterSequences> sequences_;
  Store& store_;
};

/// The counter of a sequence.
struct SequenceCounter {
  CounterSpec spec;
  CounterField field;
};
[[nodiscard]] SequenceCounter counter_of(const CounterUse& use, const SequenceChoice& choice,
                                         const SequenceChoice::Chosen& chosen);

}  // namespace idproxy::ids
