#include "idproxy/ids/fill.hpp"

#include <gtest/gtest.h>

namespace idproxy::ids {
namespace fill_test {

constexpr Fill::Limits kLimits{1000, 0.1, 0.9};

/// A Fill that knows the limits, of a collection of so many documents.
struct Counted : Fill {
  explicit Counted(std::uint64_t documents) {
    limit(kLimits);
    counted(documents);
  }
};

TEST(Fill, IsNothingWhileNothingIsKnown) {
  Fill fill;
  EXPECT_EQ(fill.of(10), 0);
  EXPECT_TRUE(fill.draw(1'000'000));
  EXPECT_FALSE(fill.seen().limits);
  EXPECT_EQ(fill.attempts(), 8U);
}

TEST(Fill, IsThatOfTheDocuments) {
  Counted fill(100);
  EXPECT_DOUBLE_EQ(fill.of(1000), 0.1);
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.1);
  EXPECT_EQ(fill.seen().documents, 100U);
  fill.counted(5);
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.005);
}

TEST(Fill, KnowsWhetherItsDocumentsWereCounted) {
  Fill fill;
  EXPECT_FALSE(fill.seen().documents);
  fill.counted(0);
  EXPECT_EQ(fill.seen().documents, 0U);
}

TEST(Fill, SaysHowMuchWasDrawnSinceTheCount) {
  Counted fill(100);
  EXPECT_TRUE(fill.draw(50));
  fill.collided(20);
  EXPECT_EQ(fill.seen().drawn, 30U);
  fill.counted(130);
  EXPECT_EQ(fill.seen().drawn, 0U);
  fill.collided(5);  // of numbers that were drawn before the count
  EXPECT_EQ(fill.seen().drawn, 0U);
}

TEST(Fill, DrawsUpToItsLimitAndNotAbove) {
  EXPECT_TRUE(Counted(900).draw(1));
  EXPECT_FALSE(Counted(901).draw(1));
  EXPECT_FALSE(Counted(5000).draw(1));
}

TEST(Fill, JudgesDuplicatesFromAThousandDrawsOn) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(999));
  fill.collided(950);
  EXPECT_EQ(fill.seen().fraction, 0);
  EXPECT_TRUE(fill.draw(1));
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.95);
  EXPECT_FALSE(fill.draw(1));
}

TEST(Fill, TakesTheLargerOfTheTwo) {
  Counted fill(300);
  EXPECT_TRUE(fill.draw(1000));
  fill.collided(200);
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.3);
  fill.collided(200);
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.4);
}

TEST(Fill, ForgetsDrawsBeyondTheLastTenThousand) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(1000));
  fill.collided(800);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(fill.draw(1000));
  EXPECT_NEAR(fill.seen().fraction, 800.0 / 11'000, 1e-9);
  EXPECT_TRUE(fill.draw(1000));
  EXPECT_EQ(fill.seen().fraction, 0);
}

TEST(Fill, IsNeverMoreThanAllByDuplicates) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(1000));
  fill.collided(3000);  // of draws that have left the window
  EXPECT_EQ(fill.seen().fraction, 1);
}

TEST(Fill, ForgetsDrawsThatNoneFollowed) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(1000));
  fill.collided(1000);
  EXPECT_FALSE(fill.draw(1));
  fill.age();  // they were just now
  EXPECT_FALSE(fill.draw(1));
  fill.age();
  EXPECT_TRUE(fill.draw(1));
}

TEST(Fill, KeepsDrawsWhileTheyGoOn) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(1000));
  fill.collided(500);
  for (int i = 0; i < 5; ++i) {
    fill.age();
    EXPECT_TRUE(fill.draw(1));
  }
  EXPECT_NEAR(fill.seen().fraction, 500.0 / 1005, 1e-9);
}

struct Attempts {
  std::uint64_t documents;  // of 1000
  std::uint32_t attempts;
};

