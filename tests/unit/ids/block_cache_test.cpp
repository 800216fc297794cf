#include "idproxy/ids/block_cache.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/block_caches.hpp"

namespace idproxy::ids {
namespace block_cache_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;
using Heal = CounterSpec::Heal::Mode;
using Action = CounterSpec::OnStoreDown::Action;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

CounterSpec spec_of(std::uint32_t size, double prefetch = 0) {
  CounterSpec spec;
  spec.block.size = size;
  spec.block.prefetch = prefetch;
  return spec;
}

/// A cache that has a block.
BlockCaches& filled(BlockCaches& counter) {
  {
    const Waiting gone = counter.ask(1);
    if (!counter.work()) ADD_FAILURE() << "no job";
  }
  counter.jobs.clear();
  counter.wakes = 0;
  return counter;
}

// --- blocks (docs/strategies.md#block-size) ---

TEST(BlockCache, AsksTheStoreForTheFirstWhoComes) {
  BlockCaches counter(spec_of(10));
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);
  EXPECT_EQ(counter.wakes, 0);  // ask() will come
  const Waiting first = counter.ask(3);
  EXPECT_EQ(counter.wakes, 1);
  const Waiting second = counter.ask(2);
  EXPECT_EQ(counter.wakes, 1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].kind, Job::allocate);
  EXPECT_EQ(counter.jobs[0].count, 10U);
  EXPECT_EQ(counter.jobs[0].beyond, std::nullopt);
  EXPECT_EQ(first.answer->numbers(), (Ranges{{1, 3}}));
  EXPECT_EQ(second.answer->numbers(), (Ranges{{4, 2}}));
  EXPECT_EQ(counter.take(5), (Ranges{{6, 5}}));
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.take(0), Ranges());
  EXPECT_FALSE(counter.error);
}

TEST(BlockCache, FetchesAheadBelowTheThreshold) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  EXPECT_EQ(counter.take(5), (Ranges{{1, 5}}));
  EXPECT_EQ(counter.wakes, 0);
  EXPECT_EQ(counter.take(1), (Ranges{{6, 1}}));
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_EQ(counter.take(1), (Ranges{{7, 1}}));
  EXPECT_EQ(counter.wakes, 1);  // once per block
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].beyond, 10);
  EXPECT_EQ(counter.take(9), (Ranges{{8, 9}}));  // both blocks touch
  EXPECT_EQ(counter.wakes, 2);
}

TEST(BlockCache, FetchesNothingAheadOneAtATime) {
  BlockCaches counter(spec_of(1, 0.95));
  for (std::int64_t i = 1; i <= 3; ++i) {
    const Waiting waiting = counter.ask(1);
    ASSERT_TRUE(counter.work());
    EXPECT_EQ(waiting.answer->numbers(), (Ranges{{i, 1}}));
    EXPECT_FALSE(counter.work());
  }
  EXPECT_EQ(counter.wakes, 3);
  const Waiting batch = counter.ask(3);
  const Waiting another = counter.ask(2);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().count, 5U);
  EXPECT_EQ(batch.answer->numbers(), (Ranges{{4, 3}}));
  EXPECT_EQ(another.answer->numbers(), (Ranges{{7, 2}}));
}

TEST(BlockCache, ARefillIsNeverSmallerThanWhatAllNeed) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  const Waiting large = counter.ask(1000);
  const Waiting small = counter.ask(5);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].count, 995U);
  EXPECT_EQ(large.answer->numbers(), (Ranges{{1, 1000}}));
  EXPECT_EQ(small.answer->numbers(), (Ranges{{1001, 5}}));
  EXPECT_EQ(counter.jobs.size(), 1U);
}

TEST(BlockCache, HoldsTwoBlocksAtMost) {
  BlockCaches counter(spec_of(100, 0.95));
  filled(counter);
  for (int i = 0; i < 500; ++i) {
    counter.clock.advance(1us);  // fast enough for a threshold of a whole block
    counter.take(1);
    while (auto job = counter.cache->begin()) {
      counter.clock.advance(10ms);
      counter.do_job(*job);
    }
    EXPECT_LT(counter.value - i, 203);
  }
}

TEST(BlockCache, OneJobAtATime) {
  BlockCaches counter(spec_of(10));
  const Waiting waiting = counter.ask(1);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  const Waiting another = counter.ask(20);
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_FALSE(counter.cache->begin());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  counter.do_job(*job);
  EXPECT_EQ(counter.wakes, 2);  // for the other one
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(another.answer->numbers(), (Ranges{{2, 20}}));
}

