#include "app/views/text_table.hpp"

#include <gtest/gtest.h>

namespace idproxy::app::views {
namespace text_table_test {

using Align = TextTable::Align;

TextTable people() {
  TextTable table({{"NAME"}, {"COUNT", Align::right}, {"REMARK"}});
  table.add({{"a"}, {"1,234"}, {"first"}});
  table.add({{"a longer name"}, {"5"}, {""}});
  return table;
}

TEST(TextTableTest, AlignsTextsAndNumbers) {
  EXPECT_EQ(people().text({}),
            "  NAME           COUNT  REMARK\n"
            "  a              1,234  first\n"
            "  a longer name      5\n");
}

TEST(TextTableTest, ShortensItsWidestTexts) {
  EXPECT_EQ(people().text({.columns = 28}),
            "  NAME         COUNT  REMARK\n"
            "  a            1,234  first\n"
            "  a longer n…      5\n");
}

TEST(TextTableTest, CutsOffWhatHasNoRoom) {
  for (std::size_t columns = 1; columns < 40; ++columns) {
    const std::string text = people().text({.columns = columns});
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(display_width(text.substr(at, end - at)), columns) << text;
      at = end + 1;
    }
  }
}

TEST(TextTableTest, CountsColumnsOfTheTerminal) {
  TextTable table({{"NAME"}, {"N", Align::right}});
  table.add({{"日本"}, {"1"}});
  table.add({{"é"}, {"2"}});
  table.add({{"e\xcc\x81"}, {"3"}});  // a combining accent
  EXPECT_EQ(table.text({}),
            "  NAME  N\n"
            "  日本  1\n"
            "  é     2\n"
            "  e\xcc\x81     3\n");
}

TEST(TextTableTest, HasNotesThatNoColumnBounds) {
  TextTable table({{"A"}, {"B"}});
  table.add({{"1"}, {"2"}});
  table.add_note("it is longer than all columns", Tone::bad);
  EXPECT_EQ(table.text({.columns = 18}),
            "  A  B\n"
            "  1  2\n"
            "    it is longer\n"
            "    than all\n"
            "    columns\n");
}

TEST(TextTableTest, ColoursCellsOnlyWhereThereAreColours) {
  TextTable table({{"STATE"}, {"N", Align::right}});
  table.add({{"down", Tone::bad}, {"7"}});
  EXPECT_EQ(table.text({.colours = true}).find("down\x1b[0m   7"),
            table.text({.colours = true}).find("down"));
  EXPECT_EQ(table.text({}).find('\x1b'), std::string::npos);
}

TEST(TextTableTest, LetsNobodySendEscapeSequences) {
  TextTable table({{"NAME"}});
  table.add({{"\x1b]0;title\x07"}});
  table.add({{"two\nlines\x9b"}});
  table.add_note("\x1b[2J", Tone::plain);
  const std::string text = table.text({});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace text_table_test
}  // namespace idproxy::app::views
