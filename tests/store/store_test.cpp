#include "idproxy/id_store/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <variant>
#include <vector>

#include "clock_ahead.hpp"
#include "database.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/ids/index_room.hpp"
#include "stores.hpp"

namespace idproxy::id_store::test {
namespace store_test {

using namespace std::chrono_literals;
using ids::CounterPlace;
using ids::CounterSpec;

/// The next `n` numbers; an error or nothing within the time a caller waits.
ids::Result<std::vector<std::int64_t>> take(ids::BlockCache& cache, std::uint64_t n) {
  std::vector<ids::Range> ranges;
  if (const auto taken = cache.take(n, ranges); !taken) {
    if (!taken.needs_store()) return taken.error();
    Answer answer;
    const ids::Ticket ticket = cache.ask(n, std::make_unique<Promise>(answer));
    auto grant = get(answer, 2s);
    if (!grant) return grant.error();
    ranges = grant->take();
  }
  std::vector<std::int64_t> numbers;
  for (const ids::Range& range : ranges) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      numbers.push_back(range.first + cache.step() * static_cast<std::int64_t>(i));
    }
  }
  return numbers;
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    spec.place = {
        database.name(), "counters", "_id", "c", "V", CounterPlace::ValueIs::next, "", ""};
    spec.block.size = 100;
    field = {database.name() + ".orders", "number", {}};
    database.create_index("orders", "number", Database::Unique::yes);
  }
  /// As a new watch gives it.
  [[nodiscard]] std::shared_ptr<ids::BlockCache> counter(Store& store) const {
    return store.watch({})->counter(spec, field);
  }

  SystemClock clock;
  Database database;
  CounterSpec spec;
  ids::CounterField field;
};

TEST_F(StoreTest, OneByOneWithoutAGapAndNothingIsLost) {
  spec.block.size = 1;
  Store store(options(), clock);
  const auto cache = counter(store);
  EXPECT_EQ(counter(store), cache);
  for (std::int64_t number = 1; number <= 20; ++number) {
    EXPECT_THAT(*take(*cache, 1), testing::ElementsAre(number));
  }
  EXPECT_TRUE(store.stop(2s));
  EXPECT_EQ(database.value("counters", "V").number, 21);
}

/// The server may take hours to make it.
TEST_F(StoreTest, WhoeverWaitsForRoomIsAnsweredWhenTheProxyDrains) {
  Store store(options(), clock);
  const auto watch = store.watch({});  // nobody makes indexes
  const auto ask = [&](Answer& answer) {
    const auto room = watch->index_room({database.name(), "orders"}, {});
    return std::pair(room, room->ask(1, std::make_unique<Promise>(answer)));
  };
  Answer before;
  const auto waits = ask(before);
  EXPECT_EQ(before.wait_for(0s), std::future_status::timeout);
  store.drain();
  Answer after;
  const auto late = ask(after);
  for (Answer* each : {&before, &after}) {
    ASSERT_EQ(each->wait_for(0s), std::future_status::ready);
    EXPECT_EQ(each->get().error().reason, "mongo-idproxy is shutting down");
  }
}

/// The next number of a sequence for the write that has the ticket; nothing: there is none.
std::optional<std::int64_t> number(ids::GaplessQueue& sequence, std::uint64_t ticket) {
  if (const auto taken = sequence.take(ticket, 1, {})) {
    return *taken ? std::optional((*taken)->first) : std::nullopt;
  }
  Answer answer;
  const ids::Ticket waits =
      sequence.ask(ticket, 1, ids::GaplessRead::sure, {}, std::make_unique<Promise>(answer));
  auto grant = get(answer, 10s);
  return grant ? std::optional(grant->take().front().first) : std::nullopt;
}

