#include "app/awaited_grant.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace idproxy::app {
namespace awaited_grant_test {

using namespace std::chrono_literals;

/// Takes numbers back.
class Lender final : public ids::Lender, public ids::Queue {
 public:
  void take_back(const std::vector<ids::Range>& ranges) override { back = ranges; }
  void cancel(std::uint64_t /*ticket*/) override { ++cancelled; }
  std::vector<ids::Range> back;
  int cancelled = 0;
};

/// Leaves the answers to the test.
class Borrowing final : public ids::StoreSource {
 public:
  ids::Ticket ask(std::size_t /*n*/, std::unique_ptr<ids::Waiter> waiter) override {
    asked = std::move(waiter);
    if (answer) asked->answered(*std::move(answer));
    return {lender, 1};
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return 1ms; }
  [[nodiscard]] std::string why_waiting() const override { return waiting; }
  void accept(ids::Grant /*grant*/, ids::Values& /*out*/) override {}

  std::optional<ids::Result<ids::Grant>> answer;
  std::unique_ptr<ids::Waiter> asked;
  std::string waiting;
  std::shared_ptr<Lender> lender = std::make_shared<Lender>();
};

struct AwaitedGrantTest : ::testing::Test {
  ids::Result<ids::Grant> await() { return await_grant(source, 1); }
  ids::Grant grant() { return {source.lender, {{7, 1}}}; }
  Borrowing source;
};

TEST_F(AwaitedGrantTest, ComesFromTheStore) {
  source.answer = grant();
  auto granted = await();
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->take(), (std::vector<ids::Range>{{7, 1}}));
}

TEST_F(AwaitedGrantTest, IsAnErrorIfTheStoreSaysSo) {
  source.answer = ids::Error{ids::Errc::exhausted, "none left"};
  EXPECT_EQ(await().error().reason, "none left");
}

TEST_F(AwaitedGrantTest, LeavesTheQueueIfTheAnswerTakesTooLong) {
  EXPECT_EQ(await().error().reason, "the id store does not answer");
  EXPECT_EQ(source.lender->cancelled, 1);
  source.waiting = "it reads the collection";
  EXPECT_EQ(await().error().reason, "it reads the collection");
  EXPECT_EQ(await().error().code, ids::Errc::unavailable);
}

TEST_F(AwaitedGrantTest, ReturnsIfTheAnswerComesTooLate) {
  EXPECT_FALSE(await());
  source.asked->answered(grant());
  source.asked.reset();
  EXPECT_EQ(source.lender->back, (std::vector<ids::Range>{{7, 1}}));
}

}  // namespace awaited_grant_test
}  // namespace idproxy::app