TEST(BlockCache, AnotherProxysNumbersLieBetweenBlocks) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.value = 31;
  const Waiting waiting = counter.ask(15);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 10}, {31, 5}}));
}

// --- waiting ---

TEST(BlockCache, FirstComeFirstServed) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  const Waiting large = counter.ask(11);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);  // though there are ten
  const Waiting small = counter.ask(1);
  EXPECT_EQ(small.answer->count, 0);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(large.answer->numbers(), (Ranges{{1, 11}}));
  EXPECT_EQ(small.answer->numbers(), (Ranges{{12, 1}}));
}

TEST(BlockCache, WhoLeavesTheQueueHoldsNobodyUp) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  Waiting large = counter.ask(11);
  const Waiting small = counter.ask(4);
  large.ticket = Ticket();
  EXPECT_EQ(large.answer->count, 0);
  EXPECT_EQ(small.answer->numbers(), (Ranges{{1, 4}}));
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(large.answer.use_count(), 1);  // it is gone
}

TEST(BlockCache, AsksAtOnceIfNumbersHaveCome) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  const Waiting waiting = counter.ask(3);
  EXPECT_EQ(waiting.answer->count, 1);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 3}}));
}

TEST(BlockCache, ANumberThatNobodyTookFromAGrantComesBack) {
  BlockCaches counter(spec_of(10));
  {
    const Waiting gone = counter.ask(3);
    ASSERT_TRUE(counter.work());
    EXPECT_EQ(gone.answer->count, 1);
  }
  EXPECT_EQ(counter.take(4), (Ranges{{1, 4}}));
}

/// Else the first number of a new counter could be on its way back while somebody draws.
TEST(BlockCache, WhoOnlyWantsNumbersTakesNone) {
  BlockCaches counter(spec_of(10));
  Ranges drawn;
  class Drawing final : public Waiter {
   public:
    Drawing(BlockCaches& from, Ranges& out) : from_(from), out_(out) {}
    void answered(Result<Grant> /*grant*/) override { out_ = from_.take(2); }

   private:
    BlockCaches& from_;
    Ranges& out_;
  };
  const Ticket first = counter.cache->ask(1, std::make_unique<Drawing>(counter, drawn));
  const Ticket wanting = counter.cache->ask(3, std::make_unique<Nobody>());
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(drawn, (Ranges{{2, 2}}));
  EXPECT_EQ(counter.take(1), (Ranges{{1, 1}}));
  const Ticket again = counter.cache->ask(20, std::make_unique<Nobody>());
  ASSERT_TRUE(counter.work());
  EXPECT_GE(counter.cache->held(), 20U);
}

TEST(BlockCache, TheQueueIsBounded) {
  BlockCaches counter(spec_of(1));
  std::vector<Waiting> all;
  for (std::size_t i = 0; i < WaitList::kMost; ++i) all.push_back(counter.ask(1));
  const Waiting more = counter.ask(1);
  EXPECT_EQ(more.answer->error(), Errc::unavailable);
  all[100].ticket = Ticket();
  const Waiting again = counter.ask(1);
  EXPECT_EQ(again.answer->count, 0);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].count, WaitList::kMost);
  EXPECT_EQ(all.front().answer->numbers(), (Ranges{{1, 1}}));
  EXPECT_EQ(again.answer->numbers(), (Ranges{{WaitList::kMost, 1}}));
}

// --- numbers that come back ---

TEST(BlockCache, UnusedNumbersGoToTheFront) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(8);
  counter.cache->take_back({{5, 1}, {2, 2}});
  EXPECT_EQ(counter.take(4), (Ranges{{2, 2}, {5, 1}, {9, 1}}));
  counter.cache->take_back({{9, 1}});
  EXPECT_EQ(counter.take(2), (Ranges{{9, 2}}));
  counter.cache->take_back({});
  counter.cache->take_back({{4, 0}});
  EXPECT_EQ(counter.take(1), Ranges());
}

TEST(BlockCache, UnusedNumbersServeWhoWaits) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(8);
  const Waiting waiting = counter.ask(3);
  counter.cache->take_back({{4, 1}});
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{4, 1}, {9, 2}}));
}

