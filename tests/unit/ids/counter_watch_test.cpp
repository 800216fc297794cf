#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "support/block_caches.hpp"

// A counter that is read now and then, to see whether it has gone back.
namespace idproxy::ids {
namespace counter_watch_test {

using namespace std::chrono_literals;
using test::BlockCaches;
using test::Ranges;
using test::Waiting;
using Job = CounterJob::Kind;
using Reply = CounterReply::Kind;

CounterSpec spec_of(std::uint32_t size) {
  CounterSpec spec;
  spec.block.size = size;
  spec.block.prefetch = 0;
  return spec;
}

/// Holds 3 to 10.
struct Watched : ::testing::Test {
  Watched() {
    const Waiting first = counter.ask(2);
    EXPECT_TRUE(counter.work());
    EXPECT_EQ(first.answer->numbers(), (Ranges{{1, 2}}));
    counter.jobs.clear();
    counter.wakes = 0;
  }
  [[nodiscard]] WatchMark mark() { return counter.cache->watch_mark().value(); }

  BlockCaches counter{spec_of(10)};
};

TEST_F(Watched, ACounterThatStandsWhereItShouldOrFurtherIsLeftAlone) {
  for (const std::int64_t next : {11, 12, 5000}) {
    counter.cache->watched(next, mark());
    EXPECT_EQ(counter.wakes, 0);
    EXPECT_FALSE(counter.work());
  }
  EXPECT_EQ(counter.take(1), (Ranges{{3, 1}}));
}

TEST_F(Watched, ACounterThatWentBackIsHealedOnceThatIsConfirmed) {
  counter.value = 5;
  counter.cache->watched(5, mark());
  EXPECT_EQ(counter.wakes, 1);
  EXPECT_EQ(counter.take(1), (Ranges{{3, 1}}));  // nothing is certain yet
  auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::confirm);
  EXPECT_EQ(counter.do_job(*job), BlockOutcome::went_back);
  EXPECT_EQ(counter.take(1), Ranges());
  EXPECT_TRUE(counter.needs_store);
  job = counter.cache->begin();  // without waiting for an insert
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::heal);
  EXPECT_TRUE(job->lost);
  EXPECT_EQ(job->beyond, 10);
  counter.value = 11;
  EXPECT_EQ(counter.do_job(*job), BlockOutcome::used);
  EXPECT_EQ(counter.take(1), (Ranges{{11, 1}}));
}

TEST_F(Watched, ACounterThatSomebodyRemovedHasGoneBack) {
  counter.cache->watched(std::nullopt, mark());
  EXPECT_EQ(counter.wakes, 1);
  auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::confirm);
  EXPECT_EQ(counter.cache->finish({Reply::gone, {}, {}}), BlockOutcome::went_back);
  job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::heal);
  EXPECT_TRUE(job->lost);
}

TEST_F(Watched, ASuspicionThatIsNotConfirmedChangesNothing) {
  counter.cache->watched(5, mark());  // of a primary that had been replaced
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().kind, Job::confirm);
  EXPECT_FALSE(counter.work());
  EXPECT_EQ(counter.take(8), (Ranges{{3, 8}}));
  EXPECT_EQ(counter.cache->take_lost(), Ranges());
}

TEST_F(Watched, NothingComesOfAConfirmationThatFails) {
  for (const Reply reply : {Reply::failed, Reply::unknown}) {
    counter.cache->watched(5, mark());
    ASSERT_TRUE(counter.fail(reply));
    EXPECT_EQ(counter.jobs.back().kind, Job::confirm);
    counter.clock.advance(250ms);
    EXPECT_FALSE(counter.work());  // until the counter is read again
  }
  EXPECT_EQ(counter.take(8), (Ranges{{3, 8}}));
}

TEST_F(Watched, OnlyWhatWasKnownWhenTheReadBeganCounts) {
  const WatchMark before = mark();
  const Waiting waiting = counter.ask(12);
  ASSERT_TRUE(counter.work());
  counter.cache->watched(11, before);  // read before the allocation
  EXPECT_FALSE(counter.work());
}

TEST_F(Watched, ItsOwnStepBackIsNone) {
  const WatchMark before = mark();
  counter.cache->stop();
  ASSERT_TRUE(counter.work());
  counter.cache->watched(3, before);
  EXPECT_FALSE(counter.work());
}

TEST_F(Watched, WhatIsReadWhileNumbersAreGivenBackSaysNothing) {
  const WatchMark before = mark();
  counter.clock.advance(60s);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::give_back);
  EXPECT_EQ(counter.cache->watch_mark(), std::nullopt);
  counter.cache->watched(3, before);
  counter.do_job(*job);
  counter.cache->watched(3, before);
  EXPECT_FALSE(counter.work());
  counter.cache->watched(3, mark());
  EXPECT_FALSE(counter.work());
  counter.cache->watched(2, mark());
  EXPECT_TRUE(counter.work());
}

TEST_F(Watched, AnAllocationConfirmsIt) {
  counter.value = 5;
  counter.cache->watched(5, mark());
  const Waiting waiting = counter.ask(9);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->kind, Job::allocate);
  EXPECT_EQ(counter.do_job(*job), BlockOutcome::went_back);
}

TEST_F(Watched, ASuspicionWaitsForTheJobThatIsUnderWay) {
  const Waiting waiting = counter.ask(9);
  const auto job = counter.cache->begin();
  ASSERT_TRUE(job);
  counter.cache->watched(5, mark());
  EXPECT_FALSE(counter.cache->begin());
  counter.do_job(*job);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.jobs.back().kind, Job::confirm);
  EXPECT_FALSE(counter.work());
}

TEST_F(Watched, AHealThatIsDueIsEnough) {
  counter.cache->collided({1, 2}, true);
  EXPECT_EQ(counter.cache->watch_mark(), std::nullopt);
}

