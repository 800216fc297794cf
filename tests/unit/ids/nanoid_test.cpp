#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ids/random_characters.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

// Vectors: https://github.com/ai/nanoid, test/index.test.js, customRandom.
namespace idproxy::ids {
namespace nanoid_test {

using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

std::string drawn(RandomSource& random, std::string_view alphabet, std::size_t size) {
  std::string text(size, '?');
  draw_characters(random, alphabet, {reinterpret_cast<std::uint8_t*>(text.data()), size});
  return text;
}

class NanoidTest : public ::testing::Test {
 protected:
  std::unique_ptr<RuleSource> rule(RandomSource& random, const Table& table) {
    return test::make_strategy("nanoid", table, {clock_, random});
  }
  Texts next(RandomSource& random, const Table& table, std::size_t n = 1) {
    Values values;
    Texts texts;
    const auto source = rule(random, table)->bind({}, nullptr).source;
    if (!source->next(n, values)) return texts;
    for (std::size_t i = 0; i < n; ++i) {
      texts.emplace_back(as_text(values[i].subspan(4, values[i].size() - 5)));
      EXPECT_LE(values[i].size(), source->most_bytes());
    }
    return texts;
  }
  Fit fit(const Table& table, std::string_view text) {
    test::SeededRandom random;
    Values values;
    values.add_string(text);
    return rule(random, table)->fit(bson::Type::string, values[0]);
  }
  Texts errors(const Table& table) {
    test::SeededRandom random;
    test::FakeParameters parameters(table);
    static_cast<void>(test::make_strategy("nanoid", parameters, {clock_, random}));
    return parameters.errors();
  }
  Texts warnings(const Table& table) {
    test::SeededRandom random;
    test::FakeParameters parameters(table);
    static_cast<void>(test::make_strategy("nanoid", parameters, {clock_, random}));
    return parameters.warnings();
  }

