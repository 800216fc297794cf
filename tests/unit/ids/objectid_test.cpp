#include "ids/objectid.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace objectid_test {

using std::chrono::hours;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::Id;
using test::next_hex;
using Hex = std::vector<std::string>;

// The id of the BSON corpus: 56e1fc72 e0c917e9c4 714161.
constexpr seconds kCorpusTime{0x56e1fc72};
constexpr std::string_view kCorpusRandom = "e0c917e9c4 714161";

class ObjectIdTest : public ::testing::Test {
 protected:
  std::shared_ptr<Source> make(RandomSource& random, const std::string& output = "objectid") {
    return test::make_source("objectid", {{"output", output}}, {clock_, random});
  }

  test::FakeClock clock_{kCorpusTime};
};

TEST_F(ObjectIdTest, SucceedsWithTheIdOfTheBsonCorpus) {
  test::ScriptedRandom random(kCorpusRandom);
  const auto strategy = make(random);
  Values values;
  ASSERT_TRUE(strategy->next(1, values));
  EXPECT_EQ(values.type(), bson::Type::object_id);

  Buffer document;
  bson::Scope scope(document);
  bson::append_head(document, values.type(), "a");
  document.append(values[0]);
  scope.close();
  EXPECT_EQ(test::to_hex(document.view()), "1400000007610056e1fc72e0c917e9c471416100");
}

TEST_F(ObjectIdTest, SucceedsWithString) {
  test::ScriptedRandom random(kCorpusRandom);
  const auto strategy = make(random, "string");
  Values values;
  ASSERT_TRUE(strategy->next(1, values));
  EXPECT_EQ(values.type(), bson::Type::string);
  EXPECT_EQ(test::to_hex(values[0].first(4)), "19000000");
  EXPECT_EQ(as_text(values[0].subspan(4)), std::string_view("56e1fc72e0c917e9c4714161\0", 25));
}

TEST_F(ObjectIdTest, SucceedsWithAllZeros) {
  std::array<std::uint8_t, kObjectIdSize> id;
  id.fill(0xff);
  write_objectid({0, 0}, {}, id.data());
  EXPECT_EQ(test::to_hex(id), "000000000000000000000000");
}

struct TimeCase {
  const char* name;
  nanoseconds wall;
  const char* id;
};
void PrintTo(const TimeCase& row, std::ostream* out) {
  *out << row.name;
}

class ObjectIdTime : public ::testing::TestWithParam<TimeCase> {};

TEST_P(ObjectIdTime, SucceedsWithUnsignedSeconds) {
  test::FakeClock clock(GetParam().wall);
  test::ScriptedRandom random("0102030405 060708");
  const auto strategy = test::make_source("objectid", {}, {clock, random});
  EXPECT_EQ(next_hex(*strategy, 1), Hex{GetParam().id + std::string("0102030405060708")});
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, ObjectIdTime,
    ::testing::Values(TimeCase{"Epoch", seconds(0), "00000000"},
                      TimeCase{"BeforeEpoch", nanoseconds(-1), "00000000"},
                      TimeCase{"FractionIsCut", seconds(1) - nanoseconds(1), "00000000"},
                      TimeCase{"LastSigned", seconds(0x7fffffff), "7fffffff"},     // 2038
                      TimeCase{"FirstUnsigned", seconds(0x80000000), "80000000"},  // 2038
                      TimeCase{"LastUnsigned", seconds(0xffffffff), "ffffffff"}),  // 2106
    [](const auto& row) { return row.param.name; });

TEST_F(ObjectIdTest, SucceedsWithCounterThatWraps) {
  test::ScriptedRandom random("0102030405 fffffe");
  const auto strategy = make(random);
  EXPECT_EQ(next_hex(*strategy, 3), (Hex{"56e1fc720102030405fffffe", "56e1fc720102030405ffffff",
                                         "56e1fc720102030405000000"}));
  clock_.advance(seconds(1));
  EXPECT_EQ(next_hex(*strategy, 1), Hex{"56e1fc730102030405000001"});
}

TEST_F(ObjectIdTest, SucceedsWithBytesOfItsOwnPerRule) {
  test::ScriptedRandom random("0102030405 060708 1112131415 161718");
  const auto one = make(random);
  const auto two = make(random);
  EXPECT_EQ(next_hex(*one, 1), Hex{"56e1fc720102030405060708"});
  EXPECT_EQ(next_hex(*two, 1), Hex{"56e1fc721112131415161718"});
  EXPECT_EQ(next_hex(*one, 1), Hex{"56e1fc720102030405060709"});
}

