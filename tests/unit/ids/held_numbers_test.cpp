#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// The numbers that a BlockCache holds: which of them return, and which are handed out again.
namespace idproxy::ids {
namespace held_numbers_test {

using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

CounterSpec spec_of(std::int64_t max) {
  CounterSpec spec;
  spec.block.size = 10;
  spec.block.prefetch = 0;
  spec.max = max;
  return spec;
}

/// Holds 4 to 10, or up to max; 1 to 3 are in use.
struct Some : BlockCaches {
  explicit Some(std::int64_t max = kMax) : BlockCaches(spec_of(max)) {
    const Waiting waiting = ask(3);
    EXPECT_TRUE(work());
    EXPECT_EQ(waiting.answer->numbers(), (Ranges{{1, 3}}));
  }
  /// Does the next job, a `kind`.
  BlockOutcome answer(Job kind, CounterReply reply) {
    const auto job = cache->begin();
    EXPECT_TRUE(job && job->kind == kind);
    return cache->finish(std::move(reply));
  }
  /// A job gets numbers for a request that has left.
  BlockOutcome fetch(Range range) {
    auto waiting = std::make_optional(ask(cache->held() + 1));
    const auto job = cache->begin();
    EXPECT_TRUE(job);
    waiting.reset();
    return cache->finish({Reply::allocated, range});
  }
  void give_back() {
    cache->let_go();
    EXPECT_TRUE(work());
    EXPECT_EQ(jobs.back().kind, Job::give_back);
  }
  void change_max(std::int64_t max) { cache->change(spec_of(max)); }
  Ranges take_all() { return take(cache->held()); }
};

TEST(HeldNumbers, KnowsWhatComesNextAndHowMuchIsLeft) {
  CounterSpec spec = spec_of(100);
  spec.step = 5;
  spec.block.size = 2;
  BlockCaches counter(spec, 50);
  const auto next = [&] { return counter.cache->statistics().next; };
  const auto left = [&] { return counter.cache->statistics().left; };
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(left(), std::nullopt);
  {
    const Waiting gone = counter.ask(1);
    ASSERT_TRUE(counter.work());
  }
  EXPECT_EQ(next(), 50);
  EXPECT_EQ(left(), 11U);
  EXPECT_EQ(counter.take(2), (Ranges{{50, 2}}));
  EXPECT_EQ(next(), 60);
  EXPECT_EQ(left(), 9U);
  counter.cache->take_back({{55, 1}});
  EXPECT_EQ(next(), 55);
  EXPECT_EQ(left(), 10U);
  const Waiting waiting = counter.ask(2);
  ASSERT_TRUE(counter.cache->begin());
  counter.cache->finish({Reply::allocated, {60, 20}});  // beyond max
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{55, 2}}));
  EXPECT_EQ(left(), 8U);
  EXPECT_EQ(counter.take(8), (Ranges{{65, 8}}));
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(left(), 0U);
}

TEST(HeldNumbers, HasTheWholeRangeOfInt64Left) {
  CounterSpec spec = spec_of(std::numeric_limits<std::int64_t>::min());
  spec.step = -1;
  BlockCaches counter(spec);
  {
    const Waiting gone = counter.ask(1);
    ASSERT_TRUE(counter.cache->begin());
    counter.cache->finish({Reply::allocated, {kMax, 1}});
  }
  EXPECT_EQ(counter.cache->statistics().left, std::numeric_limits<std::uint64_t>::max());
}

TEST(HeldNumbers, WhatAHealFindsToBeTakenDoesNotComeBack) {
  Some counter;
  auto waiting = std::make_optional(counter.ask(8));
  ASSERT_TRUE(counter.cache->begin());
  waiting.reset();
  counter.cache->collided({1}, true);
  counter.cache->finish({Reply::allocated, {11, 5}});
  const auto heal = counter.cache->begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->held, (Ranges{{4, 12}}));
  EXPECT_EQ(counter.take(1), Ranges());
  counter.cache->finish({Reply::kept, {}, {}, {{4, 2}, {9, 1}, {14, 2}}});
  EXPECT_EQ(counter.take_all(), (Ranges{{6, 3}, {10, 4}}));
}

