#include "idproxy/base/printable.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy {
namespace printable_test {

struct Row {
  const char* said;
  const char* seen;
};

TEST(Printable, ShowsWhatATerminalWouldObey) {
  constexpr Row kRows[] = {
      {"shop é 日本 🐘", "shop é 日本 🐘"},
      {"a\x1b[31m\r\n\tb\x7f", "a\\u001b[31m\\u000d\\u000a\\u0009b\\u007f"},
      {"\x1b]8;;http://x\x07", "\\u001b]8;;http://x\\u0007"},
      {"\xc2\x9b"
       "b",
       "\\u009bb"},                                    // CSI in one character
      {"\xe2\x80\xae\xe2\x81\xa6", "\\u202e\\u2066"},  // overrides, isolates
      {"\xd8\x9c\xe2\x80\x8f", "\\u061c\\u200f"},      // marks of direction
      {"\xe2\x80\x8b\xef\xbb\xbf", "\\u200b\\ufeff"},  // of no width
      {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},  // ends of lines, paragraphs
      {"\xf3\xa0\x81\x81", "\\udb40\\udc41"},          // a tag, as JSON writes it
      {"a\xff\xc0\x80\xed\xa0\x80",
       "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
       "\xef\xbf\xbd"},  // no UTF-8, overlong, a surrogate
      {"a\u3164\uffa0\u115f\u2800\u034f", "a\\u3164\\uffa0\\u115f\\u2800\\u034f"},  // fillers
      {"\u17b4\ufe0f\u180b\U0001d173\U000e0100",
       "\\u17b4\\ufe0f\\u180b\\ud834\\udd73\\udb40\\udd00"},  // vowels, variations, music
      {"%s {{}} \\u001b <b>", "%s {{}} \\u001b <b>"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(printable(row.said), row.seen);
    EXPECT_EQ(is_printable(row.said), std::string(row.said) == row.seen);
    EXPECT_TRUE(is_printable(row.seen)) << row.seen;
  }
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(Printable, IsAsLongAsItMayBe) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345…");
  EXPECT_EQ(printable("123é", 4), "123…");
  EXPECT_EQ(printable("123\x1b", 5), "123…");
  for (const std::string& text :
       {std::string(kMostShown + 1, 'x'), std::string(kMostShown, '\n')}) {
    const std::string once = printable(text);
    EXPECT_LE(once.size(), kMostShown + 3);
    EXPECT_EQ(printable(once), once);
    EXPECT_FALSE(is_printable(text));
    EXPECT_GE(printable(text, kWhole).size(), text.size());
  }
}

TEST(CutOff, LeavesCharactersWhole) {
  EXPECT_EQ(cut_off("a\nb", 3), "a\nb");
  EXPECT_EQ(cut_off("abcd", 3), "abc…");
  EXPECT_EQ(cut_off("ab日", 4), "ab…");
  EXPECT_EQ(cut_off("日", 1), "…");
}

TEST(InQuotes, IsAStringOfJson) {
  EXPECT_EQ(in_quotes("a b"), R"("a b")");
  EXPECT_EQ(in_quotes(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(in_quotes("a\nb"), R"("a\u000ab")");
}

TEST(Named, QuotesWhatIsNoPlainName) {
  EXPECT_EQ(named("number_1"), "number_1");
  EXPECT_EQ(named("site.$**_1"), R"("site.$**_1")");
  EXPECT_EQ(named(""), R"("")");
  EXPECT_EQ(named(R"(db.getSiblingDB("shop").dropDatabase())"),
            R"x("db.getSiblingDB(\"shop\").dropDatabase()")x");
  EXPECT_EQ(named("a\x1b[31m"), R"("a\u001b[31m")");
  EXPECT_LE(named(std::string(5000, 'x')).size(), 200U);
}

}  // namespace printable_test
}  // namespace idproxy