TEST_F(StoreTest, ASequenceWhoseRuleHasChangedGoesOnServing) {
  ids::GaplessSpec gapless{.field = field, .max = 1000, .store_db = database.name()};
  const auto enter = [](ids::GaplessQueue& sequence) {
    return sequence.enter(ids::TurnTaker::Takes::one);
  };
  Store store(options(), clock);
  const auto sequence = store.watch({})->sequence(gapless);
  const std::uint64_t before = enter(*sequence);
  EXPECT_EQ(number(*sequence, before), 1);
  gapless.start = 100;
  const auto changed = store.watch({})->sequence(gapless);
  EXPECT_NE(changed, sequence);
  database.insert("orders", Document().add("number", 1));
  sequence->stored(before, 1);
  const std::uint64_t after = enter(*sequence);
  EXPECT_EQ(number(*sequence, after), 2) << "a write that had its rules before";
  sequence->leave(after);
  const std::uint64_t anew = enter(*changed);
  EXPECT_EQ(number(*changed, anew), 100);
  changed->leave(anew);
  EXPECT_TRUE(store.stop(10s));
}

TEST_F(StoreTest, GivesBackWhenItStops) {
  Store store(options(), clock);
  const auto cache = counter(store);
  EXPECT_THAT(*take(*cache, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(store.stop(2s));
  EXPECT_EQ(database.value("counters", "V").number, 4);
  EXPECT_EQ(store.statistics().numbers_allocated - store.statistics().numbers_returned, 3U);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
}

TEST_F(StoreTest, GivesBackWhatIsIdle) {
  spec.block.idle = 200ms;
  Store store(options(), clock);
  EXPECT_TRUE(take(*counter(store), 3).has_value());
  EXPECT_TRUE(comes_true([&] { return database.value("counters", "V").number == 4; }));
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
      const auto cache = counter(*store);
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
  const auto cache = counter(store);
  constexpr int kNumbers = 20'000;
  for (int i = 0; i < kNumbers / 10; ++i) ASSERT_TRUE(take(*cache, 10).has_value());
  // Creating it takes some more: a look at the document, its mark, the indexes, the field; and the
  // mark is written.
  EXPECT_LE(store.statistics().round_trips, kNumbers / *spec.block.size + 2 + 8);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, StatisticsTellOfRoundTripsAndNumbers) {
  Store store(options(), clock);
  EXPECT_TRUE(take(*counter(store), 10).has_value());
  const auto settled = [&] { return store.statistics().numbers_allocated == 100; };
  ASSERT_TRUE(comes_true(settled));
  const StoreStatistics statistics = store.statistics();
  EXPECT_TRUE(statistics.up);
  EXPECT_EQ(statistics.blocks, 1U);
  EXPECT_EQ(statistics.counters, 1U);
  EXPECT_EQ(statistics.numbers_held, 90U);
  EXPECT_EQ(statistics.numbers_of_blocks, 100U);
  const auto& counts = statistics.round_trip.counts;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}),
            statistics.round_trips);
  EXPECT_GT(statistics.round_trip.sum_seconds, 0);
  EXPECT_EQ(statistics.round_trips_failed, 0U);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, ACounterThatGoesBackIsHealed) {
  spec.block.size = 10;
  spec.block.prefetch = 0;
  database.insert("counters", R"({"_id": "c", "V": 100})");
  database.insert("orders", R"({"number": 99})");
  Store store(options(), clock);
  const auto cache = counter(store);
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
  EXPECT_EQ(store.statistics().heals, 1U);
  EXPECT_TRUE(store.stop(2s));
}

/// Numbers of a counter beside, so that a thread of the store looks at the clock.
void wake(Store& store, CounterSpec spec, const ids::CounterField& field) {
  spec.place.collection = "others";
  spec.block.size = 1;
  EXPECT_TRUE(take(*store.watch({})->counter(spec, field), 1).has_value());
}