TEST(BlockCache, NumbersThatItNeverHadAreIgnored) {
  BlockCaches counter(spec_of(10));
  counter.cache->take_back({{1, 1}});
  filled(counter);
  counter.cache->take_back({{0, 1}, {11, 1}, {-5, 20}});
  EXPECT_EQ(counter.take(10), (Ranges{{1, 10}}));
  EXPECT_EQ(counter.take(1), Ranges());
}

// --- the ends of numbers ---

TEST(BlockCache, CountsDownwards) {
  CounterSpec spec = spec_of(10);
  spec.step = -5;
  spec.max = kMin;
  BlockCaches counter(spec, 0);
  filled(counter);
  EXPECT_EQ(counter.take(4), (Ranges{{0, 4}}));
  counter.cache->take_back({{-5, 1}, {-15, 1}});
  EXPECT_EQ(counter.take(3), (Ranges{{-5, 1}, {-15, 2}}));
  const Waiting waiting = counter.ask(7);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].beyond, -45);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{-25, 7}}));
}

TEST(BlockCache, ABlockEndsAtMax) {
  CounterSpec spec = spec_of(10);
  spec.max = 13;
  BlockCaches counter(spec);
  filled(counter);
  counter.take(10);
  const Waiting waiting = counter.ask(2);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].count, 3U);  // no more are left
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{11, 2}}));
  EXPECT_EQ(counter.take(2), Ranges());
  EXPECT_EQ(counter.error->code, Errc::exhausted);
  EXPECT_EQ(counter.error->reason, "all numbers up to max, 13, have been handed out");
  EXPECT_EQ(counter.take(1), (Ranges{{13, 1}}));
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_EQ(counter.error->code, Errc::exhausted);
  EXPECT_FALSE(counter.work());
}

/// The store's thread tells the log.
TEST(BlockCache, TheFirstRefusalOfAnExhaustedCounterWakesTheStore) {
  CounterSpec spec = spec_of(10, 0.5);
  spec.max = 10;
  BlockCaches counter(spec);
  filled(counter);
  const int wakes = counter.wakes;
  counter.take(10);
  EXPECT_EQ(counter.wakes, wakes);
  EXPECT_FALSE(counter.cache->refusal());
  for (int i = 0; i < 3; ++i) {
    counter.take(1);
    EXPECT_EQ(counter.ask(1).answer->error(), Errc::exhausted);
    EXPECT_EQ(counter.wakes, wakes + 1);
    EXPECT_FALSE(counter.work());
    EXPECT_EQ(counter.cache->refusal()->reason, "all numbers up to max, 10, have been handed out");
  }
  counter.clock.advance(60s);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::exhausted));
  EXPECT_EQ(counter.cache->refusal()->reason, "the reason");
}

TEST(BlockCache, ABlockThatGoesBeyondMaxIsClipped) {
  CounterSpec spec = spec_of(10);
  spec.max = 3;
  BlockCaches counter(spec);
  const Waiting large = counter.ask(4);
  const Waiting small = counter.ask(2);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(large.answer->error(), Errc::exhausted);
  EXPECT_EQ(small.answer->numbers(), (Ranges{{1, 2}}));
  EXPECT_EQ(counter.take(1), (Ranges{{3, 1}}));
  counter.cache->take_back({{2, 2}});
  counter.cache->stop();
  ASSERT_TRUE(counter.work());  // all that was allocated, also beyond max
  EXPECT_EQ(counter.jobs.back().unused, (Range{2, 9}));
  EXPECT_EQ(counter.value, 2);
}

TEST(BlockCache, NothingWrapsAtTheEndsOfInt64) {
  BlockCaches up(spec_of(10), kMax - 5);
  Waiting waiting = up.ask(1);
  auto job = up.cache->begin();
  up.cache->finish({Reply::allocated, {kMax - 5, job->count}});
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{kMax - 5, 1}}));
  EXPECT_EQ(up.take(5), (Ranges{{kMax - 4, 5}}));
  EXPECT_EQ(up.take(1), Ranges());
  EXPECT_EQ(up.error->code, Errc::exhausted);
  CounterSpec spec = spec_of(3);
  spec.step = -65535;
  spec.max = kMin;
  BlockCaches down(spec);
  waiting = down.ask(1);
  job = down.cache->begin();
  down.cache->finish({Reply::allocated, {kMin + 65535, job->count}});
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{kMin + 65535, 1}}));
  EXPECT_EQ(down.take(1), (Ranges{{kMin, 1}}));
  EXPECT_EQ(down.take(1), Ranges());
  EXPECT_EQ(down.error->code, Errc::exhausted);
}