TEST(HeldNumbers, WhatWentBackNeverComesBack) {
  Some counter;
  EXPECT_EQ(counter.fetch({5, 10}), BlockOutcome::went_back);
  counter.cache->take_back({{2, 1}});
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_EQ(counter.answer(Job::heal, {Reply::allocated, {11, 2}}), BlockOutcome::used);
  EXPECT_EQ(counter.take_all(), (Ranges{{11, 2}}));
}

TEST(HeldNumbers, WhatIsNotGivenBackDuringAHealIsSetAside) {
  Some counter;
  counter.cache->let_go();
  ASSERT_TRUE(counter.cache->begin());
  counter.cache->collided({1}, true);
  counter.cache->finish({Reply::not_sent});
  EXPECT_EQ(counter.cache->held(), 0U);
  counter.answer(Job::heal, {Reply::not_healed});
  EXPECT_EQ(counter.take_all(), (Ranges{{4, 7}}));
}

/// Another process can then give back the numbers before: the counter does not go back by that.
TEST(HeldNumbers, OfABlockThatWentBackAsAWholeNothingIsLeft) {
  Some counter;
  counter.fetch({21, 10});
  counter.fetch({31, 10});  // the same numbers in a row
  counter.value = 41;
  counter.give_back();
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{4, 7}}));
  EXPECT_EQ(counter.value, 21);
  EXPECT_EQ(counter.fetch({15, 5}), BlockOutcome::used);
  EXPECT_EQ(counter.take(1), (Ranges{{15, 1}}));
  counter.value = 20;
  counter.give_back();
  EXPECT_EQ(counter.value, 16);
  EXPECT_EQ(counter.fetch({15, 5}), BlockOutcome::went_back);  // 15 is used
}

TEST(HeldNumbers, WithNothingLeftItIsNewAgain) {
  BlockCaches counter(spec_of(kMax), 21);
  {
    const Waiting gone = counter.ask(1);
    ASSERT_TRUE(counter.work());
  }
  counter.cache->let_go();
  ASSERT_TRUE(counter.work());
  EXPECT_TRUE(counter.cache->is_new());
  counter.value = 5;
  const Waiting waiting = counter.ask(2);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(waiting.answer->numbers(), (Ranges{{5, 2}}));
}

/// Numbers of a cache that was forgotten, and whose counter was set back later, return to the cache
/// that has taken its place.
TEST(HeldNumbers, ThoseOfACacheBeforeThisOneMayReturnAtAnyTime) {
  Some counter;
  counter.fetch({21, 10});
  counter.cache->let_go();
  ASSERT_TRUE(counter.cache->begin());
  counter.cache->take_back({{9, 1}, {15, 1}, {25, 1}});
  counter.cache->finish({Reply::given_back});
  EXPECT_EQ(counter.take_all(), (Ranges{{9, 1}}));
  counter.fetch({31, 10});
  counter.cache->take_back({{4, 27}});
  EXPECT_EQ(counter.cache->held(), 37U);
  counter.cache->let_go();
  ASSERT_TRUE(counter.cache->begin());
  counter.cache->finish({Reply::given_back});
  EXPECT_EQ(counter.cache->held(), 0U);
}

TEST(HeldNumbers, BeyondMaxNothingIsLeftOfACounterThatWentBack) {
  CounterSpec spec = spec_of(6);
  spec.heal.mode = CounterSpec::Heal::Mode::off;
  BlockCaches counter(spec);
  const Waiting waiting = counter.ask(3);
  ASSERT_TRUE(counter.work());
  counter.cache->change(spec);  // it asks again
  const Waiting more = counter.ask(4);
  ASSERT_TRUE(counter.cache->begin());
  EXPECT_EQ(counter.cache->finish({Reply::allocated, {5, 10}}), BlockOutcome::went_back);
  spec.max = kMax;
  counter.cache->change(spec);
  EXPECT_EQ(counter.take(1), Ranges());
}