TEST_F(StoreTest, ACounterThatGoesBackIsNoticedWithoutAnInsert) {
  ClockAhead ahead;
  Store store(options(), ahead);
  const auto watch = store.watch({});
  const auto cache = watch->counter(spec, field);
  EXPECT_THAT(*take(*cache, 3), testing::ElementsAre(1, 2, 3));
  database.set("counters", json(R"({"V": 2})"));
  ahead.advance(11s);
  wake(store, spec, field);
  EXPECT_TRUE(comes_true([&] { return store.statistics().heals == 1; }));
  EXPECT_TRUE(comes_true([&] { return database.value("counters", "V").number == 201; }));
  EXPECT_EQ(take(*cache, 1)->front(), 101);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, AllCountersOfACollectionAreReadAtOnce) {
  ClockAhead ahead;
  Store store(options(), ahead);
  const auto watch = store.watch({});
  for (int i = 0; i < 150; ++i) {
    spec.place.key = std::to_string(i);
    EXPECT_TRUE(take(*watch->counter(spec, field), 1).has_value());
  }
  spec.place.key = "one more";
  wake(store, spec, field);
  const std::uint64_t before = store.statistics().round_trips;
  ahead.advance(11s);
  wake(store, spec, field);
  constexpr std::uint64_t kFinds = 2;  // one of them for the counter that wakes
  EXPECT_TRUE(comes_true([&] { return store.statistics().round_trips >= before + 1 + kFinds; }));
  EXPECT_EQ(store.statistics().round_trips, before + 1 + kFinds);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, WhatIsLeftOfABlockGoesBackAfterTwentySeconds) {
  spec.block.size.reset();
  ClockAhead ahead;
  Store store(options(), ahead);
  const auto watch = store.watch({});
  const auto cache = watch->counter(spec, field);
  std::int64_t last = 0;
  for (int i = 0; i < 6; ++i) last = take(*cache, 1)->front();
  EXPECT_EQ(last, 6);
  EXPECT_GT(database.value("counters", "V").number, 7);
  // Again and again, because a block that arrives meanwhile has twenty seconds of its own.
  EXPECT_TRUE(comes_true([&] {
    ahead.advance(20s);
    wake(store, spec, field);
    return database.value("counters", "V").number == 7;
  }));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, ADeletedCounterGoesOn) {
  spec.block.size = 10;
  Store store(options(), clock);
  const auto cache = counter(store);
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
  const auto cache = counter(store);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::unavailable);
  EXPECT_GE(store.statistics().round_trips_failed, 1U);
  EXPECT_TRUE(comes_true([&] { return !store.statistics().up; }));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, InventedNamesAreForgotten) {
  Store store(options("mongodb://127.0.0.1:1"), clock);
  std::weak_ptr<ids::BlockCache> first;
  for (int i = 0; i < 3000; ++i) {
    spec.place.key = std::to_string(i);
    const auto cache = counter(store);
    if (i == 0) first = cache;
  }
  EXPECT_TRUE(first.expired());
  EXPECT_TRUE(store.stop(2s));
}

// --- Reloads ---

