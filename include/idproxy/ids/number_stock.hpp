#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

/// Numbers for a strategy: those of a counter, or of ranges. Thread-safe.
class NumberStock : public Lender, public Queue {
 public:
  /// Between two numbers that follow each other.
  [[nodiscard]] virtual std::int64_t step() const = 0;
  /// The rule's heal.after.
  [[nodiscard]] virtual std::uint32_t heals_after() const = 0;

  /// Takes `n` numbers and appends them to `out` as a few ranges in their order, or takes nothing.
  [[nodiscard]] virtual Draw take(std::uint64_t n, std::vector<Range>& out) = 0;
  /// True if take() has `n` numbers now, and would not have the store get the next ones.
  [[nodiscard]] virtual bool holds(std::uint64_t n) const = 0;
  /// Queues a request for `n` numbers: first come, first served. If the numbers have arrived since
  /// take(), answers `waiter` before it returns.
  [[nodiscard]] virtual Ticket ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) = 0;
  /// The server has reported each of `numbers` as a duplicate. Starts a heal after as many in a row
  /// as the rule says, or at once. Numbers from before the last heal do not count.
  virtual void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) = 0;
  /// An insert succeeded: ends the row of collisions.
  virtual void went_well() = 0;
  /// Why requests wait while the store prepares the numbers; empty if it does not.
  [[nodiscard]] virtual std::string pending() const = 0;
};

/// Numbers of a stock, written in one format. The state is in the stock, which several sources may
/// share.
[[nodiscard]] std::shared_ptr<Source> number_source(std::shared_ptr<NumberStock> stock,
                                                    const NumberFormat& format,
                                                    const CounterSpec::OnStoreDown& on_store_down);

}  // namespace idproxy::ids
