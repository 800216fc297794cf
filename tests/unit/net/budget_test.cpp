#include "net/budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace idproxy::net {
namespace budget_test {

constexpr std::uint64_t kMegabyte = 1'000'000;
// An eighth, 12.5 MB, is for small messages, and 48 MB for one of the largest.
constexpr std::uint64_t kLimit = 100 * kMegabyte;

/// A message that grows, by name, and what has been granted to it.
struct Message {
  Budget::Share share;
  Budget::Ticket ticket = 0;
  int grants = 0;
};

class BudgetTest : public ::testing::Test {
 protected:
  ~BudgetTest() override {
    for (const auto& [name, message] : messages) budget.leave(message.ticket);
  }
  /// True if the message has as much room at once. It waits otherwise.
  bool grow(const std::string& name, std::uint64_t bytes, std::uint64_t whole) {
    Message& message = messages[name];
    if (budget.grow(message.share, {bytes, whole})) return true;
    const int before = message.grants;
    message.ticket = budget.wait(message.share, {bytes, whole}, [&message](Budget::Share more) {
      message.share.join(std::move(more));
      ++message.grants;
    });
    return message.grants > before;
  }
  bool grow(const std::string& name, std::uint64_t bytes) { return grow(name, bytes, bytes); }
  std::uint64_t room(const std::string& name) { return messages[name].share.bytes(); }
  void end(const std::string& name) { messages[name].share.reset(); }