TEST_F(StoreTest, AnUnchangedCounterKeepsItsBlock) {
  Store store(options(), clock);
  const auto first = store.watch({{field.ns, field.field}});
  EXPECT_THAT(*take(*first->counter(spec, field), 3), testing::ElementsAre(1, 2, 3));
  const std::uint64_t trips = store.statistics().round_trips;
  for (std::int64_t i = 0; i < 10; ++i) {
    const auto next = store.watch({{field.ns, field.field, ids::UniqueIndex::warn, false}});
    EXPECT_THAT(*take(*next->counter(spec, field), 1), testing::ElementsAre(4 + i));
  }
  EXPECT_EQ(store.statistics().round_trips, trips);
  EXPECT_EQ(store.statistics().counters, 1U);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, AChangedCounterGoesOnWithItsNumbers) {
  spec.block.size = 10;
  spec.block.prefetch = 0;
  Store store(options(), clock);
  const auto cache = counter(store);
  EXPECT_EQ(take(*cache, 1)->front(), 1);
  spec.block.size = 50;
  spec.max = 55;
  EXPECT_EQ(counter(store), cache);
  EXPECT_EQ(take(*cache, 10)->back(), 11);
  ASSERT_TRUE(comes_true([&] { return database.value("counters", "V").number == 56; }));
  EXPECT_EQ(take(*cache, 44)->back(), 55);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::exhausted);
  spec.max = 100;
  EXPECT_EQ(take(*counter(store), 1)->front(), 56);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, OfOneWatchTheFirstSpecCounts) {
  Store store(options(), clock);
  const auto watch = store.watch({});
  spec.block.size = 7;
  EXPECT_EQ(take(*watch->counter(spec, field), 1)->front(), 1);
  spec.block.size = 1000;
  const auto cache = watch->counter(spec, field);
  EXPECT_EQ(cache->statistics().block_size, 7U);
  const auto next = store.watch({});
  EXPECT_EQ(next->counter(spec, field)->statistics().block_size, 1000U);
  spec.block.size = 7;
  EXPECT_EQ(watch->counter(spec, field)->statistics().block_size, 1000U);  // somebody who is late
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, WithAnotherStepACounterBeginsAnew) {
  Store store(options(), clock);
  const auto old = counter(store);
  EXPECT_THAT(*take(*old, 2), testing::ElementsAre(1, 2));
  spec.step = 10;
  const auto cache = counter(store);
  EXPECT_NE(cache, old);
  ASSERT_TRUE(comes_true([&] { return database.value("counters", "V").number == 3; }));
  EXPECT_THAT(*take(*cache, 2), testing::ElementsAre(3, 13));
  // An insert that began before the reload.
  EXPECT_EQ(take(*old, 1)->front(), 3 + 10 * 100);
  EXPECT_TRUE(store.stop(2s));
  EXPECT_EQ(store.statistics().blocks_dropped, 0U);
}

/// An insert that began before the reload needs the first number of all.
TEST_F(StoreTest, ACounterThatGivesWayStillKnowsTheStoredNumbers) {
  database.insert("orders", R"({"number": 1000})");
  spec.scan = 0ms;
  Store store(options(), clock);
  const auto old = counter(store);
  spec.step = 10;
  const auto cache = counter(store);
  EXPECT_NE(cache, old);
  EXPECT_EQ(take(*old, 1)->front(), 1001);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, AFieldThatNoRuleFillsAnyMoreHoldsNothingUp) {
  const ids::CounterField unguarded{database.name() + ".other", "number", {}};
  database.insert("other", R"({"number": 1})");
  spec.scan = 0ms;
  Store store(options(), clock);
  const auto both = store.watch({});
  const auto cache = both->counter(spec, field);
  EXPECT_EQ(both->counter(spec, unguarded), cache);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::exhausted);
  const auto one = store.watch({});
  EXPECT_EQ(one->counter(spec, field), cache);
  one->rules_are_made();
  EXPECT_EQ(both->counter(spec, unguarded), cache);  // somebody who is late
  EXPECT_EQ(take(*cache, 1)->front(), 1);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, WhatNobodyEverUsedIsForgotten) {
  Store store(options(), clock);
  const auto first = store.watch({});
  EXPECT_TRUE(take(*first->counter(spec, field), 1).has_value());
  for (int i = 0; i < 100; ++i) {
    spec.place.key = std::to_string(i);
    (void)first->counter(spec, field);
  }
  EXPECT_EQ(store.statistics().counters, 101U);
  (void)counter(store);
  EXPECT_EQ(store.statistics().counters, 2U);
  EXPECT_TRUE(store.stop(2s));
}

// --- Readiness ---

class ReadinessTest : public StoreTest {
 protected:
  ReadinessTest() {
    database.drop_index("orders", "number");
    database.insert("orders", R"({"other": 1})");
  }
  /// The reason why the rule is not ready; "" if it is.
  [[nodiscard]] static std::string reason(const Watch& watch) {
    const auto found = watch.not_ready(1);
    return found.empty() ? "" : found.front().readiness.error.reason;
  }

  Store store{options(), clock};
  std::shared_ptr<Watch> watch = store.watch({{field.ns, field.field}});
};

