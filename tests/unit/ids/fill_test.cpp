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

}  // namespace fill_test
}  // namespace idproxy::ids
