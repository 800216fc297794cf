#include "idproxy/ids/machine_lease.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "support/machine_leases.hpp"
#include "support/scripted_random.hpp"

namespace idproxy::ids {
namespace machine_lease_test {

using namespace std::chrono_literals;
using test::LeaseHolder;

constexpr std::int64_t kStart = 1'735'689'600'000;
constexpr SnowflakeLayout kLayout{.sequence_bits = 2};

class MachineLeaseTest : public ::testing::Test {
 protected:
  MachineLeaseTest() { clock_.set(std::chrono::milliseconds(kStart)); }

  static LeaseSpec spec() { return {.name = "default", .numbers = 4}; }
  LeaseHolder holder(const LeaseSpec& spec = MachineLeaseTest::spec()) {
    return {store_, spec, {clock_, random_}};
  }
  /// All clocks go on.
  void pass(std::chrono::nanoseconds time) {
    clock_.advance(time);
    store_.now += time;
  }
  /// "time after kStart: machine.sequence", or why there is none.
  static std::string take(const LeaseHolder& holder, std::uint64_t n = 1) {
    const auto taken = holder.lease->take(kLayout, n);
    if (!taken) return "need";
    return *taken ? text_of(**taken) : taken->error().reason;
  }
  static std::string text_of(std::int64_t id) {
    const std::int64_t position = kLayout.position_in(id);
    return std::to_string(kLayout.time_of(position >> 2) - kStart) + ": " +
           std::to_string(kLayout.machine_in(id)) + "." + std::to_string(position & 3);
  }
  static std::string answer(const test::Waiting& waiting) {
    if (!waiting.answer->grant) return "waits";
    if (!*waiting.answer->grant) return waiting.answer->grant->error().reason;
    return text_of((*waiting.answer->grant)->take().at(0).first);
  }

  test::FakeClock clock_;
  test::SeededRandom random_;
  test::MachineStore store_;
};

TEST_F(MachineLeaseTest, SucceedsAfterAClaim) {
  auto one = holder();
  EXPECT_EQ(take(one), "need");
  const auto first = one.ask(kLayout, 2);
  EXPECT_EQ(one.woken, 1);
  EXPECT_EQ(one.work(), 1);
  EXPECT_EQ(answer(first), "0: 0.0");
  EXPECT_EQ(take(one), "0: 0.2");
  auto other = holder();
  other.work();
  EXPECT_EQ(take(other), "0: 1.0");
}

TEST_F(MachineLeaseTest, AFullSequenceWaitsForTheClock) {
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one, 4), "0: 0.0");
  EXPECT_EQ(take(one), "need");
  const auto six = one.ask(kLayout, 6);
  const auto last = one.ask(kLayout, 1);
  EXPECT_EQ(take(one), "need");  // no one goes ahead
  one.work();
  EXPECT_EQ(*one.lease->due() - clock_.monotonic(), 2ms);
  pass(1ms);
  one.work();
  EXPECT_EQ(answer(six), "waits");
  pass(1ms);
  one.work();
  EXPECT_EQ(answer(six), "1: 0.0");
  EXPECT_EQ(answer(last), "2: 0.2");
}

/// All others would wait behind it, until it has waited in vain.
TEST_F(MachineLeaseTest, FailsAtOnceIfThereAreTooManyForTheTime) {
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one, 8005),
            "so many ids at once take longer than 2 s: ask for at most 8004 in one command");
  EXPECT_EQ(take(one), "0: 0.0");
}

