#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/registry.hpp"
#include "idproxy/ids/store.hpp"
#include "support/fake_parameters.hpp"

/// What a counter's id costs while it comes from the block: nanoseconds per id, taken one by one
/// through the strategy, as an insert of one document does.
///
///   bench_counter
///
/// The store is this program: a refill is a subtraction.
namespace {

using namespace idproxy;
using Time = std::chrono::steady_clock;

constexpr std::size_t kRounds = 9;
constexpr std::uint64_t kIds = 5'000'000;  // by each thread in each round

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override { return monotonic(); }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return Time::now().time_since_epoch();
  }
};

/// One counter, refilled at once by whoever wakes the store.
class InstantStore final : public ids::Store {
 public:
  std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                           const ids::CounterField& /*field*/) override {
    if (!cache_) {
      cache_ = std::make_shared<ids::BlockCache>(spec, clock_, [this] { refill(); });
    }
    return cache_;
  }
  std::shared_ptr<ids::Fill> fill(std::string_view /*ns*/, std::string_view /*field*/) override {
    return nullptr;
  }
  ids::Readiness readiness(std::size_t /*rule*/, std::string_view /*db*/,
                           std::string_view /*collection*/) override {
    return {};
  }
  [[nodiscard]] std::uint64_t version() const override { return 0; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t /*most*/) const override {
    return {};
  }
  [[nodiscard]] std::vector<ids::RuleNumbers> numbers(std::size_t /*most*/) const override {
    return {};
  }
  [[nodiscard]] ids::StoreCounts counts() const override { return {}; }

  void refill() {
    const auto job = cache_->begin();
    if (!job) return;
    const std::int64_t first = value_;
    value_ += static_cast<std::int64_t>(job->count);
    cache_->finish({ids::CounterReply::Kind::allocated, {first, job->count}, {}});
  }

 private:
  SteadyClock clock_;
  std::shared_ptr<ids::BlockCache> cache_;
  std::int64_t value_ = 1;  // one job is out at a time
};

/// A rule's strategy, bound to a collection.
struct Counter {
  explicit Counter(const char* size) {
    test::FakeParameters parameters({{"ns", "shop.orders"}, {"field", "_id"}, {"block", size}});
    for (const ids::Kind& kind : ids::kinds()) {
      if (kind.name == "counter") rule = kind.make(parameters, {clock, system_random()});
    }
    strategy = rule->bind("shop.orders", store);
    store.refill();
  }

  SteadyClock clock;
  InstantStore store;
  std::unique_ptr<ids::Strategy> rule;
  std::shared_ptr<ids::Strategy> strategy;
};

/// Takes ids one by one; how many it got.
std::uint64_t take(ids::Strategy& strategy) {
  ids::Values values;
  std::uint64_t got = 0;
  for (std::uint64_t i = 0; i < kIds; ++i) {
    values.clear();
    if (strategy.next(1, values)) ++got;
  }
  return got;
}

/// Nanoseconds per id of all threads together. `threads`: at most two.
double round_of(ids::Strategy& strategy, std::size_t threads) {
  std::atomic<std::size_t> ready{0};
  std::atomic<std::uint64_t> got{0};
  std::array<Time::time_point, 2> begun{};
  std::array<Time::time_point, 2> ended{};
  {
    std::vector<std::jthread> all;
    for (std::size_t t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        ++ready;
        while (ready < threads) std::this_thread::yield();
        begun.at(t) = Time::now();
        got += take(strategy);
        ended.at(t) = Time::now();
      });
    }
  }
  const auto first = *std::min_element(begun.begin(), begun.begin() + threads);
  const auto last = *std::max_element(ended.begin(), ended.begin() + threads);
  return std::chrono::duration<double, std::nano>(last - first).count() /
         static_cast<double>(got.load());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

/// One thread and two, turn by turn.
void compare(const char* size) {
  Counter counter(size);
  std::vector<double> alone;
  std::vector<double> together;
  for (std::size_t i = 0; i < kRounds; ++i) {
    alone.push_back(round_of(*counter.strategy, 1));
    together.push_back(round_of(*counter.strategy, 2));
  }
  const double one = median(alone);
  const double two = median(together);
  std::printf(
      "block %5s: one thread %6.1f ns per id (best %.1f), two together %6.1f (best %.1f), "
      "ratio %.2f\n",
      size, one, *std::min_element(alone.begin(), alone.end()), two,
      *std::min_element(together.begin(), together.end()), one / two);
}

}  // namespace

int main() {
  for (const char* size : {"100", "10000"}) compare(size);
  return 0;
}
