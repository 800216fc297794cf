#include "idproxy/ids/block_supply.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "idproxy/ids/held_numbers.hpp"

// The whole of a counter: block_cache_test.cpp. Here: each event by itself, and scripts of them.
namespace idproxy::ids {
namespace block_supply_test {

using namespace std::chrono_literals;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;

CounterSpec spec_of(std::uint32_t size) {
  CounterSpec spec;
  spec.block.size = size;
  return spec;
}

/// A supply with its stock, one queue of whoever waits, and a store with the counter's `value`.
class Counter {
 public:
  explicit Counter(const CounterSpec& spec) : stock(spec.step, spec.max), supply(spec, stock) {}

  [[nodiscard]] Moment moment() const { return {now, needed}; }
  SupplyAction act(SupplyAction action) {
    lost.insert(lost.end(), action.lost.begin(), action.lost.end());
    if (action.wake) ++wakes;
    if (needed > 0 && needed <= stock.count()) take(std::exchange(needed, 0));
    if (action.refusal && needed > 0) {
      refused = action.refusal->code;
      needed = 0;
    }
    return action;
  }
  /// Somebody wants `n` numbers, and waits for them if they are not there.
  void want(std::uint64_t n) {
    if (n <= stock.count()) return take(n);
    const SupplyAction action = act(supply.wanted(moment()));
    if (action.refusal) {
      refused = action.refusal->code;
      return;
    }
    needed += n;
    act(supply.queued(moment()));
  }
  void take(std::uint64_t n) {
    std::vector<Range> ranges;
    stock.take(n, ranges);
    for (const Range& range : ranges) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        const auto number = range.first + static_cast<std::int64_t>(i);
        if (!given.insert(number).second) ADD_FAILURE() << number << " was handed out twice";
      }
    }
    if (stock.count() < supply.threshold()) {
      supply.ran_low();
      ++wakes;
    }
  }
  std::optional<CounterJob> begin() { return act(supply.begin(moment())).job; }
  SupplyAction finish(CounterReply reply) {
    SupplyAction action = act(supply.finish(std::move(reply), moment()));
    act(supply.settled(moment()));
    return action;
  }
  /// As a store does that is up.
  SupplyAction succeed(const CounterJob& job) {
    if (job.kind == Job::give_back) {
      value = job.unused.first;
      return finish({Reply::given_back});
    }
    if (job.kind == Job::confirm) return finish({Reply::stands, {value, 0}});
    const std::int64_t first = value;
    value += static_cast<std::int64_t>(job.count);
    return finish({Reply::allocated, {first, job.count}});
  }
  SupplyAction collide(std::uint64_t n) { return act(supply.collided(n, true, moment())); }
  void stop() { act(supply.stop()); }

  HeldNumbers stock;
  BlockSupply supply;
  std::chrono::nanoseconds now = 1000s;
  std::int64_t value = 1;
  std::uint64_t needed = 0;
  std::optional<Errc> refused;
  int wakes = 0;
  std::set<std::int64_t> given;
  std::vector<Range> lost;
};

TEST(BlockSupply, WakesTheStoreOnceForAllWhoWait) {
  Counter counter(spec_of(10));
  counter.want(1);
  counter.want(1);
  EXPECT_EQ(counter.wakes, 1);
  ASSERT_TRUE(counter.begin());
  counter.want(1);
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_TRUE(counter.supply.asking());
  EXPECT_FALSE(counter.begin());  // one job at a time
}

TEST(BlockSupply, ThresholdIsQuietWhileTheStoreComesAnyway) {
  Counter counter(spec_of(10));
  const std::uint64_t usual = counter.supply.threshold();
  EXPECT_EQ(usual, 5U);
  counter.want(1);
  EXPECT_EQ(counter.supply.threshold(), 0U);  // woken
  const auto job = counter.begin();
  EXPECT_EQ(counter.supply.threshold(), 0U);  // asking
  counter.succeed(*job);
  EXPECT_EQ(counter.supply.threshold(), usual);
}

