#include "net/budget.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace idproxy::net {
namespace budget_test {

/// What was granted, in order, and kept.
struct Grants {
  std::vector<Budget::Share> shares;
  Budget::Granted keep() {
    return [this](Budget::Share share) { shares.push_back(std::move(share)); };
  }
};

TEST(Budget, GivesWhatThereIs) {
  Budget budget(100);
  const Budget::Share first = budget.take(60);
  EXPECT_EQ(first.bytes(), 60U);
  EXPECT_EQ(budget.take(41).bytes(), 0U);
  {
    const Budget::Share rest = budget.take(40);
    EXPECT_EQ(rest.bytes(), 40U);
    EXPECT_EQ(budget.used(), 100U);
  }
  EXPECT_EQ(budget.used(), 60U);
}

TEST(Budget, MovesASharesBytesOnce) {
  Budget budget(100);
  Budget::Share share = budget.take(60);
  Budget::Share other = std::move(share);
  share.reset();
  EXPECT_EQ(budget.used(), 60U);
  other = budget.take(10);
  EXPECT_EQ(budget.used(), 10U);
  other = Budget::Share();
  EXPECT_EQ(budget.used(), 0U);
}

TEST(Budget, ServesInTheOrderOfComing) {
  Budget budget(100);
  Budget::Share all = budget.take(100);
  Grants large;
  Grants small;
  static_cast<void>(budget.wait(90, large.keep()));
  static_cast<void>(budget.wait(10, small.keep()));
  EXPECT_EQ(budget.waiting(), 2U);
  EXPECT_EQ(budget.waits(), 2U);
  all.reset();
  ASSERT_EQ(large.shares.size(), 1U);
  EXPECT_EQ(small.shares.size(), 1U);
  EXPECT_EQ(budget.used(), 100U);
  EXPECT_EQ(budget.waiting(), 0U);
}

TEST(Budget, LetsNobodyPassWhoComesLater) {
  Budget budget(100);
  Budget::Share some = budget.take(50);
  Grants large;
  Grants small;
  static_cast<void>(budget.wait(60, large.keep()));
  EXPECT_EQ(budget.take(10).bytes(), 0U) << "somebody waits";
  static_cast<void>(budget.wait(10, small.keep()));
  EXPECT_TRUE(small.shares.empty());
  some.reset();
  EXPECT_EQ(large.shares.size(), 1U);
  EXPECT_EQ(small.shares.size(), 1U);
}

TEST(Budget, ServesWhoStoodBehindSomebodyWhoLeaves) {
  Budget budget(100);
  const Budget::Share some = budget.take(50);
  Grants large;
  Grants small;
  const auto ticket = budget.wait(60, large.keep());
  static_cast<void>(budget.wait(10, small.keep()));
  budget.leave(ticket);
  EXPECT_TRUE(large.shares.empty());
  EXPECT_EQ(small.shares.size(), 1U);
  budget.leave(ticket);  // is not there any more
  EXPECT_EQ(budget.waiting(), 0U);
}

TEST(Budget, AdmitsWhatIsLargerThanAllOnceNobodyHasAnything) {
  Budget budget(100);
  EXPECT_EQ(budget.take(1000).bytes(), 1000U);
  Budget::Share some = budget.take(1);
  Grants grants;
  static_cast<void>(budget.wait(1000, grants.keep()));
  EXPECT_TRUE(grants.shares.empty());
  some.reset();
  EXPECT_EQ(grants.shares.size(), 1U);
}

TEST(Budget, OverdrawsForWhatCannotWait) {
  Budget budget(100);
  const Budget::Share some = budget.take(90);
  Grants grants;
  {
    const Budget::Share more = budget.overdraw(500);
    EXPECT_EQ(budget.used(), 590U);
    static_cast<void>(budget.wait(10, grants.keep()));
    EXPECT_TRUE(grants.shares.empty());
  }
  EXPECT_EQ(grants.shares.size(), 1U);
}

TEST(Budget, ServesAtOnceWhoComesWhenThereIsRoomAgain) {
  Budget budget(100);
  Grants grants;
  static_cast<void>(budget.wait(100, grants.keep()));
  EXPECT_EQ(grants.shares.size(), 1U);
}

TEST(Budget, LosesNobodyBetweenThreads) {
  Budget budget(100);
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  std::mutex mutex;
  std::vector<Budget::Share> granted;
  std::atomic<int> served{0};
  const auto drop_granted = [&] {
    std::vector<Budget::Share> shares;
    const std::lock_guard lock(mutex);
    shares.swap(granted);
    return shares;
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const auto bytes = static_cast<std::uint64_t>(20 + 25 * i);
        if (budget.take(bytes).bytes() > 0) {
          ++served;
        } else {
          static_cast<void>(budget.wait(bytes, [&](Budget::Share share) {
            ++served;
            const std::lock_guard lock(mutex);
            granted.push_back(std::move(share));
          }));
        }
        static_cast<void>(drop_granted());
      }
    });
  }
  threads.clear();
  while (!drop_granted().empty()) {
  }
  EXPECT_EQ(served, kThreads * kRounds);
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(budget.waiting(), 0U);
}

}  // namespace budget_test
}  // namespace idproxy::net
