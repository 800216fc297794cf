#include "idproxy/ids/range_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/range_store.hpp"

namespace idproxy::ids {
namespace range_set_test {

using namespace std::chrono_literals;
using test::Ranges;
using test::RangeStore;
using test::Waiting;
using Numbers = std::vector<std::int64_t>;
using Pick = RangesSpec::Pick;

RangesSpec set_spec(std::int64_t count, std::int64_t width, std::uint32_t active,
                    std::optional<std::uint32_t> block = 10) {
  RangesSpec spec;
  spec.name = "orders";
  spec.counter.place.collection = "ranges";
  spec.counter.place.max_field = "MAX_VALUE";
  spec.counter.block.size = block;
  spec.layout = RangesSpec::Layout{count, width, 0};
  spec.active = active;
  return spec;
}

/// The ranges of these numbers.
std::set<std::int64_t> ranges_used(const RangeStore& store, const Numbers& numbers) {
  std::set<std::int64_t> ranges;
  for (const std::int64_t number : numbers) ranges.insert(store.range_of(number));
  return ranges;
}

Numbers sorted(Numbers numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

Numbers all_up_to(std::int64_t end) {
  Numbers all(static_cast<std::size_t>(end));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(RangeSet, RequestsWaitUntilTheRangesAreFound) {
  RangeStore store(set_spec(10, 100, 2));
  EXPECT_EQ(store.take(1), Ranges());
  EXPECT_FALSE(store.error);
  const Waiting waiting = store.ask(3);
  EXPECT_NE(store.set->pending(), "");
  EXPECT_EQ(store.set->statistics().waiting, 1U);
  store.look();
  store.work();
  EXPECT_EQ(waiting.answer->numbers().size(), 1U);
  EXPECT_EQ(store.set->pending(), "");
}

TEST(RangeSet, TakesTurnsAtTheActiveRanges) {
  RangeStore store(set_spec(1000, 1000, 4));
  store.look();
  Numbers all;
  for (int i = 0; i < 400; ++i) {
    const Numbers numbers = store.next(1);
    ASSERT_EQ(numbers.size(), 1U);
    all.push_back(numbers[0]);
  }
  const auto used = ranges_used(store, all);
  EXPECT_EQ(used.size(), 4U);
  for (const std::int64_t range : used) {
    const auto its = std::ranges::count_if(
        all, [&](std::int64_t number) { return store.range_of(number) == range; });
    EXPECT_GE(its, 90) << "of range " << range;
  }
}

TEST(RangeSet, AStickyRangeFetchesAheadAndStays) {
  RangeStore store(set_spec(10, 1000, 1));
  store.look();
  Numbers all;
  for (int i = 0; i < 100; ++i) {
    for (const std::int64_t number : store.next(1)) all.push_back(number);
  }
  EXPECT_EQ(ranges_used(store, all).size(), 1U);
  EXPECT_EQ(all, sorted(all));
  EXPECT_LE(store.done.size(), 12U);
}

TEST(RangeSet, AReplacementComesWhenARangeIsUsedUp) {
  RangeStore store(set_spec(5, 20, 1));
  store.look();
  Numbers all;
  for (int i = 0; i < 100; ++i) {
    const Numbers numbers = store.next(1);
    ASSERT_EQ(numbers.size(), 1U) << i;
    all.push_back(numbers[0]);
  }
  EXPECT_EQ(sorted(all), all_up_to(100));
  EXPECT_EQ(store.next(1), Numbers());
  ASSERT_TRUE(store.error);
  EXPECT_EQ(store.error->code, Errc::exhausted);
  EXPECT_EQ(store.error->reason, "all numbers of the 5 ranges have been handed out");
}

TEST(RangeSet, ARequestMayTakeFromMoreRangesThanAreActive) {
  RangeStore store(set_spec(10, 7, 2));
  store.look();
  EXPECT_EQ(sorted(store.next(70)), all_up_to(70));
}

TEST(RangeSet, NothingIsTakenForARequestThatIsTooLarge) {
  RangeStore store(set_spec(3, 5, 2));
  store.look();
  EXPECT_EQ(store.next(16), Numbers());
  EXPECT_EQ(store.error->code, Errc::exhausted);
  const RangeStatistics statistics = store.set->statistics();
  EXPECT_TRUE(statistics.at_end);
  EXPECT_EQ(statistics.held, 15U);
  EXPECT_EQ(statistics.left, 15U);
  EXPECT_EQ(statistics.live, 0U);
  EXPECT_GT(store.looks, 0);
  EXPECT_EQ(sorted(store.next(15)), all_up_to(15));
  EXPECT_EQ(store.set->statistics().left, 0U);
  EXPECT_EQ(store.next(1), Numbers());
  EXPECT_EQ(store.error->code, Errc::exhausted);
}

TEST(RangeSet, ARangeThatHasNumbersAgainIsUsedAgain) {
  RangeStore store(set_spec(2, 5, 2));
  store.look();
  EXPECT_EQ(store.next(10).size(), 10U);
  EXPECT_EQ(store.next(1), Numbers());
  store.look();
  EXPECT_EQ(store.next(1), Numbers()) << "nothing has changed";
  store.documents[1].next = 7;  // as after a restore; nothing of the field is known here
  store.look();
  const Numbers numbers = store.next(1);
  ASSERT_EQ(numbers.size(), 0U) << "it went back, and heals past what this process had";
  EXPECT_EQ(store.done.back().job.kind, CounterJob::Kind::heal);
}

TEST(RangeSet, OthersUseTheSameRanges) {
  RangeStore store(set_spec(4, 10, 4, 1));
  store.look();
  EXPECT_EQ(store.next(1).size(), 1U);
  for (auto& [number, range] : store.documents) range.next = number == 2 ? 28 : range.last + 9;
  EXPECT_EQ(store.next(2), (Numbers{28, 29})) << "by $inc, some beyond their ends";
  EXPECT_EQ(store.next(1), Numbers());
  EXPECT_TRUE(store.set->statistics().at_end);
}

TEST(RangeSet, RandomTakesEachBlockFromAnotherRange) {
  RangesSpec spec = set_spec(1000, 1000, 1);
  spec.pick = Pick::random;
  RangeStore store(spec);
  store.look();
  std::vector<std::int64_t> ranges;
  std::set<std::int64_t> distinct;
  for (int i = 0; i < 200; ++i) {
    const Numbers numbers = store.next(10);
    ASSERT_EQ(numbers.size(), 10U);
    EXPECT_EQ(ranges_used(store, numbers).size(), 1U);
    ranges.push_back(store.range_of(numbers[0]));
    distinct.insert(numbers.begin(), numbers.end());
  }
  EXPECT_EQ(distinct.size(), 2000U);
  EXPECT_EQ(std::ranges::adjacent_find(ranges), ranges.end());
  EXPECT_GT(std::set<std::int64_t>(ranges.begin(), ranges.end()).size(), 150U);
  const auto mean = std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0}) / 200;
  EXPECT_TRUE(mean > 400 && mean < 600) << mean;
  for (const auto& each : store.done) EXPECT_EQ(each.job.count, 10U);
}

TEST(RangeSet, RandomFetchesTheNextBlockWhileOthersServe) {
  RangesSpec spec = set_spec(1000, 1000, 4, 100);
  spec.pick = Pick::random;
  RangeStore store(spec);
  store.look();
  int waited = 0;
  for (int i = 0; i < 4000; ++i) {
    if (store.take(1).empty()) {
      ++waited;
      ASSERT_EQ(store.next(1).size(), 1U);
    }
    store.work();
  }
  EXPECT_LE(waited, 2);
}

TEST(RangeSet, RandomBlocksGrowWithTheUse) {
  RangesSpec spec = set_spec(1000, 1'000'000, 4, {});
  spec.pick = Pick::random;
  RangeStore store(spec);
  store.look();
  std::set<std::int64_t> distinct;
  for (int i = 0; i < 20'000; ++i) {
    store.clock.advance(1ms);
    for (const std::int64_t number : store.next(1)) distinct.insert(number);
  }
  EXPECT_EQ(distinct.size(), 20'000U);
  EXPECT_LT(store.done.size(), 100U);
  EXPECT_LE(store.set->statistics().held, 10'000U);
}

TEST(RangeSet, RandomUsesUpTheRestOfABlock) {
  RangesSpec spec = set_spec(100, 1000, 1);
  spec.pick = Pick::random;
  RangeStore store(spec);
  store.look();
  Numbers all = store.next(7);
  for (const std::int64_t number : store.next(7)) all.push_back(number);  // 3 from before
  EXPECT_EQ(ranges_used(store, all).size(), 2U);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 14U);
  EXPECT_EQ(store.done.size(), 2U);
}

TEST(RangeSet, UnusedNumbersReturnToTheirRangesAndComeFirst) {
  RangeStore store(set_spec(4, 5, 1, 1));
  store.look();
  const Numbers numbers = store.next(8);
  ASSERT_EQ(numbers.size(), 8U);
  store.set->take_back({{numbers[0], 2}, {numbers[7], 1}});
  EXPECT_EQ(sorted(store.next(3)), sorted({numbers[0], numbers[1], numbers[7]}));
}

TEST(RangeSet, APieceThatReachesOverTheEndOfARangeIsSplit) {
  RangeStore store(set_spec(2, 5, 2, 1));
  store.look();
  EXPECT_EQ(store.next(10).size(), 10U);
  store.set->take_back({{3, 4}});  // 3 and 4, 5 and 6
  EXPECT_EQ(sorted(store.next(4)), (Numbers{3, 4, 5, 6}));
}

TEST(RangeSet, AGrantThatNobodyTakesReturns) {
  RangeStore store(set_spec(4, 5, 1, 1));
  store.look();
  {
    const Waiting gone = store.ask(3);
    store.work();
    EXPECT_TRUE(gone.answer->grant->has_value());
  }
  EXPECT_EQ(store.set->statistics().held, 3U);
  EXPECT_EQ(store.next(3).size(), 3U);
  EXPECT_EQ(store.done.size(), 1U);
}

/// Else its numbers could be on their way back while somebody draws.
TEST(RangeSet, WhoOnlyWantsNumbersTakesNone) {
  RangeStore store(set_spec(1, 100, 1));
  store.look();
  Ranges drawn;
  class Drawing final : public Waiter {
   public:
    Drawing(RangeStore& from, Ranges& out) : from_(from), out_(out) {}
    void answered(Result<Grant> /*grant*/) override { out_ = from_.take(2); }

   private:
    RangeStore& from_;
    Ranges& out_;
  };
  const Ticket first = store.set->ask(1, std::make_unique<Drawing>(store, drawn));
  const Ticket wanting = store.set->ask(3, std::make_unique<Nobody>());
  store.work();
  EXPECT_EQ(drawn, (Ranges{{1, 2}}));
  EXPECT_EQ(store.next(1), Numbers{0});
  const std::uint64_t held = store.set->statistics().held;
  const Ticket again = store.set->ask(held, std::make_unique<Nobody>());
  EXPECT_EQ(store.next(held).size(), held);
  const Ticket refused = store.set->ask(1000, std::make_unique<Nobody>());
  store.work();
  EXPECT_TRUE(store.set->statistics().at_end);
  EXPECT_EQ(store.set->statistics().left, store.set->statistics().held);
}

TEST(RangeSet, DuplicatesHealTheirOwnRange) {
  RangeStore store(set_spec(10, 1000, 1));
  store.look();
  const Numbers numbers = store.next(2);
  const std::int64_t range = store.range_of(numbers[0]);
  store.set->collided(numbers, false);
  store.work();
  ASSERT_EQ(store.done.back().job.kind, CounterJob::Kind::heal);
  EXPECT_EQ(store.done.back().range, range);
  EXPECT_EQ(store.range_of(store.next(1).at(0)), range);
}

TEST(RangeSet, ASuccessEndsTheRowOfDuplicates) {
  RangeStore store(set_spec(10, 1000, 1));
  store.look();
  const Numbers numbers = store.next(2);
  store.set->collided({numbers[0]}, false);
  store.set->went_well();
  store.set->collided({numbers[1]}, false);
  store.work();
  EXPECT_EQ(store.done.size(), 1U);
}

TEST(RangeSet, WhileTheStoreIsDownRequestsFail) {
  RangeStore store(set_spec(10, 1000, 2));
  store.look();
  EXPECT_EQ(store.next(1).size(), 1U);
  store.is_down = true;
  const std::uint64_t held = store.set->statistics().held;
  EXPECT_EQ(store.next(held).size(), held);
  EXPECT_EQ(store.next(1), Numbers());
  ASSERT_TRUE(store.error);
  EXPECT_EQ(store.error->code, Errc::unavailable);
  EXPECT_EQ(store.error->reason, "the store is down");
  EXPECT_EQ(store.set->statistics().live, 10U);
  store.is_down = false;
  store.clock.advance(2s);
  EXPECT_EQ(store.next(1).size(), 1U);
}

TEST(RangeSet, OneRangeThatGivesNoNumbersIsLeftOut) {
  RangeStore store(set_spec(3, 10, 3));
  store.faults[1] = "the value of range 1 is not an integer";
  store.look();
  Numbers all;
  for (int i = 0; i < 12; ++i) {
    for (const std::int64_t number : store.next(1)) all.push_back(number);
  }
  EXPECT_EQ(ranges_used(store, all), (std::set<std::int64_t>{0, 2}));
  EXPECT_EQ(store.set->statistics().live, 2U);
}

TEST(RangeSet, AReasonThatTwoRangesGiveIsEverybodys) {
  RangeStore store(set_spec(1000, 10, 4));
  for (int i = 0; i < 1000; ++i) store.faults[i] = "the user needs readWrite";
  store.look();
  EXPECT_EQ(store.next(1), Numbers());
  ASSERT_TRUE(store.error);
  EXPECT_EQ(store.error->reason, "the user needs readWrite");
  EXPECT_EQ(store.done.size(), 2U);
  EXPECT_EQ(store.looks, 1);
  EXPECT_FALSE(store.set->statistics().at_end);
  store.faults.clear();
  store.look();
  EXPECT_EQ(store.next(1).size(), 1U);
}

TEST(RangeSet, ARefusalHoldsUntilTheRangesAreFound) {
  RangeStore store(set_spec(10, 10, 1));
  const Waiting waiting = store.ask(1);
  store.set->refuse({Errc::exhausted, "two ranges overlap"});
  EXPECT_EQ(waiting.answer->error(), Errc::exhausted);
  EXPECT_EQ(store.next(1), Numbers());
  EXPECT_EQ(store.error->reason, "two ranges overlap");
  EXPECT_EQ(store.set->statistics().refusal->reason, "two ranges overlap");
  store.look();
  EXPECT_EQ(store.next(1).size(), 1U);
}

TEST(RangeSet, OtherRangesReplaceThem) {
  RangeStore store(set_spec(10, 10, 2));
  store.look();
  EXPECT_EQ(store.next(3).size(), 3U);
  const Waiting waiting = store.ask(40);
  store.documents.erase(store.documents.begin(), std::next(store.documents.begin(), 5));
  store.look();
  store.work();
  const Numbers numbers = RangeStore::numbers_of(waiting.answer->numbers());
  EXPECT_EQ(numbers.size(), 40U);
  EXPECT_GE(*std::ranges::min_element(numbers), 50);
  EXPECT_EQ(store.set->statistics().all, 5U);
}

TEST(RangeSet, WhoLeavesTheQueueDelaysNobody) {
  RangeStore store(set_spec(2, 10, 1, 1));
  store.look();
  Waiting large = store.ask(20);
  const Waiting small = store.ask(2);
  large.ticket = {};
  store.work();
  EXPECT_EQ(large.answer->count, 0);
  EXPECT_EQ(RangeStore::numbers_of(small.answer->numbers()).size(), 2U);
}

TEST(RangeSet, RequestsAreServedInOrder) {
  RangeStore store(set_spec(10, 100, 2, 1));
  store.look();
  const Waiting first = store.ask(50);
  const Waiting second = store.ask(1);
  EXPECT_EQ(second.answer->count, 0);
  store.work();
  EXPECT_EQ(RangeStore::numbers_of(first.answer->numbers()).size(), 50U);
  EXPECT_EQ(RangeStore::numbers_of(second.answer->numbers()).size(), 1U);
}

TEST(RangeSet, RandomRequestsWaitForOneBlock) {
  RangesSpec spec = set_spec(100, 1000, 4, 100);
  spec.pick = Pick::random;
  RangeStore store(spec);
  store.look();
  std::vector<Waiting> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(store.ask(2));
  store.work();
  Numbers all;
  for (const Waiting& each : waiting) {
    for (const std::int64_t number : RangeStore::numbers_of(each.answer->numbers())) {
      all.push_back(number);
    }
  }
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 40U);
  EXPECT_EQ(ranges_used(store, all).size(), 1U);
  EXPECT_EQ(store.done.size(), 1U);
}

TEST(RangeSet, WhatARequestHasTakenReturnsIfItGetsAnError) {
  RangeStore store(set_spec(4, 100, 1));
  store.look();
  EXPECT_EQ(store.next(2).size(), 2U);
  store.is_down = true;
  const std::uint64_t held = store.set->statistics().held;
  EXPECT_EQ(store.next(held + 1), Numbers());
  EXPECT_EQ(store.error->code, Errc::unavailable);
  EXPECT_EQ(store.set->statistics().held, held);
  EXPECT_EQ(store.next(held).size(), held);
}

TEST(RangeSet, StatisticsCountWhatIsLeft) {
  RangeStore store(set_spec(10, 100, 2));
  store.documents[3].next = 350;
  store.look();
  const RangeStatistics before = store.set->statistics();
  EXPECT_EQ(before.total, 1000U);
  EXPECT_EQ(before.left, 950U);
  EXPECT_EQ(before.live, 10U);
  EXPECT_EQ(before.held, 0U);
  ASSERT_TRUE(before.next);
  const std::int64_t next = *before.next;
  EXPECT_EQ(store.next(1), Numbers{next});
  EXPECT_EQ(store.set->statistics().left, 949U);
}

/// Requests of all sizes, some of whose numbers return, until no number is left.
TEST(RangeSet, NoNumberIsGivenTwiceAndNoneIsLost) {
  for (const Pick pick : {Pick::sticky, Pick::random}) {
    RangesSpec spec = set_spec(40, 50, 3, 7);
    spec.pick = pick;
    RangeStore store(spec);
    store.look();
    test::SeededRandom chance(7);
    std::set<std::int64_t> out;
    while (out.size() < 2000) {
      const std::uint64_t n = std::min<std::uint64_t>(1 + uniform(chance, 60), 2000 - out.size());
      const Numbers numbers = store.next(n);
      ASSERT_EQ(numbers.size(), n) << out.size();
      for (const std::int64_t number : numbers) {
        if (uniform(chance, 10) == 0) {
          store.set->take_back({{number, 1}});
        } else {
          EXPECT_TRUE(out.insert(number).second) << number;
        }
      }
      if (uniform(chance, 20) == 0) store.look();
    }
    EXPECT_EQ(store.next(1), Numbers());
  }
}

/// Clients in threads of their own, a store in another, and no sleep between.
/// Hands the answer to the thread that waits for it.
class PromisedAnswer final : public Waiter {
 public:
  explicit PromisedAnswer(std::promise<Result<Grant>> answer) : answer_(std::move(answer)) {}
  void answered(Result<Grant> grant) override { answer_.set_value(std::move(grant)); }

