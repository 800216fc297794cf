#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "idproxy/ids/machine_lease.hpp"
#include "idproxy/ids/strategies.hpp"
#include "support/fake_clock.hpp"
#include "support/machine_leases.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

// Vectors: published ids of Twitter and Discord, Instagram's engineering post; the others were
// computed by an independent implementation.
namespace idproxy::ids {
namespace snowflake_test {

using std::chrono::milliseconds;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

constexpr SnowflakeLayout kSonyflake{1'735'689'600'000, 10, 39, 16, 8, true};

class SnowflakeTest : public ::testing::Test {
 protected:
  SnowflakeTest() { clock_.set(milliseconds(1735689600000)); }

  std::unique_ptr<RuleSource> make(const Table& table) {
    return test::make_strategy("snowflake", table, {clock_, random_});
  }
  /// "time machine sequence", or what is wrong.
  std::string decoded(const Table& table, std::string_view value) {
    const auto meaning = make(table)->decode(value);
    if (!meaning) return meaning.error();
    std::string text;
    for (const auto& [name, is] : *meaning) text += (text.empty() ? "" : " ") + is;
    return text;
  }
  /// With the machine number of the table.
  Values next(Table table, std::size_t n) {
    table.insert({"machine.lease", "none"});
    test::LeasingStore store;
    const auto rule = make(table);
    rule->announce(store);
    Values values;
    EXPECT_TRUE(rule->bind("shop.orders", &store).source->next(n, values));
    return values;
  }
  std::int64_t number(Table table, std::size_t n = 1) {
    const Values values = next(std::move(table), n);
    EXPECT_EQ(values.type(), bson::Type::int64);
    return load_i64(values[n - 1].data());
  }
  std::string text(Table table) {
    const Values values = next(std::move(table), 1);
    EXPECT_EQ(values.type(), bson::Type::string);
    return std::string(as_text(values[0].subspan(4, values[0].size() - 5)));
  }
  Texts errors(const Table& table) {
    test::FakeParameters parameters(table);
    (void)test::make_strategy("snowflake", parameters, {clock_, random_});
    return parameters.errors();
  }

