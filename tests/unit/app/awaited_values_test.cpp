#include "awaited_values.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;

/// Takes numbers back.
class Lender final : public ids::Lender {
 public:
  void take_back(const std::vector<ids::Range>& ranges) override { back = ranges; }
  void cancel(std::uint64_t /*ticket*/) override { ++cancelled; }
  std::vector<ids::Range> back;
  int cancelled = 0;
};

/// Has no numbers at hand, and leaves the answers to the test.
class Borrowing final : public ids::Strategy, public ids::StoreBacked {
 public:
  ids::Draw next(std::size_t /*n*/, ids::Values& /*out*/) override { return draw; }
  ids::StoreBacked* store_backed() override { return this; }
  ids::Ticket ask(std::size_t /*n*/, std::unique_ptr<ids::Waiter> waiter) override {
    asked = std::move(waiter);
    if (answer) asked->answered(*std::move(answer));
    return {lender, 1};
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return 1ms; }
  [[nodiscard]] std::string why_waiting() const override { return waiting; }
  void accept(ids::Grant grant, ids::Values& out) override {
    for (const ids::Range& range : grant.take()) {
      store_i64(out.add(bson::Type::int64, 8), range.first);
    }
  }
  void take_back(const ids::Values&, std::span<const std::uint32_t>) override {}

  ids::Draw draw = ids::Draw::need();
  std::optional<ids::Result<ids::Grant>> answer;
  std::unique_ptr<ids::Waiter> asked;
  std::string waiting;
  std::shared_ptr<Lender> lender = std::make_shared<Lender>();
};

struct AwaitedValuesTest : ::testing::Test {
  ids::Result<void> await() { return await_values(strategy, 1, values); }
  ids::Grant grant() { return {strategy.lender, {{7, 1}}}; }
  Borrowing strategy;
  ids::Values values;
};

TEST_F(AwaitedValuesTest, ComeFromTheStore) {
  strategy.answer = grant();
  EXPECT_TRUE(await());
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(load_i64(values[0].data()), 7);
}

TEST_F(AwaitedValuesTest, FailAsTheStrategyOrTheStoreSays) {
  strategy.answer = ids::Error{ids::Errc::exhausted, "none left"};
  EXPECT_EQ(await().error().reason, "none left");
  strategy.draw = ids::Error{ids::Errc::unavailable, "no store"};
  EXPECT_EQ(await().error().reason, "no store");
}

TEST_F(AwaitedValuesTest, LeaveTheQueueIfTheAnswerTakesTooLong) {
  EXPECT_EQ(await().error().reason, "the id store does not answer");
  EXPECT_EQ(strategy.lender->cancelled, 1);
  strategy.waiting = "it reads the collection";
  EXPECT_EQ(await().error().reason, "it reads the collection");
  EXPECT_EQ(await().error().code, ids::Errc::unavailable);
}

TEST_F(AwaitedValuesTest, ReturnIfTheAnswerComesTooLate) {
  EXPECT_FALSE(await());
  strategy.asked->answered(grant());
  strategy.asked.reset();
  EXPECT_EQ(strategy.lender->back, (std::vector<ids::Range>{{7, 1}}));
  EXPECT_EQ(values.size(), 0U);
}

}  // namespace
}  // namespace idproxy::app
