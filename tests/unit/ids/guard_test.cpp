#include "idproxy/ids/guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idproxy::ids {
namespace guard_test {

using namespace std::chrono_literals;
using Kind = GuardState::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr CollectionUuid kOne{1};
constexpr CollectionUuid kOther{2};

struct GuardTest : ::testing::Test {
  GuardTest() {
    *tell = [this](const Guard& who, Guard::Need need) {
      EXPECT_EQ(&who, guard.get());
      needs.push_back(need);
    };
  }
  /// What a write that asks now gets: "" nothing yet, else "granted" or the reason.
  std::shared_ptr<std::string> ask() {
    class Records final : public Waiter {
     public:
      explicit Records(std::shared_ptr<std::string> out) : out_(std::move(out)) {}
      void answered(Result<Grant> grant) override {
        *out_ = grant ? "granted" : grant.error().reason;
      }

     private:
      std::shared_ptr<std::string> out_;
    };
    auto answer = std::make_shared<std::string>();
    tickets.push_back(guard->ask(0, std::make_unique<Records>(answer)));
    return answer;
  }

  std::chrono::nanoseconds now = 1h;
  std::shared_ptr<Guard::Tell> tell = std::make_shared<Guard::Tell>();
  std::vector<Guard::Need> needs;
  std::shared_ptr<Guard> guard = std::make_shared<Guard>(3, "shop", "orders", tell);
  std::vector<Ticket> tickets;
};

TEST_F(GuardTest, IsUnknownUntilTheStoreHasLooked) {
  EXPECT_EQ(guard->state(now).kind, Kind::unknown);
  EXPECT_EQ(guard->state(now).error.code, Errc::unavailable);
  EXPECT_THAT(needs, IsEmpty()) << "nobody waits";
  guard->set({Kind::guarded, {}, kOne}, now);
  EXPECT_EQ(guard->state(now).kind, Kind::guarded);
  EXPECT_EQ(guard->state(now).uuid, kOne);
}

TEST_F(GuardTest, AnswersThoseThatWaitOnceItKnows) {
  const auto first = ask();
  const auto second = ask();
  EXPECT_THAT(needs, ElementsAre(Guard::Need::inspect, Guard::Need::inspect));
  EXPECT_TRUE(guard->is_awaited());
  guard->set({Kind::unknown, {Errc::unavailable, "the index is being made"}, {}}, now);
  guard->answer();
  EXPECT_EQ(*first, "");
  EXPECT_EQ(guard->why_waiting(), "the index is being made");
  guard->set({Kind::guarded, {}, {}}, now);
  EXPECT_EQ(*first, "") << "answer() does that";
  guard->answer();
  EXPECT_EQ(*first, "granted");
  EXPECT_EQ(*second, "granted");
  EXPECT_FALSE(guard->is_awaited());
}

TEST_F(GuardTest, AnswersAtOnceWhatItKnows) {
  guard->set({Kind::unguarded, {Errc::exhausted, "no unique index"}, {}}, now);
  EXPECT_EQ(*ask(), "no unique index");
  guard->set({Kind::left_alone, {}, {}}, now);
  EXPECT_EQ(*ask(), "granted");
  EXPECT_THAT(needs, IsEmpty());
}

TEST_F(GuardTest, WhoLeavesGetsNoAnswer) {
  const auto answer = ask();
  tickets.clear();
  EXPECT_FALSE(guard->is_awaited());
  guard->set({Kind::guarded, {}, {}}, now);
  guard->answer();
  EXPECT_EQ(*answer, "");
}

TEST_F(GuardTest, ALookIsBelievedForTenSecondsAndRenewedWhileWritesCome) {
  guard->set({Kind::guarded, {}, kOne}, now);
  EXPECT_EQ(guard->state(now + 7999ms).kind, Kind::guarded);
  EXPECT_THAT(needs, IsEmpty());
  EXPECT_EQ(guard->state(now + 8s).kind, Kind::guarded);
  EXPECT_EQ(guard->state(now + 9999ms).kind, Kind::guarded);
  EXPECT_THAT(needs, ElementsAre(Guard::Need::inspect)) << "once";
  EXPECT_EQ(guard->state(now + 10s).kind, Kind::unknown);
  guard->set({Kind::guarded, {}, kOne}, now + 11s);
  EXPECT_EQ(guard->state(now + 12s).kind, Kind::guarded);
  EXPECT_EQ(guard->state(now + 19s).kind, Kind::guarded);
  EXPECT_EQ(needs.size(), 2U);
}

TEST_F(GuardTest, ACollectionThatHasGoneIsLookedAtAnew) {
  guard->set({Kind::guarded, {}, kOne}, now);
  guard->gone(kOther);
  EXPECT_EQ(guard->state(now).kind, Kind::guarded) << "another write has said so before";
  EXPECT_THAT(needs, IsEmpty());
  guard->gone(kOne);
  EXPECT_EQ(guard->state(now).kind, Kind::unknown);
  EXPECT_THAT(needs, ElementsAre(Guard::Need::anew));
}

TEST_F(GuardTest, DoesWithoutAUuidThatTheServerDoesNotTake) {
  guard->set({Kind::guarded, {}, kOne}, now);
  guard->takes_no_uuid();
  EXPECT_EQ(guard->state(now).kind, Kind::guarded);
  EXPECT_EQ(guard->state(now).uuid, std::nullopt);
}

}  // namespace guard_test
}  // namespace idproxy::ids