  test::FakeClock clock_;
  test::SeededRandom random_;
};

TEST_F(SnowflakeTest, SucceedsWithTheVectors) {
  EXPECT_EQ(number({{"machine.id", "5"}}, 8), 132633958809620487);
  EXPECT_EQ(number({{"preset", "js53"}, {"machine.id", "5"}}, 8), 129525350401287);
  clock_.set(milliseconds(1645557742000));
  EXPECT_EQ(number({{"preset", "twitter"}, {"machine.id", "1"}}), 1496203729957818368);
  EXPECT_EQ(number({{"preset", "twitter"}, {"machine.id", "1023"}}, 4096), 1496203729962008575);
  clock_.set(milliseconds(1462015105796));
  EXPECT_EQ(number({{"preset", "discord"}, {"machine.id", "32"}}, 8), 175928847299117063);
  clock_.set(milliseconds(1314220021721 + 1387263000));
  EXPECT_EQ(number({{"preset", "instagram"}, {"machine.id", "1341"}}, 906), 11637205501278089);
}

TEST_F(SnowflakeTest, SonyflakesHaveTheMachineLast) {
  clock_.advance(milliseconds(12'340));
  EXPECT_EQ(number({{"preset", "sonyflake"}, {"machine.id", "513"}}, 3),
            1234LL << 24 | 2LL << 16 | 513);
  EXPECT_EQ(kSonyflake.position_in(1234LL << 24 | 2LL << 16 | 513), 1234 << 8 | 2);
  EXPECT_EQ(kSonyflake.machine_in(1234LL << 24 | 2LL << 16 | 513), 513);
}

TEST_F(SnowflakeTest, DecodesTheVectors) {
  EXPECT_EQ(decoded({}, "132633958809620487"), "2025-01-01T00:00:00.000Z 5 7");
  EXPECT_EQ(decoded({{"preset", "js53"}}, "129525350401287"), "2025-01-01T00:00:00.000Z 5 7");
  EXPECT_EQ(decoded({{"preset", "twitter"}}, "1496203729962008575"),
            "2022-02-22T19:22:22.000Z 1023 4095");
  EXPECT_EQ(decoded({{"preset", "discord"}}, "175928847299117063"),
            "2016-04-30T11:18:25.796Z 32 7");
  EXPECT_EQ(decoded({{"preset", "instagram"}}, "11637205501278089"),
            "2011-09-09T22:28:04.721Z 1341 905");
  EXPECT_EQ(decoded({{"preset", "sonyflake"}}, std::to_string(1234LL << 24 | 2LL << 16 | 513)),
            "2025-01-01T00:00:12.340Z 513 2");
  EXPECT_EQ(decoded({{"encoding", "base62"}, {"prefix", "o_"}}, "o_09nSpDrO1x9"),
            "2025-01-01T00:00:00.000Z 5 7");
  EXPECT_EQ(decoded({}, "x1"), "is no integer of 64 bits");
  EXPECT_EQ(decoded({}, "007"), "is no integer of 64 bits");
  EXPECT_EQ(decoded({}, "-7"), "is negative");
  EXPECT_EQ(decoded({{"preset", "js53"}}, "9007199254740992"), "has more than 53 bits");
  EXPECT_EQ(decoded({{"output", "string"}, {"prefix", "o_"}}, "7"), "does not begin with \"o_\"");
}

TEST_F(SnowflakeTest, WritesTexts) {
  const Table five{{"machine.id", "5"}};
  const auto with = [&](Table table) {
    table.insert(five.begin(), five.end());
    return text(std::move(table));
  };
  EXPECT_EQ(with({{"output", "string"}}), "132633958809620480");
  EXPECT_EQ(with({{"output", "string"}, {"prefix", "o-"}}), "o-132633958809620480");
  EXPECT_EQ(with({{"encoding", "hex"}}), "01d735e200005000");
  EXPECT_EQ(with({{"encoding", "base62"}}).size(), 11U);
  EXPECT_EQ(with({{"encoding", "base58"}}).size(), 11U);
  EXPECT_EQ(with({{"encoding", "base32"}}).size(), 13U);
}

TEST_F(SnowflakeTest, StartsAtRandomInTheLowerHalf) {
  bool varies = false;
  const std::int64_t base = number({{"machine.id", "5"}});
  for (int i = 0; i < 20; ++i) {
    const std::int64_t id = number({{"machine.id", "5"}, {"sequence_start", "random"}});
    EXPECT_EQ(id >> 12, base >> 12);
    EXPECT_LT(id & 4095, 2048);
    varies = varies || id != base;
  }
  EXPECT_TRUE(varies);
}

TEST_F(SnowflakeTest, JudgesStoredValues) {
  const auto rule = make({{"preset", "js53"}});
  Values values;
  store_i64(values.add(bson::Type::int64, 8), 129525350401287);
  store_i64(values.add(bson::Type::int64, 8), -1);
  store_i64(values.add(bson::Type::int64, 8), std::int64_t{1} << 53);
  EXPECT_EQ(rule->fit(bson::Type::int64, values[0]), Fit::fits);
  EXPECT_EQ(rule->fit(bson::Type::int64, values[1]), Fit::wrong_form);
  EXPECT_EQ(rule->fit(bson::Type::int64, values[2]), Fit::wrong_form);
  EXPECT_EQ(rule->fit(bson::Type::string, values[0]), Fit::wrong_type);
}

TEST_F(SnowflakeTest, FailsWithoutAStore) {
  test::LeasingStore store;
  store.machines.is_down = true;
  const auto rule = make({});
  rule->announce(store);
  Values values;
  const Draw draw = rule->bind("shop.orders", &store).source->next(1, values);
  EXPECT_EQ(draw.error().code, Errc::unavailable);
  EXPECT_EQ(draw.error().reason, "down");
}

TEST_F(SnowflakeTest, AnInsertWaitsAsLongAsForOtherIds) {
  test::LeasingStore store;
  const auto rule = make({{"sequence_bits", "1"}, {"unit", "1s"}});
  rule->announce(store);
  EXPECT_EQ(rule->bind("shop.orders", &store).source->patience(), std::chrono::seconds(2));
}

struct Faulty {
  const char* name;
  Table table;
  const char* error;
};
void PrintTo(const Faulty& row, std::ostream* out) {
  *out << row.name;
}

class SnowflakeFaultTest : public SnowflakeTest, public ::testing::WithParamInterface<Faulty> {};

TEST_P(SnowflakeFaultTest, FailsWithTheKey) {
  EXPECT_EQ(errors(GetParam().table), Texts{GetParam().error});
}

INSTANTIATE_TEST_SUITE_P(
    Keys, SnowflakeFaultTest,
    ::testing::Values(
        Faulty{"Preset",
               {{"preset", "tweeter"}},
               "preset: must be one of default, twitter, discord, sonyflake, instagram or js53, is "
               "text 'tweeter', did you mean 'twitter'?"},
        Faulty{"PresetAndBits",
               {{"preset", "twitter"}, {"machine_bits", "8"}},
               "machine_bits: is what preset says: remove one of them"},
        Faulty{"TimeBits", {{"time_bits", "31"}}, "time_bits: must be an integer 32 to 62, is 31"},
        Faulty{"Unit", {{"unit", "0ms"}}, "unit: must be a duration of 1ms to 1s, is 0ms"},
        Faulty{
            "Sum",
            {{"time_bits", "42"}},
            "time_bits: does not fit: time_bits, machine_bits and sequence_bits add up to 64, and "
            "there are 63"},
        Faulty{"Ended",
               {{"time_bits", "32"}},
               "time_bits: do not suffice: the ids' time ended at 2024-02-19T17:02:47.295Z"},
        Faulty{"Epoch",
               {{"epoch", "2024-02-30T00:00:00Z"}},
               "epoch: must be a time in UTC from 1970 on, such as 2024-01-01T00:00:00Z"},
        Faulty{"EpochInTheFuture",
               {{"epoch", "2025-01-01T00:00:00.001Z"}},
               "epoch: lies in the future: no id could have a time before it"},
        Faulty{"Ttl",
               {{"machine.ttl", "2999ms"}},
               "machine.ttl: must be a duration of 3s to 1h, is 2999ms"},
        Faulty{"Id",
               {{"machine.id", "1024"}},
               "machine.id: must be an integer 0 to 1023 or null, is 1024"},
        Faulty{"NoneWithoutId",
               {{"machine.lease", "none"}},
               "machine.lease: none needs the number that nobody else has: set id beside it"},
        Faulty{"Lease",
               {{"machine.lease", "a/b"}},
               "machine.lease: must be 1 to 64 letters of ASCII, digits, '.', '_' and '-'"},
        Faulty{"Prefix",
               {{"prefix", "o_"}},
               "prefix: needs a text to stand before: add `encoding`, or output: string"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_F(SnowflakeTest, WarnsWithoutALease) {
  test::FakeParameters parameters({{"machine.lease", "none"}, {"machine.id", "5"}});
  (void)test::make_strategy("snowflake", parameters, {clock_, random_});
  EXPECT_EQ(parameters.warnings().size(), 1U);
  EXPECT_EQ(parameters.errors(), Texts{});
}

/// Of decimal texts, while their length is that of the ids of now.
TEST_F(SnowflakeTest, SaysUntilWhenTextsSortAsTheirIds) {
  const auto note = [&](Table table) {
    table.insert({"output", "string"});
    test::FakeParameters parameters(table);
    (void)test::make_strategy("snowflake", parameters, {clock_, random_});
    EXPECT_EQ(parameters.errors(), Texts{});
    return parameters.notes();
  };
  const std::string until =
      "output: texts have no zeros in front: they sort as their ids only until ";
  const std::string why = ", when they get longer; with `encoding` all have one length";
  EXPECT_EQ(note({}), Texts{until + "2031-07-22T11:22:59.101Z" + why});
  EXPECT_EQ(note({{"preset", "js53"}}), Texts{until + "2031-09-26T16:50:25.000Z" + why});
  EXPECT_EQ(note({{"preset", "twitter"}}), Texts{});  // 19 digits, as the last id
  EXPECT_EQ(note({{"encoding", "hex"}}), Texts{});
  EXPECT_EQ(note({{"output", "int64"}}), Texts{});
}

}  // namespace snowflake_test
}  // namespace idproxy::ids