TEST_F(ReadinessTest, IsKnownBeforeTheFirstInsert) {
  spec.scan = 0ms;
  const auto cache = watch->announce(spec, field);
  watch->await_first_inspection(10s);
  EXPECT_NE(reason(*watch), "");
  EXPECT_TRUE(comes_true([&] { return reason(*watch).find("createIndex") != std::string::npos; }));
  EXPECT_EQ(watch->not_ready(1).front().readiness.error.code, ids::Errc::exhausted);
  EXPECT_EQ(watch->not_ready_counts(), std::vector<std::size_t>{1});
  database.create_index("orders", "number", json(R"({"unique": true, "sparse": true})"));
  EXPECT_TRUE(comes_true([&] { return reason(*watch).empty(); }));
  EXPECT_EQ(database.all("counters"), "");
  EXPECT_THAT(*take(*cache, 2), testing::ElementsAre(1, 2));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(ReadinessTest, OfACollectionThatCanBeReadIsGivenAndNothingIsCreated) {
  const auto cache = watch->announce(spec, field);
  watch->await_first_inspection(10s);
  EXPECT_TRUE(comes_true([&] { return reason(*watch).empty(); }));
  EXPECT_EQ(database.all("counters"), "");
  EXPECT_EQ(database.all("idproxyCounterMarks"), "");
  database.insert("orders", R"({"number": 7})");
  EXPECT_TRUE(comes_true([&] {
    const auto numbers = take(*cache, 1);
    return numbers && numbers->front() >= 1;
  }));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(ReadinessTest, AfterARefusalReturnsSoonAfterTheIndex) {
  spec.scan = 0ms;
  const auto cache = watch->counter(spec, field);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::exhausted);
  EXPECT_THAT(take(*cache, 1).error().reason, testing::HasSubstr("createIndex"));
  database.create_index("orders", "number", Database::Unique::yes);
  EXPECT_TRUE(comes_true([&] { return take(*cache, 1).has_value(); }));
  EXPECT_EQ(reason(*watch), "");
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(ReadinessTest, OfACounterThatIsNoIntegerReturnsOnceItIsOne) {
  database.insert("counters", R"({"_id": "c", "V": "seven"})");
  const auto cache = watch->announce(spec, field);
  watch->await_first_inspection(10s);
  EXPECT_THAT(reason(*watch), testing::HasSubstr("is not an integer"));
  ASSERT_EQ(watch->counters_not_ready().size(), 1U);
  EXPECT_FALSE(watch->counters_not_ready().front().readiness.error.is_transient);
  EXPECT_EQ(take(*cache, 1).error().code, ids::Errc::exhausted);
  database.set("counters", json(R"({"V": 7})"));
  EXPECT_TRUE(comes_true([&] { return reason(*watch).empty(); }));
  EXPECT_EQ(take(*cache, 1)->front(), 7) << "without a wait for the cache to ask again";
  EXPECT_TRUE(store.stop(2s));
}

// --- Watches ---

TEST_F(StoreTest, WhatAnAnnouncedCounterHasLeftIsKnownAndNothingIsAllocated) {
  database.insert("counters", R"({"_id": "c", "V": 42})");
  Store store(options(), clock);
  const auto watch = store.watch({{field.ns, field.field}});
  const auto cache = watch->announce(spec, field);
  watch->await_first_inspection(10s);
  EXPECT_TRUE(watch->not_ready(9).empty());
  const auto numbers = watch->numbers(9);
  ASSERT_EQ(numbers.size(), 1U);
  EXPECT_EQ(numbers.front().ns, field.ns);
  const auto& its = std::get<ids::CounterNumbers>(numbers.front().numbers);
  EXPECT_EQ(its.next, 42);
  EXPECT_EQ(its.held, 0U);
  EXPECT_EQ(database.value("counters", "V").number, 42);
  EXPECT_EQ(store.statistics().round_trips, 0U) << "these are of counters that are used";
  EXPECT_EQ(take(*cache, 1)->front(), 42);
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(StoreTest, WhatAnotherCounterHasLeftIsNotKnownBeforeItIsUsed) {
  Store store(options(), clock);
  const auto watch = store.watch({{database.name() + ".*", field.field}});
  const auto cache = watch->counter(spec, field);
  watch->await_first_inspection(10s);
  EXPECT_FALSE(std::get<ids::CounterNumbers>(watch->numbers(9).front().numbers).next);
  EXPECT_TRUE(store.stop(2s));
}

class WatchTest : public StoreTest {
 protected:
  WatchTest() { database.create_index("bills", "number", Database::Unique::yes); }
  [[nodiscard]] WatchedRule require(const std::string& collection) const {
    return {database.name() + "." + collection, "number", ids::UniqueIndex::require};
  }
  [[nodiscard]] bool is_ready(Watch& watch, const char* collection, std::size_t rule = 0) const {
    return state(watch, collection, rule).kind == ids::GuardState::Kind::guarded;
  }
  [[nodiscard]] ids::GuardState state(Watch& watch, const char* collection,
                                      std::size_t rule) const {
    return watch.guard(rule, database.name(), collection)->state(clock.monotonic());
  }

  Store store{options(), clock};
};

TEST_F(WatchTest, ARuleThatIsNewIsReadyAfterTheFirstLook) {
  const auto first = store.watch({require("orders")});
  first->await_first_inspection(10s);
  EXPECT_TRUE(is_ready(*first, "orders"));
  const auto second = store.watch({require("bills"), require("none"), require("orders")});
  EXPECT_TRUE(is_ready(*second, "orders", 2));
  second->await_first_inspection(10s);
  EXPECT_TRUE(is_ready(*second, "bills"));
  EXPECT_EQ(second->not_ready_counts(), (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, WhatWasKnownOfWildcardsIsKnown) {
  const auto first = store.watch({require("*")});
  ASSERT_TRUE(comes_true([&] { return is_ready(*first, "orders"); }));
  const auto second = store.watch({require("nobody"), require("*")});
  EXPECT_TRUE(is_ready(*second, "orders", 1));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, AnOldOneServesAsLongAsItIsUsed) {
  const auto old = store.watch({require("*")});
  const auto next = store.watch({require("b*")});
  EXPECT_TRUE(comes_true([&] { return is_ready(*old, "orders"); }));
  EXPECT_TRUE(comes_true([&] { return is_ready(*next, "bills"); }));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, OfTheSameRulesKnowsTheSame) {
  auto first = store.watch({require("*")});
  auto second = store.watch({require("*")});
  EXPECT_TRUE(comes_true([&] { return is_ready(*second, "orders"); }));
  EXPECT_EQ(first->version(), second->version());
  first.reset();
  EXPECT_TRUE(is_ready(*second, "orders"));
  EXPECT_TRUE(comes_true([&] { return is_ready(*second, "bills"); }));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, RulesMayComeLater) {
  EXPECT_TRUE(store.watch({})->not_ready(1).empty());
  const auto watch = store.watch({require("bills")});
  watch->await_first_inspection(10s);
  EXPECT_TRUE(is_ready(*watch, "bills"));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, LetGoWhileItIsLookedFor) {
  const auto kept = store.watch({require("orders")});
  for (int i = 0; i < 200; ++i) {
    const auto watch = store.watch({require("bills"), require(std::to_string(i))});
    EXPECT_FALSE(is_ready(*watch, "x", 1));
  }
  kept->await_first_inspection(10s);
  EXPECT_TRUE(is_ready(*kept, "orders"));
  EXPECT_TRUE(store.stop(2s));
}

TEST_F(WatchTest, WithoutAServerNothingIsWaitedFor) {
  Store lost(options("mongodb://127.0.0.1:1"), clock);
  const auto first = lost.watch({require("orders")});
  first->await_first_inspection(10s);
  const auto begun = std::chrono::steady_clock::now();
  const auto second = lost.watch({require("orders"), require("bills")});
  second->await_first_inspection(10s);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
  EXPECT_EQ(state(*second, "bills", 1).error.code, ids::Errc::unavailable);
  EXPECT_TRUE(lost.stop(5s));
  EXPECT_TRUE(store.stop(2s));
}

}  // namespace store_test
}  // namespace idproxy::id_store::test
