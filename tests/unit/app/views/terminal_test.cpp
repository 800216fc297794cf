#include "app/views/terminal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace idproxy::app::views {
namespace terminal_test {

TEST(TerminalTest, IsNoneWhereAFileIs) {
  const int file = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const Terminal none = Terminal::at(file);
  ::close(file);
  EXPECT_EQ(none.columns, 0U);
  EXPECT_EQ(none.rows, 0U);
  EXPECT_FALSE(none.colours);
}

TEST(TerminalTest, ColoursText) {
  const Terminal colours{.colours = true};
  EXPECT_EQ(colours.coloured("x", Tone::good), "\x1b[32mx\x1b[0m");
  EXPECT_EQ(colours.coloured("x", Tone::plain), "x");
  EXPECT_EQ(colours.coloured("", Tone::bad), "");
  EXPECT_EQ(Terminal{}.coloured("x", Tone::bad), "x");
}

TEST(TerminalTest, WrapsBetweenWords) {
  const Terminal narrow{.columns = 12};
  EXPECT_EQ(narrow.wrapped("- ", "one two three four", 2), "- one two\n  three four\n");
  EXPECT_EQ(narrow.wrapped("- ", "averyveryverylongword x", 2), "- averyveryverylongword\n  x\n");
  EXPECT_EQ(narrow.wrapped("- ", "", 2), "- \n");
  EXPECT_EQ(Terminal{}.wrapped("- ", "one two three four", 2), "- one two three four\n");
}

TEST(TerminalTest, WrapsAnyText) {
  EXPECT_EQ(Terminal{}.wrapped("- ", "a\x1b[31m\nb", 2), "- a\\u001b[31m\\u000ab\n");
}

TEST(Shortened, EndsWithAnEllipsis) {
  EXPECT_EQ(shortened("12345", 5), "12345");
  EXPECT_EQ(shortened("123456", 5), "1234…");
  EXPECT_EQ(shortened("日本語", 5), "日本…");
  EXPECT_EQ(shortened("日本語", 4), "日…");
  EXPECT_EQ(shortened("abc", 1), "…");
  EXPECT_EQ(shortened("abc", 0), "");
}

}  // namespace terminal_test
}  // namespace idproxy::app::views