TEST_F(ObjectIdTest, SucceedsWithNewBytesAfterFork) {
  test::ScriptedRandom random("0102030405 060708 1112131415 161718");
  const auto strategy = make(random);
  EXPECT_EQ(next_hex(*strategy, 1), Hex{"56e1fc720102030405060708"});
  random.fork();
  EXPECT_EQ(next_hex(*strategy, 2), (Hex{"56e1fc721112131415161718", "56e1fc721112131415161719"}));
}

TEST_F(ObjectIdTest, SucceedsWithTheLastSecondWhenTheClockGoesBack) {
  test::ScriptedRandom random(kCorpusRandom);
  const auto strategy = make(random);
  EXPECT_EQ(next_hex(*strategy, 1), Hex{"56e1fc72e0c917e9c4714161"});
  clock_.advance(-hours(1));
  EXPECT_EQ(next_hex(*strategy, 1), Hex{"56e1fc72e0c917e9c4714162"});
  clock_.advance(hours(2));
  EXPECT_EQ(next_hex(*strategy, 1), Hex{"56e20a82e0c917e9c4714163"});
}

TEST_F(ObjectIdTest, SucceedsWithDistinctIdsWhateverTheClockDoes) {
  test::SeededRandom random;
  const auto strategy = make(random);
  const std::vector<nanoseconds> steps{-hours(1),   nanoseconds(0), seconds(1),
                                       -seconds(1), hours(1),       hours(1),
                                       -hours(1),   -seconds(2),    seconds(1)};
  std::vector<Id> ids;
  for (std::size_t i = 0; i < 1000; ++i) {
    clock_.advance(steps[i % steps.size()]);
    ASSERT_TRUE(test::collect(*strategy, 60, ids));
  }
  EXPECT_TRUE(test::all_distinct(ids));
}

// Counting in place of sorting: 2^24 ids of one second are consecutive, so all are distinct.
TEST(ObjectIdSequence, SucceedsWithTheNextSecondWhenAllCountersAreSpent) {
  constexpr std::uint32_t kFirst = 0xabcdef;
  ObjectIdSequence sequence(kFirst);
  for (std::uint32_t i = 0; i < kObjectIdCounters; ++i) {
    if (i % 1000 == 0) sequence.follow(100);
    const auto [second, counter] = sequence.next();
    // 16 million assertions of gtest would take a second.
    if (second != 100 || counter != (kFirst + i) % kObjectIdCounters) FAIL() << i;
  }
  sequence.follow(100);
  ObjectIdPosition position = sequence.next();
  EXPECT_EQ(position.second, 101U);
  EXPECT_EQ(position.counter, kFirst);
  // The clock comes to the second that was taken in advance: its spent counters stay spent.
  sequence.follow(101);
  position = sequence.next();
  EXPECT_EQ(position.second, 101U);
  EXPECT_EQ(position.counter, kFirst + 1);
}

TEST(ObjectIdSequence, SucceedsWithAFullSecondAfterTheClockWentOn) {
  ObjectIdSequence sequence(0);
  sequence.follow(7);
  for (int i = 0; i < 10; ++i) static_cast<void>(sequence.next());
  sequence.follow(8);
  for (std::uint32_t i = 0; i < kObjectIdCounters; ++i) {
    if (sequence.next().second != 8) FAIL() << i;
  }
  const auto [second, counter] = sequence.next();
  EXPECT_EQ(second, 9U);
  EXPECT_EQ(counter, 10U);
}

TEST(ObjectIdSequence, SucceedsPastTheEndOfTheField) {
  ObjectIdSequence sequence(5);
  sequence.follow(0xffffffff);
  EXPECT_EQ(sequence.next().second, 0xffffffffU);
  sequence.follow(0x100000000);
  const auto [second, counter] = sequence.next();
  EXPECT_EQ(second, 0U);
  EXPECT_EQ(counter, 6U);
}

TEST(ObjectIdParameters, FailsIfOutputIsUnknown) {
  test::FakeClock clock;
  test::SeededRandom random;
  test::FakeParameters parameters(test::FakeParameters::Table{{"output", "int64"}});
  static_cast<void>(test::make_strategy("objectid", parameters, {clock, random}));
  EXPECT_EQ(parameters.errors().size(), 1U);
}

}  // namespace objectid_test
}  // namespace idproxy::ids
