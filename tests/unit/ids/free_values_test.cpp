#include "idproxy/ids/free_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace idproxy::ids {
namespace free_values_test {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int64_t> numbers_of(const Values& values) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < values.size(); ++i) numbers.push_back(load_i64(values[i].data()));
  return numbers;
}

/// A space of which the documents use a part. Candidates are 1, 2, 3 … from `first` on.
struct FreeValuesTest : ::testing::Test {
  FreeValuesTest() {
    fill->limit({10'000, 0.1, 0.99});
    *tell = [this](std::shared_ptr<FreeValues> who) {
      EXPECT_EQ(who, free);
      ++told;
    };
    free->draw_with([this](std::size_t n) {
      drawn = n;
      Values values;
      for (std::size_t i = 0; i < std::min<std::size_t>(n, most); ++i) {
        store_i64(values.add(bson::Type::int64, 8), first++);
      }
      return values;
    });
  }
  /// What a request that asks now gets: "" nothing yet, else "granted" or the reason.
  std::shared_ptr<std::string> ask(std::size_t n) {
    class Records final : public Waiter {
     public:
      Records(std::shared_ptr<std::string> out, std::vector<Grant>& grants)
          : out_(std::move(out)), grants_(grants) {}
      void answered(Result<Grant> grant) override {
        *out_ = grant ? "granted" : grant.error().reason;
        if (grant) grants_.push_back(std::move(*grant));
      }

     private:
      std::shared_ptr<std::string> out_;
      std::vector<Grant>& grants_;
    };
    auto answer = std::make_shared<std::string>();
    tickets.push_back(free->ask(n, std::make_unique<Records>(answer, grants)));
    return answer;
  }
  /// The store looks: all candidates are taken but for every `of`-th.
  void look(std::size_t of) {
    const Values candidates = free->candidates();
    std::vector<bool> taken(candidates.size(), true);
    for (std::size_t i = 0; i < taken.size(); i += of) taken[i] = false;
    free->found(candidates, taken);
  }
  std::vector<std::int64_t> granted() {
    Values out;
    Grant grant = std::move(grants.front());
    grants.erase(grants.begin());
    free->take_granted(std::move(grant), out);
    return numbers_of(out);
  }
  std::vector<std::int64_t> take(std::size_t n) {
    Values out;
    const bool is_whole = free->take(n, out);
    EXPECT_EQ(is_whole, out.size() == n);
    return numbers_of(out);
  }

  std::shared_ptr<Fill> fill = std::make_shared<Fill>();
  std::shared_ptr<FreeValues::Tell> tell = std::make_shared<FreeValues::Tell>();
  std::shared_ptr<FreeValues> free =
      std::make_shared<FreeValues>("shop", "orders", "n", fill, tell);
  std::int64_t first = 0;
  std::size_t most = 1'000'000;
  std::size_t drawn = 0;
  int told = 0;
  std::vector<Grant> grants;
  std::vector<Ticket> tickets;
};

TEST_F(FreeValuesTest, GivesEachFreeValueOnce) {
  fill->counted(9'000);
  const auto answer = ask(3);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(*answer, "");
  look(10);
  EXPECT_EQ(*answer, "granted");
  EXPECT_THAT(take(2), ElementsAre(0, 10)) << "others are left for the grant";
  EXPECT_THAT(granted(), ElementsAre(20, 30, 40));
  EXPECT_THAT(take(1), ElementsAre(50));
  EXPECT_EQ(told, 1);
}

TEST_F(FreeValuesTest, LooksAtAsManyCandidatesAsThereMustBe) {
  fill->counted(9'000);
  static_cast<void>(ask(500));
  look(10);
  EXPECT_EQ(drawn, 6000U) << "a tenth of them is free, and a fifth more is wanted";
}

TEST_F(FreeValuesTest, LooksAtManyWhenNothingIsKnown) {
  static_cast<void>(ask(2));
  look(10);
  EXPECT_EQ(drawn, FreeValues::kMostCandidates);
  EXPECT_NEAR(fill->seen().fraction, 0.9, 0.001);
}

TEST_F(FreeValuesTest, LooksAgainUntilThereAreEnough) {
  fill->counted(9'000);
  most = 100;
  const auto answer = ask(25);
  for (int i = 0; i < 2; ++i) look(10);
  EXPECT_EQ(*answer, "");
  EXPECT_EQ(told, 3);
  look(10);
  EXPECT_EQ(*answer, "granted");
  EXPECT_EQ(told, 3);
}

TEST_F(FreeValuesTest, ServesInTheOrderOfTheQuestions) {
  fill->counted(9'000);
  most = 100;
  const auto large = ask(15);
  const auto small = ask(1);
  EXPECT_EQ(told, 1);
  look(10);
  EXPECT_EQ(*large + *small, "");
  EXPECT_THAT(take(1), IsEmpty()) << "they wait for it";
  look(10);
  EXPECT_EQ(*large, "granted");
  EXPECT_EQ(*small, "granted");
}

TEST_F(FreeValuesTest, RefusesWhenItFindsNothingNew) {
  fill->counted(9'000);
  most = 100;
  const auto answer = ask(25);
  for (int i = 0; i < 2; ++i) {
    first = 0;  // the space has no others
    look(10);
  }
  EXPECT_EQ(*answer, "no free value has been found");
  EXPECT_EQ(told, 2);
}

TEST_F(FreeValuesTest, WithoutAnAnswerDrawsAreBlind) {
  fill->counted(9'000);
  EXPECT_TRUE(free->pays(1));
  const auto failed = ask(1);
  free->failed({Errc::unavailable, "no server"});
  EXPECT_EQ(*failed, "no server");
  EXPECT_FALSE(free->pays(1));
  EXPECT_EQ(*ask(1), "free values cannot be looked up");
  free->works();
  EXPECT_TRUE(free->pays(1));
  static_cast<void>(ask(1));
  free->give_up();  // it took too long
  EXPECT_FALSE(free->pays(1));
  look(10);
  EXPECT_TRUE(free->pays(1));
}

TEST_F(FreeValuesTest, WithoutAStoreNobodyWaits) {
  *tell = {};
  EXPECT_EQ(*ask(1), "free values cannot be looked up");
}

TEST_F(FreeValuesTest, WhatIsGrantedAndNotTakenIsForOthers) {
  fill->counted(9'000);
  static_cast<void>(ask(3));
  look(10);
  grants.clear();  // the client has gone
  EXPECT_THAT(take(2), ElementsAre(0, 10));
}

TEST_F(FreeValuesTest, WhoHasGoneIsNotWaitedFor) {
  fill->counted(9'000);
  static_cast<void>(ask(3));
  tickets.clear();
  EXPECT_EQ(free->candidates().size(), 0U);
  static_cast<void>(ask(1));
  EXPECT_EQ(told, 2);
}

/// A duplicate says that somebody else stores values of the space.
TEST_F(FreeValuesTest, DropsWhatIsHeldButNotWhatIsGranted) {
  fill->counted(9'000);
  static_cast<void>(ask(2));
  look(10);
  free->drop();
  EXPECT_THAT(granted(), ElementsAre(0, 10));
  EXPECT_THAT(take(1), IsEmpty());
  Values out;
  free->take_some(5, out);
  EXPECT_EQ(out.size(), 0U);
}

}  // namespace free_values_test
}  // namespace idproxy::ids
