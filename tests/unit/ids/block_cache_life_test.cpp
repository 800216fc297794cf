#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// What each reply of the store means, and a counter's life with each job failing in turn.
namespace idproxy::ids {
namespace block_cache_life_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;

CounterSpec spec_of(std::uint32_t size) {
  CounterSpec spec;
  spec.block.size = size;
  return spec;
}

/// A counter, and inserts that use its numbers or wait for them.
struct Used : BlockCaches {
  explicit Used(std::uint32_t size) : BlockCaches(spec_of(size)) {}

  void want(std::uint64_t n) {
    use(take(n));
    if (error) refused = error->code;
    if (needs_store) waiting.push_back(ask(n));
  }
  void use(const Ranges& ranges) {
    for (const Range& range : ranges) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        const auto number = range.first + static_cast<std::int64_t>(i);
        if (!given.insert(number).second) ADD_FAILURE() << number << " was handed out twice";
      }
    }
  }
  void collide() { cache->collided({*given.rbegin()}, true); }
  std::optional<CounterJob> begin() { return cache->begin(); }
  void succeed(const CounterJob& job) {
    do_job(job);
    use_answers();
  }
  BlockOutcome finish(CounterReply reply) {
    const BlockOutcome outcome = cache->finish(std::move(reply));
    use_answers();
    return outcome;
  }
  void use_answers() {
    std::erase_if(waiting, [this](const Waiting& each) {
      if (each.answer->error()) refused = each.answer->error();
      use(each.answer->numbers());
      return each.answer->count > 0;
    });
  }

  std::vector<Waiting> waiting;
  std::set<std::int64_t> given;
  std::optional<Errc> refused;
};

/// Whether or not somebody waits.
TEST(BlockCacheLife, ActsOnEachReply) {
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
      Used counter(10);
      counter.want(1);
      counter.succeed(*counter.begin());
      if (row.job == Job::heal) {
        counter.collide();
      } else {
        counter.want(6);
      }
      if (waits) counter.want(10);
      const auto job = counter.begin();
      ASSERT_TRUE(job);
      EXPECT_EQ(job->kind, row.job);
      EXPECT_EQ(job->beyond, 10);
      EXPECT_EQ(counter.finish(row.reply), row.outcome);
      EXPECT_EQ(counter.cache->held(), waits && row.held >= 10 ? row.held - 10 : row.held);
      EXPECT_EQ(counter.refused, waits ? row.refusal : std::nullopt);
      const bool failed = row.refusal == Errc::unavailable;
      EXPECT_EQ(counter.cache->due() == counter.clock.monotonic() + 250ms, failed);
    }
  }
}

TEST(BlockCacheLife, GoesOnWithWhatAHealFoundToBeFree) {
  Used counter(7);
  counter.want(2);
  counter.succeed(*counter.begin());
  counter.want(2);  // 3 and 4, which somebody else has stored, as well as 5
  counter.collide();
  EXPECT_EQ(counter.cache->held(), 0U);
  counter.want(1);
  const auto heal = counter.begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->kind, Job::heal);
  counter.finish({Reply::kept, {}, {}, {{5, 1}}});
  EXPECT_EQ(counter.given, (std::set<std::int64_t>{1, 2, 3, 4, 6}));
  counter.want(1);
  EXPECT_TRUE(counter.given.contains(7));
  EXPECT_EQ(counter.refused, std::nullopt);
}

/// Debug builds hold that nothing of before the heal is among what is held.
TEST(BlockCacheLife, IsStoppedDuringAHeal) {
  Used counter(7);
  counter.want(2);
  counter.succeed(*counter.begin());
  counter.collide();
  const auto heal = counter.begin();
  ASSERT_TRUE(heal);
  EXPECT_EQ(heal->kind, Job::heal);
  counter.cache->stop();
  counter.finish({Reply::allocated, {20, 10}});
  EXPECT_EQ(counter.cache->take_lost().size(), 1U);
  const auto back = counter.begin();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, Job::give_back);
}

TEST(BlockCacheLife, FetchesABlockIfAHealFoundNothingFree) {
  Used counter(7);
  counter.want(5);
  counter.succeed(*counter.begin());
  counter.collide();
  counter.want(1);
  ASSERT_TRUE(counter.begin());
  counter.finish({Reply::kept, {}, {}, {{6, 2}}});
  const auto next = counter.begin();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Job::allocate);
  counter.succeed(*next);
  EXPECT_TRUE(counter.given.contains(8));
}

// --- a counter's life, with each job failing in turn ---

struct Step {
  const char* name;
  std::optional<CounterJob> (*job)(Used& counter);
  Job kind;
};

std::optional<CounterJob> wait_until_idle(Used& counter) {
  for (int looks = 0; looks < 20 && counter.cache->due(); ++looks) {
    const auto left = *counter.cache->due() - counter.clock.monotonic();
    if (left > 0s) counter.clock.advance(left);
    if (auto job = counter.begin()) return job;
  }
  return std::nullopt;
}

std::optional<CounterJob> want_more_than_there_is(Used& counter) {
  counter.want(counter.cache->held() + 1);
  return counter.begin();
}

const std::vector<Step>& life() {
  static const std::vector<Step> steps{
      {"the first block", want_more_than_there_is, Job::allocate},
      {"fetched ahead",
       [](Used& counter) {
         counter.want(counter.cache->held() - 4);
         return counter.begin();
       },
       Job::allocate},
      {"somebody waits", want_more_than_there_is, Job::allocate},
      {"after a duplicate",
       [](Used& counter) {
         counter.collide();
         return counter.begin();
       },
       Job::heal},
      {"idle", wait_until_idle, Job::give_back},
      {"after a rest", want_more_than_there_is, Job::allocate},
      {"at the end",
       [](Used& counter) {
         counter.cache->stop();
         return counter.begin();
       },
       Job::give_back},
  };
  return steps;
}

/// The store has failed in the middle of `failed`: it is asked again, for the same.
void recover(Used& counter, const CounterJob& failed, std::chrono::milliseconds after) {
  EXPECT_FALSE(counter.begin());  // not at once
  counter.clock.advance(after);
  const auto again = want_more_than_there_is(counter);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, failed.kind);
  EXPECT_EQ(again->beyond, failed.beyond);
  EXPECT_EQ(again->lost, failed.lost);
  counter.succeed(*again);
}

/// Step `failing` gets `reply` first.
void live(std::size_t failing, Reply reply) {
  Used counter(10);
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
      EXPECT_TRUE(counter.waiting.empty());  // nobody is left without an answer
      if (job->kind != Job::give_back) {
        recover(counter, *job, reply == Reply::failed ? 250ms : 60'000ms);
      }
    }
    EXPECT_TRUE(counter.waiting.empty());
    while (const auto more = counter.begin()) counter.succeed(*more);
  }
  EXPECT_EQ(counter.cache->due(), std::nullopt);
  EXPECT_GE(counter.given.size(), 7U);
}

TEST(BlockCacheLife, LivesThroughEachStepFailing) {
  live(life().size(), Reply::failed);
  for (std::size_t i = 0; i < life().size(); ++i) {
    const bool gives_back = life()[i].kind == Job::give_back;
    const std::vector<Reply> replies = gives_back ? std::vector{Reply::failed, Reply::overtaken}
                                                  : std::vector{Reply::failed, Reply::exhausted};
    for (const Reply reply : replies) {
      SCOPED_TRACE(std::string(life()[i].name) + " gets " +
                   std::to_string(static_cast<int>(reply)));
      live(i, reply);
    }
  }
}

}  // namespace block_cache_life_test
}  // namespace idproxy::ids