TEST(BlockCache, AnExhaustedCounterIsNotAskedForAMinute) {
  BlockCaches counter(spec_of(10, 0.5));
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::exhausted));
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_EQ(waiting.answer->grant->error().reason, "the reason");
  counter.clock.advance(59s);
  const Waiting another = counter.ask(1);
  EXPECT_EQ(another.answer->error(), Errc::exhausted);
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  counter.clock.advance(1s);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);
  const Waiting later = counter.ask(1);
  EXPECT_EQ(counter.wakes, 2);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(later.answer->numbers(), (Ranges{{1, 1}}));
  EXPECT_EQ(counter.take(5), (Ranges{{2, 5}}));
  EXPECT_EQ(counter.wakes, 3);
}

TEST(BlockCache, AStoreThatFailsIsNoReasonForExhaustion) {
  BlockCaches counter(spec_of(10, 0.5));
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::exhausted));
  EXPECT_EQ(counter.cache->refusal()->reason, "the reason");
  counter.clock.advance(60s);
  const Waiting later = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::failed));
  EXPECT_EQ(later.answer->error(), Errc::unavailable);
  EXPECT_FALSE(counter.cache->refusal());
  EXPECT_FALSE(counter.cache->statistics().exhausted);
}

/// Not even by a store that looks after itself meanwhile.
TEST(BlockCache, WhatCouldNotBeFetchedAheadIsNotFetchedForNobody) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  counter.take(6);
  ASSERT_TRUE(counter.fail(Reply::failed));
  counter.clock.advance(11s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(counter.work());
    counter.clock.advance(1s);
  }
  counter.take(1);
  EXPECT_TRUE(counter.work());
}

// --- counters that go back, and healing (docs/strategies.md#duplicates-and-healing) ---

TEST(BlockCache, ACounterThatWentBackIsHealed) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  counter.take(6);
  counter.value = 5;
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(counter.do_job(*job), BlockOutcome::went_back);
  EXPECT_EQ(counter.take(1), Ranges());  // what others hold may be the same numbers
  EXPECT_TRUE(counter.needs_store);
  EXPECT_EQ(counter.wakes, 2);
  const Waiting waiting = counter.ask(1);
  const auto heal = counter.cache->begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->kind, Job::heal);
  EXPECT_TRUE(heal->lost);
  EXPECT_EQ(heal->beyond, 10);
  counter.cache->take_back({{3, 4}});
  counter.value = 11;
  EXPECT_EQ(counter.do_job(*heal), BlockOutcome::used);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{11, 1}}));
  counter.cache->take_back({{3, 1}});
  EXPECT_EQ(counter.take(1), (Ranges{{12, 1}}));
  EXPECT_EQ(counter.jobs.size(), 2U);
}

TEST(BlockCache, ACounterThatWentBackAndMustNotBeHealedIsExhausted) {
  CounterSpec spec = spec_of(10);
  spec.heal.mode = Heal::off;
  spec.heal.at_start = true;  // has no effect then
  BlockCaches counter(spec);
  filled(counter);
  counter.take(10);
  counter.value = 5;
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].kind, Job::allocate);
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_NE(waiting.answer->grant->error().reason.find("heal.mode is off"), std::string::npos);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(60s);
  const Waiting later = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(later.answer->numbers(), (Ranges{{15, 1}}));
}

TEST(BlockCache, AHealThatGivesOldNumbersIsNotBelieved) {
  CounterSpec spec = spec_of(10);
  spec.heal.after = 1;
  BlockCaches counter(spec);
  filled(counter);
  counter.take(1);
  counter.cache->collided({1}, false);
  counter.value = 10;
  const auto heal = counter.cache->begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(counter.do_job(*heal), BlockOutcome::dropped);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(250ms);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[1].kind, Job::heal);
  EXPECT_EQ(counter.take(1), (Ranges{{20, 1}}));
}

