#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/number_stock.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// Draws numbers for one collection, and writes them in one format. The state is in the stock,
/// which several objects may share.
class BoundNumbers final : public Strategy, public StoreBacked, public DuplicateObserver {
 public:
  BoundNumbers(std::shared_ptr<NumberStock> stock, NumberFormat format,
               const CounterSpec::OnStoreDown& on_store_down);

  StoreBacked* store_backed() override { return this; }
  DuplicateObserver* duplicate_observer() override { return this; }
  [[nodiscard]] std::size_t most_bytes() const override;
  Draw next(std::size_t n, Values& out) override;

  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override;
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return patience_; }
  [[nodiscard]] std::string why_waiting() const override;
  void accept(Grant grant, Values& out) override;
  void take_back(const Values& values, std::span<const std::uint32_t> which) override;

  void collided(const Values& values, std::span<const std::uint32_t> which, std::size_t in_request,
                Taken where) override;
  void went_well() override;

 private:
  void append(const std::vector<Range>& ranges, Values& out) const;
  [[nodiscard]] std::vector<std::int64_t> numbers(const Values& values,
                                                  std::span<const std::uint32_t> which) const;

  const std::shared_ptr<NumberStock> stock_;
  const NumberFormat format_;
  const std::chrono::nanoseconds patience_;
};

}  // namespace idproxy::ids
