#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// Many threads at once; what they got is counted afterwards. Time decides nothing.
namespace idproxy::ids {
namespace block_cache_threads_test {

constexpr std::int64_t kStep = 3;

/// A store with one counter document and one thread.
class ThreadedStore {
 public:
  explicit ThreadedStore(const CounterSpec& spec)
      : cache(std::make_shared<BlockCache>(spec, clock, [this] { wake(); })),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ThreadedStore(const ThreadedStore&) = delete;
  ThreadedStore& operator=(const ThreadedStore&) = delete;
  ~ThreadedStore() { end(); }

  void end() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    wake();
    thread_.join();
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void work() {
    while (const auto job = cache->begin()) {
      if (job->kind == CounterJob::Kind::give_back) {
        value = job->unused.first;
        cache->finish({CounterReply::Kind::given_back, {}, {}});
      } else if (++jobs_ % 17 == 0) {
        value += kStep * 5;  // another proxy
        cache->finish({CounterReply::Kind::failed, {}, "now and then"});
        clock.advance(BlockCache::kRetryAfter);
      } else {
        const std::int64_t first = value;
        value += kStep * static_cast<std::int64_t>(job->count);
        allocated.push_back({first, job->count});
        cache->finish({CounterReply::Kind::allocated, {first, job->count}, {}});
      }
    }
  }

  test::FakeClock clock;
  std::int64_t value = 1;
  test::Ranges allocated;
  std::shared_ptr<BlockCache> cache;

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait(lock, [&] { return woken_ || stop.stop_requested(); });
      woken_ = false;
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  int jobs_ = 0;
  std::jthread thread_;
};

/// Hands an answer to the thread that waits for it.
class HandedOver final : public Waiter {
 public:
  struct State {
    std::atomic<bool> done{false};
    std::optional<Grant> grant;
  };
  explicit HandedOver(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void answered(Result<Grant> grant) override {
    if (grant) state_->grant = std::move(*grant);
    state_->done = true;
    state_->done.notify_one();
  }

 private:
  std::shared_ptr<State> state_;
};

/// What one client keeps.
test::Ranges client(BlockCache& cache, std::uint64_t seed, int rounds) {
  test::Ranges kept;
  for (int i = 0; i < rounds; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t n = 1 + (seed >> 33) % 40;
    test::Ranges got;
    if (!cache.take(n, got)) {
      auto state = std::make_shared<HandedOver::State>();
      const Ticket ticket = cache.ask(n, std::make_unique<HandedOver>(state));
      if ((seed >> 40) % 4 == 0) continue;  // gone: what it may have been granted goes back
      state->done.wait(false);
      if (state->grant) got = state->grant->take();
    }
    if ((seed >> 50) % 8 == 0) {
      cache.take_back(got);
    } else {
      kept.insert(kept.end(), got.begin(), got.end());
    }
  }
  return kept;
}

std::vector<std::int64_t> numbers_of(const test::Ranges& ranges) {
  std::vector<std::int64_t> numbers;
  for (const Range& range : ranges) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      numbers.push_back(range.first + kStep * static_cast<std::int64_t>(i));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(BlockCacheThreads, NoNumberTwiceAndNoneLost) {
  constexpr int kRounds = 3'000;
  CounterSpec spec;
  spec.step = kStep;
  spec.block.size = 50;
  ThreadedStore store(spec);
  std::array<test::Ranges, 4> kept;
  {
    std::vector<std::jthread> clients;
    for (std::size_t t = 0; t < kept.size(); ++t) {
      clients.emplace_back([&, t] { kept.at(t) = client(*store.cache, t, kRounds); });
    }
  }
  store.end();
  test::Ranges given;
  for (const auto& ranges : kept) given.insert(given.end(), ranges.begin(), ranges.end());
  // What is left of the blocks is still there, whoever had it in between.
  std::uint64_t left = 0;
  for (; store.cache->take(1, given); ++left) {
  }
  EXPECT_GT(given.size(), 1000U);
  EXPECT_LT(left, 1000U);
  const auto numbers = numbers_of(given);
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
  EXPECT_EQ(numbers, numbers_of(store.allocated));
}

}  // namespace block_cache_threads_test
}  // namespace idproxy::ids
