#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategies.hpp"
#include "support/block_caches.hpp"
#include "support/fake_parameters.hpp"
#include "support/strategies.hpp"

namespace idproxy::bench {

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override { return monotonic(); }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
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
  [[nodiscard]] const Version& version() const override { return version_; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t /*most*/) const override {
    return {};
  }
  [[nodiscard]] std::vector<ids::RuleNumbers> numbers(std::size_t /*most*/) const override {
    return {};
  }
  [[nodiscard]] ids::StoreCounts counts() const override { return {}; }

  /// The first block comes only to a request that waits for it.
  void begin() {
    static_cast<void>(
        cache_->ask(1, std::make_unique<test::NotedWaiter>(std::make_shared<test::Answer>())));
  }

 private:
  const Version version_{0};
  void refill() {
    const auto job = cache_->begin();
    if (!job) return;
    const std::int64_t first = value_;
    value_ += static_cast<std::int64_t>(job->count);
    cache_->finish({ids::CounterReply::Kind::allocated, {first, job->count}, {}});
  }

  SteadyClock clock_;
  std::shared_ptr<ids::BlockCache> cache_;
  std::int64_t value_ = 1;  // one job is out at a time
};

/// The source of a rule in a collection.
struct Counter {
  explicit Counter(const char* size) {
    rule = test::make_strategy("counter",
                               {{"ns", "shop.orders"}, {"field", "_id"}, {"block.size", size}},
                               {clock, system_random()});
    source = rule->bind("shop.orders", &store).source;
    store.begin();
  }

  SteadyClock clock;
  InstantStore store;
  std::unique_ptr<ids::RuleSource> rule;
  std::shared_ptr<ids::Source> source;
};

}  // namespace idproxy::bench
