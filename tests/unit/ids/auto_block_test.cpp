#include <gtest/gtest.h>

#include <algorithm>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// A counter with `block: auto`: how much it fetches, and when what is left goes back.
namespace idproxy::ids {
namespace auto_block_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;

struct AutoBlock : ::testing::Test {
  /// The number of one document. The store answers at once.
  std::int64_t insert() {
    Ranges got = counter.take(1);
    if (got.empty()) {
      const Waiting waiting = counter.ask(1);
      while (counter.work()) {
      }
      got = waiting.answer->numbers();
    }
    return got.at(0).first;
  }
  /// So many at the same time.
  void insert_many(int count) {
    for (int i = 0; i < count; ++i) insert();
  }
  /// Goes on to the next time at which the store looks, and does the job of that time, if any.
  bool wait_and_work() {
    counter.clock.advance(*counter.cache->due() - counter.clock.monotonic());
    return counter.work();
  }

  BlockCaches counter{CounterSpec()};
};

TEST_F(AutoBlock, AQuietCollectionTakesOneNumberAtATime) {
  for (std::int64_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(insert(), i);
    EXPECT_EQ(counter.value, i + 1);
    counter.clock.advance(30s);
    EXPECT_FALSE(counter.work());
  }
  EXPECT_EQ(counter.jobs.size(), 20U);
}

TEST_F(AutoBlock, ABlockLastsTenSeconds) {
  std::size_t jobs = 0;
  for (int i = 0; i < 600; ++i) {  // ten per second
    if (i == 300) jobs = counter.jobs.size();
    insert();
    counter.clock.advance(100ms);
  }
  EXPECT_LE(jobs, 12U);
  EXPECT_LE(counter.jobs.size() - jobs, 4U);
  EXPECT_NEAR(static_cast<double>(counter.jobs.back().count), 100, 1);
}

TEST_F(AutoBlock, ABatchGetsItsOwnSize) {
  const Waiting batch = counter.ask(500);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[0].count, 500U);
  EXPECT_EQ(batch.answer->numbers(), (Ranges{{1, 500}}));
  EXPECT_EQ(insert(), 501);
  EXPECT_EQ(counter.jobs[1].count, 500U);  // what was used lately
}

TEST_F(AutoBlock, WhatComesBackWasNotUsed) {
  const Waiting batch = counter.ask(500);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(batch.answer->numbers(), (Ranges{{1, 500}}));
  counter.cache->take_back({{11, 490}});
  counter.cache->take_back({{11, 490}});  // twice: it counts once
  const Waiting next = counter.ask(491);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs[1].count, 250U);  // half of the last block, since only ten were used
}

TEST_F(AutoBlock, WhatIsLeftGoesBackAfterTwentySeconds) {
  insert_many(20);  // in blocks of 1, 1, 2, 4, 8, 16
  EXPECT_EQ(counter.value, 33);
  EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + 20s);
  counter.clock.advance(19s);
  EXPECT_EQ(insert(), 21);  // in use or not
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.jobs.back().kind, Job::give_back);
  EXPECT_EQ(counter.jobs.back().unused, (Range{22, 11}));
  EXPECT_EQ(counter.value, 22);
  EXPECT_EQ(counter.cache->take_lost(), Ranges());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  EXPECT_FALSE(counter.work());  // nothing is fetched ahead
  EXPECT_EQ(insert(), 22);
}

TEST_F(AutoBlock, WhatAnotherProxyHasPassedIsLost) {
  insert_many(20);
  counter.value += 10;
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.jobs.back().kind, Job::give_back);
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{21, 12}}));
  EXPECT_EQ(insert(), 43);
}

/// So that what an operator sets is used soon, also by a proxy that has already fetched ahead.
TEST_F(AutoBlock, AnOlderRestIsLostAfterItsOwnTwentySeconds) {
  insert_many(20);
  counter.value = 1001;
  counter.clock.advance(5s);
  {
    const Waiting gone = counter.ask(15);
    ASSERT_TRUE(counter.work());
  }
  const std::int64_t end = counter.value;
  EXPECT_FALSE(wait_and_work());
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{21, 12}}));
  EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + 5s);
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.jobs.back().unused, (Range{1001, static_cast<std::uint64_t>(end - 1001)}));
  EXPECT_EQ(insert(), 1001);
}

TEST_F(AutoBlock, ANumberThatComesBackLateGoesBackToo) {
  insert_many(2);
  counter.clock.advance(100s);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  counter.cache->take_back({{2, 1}});
  EXPECT_FALSE(counter.work());
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.value, 2);
}

TEST_F(AutoBlock, ANumberBehindUsedOnesCannotGoBack) {
  insert_many(2);
  counter.cache->take_back({{1, 1}});
  EXPECT_FALSE(counter.work());
  EXPECT_FALSE(wait_and_work());
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{1, 1}}));
  EXPECT_EQ(insert(), 3);
}

TEST_F(AutoBlock, WhatCouldNotBeSentIsUsedMeanwhile) {
  insert_many(20);
  counter.clock.advance(20s);
  ASSERT_TRUE(counter.fail(Reply::not_sent));
  EXPECT_EQ(insert(), 21);
  EXPECT_EQ(counter.cache->due(), counter.clock.monotonic() + 20s);
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.value, 22);
}

TEST_F(AutoBlock, ACleanStopLeavesNoGap) {
  insert_many(20);
  counter.cache->stop();
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.value, 21);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.cache->take_lost(), Ranges());
}

TEST_F(AutoBlock, AFixedSizeTakesOver) {
  insert_many(20);
  CounterSpec fixed;
  fixed.block.size = 7;
  counter.cache->change(fixed);
  EXPECT_FALSE(counter.work());
  counter.clock.advance(20s);
  EXPECT_FALSE(counter.work());
  insert_many(12);
  EXPECT_EQ(insert(), 33);
  EXPECT_EQ(counter.jobs.back().count, 7U);
  counter.cache->change(CounterSpec());
  EXPECT_FALSE(counter.work());
  ASSERT_TRUE(wait_and_work());
  EXPECT_EQ(counter.jobs.back().kind, Job::give_back);
}

}  // namespace auto_block_test
}  // namespace idproxy::ids