TEST(BlockCache, HealsAfterSoManyCollisionsInARow) {
  CounterSpec spec = spec_of(10);
  spec.heal.after = 3;
  BlockCaches counter(spec);
  filled(counter);
  counter.take(7);
  counter.cache->collided({1, 2}, false);
  counter.cache->went_well();
  counter.cache->collided({3, 4}, false);
  EXPECT_EQ(counter.take(1), (Ranges{{8, 1}}));
  EXPECT_EQ(counter.wakes, 0);
  counter.cache->collided({5}, false);
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);
  const Waiting waiting = counter.ask(1);
  counter.cache->collided({6, 7, 8}, true);  // from before
  counter.value = 338;
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].kind, Job::heal);
  EXPECT_FALSE(counter.jobs[0].lost);
  EXPECT_EQ(counter.jobs[0].beyond, 10);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{338, 1}}));
  counter.cache->collided({6, 7, 8}, true);
  counter.cache->take_back({{7, 2}});
  EXPECT_EQ(counter.take(1), (Ranges{{339, 1}}));
  EXPECT_EQ(counter.jobs.size(), 1U);
}

TEST(BlockCache, HealsAtOnceIfOneIsEnough) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(1);
  counter.cache->collided({1}, true);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].kind, Job::heal);
}

/// Nothing says how far the counter would have to go: it goes on, and so do its numbers.
TEST(BlockCache, GoesOnIfItCannotBeHealed) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(4);
  counter.cache->collided({1, 2}, true);
  const Waiting waiting = counter.ask(2);
  counter.cache->take_back({{4, 1}});
  ASSERT_TRUE(counter.fail(Reply::not_healed));
  EXPECT_EQ(counter.jobs[0].kind, Job::heal);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{4, 2}}));
  EXPECT_EQ(counter.take(2), (Ranges{{6, 2}}));
  // Not for each of its collisions.
  counter.cache->collided({7, 8}, true);
  EXPECT_EQ(counter.take(1), (Ranges{{8, 1}}));
  counter.clock.advance(BlockCache::kNoHealFor);
  counter.cache->collided({8}, true);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);
}

/// What others hold would be handed out again.
TEST(BlockCache, DoesNotGoOnIfALostCounterCannotBeHealed) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  counter.take(6);
  counter.value = 5;
  ASSERT_TRUE(counter.work());
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::not_healed));
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.cache->statistics().exhausted);
  EXPECT_EQ(counter.cache->refusal()->reason, "the reason");
  counter.clock.advance(60s);
  const Waiting later = counter.ask(1);
  EXPECT_TRUE(counter.cache->begin()->lost);
}

TEST(BlockCache, GivesBackLaterWhatItCouldNotSend) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(4);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(60s);
  ASSERT_TRUE(counter.fail(Reply::not_sent));
  EXPECT_EQ(counter.jobs[0].kind, Job::give_back);
  counter.cache->stop();
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.value, 5);
  EXPECT_FALSE(counter.work());
}

TEST(BlockCache, TriesOnceToGiveBackAtTheEnd) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.cache->stop();
  ASSERT_TRUE(counter.fail(Reply::not_sent));
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{1, 10}}));
}

TEST(BlockCache, SaysWhatCanBeForgotten) {
  BlockCaches counter(spec_of(10));
  EXPECT_TRUE(counter.cache->is_new());
  EXPECT_TRUE(counter.cache->forgettable());
  {
    const Waiting waiting = counter.ask(1);
    EXPECT_FALSE(counter.cache->forgettable());
  }
  EXPECT_TRUE(counter.cache->forgettable());
  filled(counter);
  EXPECT_FALSE(counter.cache->is_new());
  EXPECT_FALSE(counter.cache->forgettable());
  EXPECT_FALSE(counter.cache->is_empty());
  counter.take(10);
  EXPECT_TRUE(counter.cache->is_empty());
}

TEST(BlockCache, NeverHealsWithModeOff) {
  CounterSpec spec = spec_of(10);
  spec.heal.mode = Heal::off;
  BlockCaches counter(spec);
  filled(counter);
  counter.take(5);
  counter.cache->collided({1, 2, 3, 4, 5}, true);
  EXPECT_EQ(counter.take(1), (Ranges{{6, 1}}));
}

TEST(BlockCache, ABlockUnderWayWhenHealingIsDecidedWaitsForItsEnd) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(9);
  const Waiting waiting = counter.ask(2);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  counter.cache->collided({8, 9}, false);
  EXPECT_EQ(counter.do_job(*job), BlockOutcome::used);
  EXPECT_EQ(waiting.answer->count, 0);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[1].kind, Job::heal);
  EXPECT_EQ(counter.jobs[1].held, (Ranges{{10, 11}}));
  EXPECT_EQ(counter.jobs[1].beyond, 20);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{21, 2}}));
}

