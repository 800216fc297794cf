#include "app/jobs/backfill_batch.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "idproxy/id_store/mongo.hpp"
#include "support/fake_clock.hpp"

namespace idproxy::app::jobs {
namespace backfill_batch_test {

using namespace std::chrono_literals;
using id_store::mongo::Document;

struct BackfillSequenceTest : ::testing::Test {
  std::string refusal(const Document& document, const std::string& period_from = "at") {
    const auto found = sequence_of(sequences, period_from, document.bytes());
    return found ? "" : found.error();
  }
  const test::FakeClock clock{std::chrono::seconds{1'798'000'000}};  // 2026-12-23
  std::string period;                                                // that was asked for
  const ids::SequenceOptions options{.scope = {"tenant"}, .reset = ids::Reset::daily};
  const ids::Sequences sequences{options, "", ids::NumberFormat(), clock,
                                 [this](const ids::Sequences::Chosen& chosen, ids::Opening) {
                                   period = bson::find(as_bytes(chosen.key), "p")->text();
                                   return nullptr;
                                 }};
};

TEST_F(BackfillSequenceTest, BelongsToNowUnlessAFieldHasTheDate) {
  EXPECT_EQ(refusal(Document().add("tenant", "a"), ""), "");
  EXPECT_EQ(period, "2026-12-23");
}

TEST_F(BackfillSequenceTest, IsThatOfTheDate) {
  Document dated = Document().add("tenant", "a");
  bson_append_date_time(dated.get(), "at", 2, -1'500);
  EXPECT_EQ(refusal(dated), "");
  EXPECT_EQ(period, "1969-12-31");
}

TEST_F(BackfillSequenceTest, IsThatOfTheTimeInAnObjectId) {
  bson_oid_t id;
  bson_oid_init_from_string(&id, "80000000ffffffffffffffff");
  Document made = Document().add("tenant", "a");
  bson_append_oid(made.get(), "at", 2, &id);
  EXPECT_EQ(refusal(made), "");
  EXPECT_EQ(period, "2038-01-19");
}

TEST_F(BackfillSequenceTest, IsRefusedWithoutTheFields) {
  EXPECT_EQ(refusal(Document().add("at", 1)),
            "field 'tenant' is missing: the rule's `scope` needs it");
  const std::string no_date = "field 'at' has no date, which --period-from needs";
  EXPECT_EQ(refusal(Document().add("tenant", "a")), no_date);
  EXPECT_EQ(refusal(Document().add("tenant", "a").add("at", "2026-01-01")), no_date);
  Document far = Document().add("tenant", "a");
  bson_append_date_time(far.get(), "at", 2, 10'000'000'000'000);
  EXPECT_EQ(refusal(far), no_date);
}

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

}  // namespace backfill_batch_test
}  // namespace idproxy::app::jobs
