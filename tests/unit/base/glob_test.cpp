#include "idproxy/base/glob.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idproxy {
namespace glob_test {

struct MatchCase {
  const char* name;
  const char* pattern;
  const char* text;
  bool matches;
};

TEST(Glob, MatchesAllOfTheText) {
  constexpr MatchCase kCases[] = {
      {"literal", "shop.orders", "shop.orders", true},
      {"literal_is_no_prefix", "shop.orders", "shop.orders2", false},
      {"literal_is_no_suffix", "shop.orders", "my.shop.orders", false},
      {"case_matters", "shop.orders", "shop.Orders", false},
      {"star_at_end", "shop.*", "shop.orders", true},
      {"star_takes_dots", "shop.*", "shop.orders.2024", true},
      {"star_takes_nothing", "shop.*", "shop.", true},
      {"star_does_not_take_the_dot", "shop.*", "shop", false},
      {"star_in_front", "*.orders", "shop.orders", true},
      {"star_in_front_takes_dots", "*.orders", "a.b.orders", true},
      {"star_alone", "*", "anything.at.all", true},
      {"star_alone_and_nothing", "*", "", true},
      {"stars_in_a_row", "a**b", "ab", true},
      {"star_tries_again", "*ab", "aab", true},
      {"two_stars", "a*b*c", "a.b.b.c.c", true},
      {"two_stars_without_the_end", "a*b*c", "abcd", false},
      {"question_mark", "sho?.orders", "shop.orders", true},
      {"question_mark_takes_a_dot", "shop?orders", "shop.orders", true},
      {"question_mark_needs_something", "shop?", "shop", false},
      {"question_mark_is_one_character", "caf?.x", "caf\xc3\xa9.x", true},
      {"question_mark_is_not_half_of_one", "caf??.x", "caf\xc3\xa9.x", false},
      {"star_and_question_marks_count_characters", "a*??", "a\xe2\x82\xac", false},
      {"broken_utf8_is_taken_bytewise", "a??", "a\xe2\x82", true},
      {"nothing_else_is_special", "a.[b]", "a.b", false},
      {"brackets_are_themselves", "a.[b]\\", "a.[b]\\", true},
      {"a_dot_is_a_dot", "a.b", "axb", false},
      {"empty_pattern", "", "", true},
      {"empty_pattern_and_text", "", "a", false},
  };
  for (const MatchCase& c : kCases) {
    EXPECT_EQ(glob_matches(c.pattern, c.text), c.matches) << c.name;
  }
}

TEST(Glob, TakesNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(5000, 'a')));
  EXPECT_FALSE(globs_overlap(pattern + "b", std::string(1000, 'a')));
}

struct OverlapCase {
  const char* name;
  const char* a;
  const char* b;
  bool overlap;
};

TEST(Glob, FindsOverlapOfTwoPatterns) {
  constexpr OverlapCase kCases[] = {
      {"equal_literals", "a.b", "a.b", true},
      {"different_literals", "a.b", "a.c", false},
      {"literal_in_star", "a.*", "a.b", true},
      {"literal_not_in_star", "a.*", "b.a", false},
      {"stars_from_both_ends", "shop.*", "*.orders", true},
      {"stars_that_exclude_each_other", "shop.*", "bank.*", false},
      {"ends_that_exclude_each_other", "*.orders", "*.items", false},
      {"question_mark_and_letter", "a?c", "abc", true},
      {"question_mark_and_star", "a?", "*", true},
      {"question_mark_and_empty_star", "?", "*", true},
      {"question_marks_of_other_length", "??", "???", false},
      {"star_may_be_empty", "a*", "a", true},
      {"star_against_star", "*", "*", true},
      {"stars_interleave", "a*c*", "*b*d", true},
      {"too_short_for_both", "ab*", "*ba", true},
      {"literal_shorter_than_pattern", "a", "a?*", false},
      {"characters_not_bytes", "caf?", "caf\xc3\xa9", true},
      {"empty", "", "", true},
      {"empty_and_star", "", "**", true},
      {"empty_and_letter", "", "a", false},
  };
  for (const OverlapCase& c : kCases) {
    EXPECT_EQ(globs_overlap(c.a, c.b), c.overlap) << c.name;
    EXPECT_EQ(globs_overlap(c.b, c.a), c.overlap) << c.name << ", the other way round";
  }
}

/// All texts over "ab" and all patterns over "ab*?" of up to `length` characters.
void append_all(const std::string& alphabet, std::size_t length, std::vector<std::string>& out) {
  out.emplace_back();
  for (std::size_t from = 0; from < out.size(); ++from) {
    if (out[from].size() == length) break;
    for (const char c : alphabet) out.push_back(out[from] + c);
  }
}

bool some_text_matches_both(const std::string& a, const std::string& b,
                            const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (glob_matches(a, text) && glob_matches(b, text)) return true;
  }
  return false;
}

TEST(Glob, OverlapAgreesWithMatchingOnAllSmallPatterns) {
  std::vector<std::string> patterns;
  std::vector<std::string> texts;
  append_all("ab*?", 3, patterns);
  append_all("ab", 6, texts);
  for (const std::string& a : patterns) {
    for (const std::string& b : patterns) {
      ASSERT_EQ(globs_overlap(a, b), some_text_matches_both(a, b, texts)) << a << " and " << b;
    }
  }
}

TEST(Glob, CoversWhatItMatchesWhateverStandsForTheWildcards) {
  struct Case {
    const char* a;
    const char* b;
    bool covers;
  };
  constexpr Case kCases[] = {
      {"*", "shop.*", true},       {"shop.*", "shop.*", true},     {"shop.*", "shop.o*", true},
      {"shop.*", "shop.??", true}, {"shop.o*", "shop.*", false},   {"*.b", "a.*", false},
      {"a?b", "a*b", false},       {"a?b", "a?b", true},           {"a?b", "axb", true},
      {"a?b", "ab", false},        {"*.*.files", "*.files", false}};
  for (const Case& c : kCases) EXPECT_EQ(glob_covers(c.a, c.b), c.covers) << c.a << ' ' << c.b;
}

TEST(Glob, CoveredPatternsMatchNothingElse) {
  std::vector<std::string> patterns;
  std::vector<std::string> texts;
  append_all("ab*?", 3, patterns);
  append_all("ab", 6, texts);
  for (const std::string& a : patterns) {
    for (const std::string& b : patterns) {
      if (!glob_covers(a, b)) continue;
      for (const std::string& text : texts) {
        ASSERT_TRUE(glob_matches(a, text) || !glob_matches(b, text))
            << a << ' ' << b << ' ' << text;
      }
    }
  }
}

TEST(Glob, DoesNotMatchItsExceptions) {
  const Glob shop{"shop.*", {{"shop.audit"}, {"*.fs.*", {{"shop.fs.own"}}}}};
  for (const char* text : {"shop.orders", "shop.audits", "shop.fs", "shop.fs.own"}) {
    EXPECT_TRUE(shop.matches(text)) << text;
  }
  for (const char* text : {"shop.audit", "shop.fs.files", "bank.orders", ""}) {
    EXPECT_FALSE(shop.matches(text)) << text;
  }
  EXPECT_TRUE(shop.covers("shop.orders"));
  EXPECT_TRUE(shop.covers("shop.o?"));
  EXPECT_FALSE(shop.covers("shop.audit"));
  EXPECT_FALSE(shop.covers("shop.*"));
  EXPECT_TRUE(glob_matches("shop.*", {}, "shop.audit"));
}

}  // namespace glob_test
}  // namespace idproxy
