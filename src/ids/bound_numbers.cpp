#include "ids/bound_numbers.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {
namespace {

std::chrono::nanoseconds patience_of(const CounterSpec::OnStoreDown& on_store_down) {
  if (on_store_down.action == CounterSpec::OnStoreDown::Action::fail) return StoreBacked::kPatience;
  return std::min<std::chrono::nanoseconds>(on_store_down.wait, StoreBacked::kPatience);
}

}  // namespace

BoundNumbers::BoundNumbers(std::shared_ptr<NumberStock> stock, NumberFormat format,
                           const CounterSpec::OnStoreDown& on_store_down)
    : stock_(std::move(stock)), format_(std::move(format)), patience_(patience_of(on_store_down)) {}

std::size_t BoundNumbers::most_bytes() const {
  return longest(format_);
}

Draw BoundNumbers::next(std::size_t n, Values& out) {
  // Kept from call to call: an allocation would take longer than everything else here.
  static thread_local std::vector<Range> ranges;
  ranges.clear();
  auto taken = stock_->take(n, ranges);
  if (taken) append(ranges, out);
  return taken;
}

Ticket BoundNumbers::ask(std::size_t n, std::unique_ptr<Waiter> waiter) {
  return stock_->ask(n, std::move(waiter));
}

std::string BoundNumbers::why_waiting() const {
  return stock_->pending();
}

void BoundNumbers::accept(Grant grant, Values& out) {
  append(grant.take(), out);
}

void BoundNumbers::take_back(const Values& values, std::span<const std::uint32_t> which) {
  const Steps steps(stock_->step());
  std::vector<Range> ranges;
  for (const std::int64_t number : numbers(values, which)) {
    if (!ranges.empty() && steps.end(ranges.back()) == static_cast<Int128>(number)) {
      ++ranges.back().count;
    } else {
      ranges.push_back({number, 1});
    }
  }
  stock_->take_back(ranges);
}

void BoundNumbers::collided(const Values& values, std::span<const std::uint32_t> which,
                            std::size_t in_request, Taken where) {
  in_a_row_.store(true, std::memory_order_relaxed);
  const bool at_once = where == Taken::in_transaction || in_request >= stock_->heals_after();
  stock_->collided(numbers(values, which), at_once);
}

void BoundNumbers::went_well() {
  in_a_row_.store(false, std::memory_order_relaxed);
  stock_->went_well();
}

void BoundNumbers::append(const std::vector<Range>& ranges, Values& out) const {
  const std::int64_t step = stock_->step();
  for (const Range& range : ranges) {
    // Does not compute the number after the last one, which may not fit 64 bits.
    std::int64_t number = range.first;
    append_number(number, format_, out);
    for (std::uint64_t i = 1; i < range.count; ++i) {
      number += step;
      append_number(number, format_, out);
    }
  }
}

std::vector<std::int64_t> BoundNumbers::numbers(const Values& values,
                                                std::span<const std::uint32_t> which) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(which.size());
  for (const std::uint32_t i : which) {
    if (const auto number = read_number(values.type(), values[i], format_)) {
      numbers.push_back(*number);
    }
  }
  return numbers;
}

}  // namespace idproxy::ids
