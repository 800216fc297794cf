#include <gtest/gtest.h>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// A store that is still finding a new counter's first number.
namespace idproxy::ids {
namespace block_cache_pending_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using Reply = CounterReply::Kind;

TEST(PendingCounter, LetsRequestsWaitAndIsAskedAgainSoon) {
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

TEST(PendingCounter, TurnsIntoWhatTheStoreSaysNext) {
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

TEST(PendingCounter, IsNotAskedOnceNobodyWaits) {
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

}  // namespace block_cache_pending_test
}  // namespace idproxy::ids
