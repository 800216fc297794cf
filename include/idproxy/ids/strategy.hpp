#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

class Store;
struct CounterUse;

/// What strategies draw from. Both outlive every strategy.
struct Sources {
  const Clock& clock;
  RandomSource& random;
};

/// Of a strategy whose values come from the id store, and return to it. Thread-safe.
class StoreBacked {
 public:
  /// No caller waits longer for ids (docs/strategies.md#when-no-value-is-available).
  static constexpr std::chrono::seconds kPatience{2};

  virtual ~StoreBacked() = default;

  /// After Draw::need(): `waiter` is answered once, from any thread, perhaps before this returns,
  /// unless the ticket is given up before. First come, first served.
  [[nodiscard]] virtual Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) = 0;
  /// How long whoever asks should wait for the answer at most.
  [[nodiscard]] virtual std::chrono::nanoseconds patience() const { return kPatience; }
  /// Appends the values of an answer to `out`.
  virtual void accept(Grant grant, Values& out) = 0;
  /// These of `values` (by position, they ascend), drawn from this object, are stored nowhere, and
  /// the server has said so: they may be handed out again.
  virtual void take_back(const Values& values, std::span<const std::uint32_t> which) = 0;
};

/// Where the server said that a value is taken already.
enum class Taken {
  in_batch,        ///< a fresh one will be tried
  in_transaction,  ///< which has been aborted by it
};

/// Of a strategy that learns from duplicates of its values. Thread-safe.
class DuplicateObserver {
 public:
  virtual ~DuplicateObserver() = default;

  /// These of `values` are taken already. `in_request`: how many of this object's values have been
  /// found taken in this request so far, these included.
  virtual void collided(const Values& values, std::span<const std::uint32_t> which,
                        std::size_t in_request, Taken where) = 0;
  /// An insert with values of this object went well.
  virtual void went_well() {}
  /// True from a collision on until an insert went well: went_well() wants to be called.
  [[nodiscard]] bool in_a_row() const { return in_a_row_.load(std::memory_order_relaxed); }

 protected:
  std::atomic<bool> in_a_row_{false};
};

/// Of a strategy that draws from a space which fills with the collection's documents. Thread-safe.
class BoundedSpace {
 public:
  virtual ~BoundedSpace() = default;

  /// How often one document is sent again after a duplicate, unless its rule says so.
  [[nodiscard]] virtual std::uint32_t attempts() const = 0;
};

/// Of a strategy that draws from a counter. Thread-safe.
class CounterRule {
 public:
  virtual ~CounterRule() = default;

  /// For checks of one rule against another. No rule may touch the collection of its place.
  [[nodiscard]] virtual const CounterUse& use() const = 0;
  /// Before anything is bound for a set of rules: what the store must know of this rule though none
  /// of its collections has been used yet. Again with each reload that leaves the rule as it is,
  /// while others bind it for the set before, with another Store of the same counters.
  virtual void announce(Store& store) = 0;
};

/// Makes the values of one rule. No I/O, no clock of its own: values of the id store that are not
/// at hand are asked for. Thread-safe: all io threads share one object, and take its lock, if it
/// has one, once per call, that is once per insert command.
///
/// A strategy must have next(); what only some of them can do is an interface that they offer. What
/// bind() returns need not offer the same as the rule's own object.
class Strategy {
 public:
  static constexpr std::uint32_t kAttempts = 8;

  virtual ~Strategy() = default;

  /// What serves the collection `ns` ("db.collection"); null if this object serves all of them. May
  /// be called often; what must be remembered for a collection is the store's.
  [[nodiscard]] virtual std::shared_ptr<Strategy> bind(std::string_view /*ns*/,
                                                       Store& /*store*/) const {
    return nullptr;
  }

  /// Appends `n` values to `out`. They are pairwise distinct and differ from all that stand in
  /// `out` already, which are those that this request has been given before. On an error `out` may
  /// hold some of them; none of them may be used.
  [[nodiscard]] virtual Draw next(std::size_t n, Values& out) = 0;

  // Each as long as this object; null: not of this kind.
  [[nodiscard]] virtual StoreBacked* store_backed() { return nullptr; }
  [[nodiscard]] virtual DuplicateObserver* duplicate_observer() { return nullptr; }
  [[nodiscard]] virtual BoundedSpace* bounded_space() { return nullptr; }
  [[nodiscard]] virtual CounterRule* counter_rule() { return nullptr; }

  /// As BoundedSpace::attempts(), of every strategy.
  [[nodiscard]] std::uint32_t attempts() {
    const BoundedSpace* space = bounded_space();
    return space == nullptr ? kAttempts : space->attempts();
  }
};

}  // namespace idproxy::ids
