#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/sequence_choice.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/recently_used.hpp"
#include "ids/sequenced_rule.hpp"

namespace idproxy::ids {

/// The sequences without gaps of one rule that this process uses: so many at most. If there are
/// more, the least recently used goes, once no write uses it any more: the store keeps its floor
/// and forgets it. Thread-safe.
class GaplessSequences {
 public:
  explicit GaplessSequences(std::size_t most) : sequences_(most) {}

  /// Draws from the sequence, and writes its numbers in `format`, which depends on the spec alone.
  [[nodiscard]] std::shared_ptr<Strategy> get(const GaplessSpec& spec, const NumberFormat& format,
                                              Store& store);

 private:
  std::mutex mutex_;                                   // guards all that follows
  RecentlyUsed<std::shared_ptr<Strategy>> sequences_;  // by name
};

/// A rule with several sequences, bound to a collection.
class SequencedGapless final : public SequencedRule {
 public:
  /// `spec`: of the collection. `clock` and `store` must outlive it.
  SequencedGapless(GaplessSpec spec, std::shared_ptr<const SequenceChoice> choice,
                   std::shared_ptr<GaplessSequences> sequences, const Clock& clock, Store& store);

  Draw next(std::size_t n, Values& out) override;
  [[nodiscard]] std::shared_ptr<Strategy> sequence_at(std::span<const FieldValue> values,
                                                      std::chrono::nanoseconds wall) override;
  [[nodiscard]] bool in_turn() const override { return true; }

 private:
  const GaplessSpec spec_;
  const std::shared_ptr<GaplessSequences> sequences_;
  Store& store_;
};

}  // namespace idproxy::ids
