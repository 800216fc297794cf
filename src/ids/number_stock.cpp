#include "idproxy/ids/number_stock.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {
namespace {

std::chrono::nanoseconds patience_of(const CounterSpec::OnStoreDown& on_store_down) {
  if (on_store_down.action == CounterSpec::OnStoreDown::Action::fail) return Source::kPatience;
  return std::min<std::chrono::nanoseconds>(on_store_down.wait, Source::kPatience);
}

class NumberSource final : public Source {
 public:
  NumberSource(std::shared_ptr<NumberStock> stock, NumberFormat format,
               std::chrono::nanoseconds patience)
      : stock_(std::move(stock)), format_(std::move(format)), patience_(patience) {}

  [[nodiscard]] std::size_t most_bytes() const override { return longest(format_); }
  Draw next(std::size_t n, Values& out) override {
    // Kept from call to call: an allocation would take longer than everything else here.
    static thread_local std::vector<Range> ranges;
    ranges.clear();
    auto taken = stock_->take(n, ranges);
    if (taken) append(ranges, out);
    return taken;
  }

  [[nodiscard]] bool holds(std::size_t n) const override { return stock_->holds(n); }

  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return stock_->ask(n, std::move(waiter));
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return patience_; }
  [[nodiscard]] std::string why_waiting() const override { return stock_->pending(); }
  void accept(Grant grant, Values& out) override { append(grant.take(), out); }

  [[nodiscard]] bool lends() const override { return true; }
  void take_back(const Values& values, std::span<const std::uint32_t> which) override {
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
  void collided(const Values& values, std::span<const std::uint32_t> which, std::size_t in_request,
                Taken where) override {
    in_a_row_.store(true, std::memory_order_relaxed);
    const bool at_once = where == Taken::in_transaction || in_request >= stock_->heals_after();
    stock_->collided(numbers(values, which), at_once);
  }
  void went_well() override {
    in_a_row_.store(false, std::memory_order_relaxed);
    stock_->went_well();
  }

 private:
  void append(const std::vector<Range>& ranges, Values& out) const {
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
  [[nodiscard]] std::vector<std::int64_t> numbers(const Values& values,
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

  const std::shared_ptr<NumberStock> stock_;
  const NumberFormat format_;
  const std::chrono::nanoseconds patience_;
};

}  // namespace

std::shared_ptr<Source> number_source(std::shared_ptr<NumberStock> stock,
                                      const NumberFormat& format,
                                      const CounterSpec::OnStoreDown& on_store_down) {
  return std::make_shared<NumberSource>(std::move(stock), format, patience_of(on_store_down));
}

}  // namespace idproxy::ids
