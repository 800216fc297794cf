#include "ids/encoding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ids/uuid.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace encoding_test {

using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

Uint128 number_of(std::string_view hex) {
  return *decode(hex, kHex, 128);
}

TextForm form_of(std::string encoding, unsigned bits, std::string prefix = {}) {
  test::FakeParameters parameters(
      Table{{"encoding", std::move(encoding)}, {"prefix", std::move(prefix)}});
  return read_text_form(parameters, bits);
}

std::string text_in(const Values& values, std::size_t i = 0) {
  return std::string(as_text(values[i].subspan(4, values[i].size() - 5)));
}

std::string written(const TextForm& form, Uint128 number) {
  Values values;
  form.append(number, values);
  return text_in(values);
}

std::optional<Uint128> read_by(const TextForm& form, std::string_view text) {
  const auto number = form.read(text);
  return number ? std::optional(*number) : std::nullopt;
}

// --- TypeID 0.3.0, valid.json and invalid.json ---

struct TypeIdCase {
  const char* name;
  const char* uuid;  // hex
  const char* prefix;
  const char* text;
};
void PrintTo(const TypeIdCase& row, std::ostream* out) {
  *out << row.name;
}

class TypeId : public ::testing::TestWithParam<TypeIdCase> {};

TEST_P(TypeId, SucceedsBothWays) {
  const TextForm form = form_of("base32", 128, GetParam().prefix);
  EXPECT_EQ(written(form, number_of(GetParam().uuid)), GetParam().text);
  EXPECT_EQ(read_by(form, GetParam().text), number_of(GetParam().uuid));
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, TypeId,
    ::testing::Values(
        TypeIdCase{"Nil", "00000000000000000000000000000000", "", "00000000000000000000000000"},
        TypeIdCase{"One", "00000000000000000000000000000001", "", "00000000000000000000000001"},
        TypeIdCase{"Ten", "0000000000000000000000000000000a", "", "0000000000000000000000000a"},
        TypeIdCase{"Sixteen", "00000000000000000000000000000010", "", "0000000000000000000000000g"},
        TypeIdCase{"ThirtyTwo", "00000000000000000000000000000020", "",
                   "00000000000000000000000010"},
        TypeIdCase{"Max", "ffffffffffffffffffffffffffffffff", "", "7zzzzzzzzzzzzzzzzzzzzzzzzz"},
        TypeIdCase{"Alphabet", "0110c8531d0952d8d73e1194e95b5f19", "prefix_",
                   "prefix_0123456789abcdefghjkmnpqrs"},
        TypeIdCase{"Version7", "01890a5dac96774bbcceb302099a8057", "prefix_",
                   "prefix_01h455vb4pex5vsknk084sn02q"},
        TypeIdCase{"Underscore", "00000000000000000000000000000000", "pre_fix_",
                   "pre_fix_00000000000000000000000000"}),
    [](const auto& row) { return row.param.name; });

class BadTypeId : public ::testing::TestWithParam<const char*> {};

