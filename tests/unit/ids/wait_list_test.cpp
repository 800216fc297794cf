#include "idproxy/ids/wait_list.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace idproxy::ids {
namespace wait_list_test {

using Texts = std::vector<std::string>;

class WaitListTest : public testing::Test {
 protected:
  class Named final : public Waiter {
   public:
    Named(std::string name, Texts& said) : name_(std::move(name)), said_(said) {}
    void answered(Result<Grant> grant) override {
      if (!grant) return said_.push_back(name_ + ": " + grant.error().reason);
      const std::vector<Range> ranges = grant->take();
      said_.push_back(name_ + ": " + (ranges.empty() ? "" : std::to_string(ranges.front().count)));
    }

   private:
    std::string name_;
    Texts& said_;
  };
  [[nodiscard]] std::unique_ptr<Waiter> waiter(const std::string& name) {
    return std::make_unique<Named>(name, said);
  }
  [[nodiscard]] static Result<Grant> grant(std::uint64_t n) { return Grant(nullptr, {{1, n}}); }
  void run() {
    after.run([this] { said.push_back("woken"); });
    after = {};
  }

  Texts said;
  After after;
  WaitList list;
};

TEST_F(WaitListTest, AnswersInTheOrderInWhichTheyCame) {
  const auto first = list.add(2, waiter("a"), after);
  const auto second = list.add(3, waiter("b"), after);
  EXPECT_LT(first, second);
  EXPECT_EQ(list.needed(), 5U);
  EXPECT_EQ(list.first(), 2U);
  list.answer_first(grant(2), after);
  EXPECT_EQ(list.needed(), 3U);
  EXPECT_EQ(said, Texts{}) << "not under the lock";
  after.wake = true;
  run();
  EXPECT_EQ(said, (Texts{"woken", "a: 2"}));
  list.answer_all([](std::uint64_t n, bool /*takes*/) { return grant(n); }, after);
  run();
  EXPECT_EQ(said.back(), "b: 3");
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.needed(), 0U);
}

TEST_F(WaitListTest, WhoLeavesGetsNoAnswer) {
  const auto first = list.add(2, waiter("a"), after);
  (void)list.add(3, waiter("b"), after);
  EXPECT_NE(list.remove(first), nullptr);
  EXPECT_EQ(list.remove(first), nullptr);
  EXPECT_EQ(list.needed(), 3U);
  EXPECT_EQ(list.first(), 3U);
  list.answer_all([](std::uint64_t, bool) { return Result<Grant>(Error{Errc::exhausted, "none"}); },
                  after);
  run();
  EXPECT_EQ(said, Texts{"b: none"});
}

TEST_F(WaitListTest, ARequestMayComeAgain) {
  const auto ticket = list.new_ticket();
  list.add(ticket, 2, waiter("a"));
  list.add(ticket, 5, waiter("b"));
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(list.needed(), 5U);
}

TEST_F(WaitListTest, HasRoomForSoMany) {
  for (std::size_t i = 0; i < WaitList::kMost; ++i) (void)list.add(1, waiter("a"), after);
  EXPECT_EQ(list.add(1, waiter("last"), after), 0U);
  run();
  EXPECT_EQ(said, Texts{"last: too many requests wait"});
  EXPECT_EQ(list.size(), WaitList::kMost);
}

TEST_F(WaitListTest, AnEmptyGrantReturnsToItsLenderToo) {
  struct Counting final : Lender {
    void take_back(const std::vector<Range>& /*ranges*/) override { ++returns; }
    int returns = 0;
  };
  const auto lender = std::make_shared<Counting>();
  {
    const Grant dropped(lender, {});
  }
  EXPECT_EQ(lender->returns, 1);
  {
    Grant taken(lender, {});
    (void)taken.take();
  }
  EXPECT_EQ(lender->returns, 1);
}

}  // namespace wait_list_test
}  // namespace idproxy::ids