TEST(BlockCache, TheFirstJobIsAHealIfTheRuleSaysSo) {
  CounterSpec spec = spec_of(10);
  spec.heal.at_start = true;
  BlockCaches counter(spec);
  ASSERT_TRUE(counter.work());  // the store need not wait for an insert
  EXPECT_EQ(counter.jobs[0].kind, Job::heal);
  EXPECT_FALSE(counter.jobs[0].lost);
  EXPECT_EQ(counter.jobs[0].beyond, std::nullopt);
  EXPECT_EQ(counter.take(1), (Ranges{{1, 1}}));
  EXPECT_FALSE(counter.work());
}

TEST(BlockCache, AHealThatIsRefusedStaysToBeDone) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(2);
  counter.cache->collided({1, 2}, false);
  ASSERT_TRUE(counter.fail(Reply::exhausted));
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_EQ(counter.error->code, Errc::exhausted);
  counter.clock.advance(60s);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().kind, Job::heal);
}

// --- the store down (docs/counters.md#when-the-store-is-down) ---

TEST(BlockCache, WhoWaitsIsToldThatTheStoreIsDown) {
  BlockCaches counter(spec_of(10));
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail());
  EXPECT_EQ(waiting.answer->error(), Errc::unavailable);
  EXPECT_EQ(waiting.answer->grant->error().reason, "the reason");
  counter.take(1);
  EXPECT_EQ(counter.error->code, Errc::unavailable);
  const Waiting another = counter.ask(1);
  EXPECT_EQ(another.answer->error(), Errc::unavailable);
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + 250ms);
  counter.clock.advance(250ms);
  ASSERT_TRUE(counter.fail());
  counter.clock.advance(250ms);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.take(1), (Ranges{{1, 1}}));
}

TEST(BlockCache, NobodyAsksAStoreThatIsDownWithoutDemand) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(10);
  {
    const Waiting waiting = counter.ask(1);
    ASSERT_TRUE(counter.fail());
  }
  int tries = 0;
  for (; counter.cache->due() && tries < 100; ++tries) {
    counter.clock.advance(*counter.cache->due() - counter.clock.monotonic());
    if (!counter.fail()) break;
  }
  EXPECT_EQ(tries, 40);  // for ten seconds
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  EXPECT_FALSE(counter.work());
  const int wakes = counter.wakes;
  counter.take(1);
  EXPECT_EQ(counter.error->code, Errc::unavailable);
  EXPECT_EQ(counter.wakes, wakes + 1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.take(1), (Ranges{{11, 1}}));
}

/// Nobody has asked it meanwhile.
TEST(BlockCache, AFailureOfLongAgoIsNoAnswer) {
  BlockCaches counter(spec_of(10));
  {
    const Waiting waiting = counter.ask(1);
    ASSERT_TRUE(counter.fail());
  }
  counter.clock.advance(999ms);
  counter.take(1);
  EXPECT_EQ(counter.error->code, Errc::unavailable);
  for (const auto later : {1s, 60s}) {
    counter.clock.advance(later);
    counter.take(1);
    EXPECT_TRUE(counter.needs_store);
    const Waiting first = counter.ask(1);
    const Waiting second = counter.ask(1);
    EXPECT_EQ(first.answer->count, 0);
    ASSERT_TRUE(counter.fail());
    EXPECT_EQ(first.answer->error(), Errc::unavailable);
    EXPECT_EQ(second.answer->error(), Errc::unavailable);
    EXPECT_EQ(counter.ask(1).answer->error(), Errc::unavailable);  // this one is of now
  }
  counter.clock.advance(60s);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 1}}));
}

/// A try that takes long is waited for, and its end is the answer.
TEST(BlockCache, WhoComesWhileTheStoreIsAskedWaitsForThat) {
  BlockCaches counter(spec_of(10));
  const Waiting first = counter.ask(1);
  ASSERT_TRUE(counter.fail());
  counter.clock.advance(250ms);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(counter.ask(1).answer->error(), Errc::unavailable);
  counter.clock.advance(1s);
  const Waiting late = counter.ask(1);
  EXPECT_EQ(late.answer->count, 0);
  counter.do_job(*job);
  EXPECT_EQ(late.answer->numbers(), (Ranges{{1, 1}}));
}

