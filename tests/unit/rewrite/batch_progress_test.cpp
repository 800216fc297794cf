#include "rewrite/batch_progress.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::rewrite {
namespace batch_progress_test {

std::string text(std::span<const std::int32_t> statements) {
  std::string text;
  for (const std::int32_t statement : statements) {
    text += (text.empty() ? "" : " ") + std::to_string(statement);
  }
  return text;
}

std::vector<std::int32_t> vector_of(std::span<const std::int32_t> statements) {
  return {statements.begin(), statements.end()};
}

/// "what is out | what is to be sent".
std::string state(const BatchProgress& progress) {
  return text(progress.out()) + " | " + text(progress.todo());
}

TEST(BatchProgress, BeginsWithAllToBeSentOrAllOut) {
  BatchProgress progress(3, Stops::never);
  EXPECT_EQ(state(progress), " | 0 1 2");
  EXPECT_EQ(progress.commands(), 0U);
  EXPECT_FALSE(progress.is_only_command());
  progress.sent_whole();
  EXPECT_EQ(state(progress), "0 1 2 | ");
  EXPECT_EQ(progress.commands(), 1U);
  EXPECT_TRUE(progress.is_only_command());
}

TEST(BatchProgress, SendsWhatFits) {
  BatchProgress progress(5, Stops::at_errors);
  progress.send(2);
  EXPECT_EQ(state(progress), "0 1 | 2 3 4");
  EXPECT_FALSE(progress.is_only_command());
  progress.answered({});
  progress.send(9);
  EXPECT_EQ(state(progress), "2 3 4 | ");
  EXPECT_EQ(progress.commands(), 2U);
  EXPECT_FALSE(progress.is_only_command());
}

TEST(BatchProgress, SendsWhatCollidedBeforeTheNextPart) {
  BatchProgress progress(6, Stops::never);
  EXPECT_TRUE(progress.begins_part());
  progress.send(4);
  progress.answered(1);
  EXPECT_EQ(text(progress.tried()), "0 1 2 3");
  EXPECT_EQ(text(progress.tail()), "");
  progress.repeat(std::vector<std::int32_t>{1, 3});
  EXPECT_EQ(state(progress), "0 1 2 3 | 1 3 4 5");
  EXPECT_FALSE(progress.begins_part());
  EXPECT_FALSE(progress.only_repeats());
  progress.send(1);  // no more fits
  EXPECT_EQ(state(progress), "1 | 3 4 5");
  EXPECT_FALSE(progress.begins_part());
  progress.answered({});
  progress.send(9);
  EXPECT_EQ(state(progress), "3 | 4 5");
  EXPECT_TRUE(progress.begins_part());
  progress.answered({});
  progress.send(9);
  EXPECT_EQ(state(progress), "4 5 | ");
  progress.repeat(std::vector<std::int32_t>{4});
  EXPECT_TRUE(progress.only_repeats());
}

TEST(BatchProgress, LimitsThePartsOfUnorderedBatchesOnly) {
  for (const Stops stops : {Stops::never, Stops::at_errors, Stops::in_transaction}) {
    BatchProgress progress(kPartStatements + 1, stops);
    progress.send(kPartStatements + 1);
    EXPECT_EQ(progress.out().size(), kPartStatements + (stops == Stops::never ? 0 : 1));
  }
}

TEST(BatchProgress, RepeatsTheTailOfAnOrderedBatch) {
  BatchProgress progress(4, Stops::at_errors);
  progress.sent_whole();
  progress.answered(1);
  EXPECT_EQ(text(progress.tried()), "0");
  EXPECT_EQ(text(progress.tail()), "1 2 3");
  progress.repeat(vector_of(progress.tail()));
  EXPECT_TRUE(progress.only_repeats());
  progress.send(9);
  EXPECT_EQ(state(progress), "1 2 3 | ");
  EXPECT_EQ(text(progress.tail()), "");  // it is not known yet
  progress.answered({});
  EXPECT_EQ(text(progress.tried()), "1 2 3");
}

/// Half of it with each collision, twice what went well before it at least, 100 at least; double
/// where all went well.
TEST(BatchProgress, LimitsTheTail) {
  BatchProgress progress(10'000, Stops::at_errors);
  progress.sent_whole();
  const auto fail_at = [&](std::size_t failed) {
    progress.answered(failed);
    progress.repeat(vector_of(progress.tail()));
    progress.send(10'000);
    return progress.out().size();
  };
  EXPECT_EQ(fail_at(0), 5'000U);
  EXPECT_EQ(fail_at(4'000), 6'000U);  // no more are left; up to 8,000
  EXPECT_EQ(fail_at(1), 4'000U);
  EXPECT_EQ(fail_at(0), 2'000U);
  for (int i = 0; i < 8; ++i) fail_at(0);
  EXPECT_EQ(fail_at(0), 100U);
  progress.answered({});
  progress.send(10'000);
  EXPECT_EQ(progress.out().size(), 200U);
}

/// However often it is doubled.
TEST(BatchProgress, LimitsTheTailToNothingNever) {
  BatchProgress progress(200, Stops::at_errors);
  progress.send(1);
  progress.answered(0);
  progress.repeat(vector_of(progress.tail()));
  for (int i = 0; i < 200; ++i) {
    progress.send(1);
    ASSERT_EQ(progress.out().size(), 1U) << i;
    progress.answered({});
  }
}

TEST(BatchProgress, JoinsWhatIsLeftToTheCommandThatIsOut) {
  BatchProgress progress(4, Stops::never);
  progress.send(2);
  progress.join();
  EXPECT_EQ(state(progress), "0 1 2 3 | ");
  EXPECT_TRUE(progress.is_only_command());
}

}  // namespace batch_progress_test
}  // namespace idproxy::rewrite