/// What each reply to a job means, whether or not somebody waits.
TEST(BlockSupply, ActsOnEachReply) {
  struct Row {
    const char* name;
    Job job;
    CounterReply reply;
    std::uint64_t held;           // afterwards, if nobody waits
    std::optional<Errc> refusal;  // of who waits
    BlockOutcome outcome;
  };
  const std::vector<Row> rows{
      {"allocated", Job::allocate, {Reply::allocated, {11, 10}}, 13, {}, BlockOutcome::used},
      {"went back", Job::allocate, {Reply::allocated, {3, 10}}, 0, {}, BlockOutcome::went_back},
      {"nothing",
       Job::allocate,
       {Reply::allocated, {11, 0}},
       3,
       Errc::unavailable,
       BlockOutcome::dropped},
      {"exhausted", Job::allocate, {Reply::exhausted}, 3, Errc::exhausted, BlockOutcome::used},
      {"failed", Job::allocate, {Reply::failed}, 3, Errc::unavailable, BlockOutcome::used},
      {"healed", Job::heal, {Reply::allocated, {50, 10}}, 10, {}, BlockOutcome::used},
      {"healed to old numbers",
       Job::heal,
       {Reply::allocated, {9, 10}},
       0,
       Errc::unavailable,
       BlockOutcome::dropped},
      {"not healed", Job::heal, {Reply::not_healed}, 9, {}, BlockOutcome::used},
      {"heal exhausted", Job::heal, {Reply::exhausted}, 0, Errc::exhausted, BlockOutcome::used},
      {"heal failed", Job::heal, {Reply::failed}, 0, Errc::unavailable, BlockOutcome::used},
  };
  for (const Row& row : rows) {
    for (const bool waits : {false, true}) {
      SCOPED_TRACE(std::string(row.name) + (waits ? ", somebody waits" : ""));
      CounterSpec spec = spec_of(10);
      Counter counter(spec);
      counter.want(1);
      counter.succeed(*counter.begin());
      if (row.job == Job::heal) {
        counter.collide(2);
      } else {
        counter.want(6);
      }
      if (waits) counter.want(10);
      const auto job = counter.begin();
      ASSERT_TRUE(job);
      EXPECT_EQ(job->kind, row.job);
      EXPECT_EQ(job->beyond, 10);
      const SupplyAction action = counter.finish(row.reply);
      EXPECT_EQ(counter.stock.count(), waits && row.held >= 10 ? row.held - 10 : row.held);
      EXPECT_EQ(action.outcome, row.outcome);
      if (waits) {
        EXPECT_EQ(counter.refused, row.refusal);
      } else {
        EXPECT_EQ(counter.refused, std::nullopt);
      }
      const bool failed = row.refusal == Errc::unavailable;
      EXPECT_EQ(counter.supply.due() == counter.now + 250ms, failed);
    }
  }
}

TEST(BlockSupply, WhatWasAllocatedBeforeAHealWaitsForItsEnd) {
  Counter counter(spec_of(10));
  counter.want(1);
  counter.succeed(*counter.begin());
  counter.want(6);
  const auto job = counter.begin();
  counter.collide(2);
  EXPECT_EQ(counter.stock.count(), 0U);
  const SupplyAction action = counter.succeed(*job);
  EXPECT_EQ(action.outcome, BlockOutcome::used);
  EXPECT_EQ(counter.stock.count(), 0U);
  EXPECT_EQ(counter.stock.aside(), (std::vector<Range>{{8, 13}}));
  const auto heal = counter.begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->kind, Job::heal);
  EXPECT_FALSE(heal->lost);
  EXPECT_EQ(heal->beyond, 20);
}

TEST(BlockSupply, GoesOnWithWhatAHealFoundToBeFree) {
  Counter counter(spec_of(7));
  counter.want(2);
  counter.succeed(*counter.begin());
  counter.want(2);  // 3 and 4, which somebody else has stored, as well as 5
  counter.collide(2);
  EXPECT_EQ(counter.stock.count(), 0U);
  counter.want(1);
  const auto heal = counter.begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->kind, Job::heal);
  counter.finish({.kind = Reply::kept, .taken = {{5, 1}}});
  EXPECT_TRUE(counter.given.contains(6));
  EXPECT_FALSE(counter.given.contains(5));
  counter.want(1);
  EXPECT_TRUE(counter.given.contains(7));
  EXPECT_EQ(counter.refused, std::nullopt);
}

TEST(BlockSupply, FetchesABlockIfAHealFoundNothingFree) {
  Counter counter(spec_of(7));
  counter.want(5);
  counter.succeed(*counter.begin());
  counter.collide(2);
  counter.want(1);
  ASSERT_TRUE(counter.begin());
  counter.finish({.kind = Reply::kept, .taken = {{6, 2}}});
  const auto next = counter.begin();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Job::allocate);
  counter.succeed(*next);
  EXPECT_TRUE(counter.given.contains(8));
}

TEST(BlockSupply, ALostCounterThatCannotBeHealedIsExhausted) {
  Counter counter(spec_of(10));
  counter.want(1);
  counter.succeed(*counter.begin());
  counter.want(6);
  counter.value = 2;
  counter.succeed(*counter.begin());
  counter.want(1);
  const auto heal = counter.begin();
  ASSERT_TRUE(heal);
  EXPECT_TRUE(heal->lost);
  counter.finish({Reply::not_healed, {}, "the reason"});
  EXPECT_EQ(counter.stock.count(), 0U);
  EXPECT_EQ(counter.refused, Errc::exhausted);
  EXPECT_TRUE(counter.supply.exhausted());
  EXPECT_TRUE(counter.supply.refused());
  EXPECT_EQ(counter.supply.reason(), "the reason");
  counter.now += 60s;
  counter.want(1);
  EXPECT_TRUE(counter.begin()->lost);
}