TEST(BlockCache, WhoWaitsStaysWithActionWait) {
  CounterSpec spec = spec_of(10);
  spec.on_store_down.action = Action::wait;
  BlockCaches counter(spec);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail());
  EXPECT_EQ(waiting.answer->count, 0);
  counter.take(1);
  EXPECT_TRUE(counter.needs_store);
  const Waiting another = counter.ask(1);
  EXPECT_EQ(counter.wakes, 1);  // not before its time
  EXPECT_FALSE(counter.work());
  counter.clock.advance(250ms);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 1}}));
  EXPECT_EQ(another.answer->numbers(), (Ranges{{2, 1}}));
}

TEST(BlockCache, AFailureAheadOfTimeHurtsNobody) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  counter.take(6);
  ASSERT_TRUE(counter.fail());
  EXPECT_EQ(counter.take(4), (Ranges{{7, 4}}));
  EXPECT_EQ(counter.wakes, 1);
  counter.take(1);
  EXPECT_TRUE(counter.needs_store);
  const Waiting waiting = counter.ask(1);  // the next try does not wait for its time
  EXPECT_EQ(counter.wakes, 2);
  ASSERT_TRUE(counter.fail());
  EXPECT_EQ(waiting.answer->error(), Errc::unavailable);
}

TEST(BlockCache, AStoreThatIsDownStillServesWhatIsLeftToWhoNeedsLittle) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  const Waiting large = counter.ask(11);
  const Waiting small = counter.ask(1);
  ASSERT_TRUE(counter.fail());
  EXPECT_EQ(large.answer->error(), Errc::unavailable);
  EXPECT_EQ(small.answer->numbers(), (Ranges{{1, 1}}));
  EXPECT_EQ(counter.take(9), (Ranges{{2, 9}}));
}

// --- a store that is still finding a new counter's first number ---

TEST(BlockCache, LetsRequestsWaitWhileTheStorePrepares) {
  BlockCaches counter({});
  const auto waiting = counter.ask(1);
  ASSERT_TRUE(counter.fail(Reply::pending));
  EXPECT_EQ(waiting.answer->count, 0);
  EXPECT_EQ(counter.cache->pending(), "the reason");
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + BlockCache::kNotYetFor);

  const auto another = counter.ask(1);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(BlockCache::kNotYetFor);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers().front().first, 1);
  EXPECT_EQ(another.answer->numbers().front().first, 2);
  EXPECT_EQ(counter.cache->pending(), "");
  EXPECT_FALSE(counter.cache->statistics().exhausted);
}

TEST(BlockCache, IsNotPendingAnyMoreOnceTheStoreSaysOtherwise) {
  for (const Reply next : {Reply::exhausted, Reply::failed}) {
    BlockCaches counter({});
    const auto waiting = counter.ask(1);
    ASSERT_TRUE(counter.fail(Reply::pending));
    counter.clock.advance(BlockCache::kNotYetFor);
    ASSERT_TRUE(counter.fail(next));
    EXPECT_EQ(waiting.answer->error(),
              next == Reply::exhausted ? Errc::exhausted : Errc::unavailable);
    EXPECT_EQ(counter.cache->pending(), "");
  }
}

TEST(BlockCache, APendingCounterIsNotAskedOnceNobodyWaits) {
  BlockCaches counter({});
  {
    const auto waiting = counter.ask(1);
    ASSERT_TRUE(counter.fail(Reply::pending));
  }
  int asked = 0;
  for (int i = 0; i < 1000; ++i) {
    counter.clock.advance(BlockCache::kNotYetFor);
    if (counter.fail(Reply::pending)) ++asked;
  }
  EXPECT_LE(asked, BlockCache::kDemandLasts / BlockCache::kNotYetFor + 1);
  EXPECT_FALSE(counter.cache->due());
  const auto waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers().front().first, 1);
}

// --- giving back ---

