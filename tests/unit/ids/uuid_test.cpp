#include "ids/uuid.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <ostream>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace uuid_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::Id;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

std::string text_of(const Uuid& uuid) {
  Values values;
  append_uuid(uuid, {Representation::string}, values);
  return std::string(as_text(values[0].subspan(4, 36)));
}

Uuid uuid_from(std::string_view text) {
  const auto bytes = test::from_hex(text);
  Uuid uuid{};
  std::copy_n(bytes.begin(), uuid.size(), uuid.begin());
  return uuid;
}

/// The next ids as text; the strategy is made with representation string.
Texts next_texts(Source& strategy, std::size_t n) {
  Values values;
  Texts texts;
  if (!strategy.next(n, values)) return texts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    texts.emplace_back(as_text(values[i].subspan(4, 36)));
  }
  return texts;
}

class UuidTest : public ::testing::Test {
 protected:
  std::shared_ptr<Source> make(RandomSource& random, Table table = {}) {
    return test::make_source("uuid", table, {clock_, random});
  }
  std::shared_ptr<Source> make_text(RandomSource& random, Table table = {}) {
    table["representation"] = "string";
    return make(random, std::move(table));
  }

  test::FakeClock clock_;  // stands at the time of the RFC's vectors
};

// --- Layouts: RFC 9562, appendix A ---

TEST(UuidLayout, SucceedsWithTheVectorOfVersion1) {
  EXPECT_EQ(text_of(layout_v1(0x1EC9414C232AB00, 0x33C8, {0x9f, 0x6b, 0xde, 0xce, 0xd8, 0x46})),
            "c232ab00-9414-11ec-b3c8-9f6bdeced846");
}

TEST(UuidLayout, SucceedsWithTheVectorOfVersion4) {
  const auto random = test::from_hex("919108F752D133205BACF847DB4148A8");
  EXPECT_EQ(text_of(layout_v4(random.data())), "919108f7-52d1-4320-9bac-f847db4148a8");
}

TEST(UuidLayout, SucceedsWithTheVectorOfVersion7) {
  Random74 random{0xCC3, 0x18C4DC0C0C07398F};
  EXPECT_EQ(text_of(layout_v7(0x017F22E279B0, random)), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  EXPECT_TRUE(random.raise(1));
  EXPECT_EQ(text_of(layout_v7(0x017F22E279B0, random)), "017f22e2-79b0-7cc3-98c4-dc0c0c073990");
}

TEST(UuidLayout, SucceedsWithAllBitsSet) {
  constexpr auto kAll = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(text_of(layout_v7((std::uint64_t{1} << 48) - 1, {0xFFF, kAll >> 2})),
            "ffffffff-ffff-7fff-bfff-ffffffffffff");
  EXPECT_EQ(text_of(layout_v1(kAll >> 4, 0x3FFF, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff})),
            "ffffffff-ffff-1fff-bfff-ffffffffffff");
}

TEST(UuidLayout, SucceedsWithTheBytesOfTheBsonCorpus) {
  Values values;
  append_uuid(uuid_from("73ffd264-44b3-4c69-90e8-e7d1dfc035d4"), {Representation::standard},
              values);
  Buffer document;
  bson::Scope scope(document);
  bson::append_head(document, values.type(), "x");
  document.append(values[0]);
  scope.close();
  EXPECT_EQ(test::to_hex(document.view()),
            "1d000000057800100000000473ffd26444b34c6990e8e7d1dfc035d400");
}

struct RepresentationCase {
  const char* name;
  const char* key;
  Representation representation;
  const char* value;  // subtype and bytes
};
void PrintTo(const RepresentationCase& row, std::ostream* out) {
  *out << row.name;
}

class UuidRepresentation : public ::testing::TestWithParam<RepresentationCase> {};

TEST_P(UuidRepresentation, SucceedsWithSubtypeAndOrder) {
  Values values;
  append_uuid(uuid_from("00112233-4455-6677-8899-aabbccddeeff"), {GetParam().representation},
              values);
  EXPECT_EQ(values.type(), bson::Type::binary);
  EXPECT_EQ(test::to_hex(values[0]), std::string("10000000") + GetParam().value);
}

TEST_P(UuidRepresentation, SucceedsByItsName) {
  test::FakeClock clock;
  test::ScriptedRandom random("00112233445546770899aabbccddeeff");
  const auto strategy = test::make_source(
      "uuid", Table{{"version", "4"}, {"representation", GetParam().key}}, {clock, random});
  Values expected;
  append_uuid(uuid_from("00112233-4455-4677-8899-aabbccddeeff"), {GetParam().representation},
              expected);
  EXPECT_EQ(test::next_hex(*strategy, 1), Texts{test::to_hex(expected[0])});
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, UuidRepresentation,
    ::testing::Values(RepresentationCase{"Standard", "standard", Representation::standard,
                                         "0400112233445566778899aabbccddeeff"},
                      RepresentationCase{"Java", "java-legacy", Representation::java_legacy,
                                         "037766554433221100ffeeddccbbaa9988"},
                      RepresentationCase{"Csharp", "csharp-legacy", Representation::csharp_legacy,
                                         "0333221100554477668899aabbccddeeff"},
                      RepresentationCase{"Python", "python-legacy", Representation::python_legacy,
                                         "0300112233445566778899aabbccddeeff"}),
    [](const auto& row) { return row.param.name; });

