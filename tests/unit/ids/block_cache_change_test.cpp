#include <gtest/gtest.h>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// What a reload does to a counter that goes on.
namespace idproxy::ids {
namespace block_cache_change_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;
using Heal = CounterSpec::Heal::Mode;

struct BlockCacheChange : ::testing::Test {
  BlockCacheChange() {
    spec.block.size = 10;
    spec.block.prefetch = 0;
  }
  /// A cache of `spec` that holds 1 to 10.
  BlockCaches& filled() {
    counter.emplace(spec);
    {
      const Waiting gone = counter->ask(1);
      EXPECT_TRUE(counter->work());
    }
    counter->jobs.clear();
    counter->wakes = 0;
    return *counter;
  }

  CounterSpec spec;
  std::optional<BlockCaches> counter;
};

TEST_F(BlockCacheChange, AnotherBlockSizeCountsFromTheNextBlockOn) {
  filled();
  EXPECT_EQ(counter->take(3), (Ranges{{1, 3}}));
  spec.block.size = 100;
  spec.block.prefetch = 0.5;
  counter->cache->change(spec);
  EXPECT_EQ(counter->take(1), (Ranges{{4, 1}}));
  EXPECT_EQ(counter->wakes, 1);  // fewer than half of the new size
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(counter->jobs[0].count, 100U);
  EXPECT_EQ(counter->jobs[0].beyond, 10);
  EXPECT_EQ(counter->take(106), (Ranges{{5, 106}}));
}

TEST_F(BlockCacheChange, WakesNobodyByItself) {
  filled();
  spec.block.size = 1000;
  counter->cache->change(spec);
  counter->cache->ask_again();
  EXPECT_EQ(counter->wakes, 0);
}

TEST_F(BlockCacheChange, ABlockUnderWayIsUsed) {
  filled();
  const Waiting waiting = counter->ask(11);
  const auto job = counter->cache->begin();
  ASSERT_TRUE(job);
  spec.block.size = 50;
  counter->cache->change(spec);
  EXPECT_EQ(counter->do_job(*job), BlockOutcome::used);
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 11}}));
}

TEST_F(BlockCacheChange, NothingBeyondALowerMaxIsHandedOut) {
  filled();
  spec.max = 4;
  counter->cache->change(spec);
  EXPECT_EQ(counter->take(4), (Ranges{{1, 4}}));
  EXPECT_EQ(counter->take(1), Ranges());
  const Waiting waiting = counter->ask(1);
  ASSERT_TRUE(counter->fail(Reply::exhausted));  // as the store answers then
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
}

TEST_F(BlockCacheChange, WhatComesBackFromBeyondALowerMaxIsNotHandedOut) {
  filled();
  EXPECT_EQ(counter->take(10), (Ranges{{1, 10}}));
  spec.max = 4;
  counter->cache->change(spec);
  counter->cache->take_back({{3, 5}});
  EXPECT_EQ(counter->take(2), (Ranges{{3, 2}}));
  EXPECT_EQ(counter->take(1), Ranges());
}

TEST_F(BlockCacheChange, ALowerMaxLeavesTheRestToBeGivenBack) {
  filled();
  EXPECT_EQ(counter->take(2), (Ranges{{1, 2}}));
  spec.max = 4;
  counter->cache->change(spec);
  counter->cache->stop();
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(counter->jobs[0].kind, Job::give_back);
  EXPECT_EQ(counter->jobs[0].unused, (Range{3, 8}));
  EXPECT_EQ(counter->value, 3);
}

TEST_F(BlockCacheChange, AHigherMaxEndsTheExhaustion) {
  spec.max = 10;
  filled();
  EXPECT_EQ(counter->take(10), (Ranges{{1, 10}}));
  EXPECT_EQ(counter->take(1), Ranges());
  EXPECT_EQ(counter->error->code, Errc::exhausted);
  EXPECT_TRUE(counter->cache->refusal());
  const int wakes = counter->wakes;
  spec.max = 20;
  counter->cache->change(spec);
  EXPECT_FALSE(counter->cache->refusal());
  EXPECT_FALSE(counter->cache->statistics().exhausted);
  const Waiting waiting = counter->ask(1);
  EXPECT_EQ(counter->wakes, wakes + 1);
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{11, 1}}));
}

TEST_F(BlockCacheChange, AHigherMaxGivesOutWhatLayBeyondTheLowerOne) {
  spec.max = 4;
  filled();
  EXPECT_EQ(counter->value, 11);
  EXPECT_EQ(counter->take(4), (Ranges{{1, 4}}));
  spec.max = 6;
  counter->cache->change(spec);
  EXPECT_EQ(counter->take(2), (Ranges{{5, 2}}));
  EXPECT_EQ(counter->take(1), Ranges());
  spec.max = 100;
  counter->cache->change(spec);
  counter->cache->change(spec);
  EXPECT_EQ(counter->take(4), (Ranges{{7, 4}}));
  EXPECT_EQ(counter->take(1), Ranges());
}