TEST(BlockSupply, AnAnswerToARuleOfBeforeDoesNotExhaustTheCounter) {
  CounterSpec spec = spec_of(10);
  Counter counter(spec);
  counter.want(1);
  ASSERT_TRUE(counter.begin());
  spec.max = 1000;
  counter.supply.change(spec);
  counter.finish({Reply::exhausted, {}, "the counter has reached its max"});
  EXPECT_FALSE(counter.refused);
  const auto again = counter.begin();
  ASSERT_TRUE(again);
  counter.finish({Reply::exhausted, {}, "the counter has reached its max"});
  EXPECT_EQ(counter.refused, Errc::exhausted);
  EXPECT_FALSE(counter.begin());
}

TEST(BlockSupply, GivesBackOnceStopped) {
  Counter counter(spec_of(10));
  counter.want(1);
  counter.succeed(*counter.begin());
  counter.stop();
  EXPECT_EQ(counter.supply.due(), std::nullopt);
  EXPECT_EQ(counter.supply.threshold(), 0U);
  counter.want(20);
  EXPECT_EQ(counter.refused, Errc::unavailable);
  const auto job = counter.begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::give_back);
  EXPECT_EQ(job->unused, (Range{2, 9}));
  counter.finish({Reply::not_sent});
  EXPECT_FALSE(counter.begin());  // once
}

// --- a counter's life, with each job failing in turn ---

struct Step {
  const char* name;
  std::optional<CounterJob> (*job)(Counter& counter);
  Job kind;
};

std::optional<CounterJob> wait_until_idle(Counter& counter) {
  for (int looks = 0; looks < 20 && counter.supply.due(); ++looks) {
    counter.now = std::max(counter.now, *counter.supply.due());
    if (auto job = counter.begin()) return job;
  }
  return std::nullopt;
}

std::optional<CounterJob> want_more_than_there_is(Counter& counter) {
  counter.want(counter.stock.count() + 1);
  return counter.begin();
}

const std::vector<Step>& life() {
  static const std::vector<Step> steps{
      {"the first block", want_more_than_there_is, Job::allocate},
      {"fetched ahead",
       [](Counter& counter) {
         counter.want(counter.stock.count() - 4);
         return counter.begin();
       },
       Job::allocate},
      {"somebody waits", want_more_than_there_is, Job::allocate},
      {"after a duplicate",
       [](Counter& counter) {
         counter.collide(1);
         return counter.begin();
       },
       Job::heal},
      {"idle", wait_until_idle, Job::give_back},
      {"after a rest", want_more_than_there_is, Job::allocate},
      {"at the end",
       [](Counter& counter) {
         counter.stop();
         return counter.begin();
       },
       Job::give_back},
  };
  return steps;
}

/// The store has failed in the middle of `failed`: it is asked again, for the same.
void recover(Counter& counter, const CounterJob& failed, std::chrono::milliseconds after) {
  EXPECT_FALSE(counter.begin());  // not at once
  counter.now += after;
  const auto again = want_more_than_there_is(counter);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, failed.kind);
  EXPECT_EQ(again->beyond, failed.beyond);
  EXPECT_EQ(again->lost, failed.lost);
  counter.succeed(*again);
}

/// Step `failing` gets `reply` first.
void live(std::size_t failing, Reply reply) {
  Counter counter(spec_of(10));
  for (std::size_t i = 0; i < life().size(); ++i) {
    SCOPED_TRACE(life()[i].name);
    const auto job = life()[i].job(counter);
    ASSERT_TRUE(job);
    ASSERT_EQ(job->kind, life()[i].kind);
    const std::int64_t before = counter.value;
    if (i != failing) {
      counter.succeed(*job);
    } else {
      counter.finish({reply, {}, "the reason"});
      EXPECT_EQ(counter.value, before);
      EXPECT_EQ(counter.needed, 0U);  // nobody is left without an answer
      if (job->kind != Job::give_back) {
        recover(counter, *job, reply == Reply::failed ? 250ms : 60'000ms);
      }
    }
    EXPECT_EQ(counter.needed, 0U);
    while (const auto more = counter.begin()) counter.succeed(*more);
  }
  EXPECT_EQ(counter.supply.due(), std::nullopt);
  EXPECT_GE(counter.given.size(), 7U);
}

TEST(BlockSupply, LivesThroughEachStepFailing) {
  live(life().size(), Reply::failed);
  for (std::size_t i = 0; i < life().size(); ++i) {
    const bool gives_back = life()[i].kind == Job::give_back;
    const std::vector<Reply> replies = gives_back ? std::vector{Reply::failed, Reply::passed}
                                                  : std::vector{Reply::failed, Reply::exhausted};
    for (const Reply reply : replies) {
      SCOPED_TRACE(std::string(life()[i].name) + " gets " +
                   std::to_string(static_cast<int>(reply)));
      live(i, reply);
    }
  }
}

}  // namespace block_supply_test
}  // namespace idproxy::ids