TEST(HeldNumbers, AreLostIfTheProcessEndsWithoutTheStore) {
  Some counter;
  counter.fetch({21, 10});
  counter.cache->take_back({{3, 1}});  // it was in use
  EXPECT_EQ(counter.cache->lose_all(), (Ranges{{3, 8}, {21, 10}}));
  EXPECT_EQ(counter.cache->lose_all(), Ranges());
}

TEST(HeldNumbers, BeyondMaxNothingIsHandedOut) {
  Some counter(6);
  EXPECT_EQ(counter.cache->held(), 3U);
  counter.change_max(8);
  EXPECT_EQ(counter.cache->held(), 5U);
  counter.change_max(3);
  EXPECT_EQ(counter.cache->held(), 0U);
  counter.cache->take_back({{2, 2}});
  counter.change_max(kMax);
  EXPECT_EQ(counter.take_all(), (Ranges{{2, 9}}));
}

/// 1 to 3 are in use, and 4 to 6; 7 may come back with a larger max, 3 may not.
TEST(HeldNumbers, BeyondMaxWhatComesBackNoMoreIsLost) {
  Some counter;
  EXPECT_EQ(counter.take(3), (Ranges{{4, 3}}));
  counter.cache->take_back({{2, 2}});
  counter.change_max(2);
  EXPECT_EQ(counter.cache->held(), 1U);
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{3, 1}}));
  counter.cache->take_back({{5, 1}});
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{5, 1}}));
  counter.change_max(kMax);
  EXPECT_EQ(counter.take_all(), (Ranges{{2, 1}, {7, 4}}));
  EXPECT_EQ(counter.cache->take_lost(), Ranges());
}

/// Those that are on their way back reach beyond the old max.
struct OnTheirWay : Some {
  OnTheirWay() {
    change_max(5);
    cache->let_go();
    const auto job = cache->begin();
    EXPECT_TRUE(job && job->kind == Job::give_back);
    EXPECT_EQ(job->unused.first, 4);
    EXPECT_EQ(job->unused.count, 7U);
    change_max(kMax);
    EXPECT_EQ(take(5), Ranges());
  }
};

TEST(HeldNumbers, BeyondMaxNothingIsHandedOutThatIsGivenBack) {
  OnTheirWay counter;
  counter.cache->finish({Reply::given_back});
  EXPECT_EQ(counter.take_all(), Ranges());
  counter.fetch({4, 7});
  EXPECT_EQ(counter.take_all(), (Ranges{{4, 7}}));
}

TEST(HeldNumbers, BeyondMaxAllIsHandedOutThatIsNotGivenBack) {
  OnTheirWay counter;
  counter.cache->finish({Reply::not_sent});
  counter.change_max(kMax);
  EXPECT_EQ(counter.take_all(), (Ranges{{4, 7}}));
}

TEST(HeldNumbers, BeyondMaxWhatIsLostIsHandedOutNoMore) {
  OnTheirWay counter;
  counter.cache->finish({Reply::overtaken});
  EXPECT_EQ(counter.cache->take_lost(), (Ranges{{4, 7}}));
  counter.change_max(kMax);
  EXPECT_EQ(counter.take_all(), Ranges());
}

TEST(HeldNumbers, BeyondALowerMaxAllIsKeptThatIsNotGivenBack) {
  Some counter;
  counter.cache->let_go();
  ASSERT_TRUE(counter.cache->begin());
  counter.change_max(5);
  counter.cache->finish({Reply::not_sent});
  EXPECT_EQ(counter.cache->held(), 2U);
  counter.change_max(kMax);
  EXPECT_EQ(counter.take_all(), (Ranges{{4, 7}}));
}

TEST(HeldNumbers, BeyondMaxDuringAHealAllIsSetAside) {
  Some counter(6);
  counter.cache->collided({1}, true);
  counter.change_max(8);
  EXPECT_EQ(counter.cache->held(), 0U);
  counter.answer(Job::heal, {Reply::not_healed});
  EXPECT_EQ(counter.take_all(), (Ranges{{4, 5}}));
}

}  // namespace held_numbers_test
}  // namespace idproxy::ids