TEST_F(MachineLeaseTest, AStepBackBorrowsTimeUpToTheCeiling) {
  auto one = holder();
  one.work();
  pass(5ms);
  EXPECT_EQ(take(one, 4), "5: 0.0");
  clock_.advance(-1h);
  EXPECT_EQ(take(one, 5), "6: 0.0");
  EXPECT_EQ(take(one, 3), "7: 0.1");
  for (int i = 8; i < 29'997; ++i) EXPECT_EQ(take(one, 4), std::to_string(i) + ": 0.0");
  EXPECT_EQ(take(one, 16), "29997: 0.0");
  EXPECT_EQ(take(one), "need");
  // To renew does not help. Another number's ids follow the clock.
  const auto waiting = one.ask(kLayout, 1);
  EXPECT_EQ(one.work(), 2);
  EXPECT_EQ(answer(waiting), "-3599995: 1.0");
  EXPECT_EQ(store_.numbers[0].ceiling, kStart + 30'000);
}

TEST_F(MachineLeaseTest, AStepAheadNeedsAnotherCeiling) {
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one), "0: 0.0");
  clock_.set(std::chrono::milliseconds(kStart) + 1h);
  EXPECT_EQ(take(one), "need");
  const auto waiting = one.ask(kLayout, 1);
  EXPECT_EQ(one.work(), 1);
  EXPECT_EQ(answer(waiting), "3600000: 0.0");
  EXPECT_EQ(store_.numbers[0].ceiling, kStart + 3'630'000);
}

TEST_F(MachineLeaseTest, RenewsAtAThird) {
  auto one = holder();
  one.work();
  EXPECT_EQ(*one.lease->due() - clock_.monotonic(), 10s);
  pass(10s);
  EXPECT_EQ(one.work(), 1);
  EXPECT_EQ(store_.numbers[0].ceiling, kStart + 40'000);
  EXPECT_EQ(*one.lease->due() - clock_.monotonic(), 10s);
}

TEST_F(MachineLeaseTest, FailsWhenTheLeaseCannotBeRenewed) {
  auto one = holder();
  one.work();
  store_.is_down = true;
  pass(10s);
  one.work();
  EXPECT_EQ(take(one), "10000: 0.0");
  EXPECT_FALSE(one.lease->failure());
  pass(17s);
  EXPECT_EQ(take(one), "need");
  const auto waiting = one.ask(kLayout, 1);
  one.work();
  const std::string lost =
      "the lease on machine number 0 is lost, since it could not be renewed: down";
  EXPECT_EQ(answer(waiting), lost);
  EXPECT_EQ(take(one), lost);
  EXPECT_EQ(one.lease->failure()->reason, lost);
  EXPECT_EQ(one.lease->failure()->code, Errc::unavailable);
  // Nobody has claimed it meanwhile.
  store_.is_down = false;
  pass(1s);
  one.work();
  EXPECT_EQ(take(one), "28000: 0.0");
}

TEST_F(MachineLeaseTest, AProxyThatWasPausedClaimsAnotherNumber) {
  auto paused = holder();
  paused.work();
  EXPECT_EQ(take(paused, 3), "0: 0.0");
  pass(31s);
  for (int i = 0; i < 4; ++i) store_.numbers[i].ceiling = kStart + 30'000;
  auto other = holder();
  other.work();
  EXPECT_EQ(take(other), "31000: 0.0");
  const auto waiting = paused.ask(kLayout, 1);
  EXPECT_EQ(paused.work(), 2);
  EXPECT_EQ(answer(waiting), "31000: 1.0");
}

TEST_F(MachineLeaseTest, NothingIsRepeatedWhateverTheClocksOfTwoProxiesSay) {
  std::set<std::int64_t> all;
  const auto note = [&](std::int64_t id) { EXPECT_TRUE(all.insert(id).second) << text_of(id); };
  LeaseSpec scarce = spec();
  scarce.numbers = 1;
  for (const std::chrono::nanoseconds step :
       {0ns, 500'000'000ns, -900'000'000ns, 31'000'000'000ns}) {
    auto one = holder(scarce);
    one.work();
    for (int i = 0; i < 5; ++i) {
      const auto taken = one.lease->take(kLayout, 1);
      if (taken && *taken) note(**taken);
    }
    one.lease->stop();
    one.work();
    store_.now += 1ms;
    clock_.advance(step);
  }
  EXPECT_EQ(all.size(), 13U);
}

TEST_F(MachineLeaseTest, ACleanStopKeepsWhatWasUsed) {
  auto one = holder();
  one.work();
  pass(7ms);
  EXPECT_EQ(take(one), "7: 0.0");
  one.lease->stop();
  EXPECT_EQ(take(one), "the proxy ends");
  EXPECT_EQ(one.work(), 1);
  EXPECT_EQ(store_.numbers[0].ceiling, kStart + 7);
  EXPECT_EQ(store_.numbers[0].expires, store_.now);
  EXPECT_FALSE(one.lease->due());
}

TEST_F(MachineLeaseTest, ANumberWhoseIdsAreFarAheadIsLeftAlone) {
  for (int i = 0; i < 4; ++i) store_.numbers[i].ceiling = kStart + 1001;
  store_.numbers[2].ceiling = kStart + 900;
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one, 5), "901: 2.0");  // at once: the clock is behind
  auto other = holder();
  other.work();
  EXPECT_EQ(take(other), "all are held");
}