 private:
  std::promise<Result<Grant>> answer_;
};

TEST(RangeSet, ThreadsGetDistinctNumbers) {
  for (const Pick pick : {Pick::sticky, Pick::random}) {
    RangesSpec spec = set_spec(50, 400, 3, 50);
    spec.pick = pick;
    RangeStore store(spec);
    store.look();
    std::array<Numbers, 3> taken;
    std::jthread worker([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        store.work();
        std::this_thread::yield();  // otherwise nobody else gets the store's lock
      }
    });
    {
      std::vector<std::jthread> clients;
      for (Numbers& its : taken) {
        clients.emplace_back([&] {
          Ranges ranges;
          while (its.size() < 2000) {
            ranges.clear();
            const std::uint64_t n = 2 + its.size() % 6;
            if (!store.set->take(n, ranges)) {
              std::promise<Result<Grant>> answer;
              std::future<Result<Grant>> grant = answer.get_future();
              const Ticket ticket =
                  store.set->ask(n, std::make_unique<PromisedAnswer>(std::move(answer)));
              ranges = grant.get()->take();
            }
            const Numbers numbers = RangeStore::numbers_of(ranges);
            store.set->take_back({{numbers.back(), 1}});
            its.insert(its.end(), numbers.begin(), std::prev(numbers.end()));
          }
        });
      }
    }
    std::set<std::int64_t> all;
    std::size_t count = 0;
    for (const Numbers& its : taken) {
      count += its.size();
      all.insert(its.begin(), its.end());
    }
    EXPECT_EQ(all.size(), count);
  }
}

}  // namespace range_set_test
}  // namespace idproxy::ids