TEST(UuidLayout, SucceedsWithString) {
  Values values;
  append_uuid(uuid_from("00112233-4455-6677-8899-AABBCCDDEEFF"), {Representation::string}, values);
  EXPECT_EQ(values.type(), bson::Type::string);
  EXPECT_EQ(test::to_hex(values[0].first(4)), "25000000");
  EXPECT_EQ(as_text(values[0].subspan(4)),
            std::string_view("00112233-4455-6677-8899-aabbccddeeff\0", 37));
}

// --- Version 7 ---

TEST(UuidRandom74, SucceedsWithCarryIntoRandA) {
  Random74 random{0x001, 0x3FFFFFFFFFFFFFFF};
  EXPECT_TRUE(random.raise(1));
  EXPECT_EQ(random.rand_a, 0x002);
  EXPECT_EQ(random.rand_b, 0U);
}

TEST(UuidRandom74, FailsIfTheSumHasMoreThan74Bits) {
  Random74 last{0xFFF, 0x3FFFFFFFFFFFFFFE};
  EXPECT_TRUE(last.raise(1));
  EXPECT_FALSE(last.raise(1));
}

TEST(Uuid7Position, SucceedsWithStepsOfOneToTwoToThe32) {
  test::ScriptedRandom random;
  const Uuid7Position first{1000, {0x7FF, 0}};
  Uuid7Position second = behind(first, 0, random);
  EXPECT_EQ(second.random.rand_b, 1U);
  second = behind(second, 0xFFFFFFFF, random);
  EXPECT_EQ(second.random.rand_b, 0x100000001U);
  EXPECT_EQ(second.milliseconds, 1000U);
}

TEST(Uuid7Position, SucceedsWithTheNextMillisecondOnOverflow) {
  test::ScriptedRandom random("ffff ffffffffffffffff");
  const Uuid7Position last{1000, {0xFFF, 0x3FFFFFFFFFFFFFFF}};
  const Uuid7Position next = behind(last, 0, random);
  EXPECT_EQ(next.milliseconds, 1001U);
  EXPECT_EQ(next.random.rand_a, 0x7FF);  // the top bit of the 74 is 0
  EXPECT_EQ(next.random.rand_b, 0x3FFFFFFFFFFFFFFFU);
}

TEST_F(UuidTest, SucceedsWithTheVectorOfVersion7ThroughTheStrategy) {
  test::ScriptedRandom random("0CC318C4DC0C0C07398F");
  const auto strategy = make_text(random, {{"monotonic", "none"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"});
}

TEST_F(UuidTest, SucceedsWithFreshBitsForEachIfMonotonicIsNone) {
  test::ScriptedRandom random("ffffffffffffffffffff 00000000000000000000");
  const auto strategy = make_text(random, {{"monotonic", "none"}});
  EXPECT_EQ(next_texts(*strategy, 2), (Texts{"017f22e2-79b0-7fff-bfff-ffffffffffff",
                                             "017f22e2-79b0-7000-8000-000000000000"}));
}

TEST_F(UuidTest, SucceedsWithSeedAndStepsInOneMillisecond) {
  test::ScriptedRandom random(
      "FCC318C4DC0C0C07398F 00000000 0000000f 00000001 ffffffffffffffffffff");
  const auto strategy = make_text(random);
  EXPECT_EQ(next_texts(*strategy, 3),
            (Texts{"017f22e2-79b0-74c3-98c4-dc0c0c07398f", "017f22e2-79b0-74c3-98c4-dc0c0c073990",
                   "017f22e2-79b0-74c3-98c4-dc0c0c0739a0"}));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-74c3-98c4-dc0c0c0739a2"});
  clock_.advance(milliseconds(1));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b1-77ff-bfff-ffffffffffff"});
  EXPECT_EQ(random.left(), 0U);
}

TEST_F(UuidTest, SucceedsWithTheLastTimeUpTo10SecondsBack) {
  test::ScriptedRandom random(
      "00000000000000000000 00000000 00000000 00000000 00010000000000000000");
  const auto strategy = make_text(random);
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7000-8000-000000000000"});
  clock_.advance(-milliseconds(1));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7000-8000-000000000001"});
  clock_.set(test::FakeClock::kStart - seconds(10));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7000-8000-000000000002"});
  clock_.set(test::FakeClock::kStart);
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7000-8000-000000000003"});
  clock_.set(test::FakeClock::kStart - seconds(10) - nanoseconds(1));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-529f-7001-8000-000000000000"});
}

TEST_F(UuidTest, SucceedsWithNewBitsAfterFork) {
  test::ScriptedRandom random("00000000000000000000 00010000000000000000");
  const auto strategy = make_text(random);
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7000-8000-000000000000"});
  random.fork();
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"017f22e2-79b0-7001-8000-000000000000"});
}

TEST_F(UuidTest, SucceedsWithTimeZeroBeforeTheEpoch) {
  test::ScriptedRandom random("00000000000000000000");
  clock_.set(-seconds(1));
  const auto strategy = make_text(random);
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"00000000-0000-7000-8000-000000000000"});
}