TEST_F(MachineLeaseTest, ReloadsChangeTheNumber) {
  auto one = holder();
  one.work();
  LeaseSpec fixed = spec();
  fixed.id = 3;
  one.lease->share(fixed, MachineLease::Rules::anew);
  one.work();
  EXPECT_EQ(take(one), "0: 3.0");
  EXPECT_EQ(store_.numbers[0].owner, nullptr);
  fixed.numbers = 2;
  fixed.id.reset();
  one.lease->share(fixed, MachineLease::Rules::more);
  one.work();
  EXPECT_EQ(one.lease->number(), 1);
  pass(1ms);
  one.lease->let_go();
  one.work();
  EXPECT_FALSE(one.lease->is_busy());
  EXPECT_FALSE(one.lease->due());
  one.lease->announce();
  one.work();
  EXPECT_EQ(one.lease->number(), 0);
}

TEST_F(MachineLeaseTest, WithoutALeaseTheNumberIsThere) {
  auto one = holder({.name = "", .id = 9, .numbers = 1024});
  EXPECT_EQ(take(one), "0: 9.0");
  EXPECT_EQ(one.work(), 0);
  EXPECT_FALSE(one.lease->is_busy());
}

TEST_F(MachineLeaseTest, FailsOutsideOfTheTimeOfTheLayout) {
  auto one = holder({.name = "", .id = 9, .numbers = 1024});
  clock_.set(std::chrono::milliseconds(kLayout.epoch - 1));
  EXPECT_EQ(take(one), "this host's clock is before the ids' epoch");
  clock_.set(std::chrono::milliseconds(kLayout.epoch + (std::int64_t{1} << 41) - 1));
  EXPECT_EQ(take(one, 4).substr(0, 13), "2167400855551");
  clock_.advance(1ms);
  EXPECT_EQ(take(one), "the ids' time ended at 2093-09-06T15:47:35.551Z");
}

TEST_F(MachineLeaseTest, AClientThatHasGoneWaitsNoLonger) {
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one, 4), "0: 0.0");
  {
    const auto gone = one.ask(kLayout, 4000);
  }
  pass(1ms);
  EXPECT_EQ(take(one), "1: 0.0");
}

TEST_F(MachineLeaseTest, ANumberThatDoesNotFitTheLayoutMakesNoIds) {
  constexpr SnowflakeLayout kFour{.machine_bits = 4, .sequence_bits = 8};
  LeaseSpec many = spec();
  many.numbers = 1024;
  for (int i = 0; i < 20; ++i) store_.numbers[i].expires = 1h;
  auto one = holder(many);
  one.work();
  EXPECT_EQ(take(one), "0: 20.0");
  many.numbers = 16;
  one.lease->share(many, MachineLease::Rules::more);
  EXPECT_FALSE(one.lease->take(kFour, 1));

  // Known while a claim is on its way.
  many.numbers = 1024;
  auto other = holder(many);
  const auto claim = other.lease->begin();
  many.numbers = 16;
  other.lease->share(many, MachineLease::Rules::more);
  const auto waiting = other.ask(kFour, 1);
  other.lease->finish({LeaseReply::Kind::held, 20, 0, claim->ceiling});
  EXPECT_EQ(answer(waiting), "waits");
  EXPECT_FALSE(other.lease->take(kFour, 1));
  EXPECT_EQ(other.lease->begin()->kind, LeaseJob::Kind::release);
}

