#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/counter_parameters.hpp"

namespace idproxy::ids {
namespace {

/// Draws for one collection. The state is in the cache, which several collections may share.
class BoundCounter final : public Strategy, public StoreBacked, public DuplicateObserver {
 public:
  BoundCounter(std::shared_ptr<BlockCache> cache, NumberFormat format,
               const CounterSpec::OnStoreDown& on_store_down)
      : cache_(std::move(cache)),
        format_(std::move(format)),
        patience_(patience_of(on_store_down)) {}

  StoreBacked* store_backed() override { return this; }
  DuplicateObserver* duplicate_observer() override { return this; }
  [[nodiscard]] std::size_t most_bytes() const override { return longest(format_); }

  Draw next(std::size_t n, Values& out) override {
    // Kept from call to call: an allocation would take longer than everything else here.
    static thread_local std::vector<Range> ranges;
    ranges.clear();
    auto taken = cache_->take(n, ranges);
    if (taken) append(ranges, out);
    return taken;
  }

  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return cache_->ask(n, std::move(waiter));
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return patience_; }
  [[nodiscard]] std::string why_waiting() const override { return cache_->pending(); }
  void accept(Grant grant, Values& out) override { append(grant.take(), out); }

  void take_back(const Values& values, std::span<const std::uint32_t> which) override {
    std::vector<Range> ranges;
    for (const std::int64_t number : numbers(values, which)) {
      const bool touches =
          !ranges.empty() && Steps(step()).end(ranges.back()) == static_cast<Int128>(number);
      if (touches) {
        ++ranges.back().count;
      } else {
        ranges.push_back({number, 1});
      }
    }
    cache_->take_back(ranges);
  }

  void collided(const Values& values, std::span<const std::uint32_t> which, std::size_t in_request,
                Taken where) override {
    in_a_row_.store(true, std::memory_order_relaxed);
    const bool at_once = where == Taken::in_transaction || in_request >= cache_->heals_after();
    cache_->collided(numbers(values, which), at_once);
  }
  void went_well() override {
    in_a_row_.store(false, std::memory_order_relaxed);
    cache_->went_well();
  }

 private:
  static std::chrono::nanoseconds patience_of(const CounterSpec::OnStoreDown& on_store_down) {
    if (on_store_down.action == CounterSpec::OnStoreDown::Action::fail) return kPatience;
    return std::min<std::chrono::nanoseconds>(on_store_down.wait, kPatience);
  }

  [[nodiscard]] std::int64_t step() const { return cache_->step(); }

  void append(const std::vector<Range>& ranges, Values& out) const {
    for (const Range& range : ranges) {
      // Does not compute the number after the last one, which may not fit 64 bits.
      std::int64_t number = range.first;
      append_number(number, format_, out);
      for (std::uint64_t i = 1; i < range.count; ++i) {
        number += step();
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

  const std::shared_ptr<BlockCache> cache_;
  const NumberFormat format_;
  const std::chrono::nanoseconds patience_;
};

/// The rule's own object; bind() makes a BoundCounter for each of its collections.
class Counter final : public Strategy, public CounterRule {
 public:
  explicit Counter(CounterUse use) : use_(std::move(use)) {}

  void announce(Store& store) override {
    const std::string& ns = use_.field.ns;
    const bool is_one = !use_.per_namespace || ns.find_first_of("*?") == std::string::npos;
    if (is_one) announced_ = cache_of(ns, store, &Store::announce);
  }
  [[nodiscard]] std::shared_ptr<Strategy> bind(std::string_view ns, Store& store) const override {
    return std::make_shared<BoundCounter>(cache_of(ns, store, &Store::counter), use_.field.format,
                                          use_.spec.on_store_down);
  }

  CounterRule* counter_rule() override { return this; }
  [[nodiscard]] const CounterUse& use() const override { return use_; }

  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::unavailable, "there is no id store"};
  }

 private:
  using Get = std::shared_ptr<BlockCache> (Store::*)(const CounterSpec&, const CounterField&);
  [[nodiscard]] std::shared_ptr<BlockCache> cache_of(std::string_view ns, Store& store,
                                                     Get get) const {
    if (!use_.per_namespace) return (store.*get)(use_.spec, use_.field);
    CounterSpec spec = use_.spec;
    CounterField field = use_.field;
    field.ns = ns;
    spec.place.key = field.ns + "." + field.field;
    return (store.*get)(spec, field);
  }

  const CounterUse use_;
  // Other rules may share this counter by its name. Holding it makes the store count the numbers in
  // this rule's field from the start, and keeps it from forgetting the counter.
  std::shared_ptr<BlockCache> announced_;
};

}  // namespace

/// For its keys see counter_parameters.cpp.
std::unique_ptr<Strategy> make_counter(Parameters& parameters, std::string_view store_db) {
  return std::make_unique<Counter>(read_counter(parameters, store_db));
}

}  // namespace idproxy::ids