  test::FakeClock clock_;
};

TEST_F(NanoidTest, SucceedsWithTheVectors) {
  test::ScriptedRandom random("02ff0307");
  EXPECT_EQ(drawn(random, "abcd", 4), "dddc");
  random.add("02ff030707 0707");
  EXPECT_EQ(drawn(random, "abcde", 4), "cccc");
  random.add("02ff0307070707070001 02ff0307070707070001 02ff03070707070700");
  EXPECT_EQ(drawn(random, "abcde", 18), "acccccdcbacccccdcb");
  EXPECT_EQ(random.left(), 0U);
}

TEST_F(NanoidTest, SucceedsWithTheVectorsThroughTheStrategy) {
  test::ScriptedRandom random("02ff0307");
  EXPECT_EQ(next(random, {{"size", "4"}, {"alphabet", "abcd"}}), Texts{"dddc"});
  random.add("02ff030707 0707");
  EXPECT_EQ(next(random, {{"size", "4"}, {"alphabet", "abcde"}, {"prefix", "a"}}), Texts{"acccc"});
  random.add("02ff0307070707070001 02ff0307070707070001 02ff03070707070700");
  EXPECT_EQ(next(random, {{"size", "18"}, {"alphabet", "abcde"}}), Texts{"acccccdcbacccccdcb"});
}

TEST_F(NanoidTest, SucceedsWithMoreBytesWhereTooManyAreNoCharacter) {
  test::ScriptedRandom random("ff00ffffffffff ffffffffffff01 02030405060708");
  EXPECT_EQ(drawn(random, "abcde", 4), "abdc");
}

TEST_F(NanoidTest, SucceedsWith21CharactersOfUrl64ByDefault) {
  test::ScriptedRandom random("000000000000000000000000000000000000003f01");
  EXPECT_EQ(next(random, {}), Texts{"stuuuuuuuuuuuuuuuuuuu"});
}

TEST_F(NanoidTest, SucceedsWithUniformCharacters) {
  test::SeededRandom random;
  for (const std::string alphabet :
       {"ab", "abc", "0123456789", "abcdefghijklmnopqrstuvwxyz.,;-!"}) {
    std::map<char, int> counts;
    constexpr int kTexts = 2000;
    for (int i = 0; i < kTexts; ++i) {
      for (const char c : drawn(random, alphabet, kMostCharacters)) ++counts[c];
    }
    const double expected =
        static_cast<double>(kTexts) * kMostCharacters / static_cast<double>(alphabet.size());
    EXPECT_EQ(counts.size(), alphabet.size());
    for (const auto& [c, count] : counts)
      EXPECT_NEAR(count, expected, 6 * std::sqrt(expected)) << c;
  }
}

TEST_F(NanoidTest, SucceedsWithEverySizeAndNumberOfCharacters) {
  std::string all;
  for (char c = ' '; c <= '~'; ++c) all += c;
  test::SeededRandom random;
  for (std::size_t base = 2; base <= all.size(); ++base) {
    for (std::size_t size = 4; size <= kMostCharacters; size += 5) {
      const std::string text = drawn(random, std::string_view(all).substr(0, base), size);
      EXPECT_EQ(text.find_first_not_of(all.substr(0, base)), std::string::npos);
    }
  }
}

// --- Few values: what holds for random digits holds for these ---

TEST_F(NanoidTest, SucceedsWithAllValuesOfASmallSpaceOnce) {
  test::SeededRandom random;
  const Table table{{"size", "4"}, {"alphabet", "abc"}, {"prefix", "x"}};
  const Texts texts = next(random, table, 81);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 81U);
  for (const std::string& text : texts) EXPECT_EQ(fit(table, text), Fit::fits) << text;
  EXPECT_TRUE(next(random, table, 82).empty());
}

TEST_F(NanoidTest, FillsUpBelow2To64ValuesOnly) {
  test::SeededRandom random;
  const auto fills_up = [&](const Table& table) { return rule(random, table)->about().fills_up; };
  EXPECT_FALSE(fills_up({}));
  EXPECT_TRUE(fills_up({{"size", "10"}}));                          // 2^60
  EXPECT_FALSE(fills_up({{"size", "11"}}));                         // 2^66
  EXPECT_FALSE(fills_up({{"size", "16"}, {"alphabet", "hex"}}));    // 2^64
  EXPECT_TRUE(fills_up({{"size", "15"}, {"alphabet", "hex"}}));     // 2^60
  EXPECT_TRUE(fills_up({{"size", "63"}, {"alphabet", "ab"}}));      // 2^63
  EXPECT_TRUE(fills_up({{"size", "19"}, {"alphabet", "digits"}}));  // 10^19
  EXPECT_FALSE(fills_up({{"size", "20"}, {"alphabet", "digits"}}));
}

TEST_F(NanoidTest, JudgesTexts) {
  EXPECT_EQ(fit({}, "V1StGXR8_Z5jdHi6B-myT"), Fit::fits);
  EXPECT_EQ(fit({}, "V1StGXR8_Z5jdHi6B-my"), Fit::wrong_form);
  EXPECT_EQ(fit({}, "V1StGXR8_Z5jdHi6B-my "), Fit::wrong_form);
  EXPECT_EQ(fit({{"prefix", "a"}}, "bV1StGXR8_Z5jdHi6B-myT"), Fit::wrong_form);
  const Table small{{"size", "6"}, {"alphabet", "base36"}, {"prefix", "a-"}};
  EXPECT_EQ(fit(small, "a-k3n8x2"), Fit::fits);
  EXPECT_EQ(fit(small, "a-K3n8x2"), Fit::wrong_form);
  EXPECT_EQ(fit(small, "b-k3n8x2"), Fit::wrong_form);
  EXPECT_EQ(fit(small, "a-k3n8x"), Fit::wrong_form);
}

TEST_F(NanoidTest, FailsWithTheReason) {
  EXPECT_EQ(errors({{"alphabet", "abcb"}}), Texts{"alphabet: has \"b\" twice"});
  EXPECT_EQ(errors({{"alphabet", "abcä"}}),
            Texts{"alphabet: must have printable characters of ASCII only, has \"ä\""});
  EXPECT_EQ(errors({{"alphabet", "ab\tc"}}),
            Texts{"alphabet: must have printable characters of ASCII only, has \"\\u0009\""});
  EXPECT_EQ(errors({{"alphabet", "a"}}),
            Texts{"alphabet: must be url64, digits, hex, base32, base32upper, base36, base58, "
                  "base62, or 2 to 95 different characters"});
  EXPECT_EQ(errors({{"alphabet", ""}}).size(), 1U);
  EXPECT_EQ(errors({{"size", "3"}}), Texts{"size: must be an integer 4 to 64, is 3"});
  EXPECT_EQ(errors({{"size", "65"}}), Texts{"size: must be an integer 4 to 64, is 65"});
  EXPECT_EQ(errors({{"prefix", std::string(65, 'a')}}),
            Texts{"prefix: must be at most 64 printable characters of ASCII, has 65"});
  EXPECT_EQ(errors({{"size", "6"}, {"warn_fill", "0.5"}, {"max_fill", "0.4"}}),
            Texts{"warn_fill: must not be above max_fill"});
}

TEST_F(NanoidTest, WarnsOfLimitsThatHaveNoEffect) {
  EXPECT_EQ(warnings({{"max_fill", "0.5"}}),
            Texts{"max_fill: has no effect: there are 2^64 values or more, which cannot run out; "
                  "remove it"});
  EXPECT_TRUE(warnings({{"max_fill", "0.5"}, {"size", "6"}}).empty());
}

}  // namespace nanoid_test
}  // namespace idproxy::ids