TEST_F(MachineLeaseTest, HowASequenceStartsMakesNoOtherIds) {
  SnowflakeLayout random = kLayout;
  random.random_start = true;
  SnowflakeLayout longer = kLayout;
  longer.time_bits = 43;
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one, 3), "0: 0.0");
  EXPECT_EQ(text_of(**one.lease->take(random, 1)), "0: 0.3");
  EXPECT_FALSE(one.lease->take(longer, 1));
  EXPECT_EQ(take(one), "need");
}

TEST_F(MachineLeaseTest, IdsOfAnotherLayoutHaveLaterTimes) {
  SnowflakeLayout fewer = kLayout;
  fewer.machine_bits = 9;
  auto one = holder();
  one.work();
  EXPECT_EQ(take(one), "0: 0.0");
  EXPECT_FALSE(one.lease->take(fewer, 1));
  pass(1ms);
  EXPECT_TRUE(one.lease->take(fewer, 1));
  EXPECT_EQ(take(one), "1: 0.0");
}

TEST_F(MachineLeaseTest, AStoreThatFailsIsNotAskedWithoutAPause) {
  auto one = holder();
  one.work();
  clock_.set(std::chrono::milliseconds(kStart) + 1h);
  const auto waiting = one.ask(kLayout, 1);
  EXPECT_EQ(one.lease->begin()->kind, LeaseJob::Kind::renew);
  one.lease->finish({LeaseReply::Kind::failed, 0, 0, 0, {Errc::unavailable, "down"}});
  EXPECT_FALSE(one.lease->begin());
  EXPECT_EQ(*one.lease->due() - clock_.monotonic(), 1s);
  clock_.advance(1s);
  EXPECT_EQ(one.work(), 1);
  EXPECT_EQ(answer(waiting), "3600000: 0.0");
}

TEST_F(MachineLeaseTest, ARenewalThatCameInTimeIsEnough) {
  auto one = holder();
  one.work();
  pass(10s);
  clock_.set(std::chrono::milliseconds(kStart) + 1h);
  const auto renewal = one.lease->begin();
  EXPECT_EQ(take(one), "need");
  one.lease->finish(store_.run(one.lease.get(), *renewal));
  EXPECT_FALSE(one.lease->begin());
  EXPECT_EQ(take(one), "3600000: 0.0");
}

TEST_F(MachineLeaseTest, ARequestThatOnlyWantsIdsUsesNone) {
  auto one = holder();
  const auto wanted = one.lease->ask(kLayout, 3, std::make_unique<Nobody>());
  const auto waiting = one.ask(kLayout, 2);
  one.work();
  EXPECT_EQ(answer(waiting), "0: 0.0");
  EXPECT_EQ(take(one, 2), "0: 0.2");
}

TEST_F(MachineLeaseTest, ANewUserKeepsWhatTheOldOneLetsGoOfLate) {
  auto one = holder();
  one.work();
  one.lease->announce();
  one.lease->let_go();
  EXPECT_EQ(one.work(), 0);
  EXPECT_EQ(one.lease->number(), 0);
  one.lease->let_go();
  EXPECT_EQ(one.work(), 1);
  EXPECT_FALSE(one.lease->number());
}

TEST_F(MachineLeaseTest, IdsOfAnotherLeaseOfTheProcessHaveLaterTimes) {
  const auto used = std::make_shared<std::atomic<std::int64_t>>(0);
  LeaseHolder one(store_, spec(), {clock_, random_}, used);
  one.work();
  EXPECT_EQ(take(one), "0: 0.0");
  clock_.advance(-1h);
  test::MachineStore eu_store;
  LeaseSpec eu = spec();
  eu.name = "eu";
  LeaseHolder other(eu_store, eu, {clock_, random_}, used);
  const auto waiting = other.ask(kLayout, 1);
  EXPECT_EQ(other.work(), 1);
  EXPECT_EQ(answer(waiting), "1: 0.0");
  EXPECT_EQ(take(other), "1: 0.1");
  EXPECT_EQ(take(one), "0: 0.1");
}

}  // namespace machine_lease_test
}  // namespace idproxy::ids