TEST_P(BadTypeId, FailsToDecode) {
  EXPECT_FALSE(form_of("base32", 128, "prefix_").read(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, BadTypeId,
    ::testing::Values("PREFIX_00000000000000000000000000",   // upper case
                      "12345_00000000000000000000000000",    // another prefix
                      "00000000000000000000000000",          // no prefix
                      "prefix_1234567890123456789012345",    // 25 characters
                      "prefix_123456789012345678901234567",  // 27
                      "prefix_1234567890123456789012345 ",   // a space
                      "prefix_0123456789ABCDEFGHJKMNPQRS",   // upper case
                      "prefix_123456789-123456789-123456",   // hyphens
                      "prefix_ooooooiiiiiiuuuuuuulllllll",   // not in the alphabet
                      "prefix_i23456789ol23456789oi23456",   // Crockford's other ones
                      "prefix_123456789-0123456789-0123456",
                      "prefix_8zzzzzzzzzzzzzzzzzzzzzzzzz",  // 2^128
                      ""));

// --- Each encoding ---

struct EncodingCase {
  const char* name;
  std::size_t size96;
  std::size_t size128;
  const char* largest96;
};
void PrintTo(const EncodingCase& row, std::ostream* out) {
  *out << row.name;
}

class Encoding : public ::testing::TestWithParam<EncodingCase> {};

TEST_P(Encoding, SucceedsWithTheLargestNumberOfItsBits) {
  const EncodingCase& row = GetParam();
  const TextForm form = form_of(row.name, 96);
  const Uint128 largest = (Uint128{1} << 96) - 1;
  EXPECT_EQ(written(form, largest), row.largest96);
  EXPECT_EQ(written(form, 0), std::string(row.size96, form.alphabet.front()));
  EXPECT_EQ(read_by(form, row.largest96), largest);
  EXPECT_FALSE(form.read(std::string(row.size96 + 1, form.alphabet.front())));
  EXPECT_FALSE(form.read(std::string(row.size96, '_')));
  // One more than fits, unless all texts of that length do.
  if (row.size96 < 24) {
    std::string more(row.size96, form.alphabet.front());
    encode(largest + 1, form.alphabet, {reinterpret_cast<std::uint8_t*>(more.data()), more.size()});
    EXPECT_EQ(form.read(more).error(), "has more than 96 bits") << more;
  }
  EXPECT_EQ(written(form_of(row.name, 128), ~Uint128{0}).size(), row.size128);
}

TEST_P(Encoding, SucceedsWithTextsInTheOrderOfTheNumbers) {
  const TextForm form = form_of(GetParam().name, 128);
  test::SeededRandom random;
  Texts texts;
  std::vector<Uint128> numbers;
  for (unsigned shift = 0; shift < 128; ++shift) {
    for (int i = 0; i < 8; ++i) {
      std::array<std::uint8_t, 16> bytes;
      random.fill(bytes);
      Uint128 number = 0;
      for (const std::uint8_t byte : bytes) number = number << 8 | byte;
      numbers.push_back(number >> shift);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  for (const Uint128 number : numbers) {
    texts.push_back(written(form, number));
    EXPECT_EQ(read_by(form, texts.back()), number);
  }
  EXPECT_TRUE(std::is_sorted(texts.begin(), texts.end()));
}

INSTANTIATE_TEST_SUITE_P(All, Encoding,
                         ::testing::Values(EncodingCase{"hex", 24, 32, "ffffffffffffffffffffffff"},
                                           EncodingCase{"base32", 20, 26, "1zzzzzzzzzzzzzzzzzzz"},
                                           EncodingCase{"base32upper", 20, 26,
                                                        "1ZZZZZZZZZZZZZZZZZZZ"},
                                           EncodingCase{"base36", 19, 25, "7oiylpimjg5u2ca1ypr"},
                                           EncodingCase{"base58", 17, 22, "5qCHTcgbQwpvYZQ9c"},
                                           EncodingCase{"base62", 17, 22, "1f2SI9UJPXvb7vdJ1"}),
                         [](const auto& row) { return row.param.name; });

// --- In strategies ---

class EncodedTest : public ::testing::Test {
 protected:
  Texts next(std::string_view strategy, const Table& table, RandomSource& random, std::size_t n) {
    Values values;
    Texts texts;
    const auto source = test::make_source(strategy, table, {clock_, random});
    if (!source || !source->next(n, values)) return texts;
    for (std::size_t i = 0; i < n; ++i) texts.push_back(text_in(values, i));
    return texts;
  }
  Fit fit(std::string_view strategy, const Table& table, std::string_view text) {
    test::SeededRandom random;
    const auto rule = test::make_strategy(strategy, table, {clock_, random});
    Values values;
    values.add_string(text);
    return rule->fit(bson::Type::string, values[0]);
  }

  test::FakeClock clock_;
};

TEST_F(EncodedTest, SucceedsWithATypeIdThroughTheStrategy) {
  test::ScriptedRandom random("0CC318C4DC0C0C07398F");
  const Table table{{"monotonic", "none"}, {"encoding", "base32"}, {"prefix", "user_"}};
  const Texts texts = next("uuid", table, random, 1);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(read_by(form_of("base32", 128, "user_"), texts[0]),
            number_of("017f22e279b07cc398c4dc0c0c07398f"));
  EXPECT_EQ(fit("uuid", table, texts[0]), Fit::fits);
  EXPECT_EQ(fit("uuid", table, "user_01h455vb4pex5vsknk084sn02q"), Fit::fits);
  EXPECT_EQ(fit("uuid", table, "user_7zzzzzzzzzzzzzzzzzzzzzzzzz"), Fit::wrong_form);  // version f
  EXPECT_EQ(fit("uuid", table, "user_8zzzzzzzzzzzzzzzzzzzzzzzzz"), Fit::wrong_form);
  EXPECT_EQ(fit("uuid", table, "team_01h455vb4pex5vsknk084sn02q"), Fit::wrong_form);
}

TEST_F(EncodedTest, SucceedsWithEachVersionAndAPrefixBeforeThe36Characters) {
  test::ScriptedRandom random("919108F752D133205BACF847DB4148A8");
  EXPECT_EQ(
      next("uuid", {{"version", "4"}, {"representation", "string"}, {"prefix", "u-"}}, random, 1),
      Texts{"u-919108f7-52d1-4320-9bac-f847db4148a8"});
  random.add("919108F752D133205BACF847DB4148A8");
  EXPECT_EQ(next("uuid", {{"version", "4"}, {"encoding", "hex"}}, random, 1),
            Texts{"919108f752d143209bacf847db4148a8"});
  random.add("33C8 9F6BDECED846");
  EXPECT_EQ(next("uuid", {{"version", "1"}, {"encoding", "hex"}, {"prefix", "1"}}, random, 1),
            Texts{"1c232ab00941411ecb3c89f6bdeced846"});
}

TEST_F(EncodedTest, SucceedsWithObjectIds) {
  test::ScriptedRandom random("E0C917E9C4 714161 E0C917E9C4 714161 E0C917E9C4 714161");
  EXPECT_EQ(next("objectid", {{"output", "string"}, {"prefix", "o/"}}, random, 1),
            Texts{"o/621537eee0c917e9c4714161"});
  EXPECT_EQ(next("objectid", {{"encoding", "hex"}}, random, 1), Texts{"621537eee0c917e9c4714161"});
  EXPECT_EQ(next("objectid", {{"encoding", "base32upper"}}, random, 2).at(1),
            "0RGN6ZQE1J8QX7272GB2");
  EXPECT_EQ(fit("objectid", {{"encoding", "base62"}}, "1_______________0"), Fit::wrong_form);
  EXPECT_EQ(fit("objectid", {{"encoding", "base62"}}, "10000000000000000"), Fit::fits);
}

TEST_F(EncodedTest, JudgesAPrefixBeforeATextWithoutEncoding) {
  const Table uuid{{"version", "4"}, {"representation", "string"}, {"prefix", "u-"}};
  EXPECT_EQ(fit("uuid", uuid, "u-919108f7-52d1-4320-9bac-f847db4148a8"), Fit::fits);
  EXPECT_EQ(fit("uuid", uuid, "x-919108f7-52d1-4320-9bac-f847db4148a8"), Fit::wrong_form);
  EXPECT_EQ(fit("uuid", uuid, "u-919108f7-52d1-4320-9bac-f847db4148ax"), Fit::wrong_form);
  const Table objectid{{"output", "string"}, {"prefix", "o/"}};
  EXPECT_EQ(fit("objectid", objectid, "o/621537eee0c917e9c4714161"), Fit::fits);
  EXPECT_EQ(fit("objectid", objectid, "x/621537eee0c917e9c4714161"), Fit::wrong_form);
  EXPECT_EQ(fit("objectid", objectid, "o/621537eee0c917e9c471416x"), Fit::wrong_form);
}

TEST_F(EncodedTest, JudgesCharactersBeforeCheckDigits) {
  test::SeededRandom random;
  const auto rule = test::make_strategy("random-digits",
                                        {{"digits", "3"}, {"output", "string"}, {"check", "damm"}},
                                        {clock_, random});
  Values values;
  values.add_string("572x");
  EXPECT_EQ(rule->fit(bson::Type::string, values[0]), Fit::wrong_form);
}

TEST_F(EncodedTest, SucceedsWithRoomForTheLongestPrefix) {
  test::SeededRandom random;
  const std::string prefix(64, 'p');
  for (const Table& table : {Table{{"representation", "string"}, {"prefix", prefix}},
                             Table{{"encoding", "hex"}, {"prefix", prefix}}}) {
    const auto source = test::make_source("uuid", table, {clock_, random});
    Values values;
    ASSERT_TRUE(source->next(1, values));
    EXPECT_LE(values[0].size(), source->most_bytes());
  }
}

TEST_F(EncodedTest, TellsWhatAValueMeans) {
  const auto told = [&](std::string_view strategy, const Table& table, std::string_view text) {
    test::SeededRandom random;
    const auto rule = test::make_strategy(strategy, table, {clock_, random});
    const Decoded meaning = rule->decode(text);
    std::string all = meaning ? "" : meaning.error();
    for (std::size_t i = 0; meaning && i < meaning->size(); ++i) {
      all += std::string((*meaning)[i].first) + " " + (*meaning)[i].second + "; ";
    }
    return all;
  };
  EXPECT_EQ(told("uuid", {{"version", "1"}}, "c232ab00-9414-11ec-b3c8-9f6bdeced846"),
            "uuid c232ab00-9414-11ec-b3c8-9f6bdeced846; time 2022-02-22T19:22:22.000Z; ");
  EXPECT_EQ(told("uuid", {}, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            "uuid 017f22e2-79b0-7cc3-98c4-dc0c0c07398f; time 2022-02-22T19:22:22.000Z; ");
  for (const char* bad :
       {"017f22e2-79b0-7cc3-98c4_dc0c0c07398f", " 17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "-17f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e279b07cc398c4dc0c0c07398f"}) {
    EXPECT_EQ(told("uuid", {}, bad), "is no UUID of 36 lower-case characters") << bad;
  }
  for (const auto& [id, time] : {std::pair("00000000", "1970-01-01T00:00:00.000Z"),
                                 std::pair("7fffffff", "2038-01-19T03:14:07.000Z"),
                                 std::pair("80000000", "2038-01-19T03:14:08.000Z"),
                                 std::pair("ffffffff", "2106-02-07T06:28:15.000Z")}) {
    EXPECT_EQ(told("objectid", {}, std::string(id) + "0000000000000000"),
              std::string("time ") + time + "; ");
  }
  EXPECT_EQ(
      told("random-digits", {{"digits", "3"}, {"output", "string"}, {"check", "damm"}}, "5725"),
      "has wrong check digits");
  EXPECT_EQ(told("random-digits", {{"digits", "3"}, {"output", "int32"}}, "4294967296"),
            "is no integer of 32 bits");
}

struct BadCase {
  const char* name;
  const char* strategy;
  Table table;
  const char* error;
};
void PrintTo(const BadCase& row, std::ostream* out) {
  *out << row.name;
}

class BadEncoding : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadEncoding, FailsWithTheReason) {
  const test::FakeClock clock;
  test::SeededRandom random;
  test::FakeParameters parameters(GetParam().table);
  const auto rule = test::make_strategy(GetParam().strategy, parameters, {clock, random});
  EXPECT_EQ(parameters.errors(), Texts{GetParam().error});
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadEncoding,
    ::testing::Values(
        BadCase{"Representation",
                "uuid",
                {{"encoding", "hex"}, {"representation", "standard"}},
                "representation: has no place beside `encoding`, which makes the value a text: "
                "remove one of them"},
        BadCase{"PrefixOfCounter",
                "counter",
                {{"prefix", "R-"}, {"ns", "a.b"}, {"field", "n"}},
                "prefix: is for other strategies: put it into `format.prefix`, or into `template`"},
        BadCase{"PrefixOfGapless",
                "gapless",
                {{"prefix", "R-"}, {"ns", "a.b"}, {"field", "n"}, {"unique_index", "create"}},
                "prefix: is for other strategies: put it into `format.prefix`, or into `template`"},
        BadCase{
            "Output",
            "objectid",
            {{"encoding", "hex"}, {"output", "objectid"}},
            "output: must be string beside `encoding`, which makes the value a text: leave it out"},
        BadCase{"PrefixOfBinary",
                "uuid",
                {{"prefix", "a"}},
                "prefix: needs a text to stand before: add `encoding`, or representation: string"},
        BadCase{"PrefixOfObjectId",
                "objectid",
                {{"prefix", "a"}},
                "prefix: needs a text to stand before: add `encoding`, or output: string"},
        BadCase{"LongPrefix",
                "uuid",
                {{"encoding", "hex"}, {"prefix", std::string(65, 'a')}},
                "prefix: must be at most 64 printable characters of ASCII, has 65"},
        BadCase{"Umlaut",
                "objectid",
                {{"encoding", "hex"}, {"prefix", "ä"}},
                "prefix: must be at most 64 printable characters of ASCII, and has others"}),
    [](const auto& row) { return row.param.name; });

TEST_F(EncodedTest, WarnsOfAPrefixThatIsNoTypeOfATypeId) {
  test::SeededRandom random;
  const auto warnings = [&](std::string encoding, std::string prefix) {
    test::FakeParameters parameters(
        Table{{"encoding", std::move(encoding)}, {"prefix", std::move(prefix)}});
    static_cast<void>(test::make_strategy("uuid", parameters, {clock_, random}));
    EXPECT_TRUE(parameters.errors().empty());
    return parameters.warnings().size();
  };
  for (const std::string fine : {"user_", "a_", "a_b_", "u-", "", "USER-"}) {
    EXPECT_EQ(warnings("base32", fine), 0U) << fine;
  }
  EXPECT_EQ(warnings("base32", std::string(63, 'a') + "_"), 0U);
  for (const std::string bad : {"_", "User_", "_user_", "user__", "us3r_"}) {
    EXPECT_EQ(warnings("base32", bad), 1U) << bad;
    EXPECT_EQ(warnings("base58", bad), 0U) << bad;
  }
}

}  // namespace encoding_test
}  // namespace idproxy::ids
