#include "idproxy/id_store/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "database.hpp"
#include "idproxy/ids/block_cache.hpp"

namespace idproxy::id_store::test {
namespace {

using namespace std::chrono_literals;
using ids::CounterPlace;
using ids::CounterSpec;

class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};

class Promise final : public ids::Asker {
 public:
  explicit Promise(std::promise<ids::Result<ids::Grant>> promise) : promise_(std::move(promise)) {}
  void answered(ids::Result<ids::Grant> grant) override { promise_.set_value(std::move(grant)); }

 private:
  std::promise<ids::Result<ids::Grant>> promise_;
};

/// The next `n` numbers; an error or nothing within the time a caller waits.
ids::Result<std::vector<std::int64_t>> take(ids::BlockCache& cache, std::uint64_t n) {
  std::vector<ids::Range> ranges;
  if (const auto taken = cache.take(n, ranges); !taken) {
    if (taken.error().code != ids::Errc::pending) return taken.error();
    std::promise<ids::Result<ids::Grant>> promise;
    auto future = promise.get_future();
    const ids::Ticket ticket = cache.ask(n, std::make_unique<Promise>(std::move(promise)));
    if (future.wait_for(2s) != std::future_status::ready) {
      return ids::Error{ids::Errc::unavailable, "no answer within 2 s"};
    }
    auto grant = future.get();
    if (!grant) return grant.error();
    ranges = grant->take();
  }
  std::vector<std::int64_t> numbers;
  for (const ids::Range& range : ranges) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      numbers.push_back(range.first + cache.spec().step * static_cast<std::int64_t>(i));
    }
  }
  return numbers;
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    spec.place = {
        database.name(), "counters", "_id", "c", "V", CounterPlace::ValueIs::next, "", ""};
    field = {database.name() + ".orders", "number", {}};
    database.create_index("orders", "number", Database::Unique::yes);
  }
  static Options options(std::string with = uri()) {
    Options options;
    options.uri = std::move(with);
    return options;
  }

  SystemClock clock;
  Database database;
  CounterSpec spec;
  ids::CounterField field;
};

TEST_F(StoreTest, OneByOneWithoutAGapAndNothingIsLost) {
  spec.block.size = 1;
  Store store(options(), clock);
  const auto cache = store.counter(spec, field);
  EXPECT_EQ(store.counter(spec, field), cache);
  for (std::int64_t number = 1; number <= 20; ++number) {
    EXPECT_THAT(*take(*cache, 1), testing::ElementsAre(number));
  }
  EXPECT_TRUE(store.stop(2s));
  EXPECT_EQ(database.value("counters", "V").number, 21);
}

TEST_F(StoreTest, GivesBackWhenItStops) {
  Store store(options(), clock);
  const auto cache = store.counter(spec, field);
  EXPECT_THAT(*take(*cache, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(store.stop(2s));
  EXPECT_EQ(database.value("counters", "V").number, 4);
  EXPECT_EQ(store.counters().numbers_allocated - store.counters().numbers_returned, 3U);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
}

TEST_F(StoreTest, GivesBackWhatIsIdle) {
  spec.block.idle = 200ms;
  Store store(options(), clock);
  EXPECT_TRUE(take(*store.counter(spec, field), 3).has_value());
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (database.value("counters", "V").number != 4 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(database.value("counters", "V").number, 4);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, ManyStoresCreateOneCounterAndNoNumberTwice) {
  spec.block.size = 10;
  constexpr int kStores = 3;
  constexpr int kThreads = 4;
  constexpr std::size_t kEach = 500;
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < kStores; ++i) stores.push_back(std::make_unique<Store>(options(), clock));
  std::mutex mutex;
  std::set<std::int64_t> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < kStores * kThreads; ++i) {
    threads.emplace_back([&, store = stores[static_cast<std::size_t>(i % kStores)].get()] {
      const auto cache = store->counter(spec, field);
      for (std::size_t taken = 0; taken < kEach; taken += 5) {
        const auto numbers = take(*cache, 5);
        ASSERT_TRUE(numbers.has_value()) << numbers.error().reason;
        const std::scoped_lock lock(mutex);
        for (const std::int64_t number : *numbers) EXPECT_TRUE(seen.insert(number).second);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), kStores * kThreads * kEach);
  for (const auto& store : stores) EXPECT_TRUE(store->stop(2s));
}

TEST_F(StoreTest, RoundTripsPerBlock) {
  Store store(options(), clock);
  const auto cache = store.counter(spec, field);
  constexpr int kNumbers = 20'000;
  for (int i = 0; i < kNumbers / 10; ++i) ASSERT_TRUE(take(*cache, 10).has_value());
  // Creating it takes some more: a look at the document, at the indexes, at the field.
  EXPECT_LE(store.counters().round_trips, kNumbers / spec.block.size + 2 + 6);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, ACounterThatGoesBackIsHealed) {
  spec.block.size = 10;
  spec.block.prefetch = 0;
  database.insert("counters", R"({"_id": "c", "V": 100})");
  database.insert("orders", R"({"number": 99})");
  Store store(options(), clock);
  const auto cache = store.counter(spec, field);
  EXPECT_EQ(take(*cache, 10)->front(), 100);
  EXPECT_TRUE(take(*cache, 10).has_value());
  database.set("counters", json(R"({"V": 50})"));
  std::set<std::int64_t> numbers;
  for (int i = 0; i < 10; ++i) {
    const auto more = take(*cache, 10);
    ASSERT_TRUE(more.has_value()) << more.error().reason;
    for (const std::int64_t number : *more) {
      EXPECT_GE(number, 120);
      EXPECT_TRUE(numbers.insert(number).second);
    }
  }
  EXPECT_EQ(store.counters().heals, 1U);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, ADeletedCounterGoesOn) {
  spec.block.size = 10;
  Store store(options(), clock);
  const auto cache = store.counter(spec, field);
  std::set<std::int64_t> numbers;
  for (int i = 0; i < 20; ++i) {
    if (i == 5 || i == 11) database.remove_all("counters");
    const auto more = take(*cache, 7);
    ASSERT_TRUE(more.has_value()) << more.error().reason;
    for (const std::int64_t number : *more) EXPECT_TRUE(numbers.insert(number).second);
  }
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, WithoutAServerItFailsInTimeAndStops) {
  Store store(options("mongodb://127.0.0.1:1"), clock);
  const auto cache = store.counter(spec, field);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, InventedNamesAreForgotten) {
  Store store(options("mongodb://127.0.0.1:1"), clock);
  std::weak_ptr<ids::BlockCache> first;
  for (int i = 0; i < 3000; ++i) {
    spec.place.key = std::to_string(i);
    const auto cache = store.counter(spec, field);
    if (i == 0) first = cache;
  }
  EXPECT_TRUE(first.expired());
  EXPECT_TRUE(store.stop(2s));
}

}  // namespace
}  // namespace idproxy::id_store::test