TEST_F(UuidTest, SucceedsWithAscendingIdsWithinTenSecondsOfDisorder) {
  test::SeededRandom random;
  const auto strategy = make(random);
  const std::vector<nanoseconds> steps{nanoseconds(0), milliseconds(1),  nanoseconds(300'000),
                                       seconds(9),     -seconds(4),      -seconds(5),
                                       nanoseconds(0), -milliseconds(1), milliseconds(2)};
  std::vector<Id> ids;
  for (std::size_t i = 0; i < 1000; ++i) {
    clock_.advance(steps[i % steps.size()]);
    ASSERT_TRUE(test::collect(*strategy, 300, ids));
  }
  const auto descent =
      std::adjacent_find(ids.begin(), ids.end(), [](const Id& a, const Id& b) { return a >= b; });
  EXPECT_EQ(descent, ids.end());
}

// --- Version 1 ---

constexpr std::string_view kVectorSeed = "33C8 9F6BDECED846";

TEST_F(UuidTest, SucceedsWithTheVectorOfVersion1ThroughTheStrategy) {
  test::ScriptedRandom random(kVectorSeed);
  const auto strategy = make_text(random, {{"version", "1"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab00-9414-11ec-b3c8-9f6bdeced846"});
}

TEST_F(UuidTest, SucceedsWithAMulticastNode) {
  test::ScriptedRandom random("FFFF 000000000000");
  const auto strategy = make_text(random, {{"version", "1"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab00-9414-11ec-bfff-010000000000"});
}

TEST_F(UuidTest, SucceedsWithFollowingTicksInOneTick) {
  test::ScriptedRandom random(kVectorSeed);
  const auto strategy = make_text(random, {{"version", "1"}});
  EXPECT_EQ(next_texts(*strategy, 2), (Texts{"c232ab00-9414-11ec-b3c8-9f6bdeced846",
                                             "c232ab01-9414-11ec-b3c8-9f6bdeced846"}));
  // One tick later the clock is behind the ids, but has not gone back: the same clock_seq.
  clock_.advance(nanoseconds(100));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab02-9414-11ec-b3c8-9f6bdeced846"});
  clock_.advance(nanoseconds(899));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab09-9414-11ec-b3c8-9f6bdeced846"});
}

TEST_F(UuidTest, SucceedsWithTheNextClockSeqWhenTheClockGoesBack) {
  test::ScriptedRandom random("FFFF 9F6BDECED846");
  const auto strategy = make_text(random, {{"version", "1"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab00-9414-11ec-bfff-9f6bdeced846"});
  clock_.advance(-nanoseconds(100));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232aaff-9414-11ec-8000-9f6bdeced846"});
  clock_.advance(nanoseconds(100));
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab00-9414-11ec-8000-9f6bdeced846"});
}

TEST_F(UuidTest, SucceedsWithANewNodeWhenAllClockSeqsAreUsed) {
  test::ScriptedRandom random("0000 010000000000 0000 030000000000");
  const auto strategy = make_text(random, {{"version", "1"}});
  Texts last = next_texts(*strategy, 1);
  for (int i = 1; i < 1 << 14; ++i) {
    clock_.advance(-nanoseconds(100));
    last = next_texts(*strategy, 1);
  }
  EXPECT_EQ(last.at(0).substr(18), "-bfff-010000000000");
  clock_.advance(-nanoseconds(100));
  EXPECT_EQ(next_texts(*strategy, 1).at(0).substr(18), "-8000-030000000000");
}

TEST_F(UuidTest, SucceedsWithANewNodeAfterFork) {
  test::ScriptedRandom random("0000 010000000000 0000 030000000000");
  const auto strategy = make_text(random, {{"version", "1"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab00-9414-11ec-8000-010000000000"});
  random.fork();
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"c232ab01-9414-11ec-8000-030000000000"});
}

// --- Every version ---

TEST_F(UuidTest, SucceedsWithTheVectorOfVersion4ThroughTheStrategy) {
  test::ScriptedRandom random("919108F752D133205BACF847DB4148A8");
  const auto strategy = make_text(random, {{"version", "4"}});
  EXPECT_EQ(next_texts(*strategy, 1), Texts{"919108f7-52d1-4320-9bac-f847db4148a8"});
}

class UuidVersion : public ::testing::TestWithParam<const char*> {};

TEST_P(UuidVersion, SucceedsWithDistinctIdsWhateverTheClockDoes) {
  test::FakeClock clock;
  test::SeededRandom random;
  const auto strategy = test::make_source("uuid", Table{{"version", GetParam()}}, {clock, random});
  const std::vector<nanoseconds> steps{-hours(1),  nanoseconds(0), nanoseconds(100), seconds(1),
                                       hours(1),   hours(1),       -hours(1),        -seconds(1),
                                       seconds(9), -seconds(9)};
  std::vector<Id> ids;
  for (std::size_t i = 0; i < 1000; ++i) {
    clock.advance(steps[i % steps.size()]);
    ASSERT_TRUE(test::collect(*strategy, 60, ids));
  }
  EXPECT_TRUE(test::all_distinct(ids));
}

TEST_P(UuidVersion, SucceedsWithVersionAndVariantBits) {
  test::FakeClock clock;
  test::SeededRandom random;
  const auto strategy = test::make_source(
      "uuid", Table{{"version", GetParam()}, {"representation", "string"}}, {clock, random});
  for (const std::string& text : next_texts(*strategy, 1000)) {
    ASSERT_EQ(text[14], *GetParam());
    ASSERT_NE(std::string_view("89ab").find(text[19]), std::string_view::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, UuidVersion, ::testing::Values("1", "4", "7"),
                         [](const auto& row) { return std::string("V") + row.param; });

// --- Parameters ---

struct ParameterCase {
  const char* name;
  Table table;
  Texts errors;
  Texts warnings;
};
void PrintTo(const ParameterCase& row, std::ostream* out) {
  *out << row.name;
}

class UuidParameters : public ::testing::TestWithParam<ParameterCase> {};

TEST_P(UuidParameters, SucceedsWithTheseFindings) {
  test::FakeClock clock;
  test::SeededRandom random;
  test::FakeParameters parameters(GetParam().table);
  const auto strategy = test::make_strategy("uuid", parameters, {clock, random});
  EXPECT_EQ(parameters.errors(), GetParam().errors);
  EXPECT_EQ(parameters.warnings(), GetParam().warnings);
  EXPECT_TRUE(parameters.unknown().empty());
  EXPECT_TRUE(strategy || !GetParam().errors.empty());
}

const Texts kOrderLost{
    "representation: stores the bytes of version 7 in another order: ids are not in time order"};

INSTANTIATE_TEST_SUITE_P(
    Tables, UuidParameters,
    ::testing::Values(
        ParameterCase{"Defaults", {}, {}, {}},
        ParameterCase{"Version0", {{"version", "0"}}, {"version: must be 1, 4 or 7, is 0"}, {}},
        ParameterCase{"Version2", {{"version", "2"}}, {"version: must be 1, 4 or 7, is 2"}, {}},
        ParameterCase{"Version8", {{"version", "8"}}, {"version: must be 1, 4 or 7, is 8"}, {}},
        ParameterCase{
            "VersionMinus4", {{"version", "-4"}}, {"version: must be 1, 4 or 7, is -4"}, {}},
        ParameterCase{"UnknownRepresentation",
                      {{"representation", "legacy"}},
                      {"representation: must be one of standard, java-legacy, csharp-legacy, "
                       "python-legacy or string, is text 'legacy'"},
                      {}},
        ParameterCase{"UnknownMonotonic",
                      {{"monotonic", "host"}},
                      {"monotonic: must be one of process or none, is text 'host'"},
                      {}},
        ParameterCase{"AllAtOnce",
                      {{"monotonic", "host"}, {"representation", "x"}, {"version", "3"}},
                      {"representation: must be one of standard, java-legacy, csharp-legacy, "
                       "python-legacy or string, is text 'x'",
                       "monotonic: must be one of process or none, is text 'host'",
                       "version: must be 1, 4 or 7, is 3"},
                      {}},
        ParameterCase{"JavaOrder", {{"representation", "java-legacy"}}, {}, kOrderLost},
        ParameterCase{"CsharpOrder", {{"representation", "csharp-legacy"}}, {}, kOrderLost},
        ParameterCase{"PythonOrder", {{"representation", "python-legacy"}}, {}, {}},
        ParameterCase{
            "JavaVersion4", {{"representation", "java-legacy"}, {"version", "4"}}, {}, {}}),
    [](const auto& row) { return row.param.name; });

}  // namespace uuid_test
}  // namespace idproxy::ids