TEST(Fill, NeedsTheseAttempts) {
  constexpr Attempts kTable[] = {{1, 8},    {10, 8},    {100, 9},    {500, 30},
                                 {800, 93}, {900, 100}, {1000, 100}, {2000, 100}};
  for (const Attempts& row : kTable) {
    EXPECT_EQ(Counted(row.documents).attempts(), row.attempts) << row.documents;
  }
}

TEST(Fill, ExpectsDuplicatesWhereManyValuesMustBeTaken) {
  EXPECT_FALSE(Counted(100).expects_duplicates(40));
  EXPECT_TRUE(Counted(100).expects_duplicates(41)) << "more than four of them";
  EXPECT_TRUE(Counted(101).expects_duplicates(1)) << "more than a tenth";
  EXPECT_FALSE(Counted(0).expects_duplicates(1'000'000));
}

TEST(Fill, ExpectsThemAlsoWhereOnlyALookCanTell) {
  Fill fill;
  fill.limit(kLimits);
  EXPECT_FALSE(fill.expects_duplicates(1));
  EXPECT_TRUE(fill.expects_duplicates(2));
  fill.limit({1e12, 0.1, 0.9});
  EXPECT_FALSE(fill.expects_duplicates(1000)) << "nobody fills that";
}

TEST(Fill, ExpectsThemAfterAHandfulOfDuplicates) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(20));
  fill.collided(3);
  EXPECT_TRUE(fill.expects_duplicates(1));
  EXPECT_EQ(fill.seen().fraction, 0) << "too few draws to show";
}

TEST(Fill, ExpectsNoneInALargeSpaceForAHandfulOfThem) {
  Fill fill;
  fill.limit({1e12, 0.1, 0.9});
  EXPECT_TRUE(fill.draw(20));
  fill.collided(3);
  EXPECT_TRUE(fill.suspect(0.5, 1000));
  EXPECT_FALSE(fill.expects_duplicates(1000));
  EXPECT_TRUE(fill.draw(980));
  fill.collided(200);
  EXPECT_TRUE(fill.expects_duplicates(1));
}

TEST(Fill, SuspectsUntilTheNextLook) {
  Counted fill(0);
  EXPECT_TRUE(fill.draw(1000));
  EXPECT_TRUE(fill.is_known());
  EXPECT_TRUE(fill.suspect(0.5, 1000));
  EXPECT_FALSE(fill.is_known());
  EXPECT_TRUE(fill.expects_duplicates(1));
  fill.looked_up(16'000, 0);
  EXPECT_FALSE(fill.expects_duplicates(1));
}

TEST(Fill, BelievesALookThatSaysOtherwise) {
  for (const std::uint64_t documents : {0U, 40'000U, 99'000U}) {
    Fill fill;
    fill.limit({100'000, 0.1, 0.9});
    fill.counted(documents);
    EXPECT_EQ(fill.draw(3000), documents < 90'000);
    fill.looked_up(16'000, 13'600);
    EXPECT_NEAR(fill.seen().fraction, 0.85, 0.001) << documents;
  }
}

TEST(Fill, CountsASpaceThatWasLookedAtAsAWhole) {
  Counted fill(920);
  fill.looked_up(1000, 890);
  EXPECT_EQ(fill.seen().documents, 890U);
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.89);
}

/// 90.5 % of 2,000 draws may be chance, 95 % are not.
TEST(Fill, RefusesNobodyByChance) {
  Fill fill;
  fill.limit({100'000, 0.1, 0.9});
  fill.looked_up(2000, 1810);
  EXPECT_FALSE(fill.is_full());
  fill.looked_up(2000, 1980);
  EXPECT_TRUE(fill.is_full());
}

/// They say nothing about the others.
TEST(Fill, DoesNotJudgeByValuesThatWereLookedUp) {
  Counted fill(0);
  fill.looked_up(16'000, 8000);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(fill.choose(1000));
  EXPECT_DOUBLE_EQ(fill.seen().fraction, 0.5);
  EXPECT_EQ(fill.seen().drawn, 20'000U);
}

}  // namespace fill_test
}  // namespace idproxy::ids