TEST(BlockCache, GivesBackWhatLiesIdle) {
  CounterSpec spec = spec_of(10, 0.5);
  spec.block.idle = 8s;
  BlockCaches counter(spec);
  filled(counter);
  counter.take(2);
  const auto look = [&] {
    counter.clock.advance(*counter.cache->due() - counter.clock.monotonic());
    return counter.work();
  };
  for (int i = 0; i < 20; ++i) {  // in use
    EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + 1s);
    EXPECT_FALSE(look());
    counter.cache->take_back(counter.take(1));
  }
  const auto last_use = counter.clock.monotonic();
  while (!look()) EXPECT_LT(counter.clock.monotonic() - last_use, 9s);
  EXPECT_GE(counter.clock.monotonic() - last_use, 8s);
  EXPECT_EQ(counter.jobs[0].kind, Job::give_back);
  EXPECT_EQ(counter.jobs[0].unused, (Range{3, 8}));
  EXPECT_EQ(counter.value, 3);
  EXPECT_FALSE(counter.work());  // it does not fetch them again
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());  // its own step back
  EXPECT_EQ(counter.jobs[1].kind, Job::allocate);
  EXPECT_EQ(counter.jobs[1].beyond, 2);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{3, 1}}));
}

TEST(BlockCache, WhatOthersHaveGoneBeyondIsLost) {
  CounterSpec spec = spec_of(10);
  BlockCaches counter(spec);
  filled(counter);
  counter.take(2);
  counter.value = 21;
  counter.clock.advance(60s);
  EXPECT_FALSE(counter.work());  // the look sees that there was use
  counter.clock.advance(60s);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].kind, Job::give_back);
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{3, 8}}));
  EXPECT_EQ(counter.cache->take_lost(), Ranges());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  EXPECT_FALSE(counter.work());  // it does not fetch others instead
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{21, 1}}));
}

TEST(BlockCache, WhoComesWhileNumbersAreGivenBackWaits) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(2);
  counter.clock.advance(60s);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(60s);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  counter.take(1);
  EXPECT_TRUE(counter.needs_store);
  const Waiting waiting = counter.ask(1);
  counter.cache->finish({Reply::not_sent});
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{3, 1}}));
}

TEST(BlockCache, WhatMayHaveBeenGivenBackIsLost) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(2);
  counter.cache->stop();
  ASSERT_TRUE(counter.fail());
  EXPECT_FALSE(counter.work());
}

TEST(BlockCache, AStepBackThatMayBeOursIsNone) {
  for (const std::int64_t value : {3, 11}) {
    BlockCaches counter(spec_of(10));
    filled(counter);
    counter.take(2);
    counter.clock.advance(60s);
    EXPECT_FALSE(counter.work());
    counter.clock.advance(60s);
    ASSERT_TRUE(counter.fail());
    counter.value = value;
    const Waiting waiting = counter.ask(1);
    ASSERT_TRUE(counter.work());
    EXPECT_EQ(waiting.answer->numbers(), (Ranges{{value, 1}}));
  }
}

TEST(BlockCache, ALateNumberIsGivenBackToo) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(10);
  counter.clock.advance(600s);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  counter.cache->take_back({{10, 1}});
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(60s);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.value, 10);
}

TEST(BlockCache, StopTellsWhoWaitsAndGivesBack) {
  BlockCaches counter(spec_of(10, 0.5));
  filled(counter);
  counter.take(4);
  const Waiting waiting = counter.ask(7);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  counter.cache->stop();
  EXPECT_EQ(waiting.answer->error(), Errc::unavailable);
  counter.take(1);
  EXPECT_EQ(counter.error->code, Errc::unavailable);
  EXPECT_EQ(counter.ask(1).answer->error(), Errc::unavailable);
  EXPECT_FALSE(counter.cache->begin());
  counter.do_job(*job);  // what was under way
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().kind, Job::give_back);
  EXPECT_EQ(counter.value, 5);
  EXPECT_FALSE(counter.work());
}

TEST(BlockCache, OnlyTheRunThatEndsAtTheCounterIsGivenBack) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.value = 31;
  {
    const Waiting gone = counter.ask(11);
    ASSERT_TRUE(counter.work());
  }
  counter.cache->stop();
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().unused, (Range{31, 10}));
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{1, 10}}));
}

TEST(BlockCache, WhatCannotBeGivenBackAtTheEndIsLost) {
  BlockCaches counter(spec_of(10));
  filled(counter);
  counter.take(10);
  counter.cache->take_back({{3, 2}});  // 5 to 10 are in use
  counter.cache->stop();
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{3, 2}}));
}

}  // namespace block_cache_test
}  // namespace idproxy::ids