TEST_F(BlockCacheChange, MaxUpAndDownLosesNothing) {
  filled();
  for (const std::int64_t max : {4, 20, 0, -5, 7, 100}) {
    spec.max = max;
    counter->cache->change(spec);
  }
  EXPECT_EQ(counter->take(10), (Ranges{{1, 10}}));
  counter->cache->take_back({{8, 3}});
  counter->cache->stop();
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(counter->value, 8);
}

TEST_F(BlockCacheChange, DownwardsMaxIsTheLowest) {
  spec.step = -1;
  spec.max = -4;
  counter.emplace(spec, -1);
  {
    const Waiting gone = counter->ask(1);
    EXPECT_TRUE(counter->work());
  }
  EXPECT_EQ(counter->take(3), (Ranges{{-1, 3}}));
  spec.max = -100;
  counter->cache->change(spec);
  EXPECT_EQ(counter->take(7), (Ranges{{-4, 7}}));
}

TEST_F(BlockCacheChange, AnExhaustedCounterIsAskedAgain) {
  filled();
  const Waiting waiting = counter->ask(11);
  ASSERT_TRUE(counter->fail(Reply::exhausted));
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_EQ(counter->ask(11).answer->error(), Errc::exhausted);
  counter->cache->ask_again();
  const Waiting again = counter->ask(11);
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(again.answer->numbers(), (Ranges{{1, 11}}));
}

TEST_F(BlockCacheChange, AnAnswerToARuleOfBeforeDoesNotExhaustTheCounter) {
  counter.emplace(spec);
  const Waiting waiting = counter->ask(1);
  ASSERT_TRUE(counter->cache->begin());
  spec.max = 1000;
  counter->cache->change(spec);
  counter->cache->finish({Reply::exhausted, {}, "the counter has reached its max"});
  EXPECT_EQ(waiting.answer->count, 0);
  ASSERT_TRUE(counter->fail(Reply::exhausted));
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_FALSE(counter->work());
}

TEST_F(BlockCacheChange, HealingCanBeSwitchedOn) {
  spec.heal.mode = Heal::off;
  filled();
  counter->cache->collided({1, 2, 3}, true);
  EXPECT_FALSE(counter->work());
  spec.heal.mode = Heal::max;
  spec.heal.after = 3;
  counter->cache->change(spec);
  EXPECT_EQ(counter->cache->heals_after(), 3U);
  counter->cache->collided({4, 5, 6}, false);
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(counter->jobs[0].kind, Job::heal);
}

TEST_F(BlockCacheChange, AnotherTimeToLieIdle) {
  filled();
  EXPECT_EQ(counter->take(1), (Ranges{{1, 1}}));
  EXPECT_FALSE(counter->work());
  spec.block.idle = 1s;
  counter->cache->change(spec);
  EXPECT_FALSE(counter->work());
  ASSERT_TRUE(counter->cache->due());
  EXPECT_LE(*counter->cache->due(), counter->clock.monotonic() + 1s);
  counter->clock.advance(1s);
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(counter->jobs[0].kind, Job::give_back);
}

// A counter in whose place there is another one.
TEST_F(BlockCacheChange, WithNothingToHoldItGivesBackAndServesOneByOne) {
  spec.block.prefetch = 0.5;
  filled();
  EXPECT_EQ(counter->take(1), (Ranges{{1, 1}}));
  spec.block = {.size = 1, .prefetch = 0, .idle = 0ms};
  counter->cache->change(spec);
  EXPECT_FALSE(counter->work());  // somebody has just taken a number
  EXPECT_LE(counter->cache->due(), counter->clock.monotonic());
  ASSERT_TRUE(counter->work());
  EXPECT_FALSE(counter->cache->due());
  EXPECT_EQ(counter->value, 2);
  EXPECT_TRUE(counter->cache->is_empty());
  const Waiting late = counter->ask(3);
  ASSERT_TRUE(counter->work());
  EXPECT_EQ(late.answer->numbers(), (Ranges{{2, 3}}));
  EXPECT_EQ(counter->value, 5);
}

TEST_F(BlockCacheChange, FiguresSayWhatIsHeld) {
  filled();
  EXPECT_EQ(counter->take(3), (Ranges{{1, 3}}));
  const auto held = counter->cache->statistics();
  EXPECT_EQ(held.held, 7U);
  EXPECT_EQ(held.block_size, 10U);
  EXPECT_EQ(held.waiting, 0U);
  EXPECT_FALSE(held.exhausted);
  const Waiting waiting = counter->ask(8);
  EXPECT_EQ(counter->cache->statistics().waiting, 1U);
  EXPECT_EQ(counter->take(0), Ranges());
  ASSERT_TRUE(counter->fail(Reply::exhausted));
  EXPECT_FALSE(counter->cache->statistics().exhausted);  // for who needs fewer, it is not
  EXPECT_EQ(counter->take(7), (Ranges{{4, 7}}));
  EXPECT_TRUE(counter->cache->statistics().exhausted);
  EXPECT_EQ(counter->cache->statistics().why.reason, "the reason");
}

}  // namespace block_cache_change_test
}  // namespace idproxy::ids