TEST_F(Watched, AsLongAsItIsUsedOrHoldsNumbers) {
  counter.clock.advance(1h);
  EXPECT_NE(counter.cache->watch_mark(), std::nullopt);
  counter.take(8);
  EXPECT_NE(counter.cache->watch_mark(), std::nullopt);
  counter.clock.advance(60s);
  EXPECT_NE(counter.cache->watch_mark(), std::nullopt);
  counter.clock.advance(1s);
  EXPECT_EQ(counter.cache->watch_mark(), std::nullopt);
}

TEST(NotWatched, WithoutNumbersOrWithoutHealing) {
  BlockCaches fresh(spec_of(10));
  EXPECT_EQ(fresh.cache->watch_mark(), std::nullopt);
  CounterSpec off = spec_of(10);
  off.heal.mode = CounterSpec::Heal::Mode::off;
  BlockCaches counter(off);
  const Waiting waiting = counter.ask(1);
  ASSERT_TRUE(counter.work());
  EXPECT_EQ(counter.cache->watch_mark(), std::nullopt);
}

// --- scripts: everything that happens to a counter, in any order ---

/// A counter document that several proxies use, and one of them with a job and a read under way.
class Script {
 public:
  explicit Script(unsigned seed, const CounterSpec& spec) : chance_(seed), counter_(spec) {}

  void step() {
    switch (below(11)) {
      case 0:
      case 1:
        return take();
      case 2:
        return ask();
      case 3:
        return counter_.cache->take_back({std::exchange(used_, {}).value_or(Range{1, 0})});
      case 4:
        return begin();
      case 5:
        return execute();
      case 6:
        return finish();
      case 7:
        return send_read();
      case 8:
        return read();
      case 9:
        return deliver();
      default:
        return others();
    }
  }
  void set_back() { value_ = value_ > 20 ? value_ - 20 : 1; }
  [[nodiscard]] bool noticed() const { return noticed_; }
  [[nodiscard]] bool has_numbers() const { return !counter_.cache->is_new(); }

 private:
  std::uint64_t below(std::uint64_t n) { return chance_() % n; }

  void take() {
    const Ranges got = counter_.take(1 + below(4));
    if (!got.empty()) used_ = got.back();
  }
  void ask() { waiting_.push_back(counter_.ask(1 + below(30))); }
  void begin() {
    counter_.clock.advance(std::chrono::seconds(below(15)));
    if (!job_) job_ = counter_.cache->begin();
  }
  void execute() {
    if (!job_ || reply_) return;
    if (below(12) == 0) {  // no answer, and perhaps it was carried out
      const bool gives_back = job_->kind == Job::give_back;
      reply_ = CounterReply{gives_back ? Reply::given_back : Reply::failed, {}, "the reason"};
      if (below(2) == 0) return;
      (void)carry_out();
    } else {
      reply_ = carry_out();
    }
  }
  CounterReply carry_out() {
    const auto count = static_cast<std::int64_t>(job_->count);
    switch (job_->kind) {
      case Job::give_back:
        if (job_->unused.first + count != value_) return {Reply::overtaken, {}, {}};
        value_ = job_->unused.first;
        return {Reply::given_back, {}, {}};
      case Job::confirm:
        return {Reply::stands, {value_, 0}, {}};
      case Job::heal:
        if (job_->beyond) value_ = std::max(value_, *job_->beyond + 1);
        break;
      case Job::allocate:
        break;
    }
    const std::int64_t first = value_;
    value_ += count;
    return {Reply::allocated, {first, job_->count}, {}};
  }
  void finish() {
    if (!reply_) return;
    const BlockOutcome outcome = counter_.cache->finish(*std::exchange(reply_, {}));
    job_.reset();
    noticed_ = noticed_ || outcome == BlockOutcome::went_back;
    std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.answer->count > 0; });
  }
  void send_read() {
    if (!mark_) mark_ = counter_.cache->watch_mark();
  }
  void read() {
    if (mark_ && !read_) read_ = value_;
  }
  void deliver() {
    if (!read_) return;
    counter_.cache->watched(*std::exchange(read_, {}), *std::exchange(mark_, {}));
  }
  /// Another proxy takes a block, and gives most of it back if nobody has counted past it.
  void others() {
    const bool gives_back = below(2) == 0 && value_ == others_end_;
    value_ += gives_back ? -9 : 10;
    others_end_ = gives_back ? 0 : value_;
  }

  std::mt19937 chance_;
  BlockCaches counter_;
  std::int64_t value_ = 1;
  std::int64_t others_end_ = 0;
  std::optional<Range> used_;
  std::vector<Waiting> waiting_;
  std::optional<CounterJob> job_;
  std::optional<CounterReply> reply_;
  std::optional<WatchMark> mark_;
  std::optional<std::int64_t> read_;
  bool noticed_ = false;
};

TEST(WatchScripts, NobodySetsItBackAndNobodyBelievesIt) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Script script(seed, seed % 2 == 0 ? CounterSpec() : spec_of(10));
    for (int i = 0; i < 1000; ++i) script.step();
    ASSERT_FALSE(script.noticed()) << "seed " << seed;
  }
}

TEST(WatchScripts, ACounterThatIsSetBackIsNoticed) {
  unsigned noticed = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Script script(seed, seed % 2 == 0 ? CounterSpec() : spec_of(10));
    while (!script.has_numbers()) script.step();
    script.set_back();
    for (int i = 0; i < 1000; ++i) script.step();
    noticed += script.noticed() ? 1U : 0U;
  }
  EXPECT_GT(noticed, 15U);  // the others may be faster than this proxy
}

}  // namespace counter_watch_test
}  // namespace idproxy::ids
