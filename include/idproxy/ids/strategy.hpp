#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/error.hpp"
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

/// Where the server said that a value is taken already.
enum class Taken {
  in_batch,        ///< a fresh one will be tried
  in_transaction,  ///< which has been aborted by it
};

/// Makes the values of one rule. No I/O, no clock of its own: values of the id store that are not
/// at hand are asked for. Thread-safe: all io threads share one object, and take its lock, if it
/// has one, once per call, that is once per insert command.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Before anything is bound for a set of rules: what the store must know of this rule though none
  /// of its collections has been used yet. Again with each reload that leaves the rule as it is,
  /// while others bind it for the set before, with another Store of the same counters.
  virtual void announce(Store& /*store*/) {}
  /// What serves the collection `ns` ("db.collection"); null if this object serves all of them. May
  /// be called often; what must be remembered for a collection is the store's.
  [[nodiscard]] virtual std::shared_ptr<Strategy> bind(std::string_view /*ns*/,
                                                       Store& /*store*/) const {
    return nullptr;
  }

  /// True if it draws from a space that fills with the collection's documents.
  [[nodiscard]] virtual bool counts_documents() const { return false; }
  /// The collection "db.collection" that it keeps in the store, which no rule may touch; or "".
  [[nodiscard]] virtual std::string store_namespace() const { return {}; }
  /// The counter that it draws from, for checks of one rule against another; null if none.
  [[nodiscard]] virtual const CounterUse* counter_use() const { return nullptr; }

  /// Appends `n` values to `out`. They are pairwise distinct and differ from all that stand in
  /// `out` already, which are those that this request has been given before. On an error `out` may
  /// hold some of them; none of them may be used. Errc::pending: nothing has been appended, and
  /// ask() gets them.
  [[nodiscard]] virtual Result<void> next(std::size_t n, Values& out) = 0;

  /// After Errc::pending: `asker` is answered once, from any thread, perhaps before this returns,
  /// unless the ticket is given up before. First come, first served.
  [[nodiscard]] virtual Ticket ask(std::size_t /*n*/, std::unique_ptr<Asker> /*asker*/) {
    return {};
  }
  /// How long whoever asks should wait for the answer at most.
  [[nodiscard]] virtual std::chrono::nanoseconds patience() const { return kPatience; }
  /// Appends the values of an answer to `out`.
  virtual void accept(Grant /*grant*/, Values& /*out*/) {}

  /// How often one document is sent again after a duplicate, unless its rule says so.
  [[nodiscard]] virtual std::uint32_t attempts() const { return kAttempts; }
  /// These of `values` (by position, they ascend), drawn from this object, are stored nowhere, and
  /// the server has said so: they may be handed out again.
  virtual void take_back(const Values& /*values*/, std::span<const std::uint32_t> /*which*/) {}
  /// False if take_back() has no use for values.
  [[nodiscard]] virtual bool takes_back() const { return false; }

  /// These of `values` are taken already. `in_request`: how many of this object's values have been
  /// found taken in this request so far, these included.
  virtual void collided(const Values& /*values*/, std::span<const std::uint32_t> /*which*/,
                        std::size_t /*in_request*/, Taken /*where*/) {}
  /// An insert with values of this object went well.
  virtual void went_well() {}
  /// True from a collision on until an insert went well: went_well() wants to be told.
  [[nodiscard]] bool in_a_row() const { return in_a_row_.load(std::memory_order_relaxed); }

  /// No caller waits longer for ids (docs/strategies.md#when-no-value-is-available).
  static constexpr std::chrono::seconds kPatience{2};
  static constexpr std::uint32_t kAttempts = 8;

 protected:
  std::atomic<bool> in_a_row_{false};
};

}  // namespace idproxy::ids