  Budget budget{kLimit};
  std::map<std::string, Message> messages;
};

TEST_F(BudgetTest, GivesWhatThereIs) {
  EXPECT_TRUE(grow("a", 20 * kMegabyte));
  EXPECT_TRUE(grow("b", 10'000));
  EXPECT_EQ(budget.used(), 20'010'000U);
  EXPECT_TRUE(grow("a", 30 * kMegabyte));
  EXPECT_TRUE(grow("a", 10 * kMegabyte)) << "it has that";
  EXPECT_EQ(budget.used(), 30'010'000U);
  end("a");
  end("b");
  EXPECT_EQ(budget.used(), 0U);
}

TEST_F(BudgetTest, GivesAheadWhileMuchStaysFreeAndNobodyWaits) {
  Budget::Share share;
  EXPECT_TRUE(budget.grow_ahead(share, 30 * kMegabyte));
  EXPECT_TRUE(budget.grow_ahead(share, 39 * kMegabyte));
  EXPECT_EQ(share.bytes(), 39 * kMegabyte);
  EXPECT_TRUE(budget.grow_ahead(share, 10 * kMegabyte)) << "it has that";
  EXPECT_FALSE(budget.grow_ahead(share, 40 * kMegabyte)) << "what is kept for others";
  EXPECT_EQ(budget.used(), 39 * kMegabyte);
  Budget::Share rest = budget.overdraw(61 * kMegabyte);
  EXPECT_FALSE(grow("small", 60'000));
  share.reset();
  EXPECT_EQ(messages["small"].grants, 1);
}

TEST_F(BudgetTest, MovesASharesBytesOnce) {
  Budget::Share share = budget.overdraw(60);
  Budget::Share other = std::move(share);
  share.reset();
  EXPECT_EQ(budget.used(), 60U);
  other.join(budget.overdraw(10));
  EXPECT_EQ(budget.used(), 70U);
  other = budget.overdraw(10);
  EXPECT_EQ(budget.used(), 10U);
  other = Budget::Share();
  EXPECT_EQ(budget.used(), 0U);
}

/// A24.
TEST_F(BudgetTest, CountsNothingForWhatIsAnnounced) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(grow("silent" + std::to_string(i), 4096, 47 * kMegabyte));
  }
  EXPECT_EQ(budget.used(), 4'096'000U);
  EXPECT_TRUE(grow("other", 30 * kMegabyte));
  EXPECT_TRUE(grow("small", 200));
}

TEST_F(BudgetTest, KeepsRoomForSmallOnes) {
  for (int i = 0; i < 20; ++i) grow("large" + std::to_string(i), 10 * kMegabyte, 40 * kMegabyte);
  EXPECT_GT(budget.waiting(), 10U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(grow("small" + std::to_string(i), 64 * 1024)) << "it does not wait for large ones";
  }
}

TEST_F(BudgetTest, ServesEachKindInTheOrderOfComing) {
  Budget::Share all = budget.overdraw(kLimit);
  grow("elder", 1 * kMegabyte, 2 * kMegabyte);  // the first one that waits
  EXPECT_FALSE(grow("large 1", 3 * kMegabyte));
  EXPECT_FALSE(grow("small 1", 1000));
  EXPECT_FALSE(grow("large 2", 4 * kMegabyte));
  EXPECT_FALSE(grow("small 2", 10));
  EXPECT_EQ(budget.waiting(), 4U);
  EXPECT_EQ(budget.waits(), 5U);
  all.reset();
  EXPECT_EQ(budget.waiting(), 0U);
  EXPECT_EQ(room("large 1"), 3 * kMegabyte);
  EXPECT_EQ(room("small 2"), 10U);
}

TEST_F(BudgetTest, LetsNobodyOfAKindPassWhoComesLater) {
  Budget::Share all = budget.overdraw(kLimit - 1000);
  EXPECT_FALSE(grow("first", 2000));
  EXPECT_FALSE(grow("second", 10)) << "the first one of its kind waits";
  all.reset();
  EXPECT_EQ(room("first") + room("second"), 2010U);
}

/// Small ones have no elder.
TEST_F(BudgetTest, GivesASmallOneAllOfItAtOnce) {
  const std::uint64_t whole = 60'000;
  const std::uint64_t number = kLimit / whole;
  const auto name = [](std::uint64_t each) { return "small" + std::to_string(each); };
  for (std::uint64_t i = 0; i < number; ++i) EXPECT_TRUE(grow(name(i), 5000, whole));
  EXPECT_FALSE(grow("other", 5000, whole));
  EXPECT_EQ(room("other"), 0U) << "who waits holds nothing";
  for (std::uint64_t i = 0; i < number; ++i) EXPECT_TRUE(grow(name(i), whole, whole));
  for (std::uint64_t i = 0; i < number; ++i) end(name(i));
  EXPECT_EQ(room("other"), whole);
  EXPECT_EQ(budget.waiting(), 0U);
}

/// Halves of large messages do not wait for each other: one of them goes on.
TEST_F(BudgetTest, LetsTheOneThatWaitsLongestGoOn) {
  EXPECT_TRUE(grow("a", 16 * kMegabyte, 47 * kMegabyte));
  EXPECT_TRUE(grow("b", 16 * kMegabyte, 47 * kMegabyte));
  EXPECT_TRUE(grow("b", 32 * kMegabyte, 47 * kMegabyte)) << "it is the elder now";
  EXPECT_FALSE(grow("a", 47 * kMegabyte)) << "the rest of b is kept for it";
  EXPECT_TRUE(grow("b", 47 * kMegabyte));
  EXPECT_EQ(messages["a"].grants, 0) << "b has it until its reply";
  end("b");
  EXPECT_EQ(room("a"), 47 * kMegabyte);
  EXPECT_EQ(budget.waiting(), 0U);
}

TEST_F(BudgetTest, HasRoomForOneOfTheLargestWhateverOthersHold) {
  int number = 0;
  while (grow("half" + std::to_string(number), 3 * kMegabyte, 48 * kMegabyte)) ++number;
  // The last that had room is the elder.
  const std::string elder = "half" + std::to_string(number - 1);
  EXPECT_TRUE(grow(elder, 48 * kMegabyte));
  EXPECT_LE(budget.used(), kLimit);
  EXPECT_TRUE(grow("small", 64 * 1024));
}

TEST_F(BudgetTest, ServesEveryHalfInTheEnd) {
  std::vector<std::string> halves;
  for (int i = 0; i < 20; ++i) halves.push_back("half" + std::to_string(i));
  std::map<std::string, std::uint64_t> wanted;
  for (const std::string& each : halves) grow(each, wanted[each] = kMegabyte, 47 * kMegabyte);
  for (int round = 0; round < 1000 && !halves.empty(); ++round) {
    std::erase_if(halves, [&](const std::string& each) {
      if (room(each) < wanted[each]) return false;  // it waits
      if (room(each) == 47 * kMegabyte) {
        end(each);
        return true;
      }
      wanted[each] = std::min(2 * wanted[each], 47 * kMegabyte);
      grow(each, wanted[each], 47 * kMegabyte);
      return false;
    });
    EXPECT_LE(budget.used(), kLimit);
  }
  EXPECT_TRUE(halves.empty());
  EXPECT_EQ(budget.used(), 0U);
}

/// In whatever order they come, grow and are answered: small ones alone, and all sizes.
TEST_F(BudgetTest, ServesEverybodyInTheEnd) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const bool small = seed % 2 == 0;
    const Budget::Share others = budget.overdraw(small ? kLimit - 200'000 : 0);
    std::map<std::string, Budget::Need> open;
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t whole = 100 + random() % (small ? 65'000 : 47 * kMegabyte);
      open[std::to_string(i)] = {0, whole};
    }
    for (int turn = 0; turn < 100'000 && !open.empty(); ++turn) {
      const auto one = std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      auto& [name, need] = *one;
      if (room(name) < need.bytes) continue;  // it waits
      if (room(name) < need.whole) {
        need.bytes = std::min(need.whole, std::max<std::uint64_t>(2 * need.bytes, 4096));
        grow(name, need.bytes, need.whole);
      } else if (random() % 20 == 0) {
        end(name);
        open.erase(one);
      }
    }
    ASSERT_TRUE(open.empty()) << "seed " << seed;
    ASSERT_EQ(budget.waiting(), 0U);
  }
}

TEST_F(BudgetTest, HasAnotherElderWhenOneLeaves) {
  EXPECT_TRUE(grow("a", 30 * kMegabyte, 47 * kMegabyte));
  EXPECT_TRUE(grow("b", 30 * kMegabyte, 47 * kMegabyte));
  EXPECT_FALSE(grow("c", 30 * kMegabyte, 47 * kMegabyte));
  end("b");
  EXPECT_EQ(room("c"), 30 * kMegabyte);
  EXPECT_EQ(budget.waiting(), 0U);
}

TEST_F(BudgetTest, ServesWhoStoodBehindSomebodyWhoLeaves) {
  EXPECT_TRUE(grow("elder", 60 * kMegabyte));
  EXPECT_FALSE(grow("large", 40 * kMegabyte));
  EXPECT_FALSE(grow("next", 20 * kMegabyte));
  const auto ticket = messages["large"].ticket;
  budget.leave(ticket);
  EXPECT_EQ(room("next"), 20 * kMegabyte);
  EXPECT_EQ(room("large"), 0U);
  budget.leave(ticket);  // is not there any more
  EXPECT_EQ(budget.waiting(), 0U);
}

/// An elder that has all it needs waits for its server, perhaps for long.
TEST_F(BudgetTest, HasAnotherElderBesidesOneThatIsWhole) {
  EXPECT_TRUE(grow("other", 30 * kMegabyte));
  EXPECT_TRUE(grow("elder", 10 * kMegabyte, 47 * kMegabyte)) << "there was no other room";
  EXPECT_TRUE(grow("elder", 47 * kMegabyte));
  EXPECT_FALSE(grow("a", 20 * kMegabyte, 40 * kMegabyte)) << "all of it would be too much";
  EXPECT_FALSE(grow("b", 20 * kMegabyte, 40 * kMegabyte));
  end("other");
  EXPECT_EQ(room("a"), 20 * kMegabyte);
  EXPECT_EQ(room("b"), 0U) << "it could only get a half";
  EXPECT_TRUE(grow("a", 40 * kMegabyte));
  EXPECT_LE(budget.used(), kLimit);
  end("a");
  EXPECT_EQ(room("b"), 20 * kMegabyte);
  end("elder");
  EXPECT_TRUE(grow("b", 40 * kMegabyte)) << "it is the elder still";
  EXPECT_EQ(budget.waiting(), 0U);
}

/// A compressed message and what it inflates to.
TEST_F(BudgetTest, AdmitsOneThatIsLargerThanAll) {
  EXPECT_TRUE(grow("a", 30 * kMegabyte));
  EXPECT_TRUE(grow("larger", 120 * kMegabyte));
  EXPECT_FALSE(grow("b", 30 * kMegabyte));
  end("larger");
  EXPECT_EQ(room("b"), 30 * kMegabyte);
}

TEST_F(BudgetTest, OverdrawsForWhatCannotWait) {
  {
    const Budget::Share more = budget.overdraw(2 * kLimit);
    EXPECT_EQ(budget.used(), 2 * kLimit);
    EXPECT_FALSE(grow("small", 10));
  }
  EXPECT_EQ(room("small"), 10U);
}

TEST_F(BudgetTest, ServesAtOnceWhoComesWhenThereIsRoomAgain) {
  Message& message = messages["a"];
  static_cast<void>(budget.wait(message.share, {100, 100},
                                [&](Budget::Share more) { message.share.join(std::move(more)); }));
  EXPECT_EQ(room("a"), 100U);
}

TEST(Budget, LosesNobodyBetweenThreads) {
  Budget budget(kLimit);
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
        const auto bytes = (20 + 25 * static_cast<std::uint64_t>(i)) * kMegabyte / 2;
        Budget::Share share;
        if (budget.grow(share, {bytes, bytes})) {
          ++served;
        } else {
          static_cast<void>(budget.wait(share, {bytes, bytes}, [&](Budget::Share more) {
            ++served;
            const std::lock_guard lock(mutex);
            granted.push_back(std::move(more));
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
