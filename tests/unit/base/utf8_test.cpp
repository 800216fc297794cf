#include "idproxy/base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace idproxy {
namespace utf8_test {

struct Case {
  const char* name;
  std::string_view text;
  char32_t code_point;
  std::size_t size;
};

std::string name_of(const ::testing::TestParamInfo<Case>& test) {
  return test.param.name;
}

class Utf8 : public ::testing::TestWithParam<Case> {};

TEST_P(Utf8, ReadsTheFirstCharacter) {
  const Case& each = GetParam();
  const std::string followed = std::string(each.text) + "\x80\x80\x80";
  for (const std::string_view text : {each.text, std::string_view(followed)}) {
    // `followed` would complete what is cut off.
    if (text != each.text && each.code_point == kReplacementCharacter) continue;
    const Utf8Character read = first_character(text);
    EXPECT_EQ(read.code_point, each.code_point);
    EXPECT_EQ(read.size, each.size);
  }
}

INSTANTIATE_TEST_SUITE_P(WellFormed, Utf8,
                         ::testing::Values(Case{"nul", std::string_view("\0", 1), 0, 1},
                                           Case{"ascii", "a", 'a', 1},
                                           Case{"last_of_1", "\x7f", 0x7f, 1},
                                           Case{"first_of_2", "\xc2\x80", 0x80, 2},
                                           Case{"u_umlaut", "\xc3\xbc", 0xfc, 2},
                                           Case{"last_of_2", "\xdf\xbf", 0x7ff, 2},
                                           Case{"first_of_3", "\xe0\xa0\x80", 0x800, 3},
                                           Case{"before_surrogates", "\xed\x9f\xbf", 0xd7ff, 3},
                                           Case{"behind_surrogates", "\xee\x80\x80", 0xe000, 3},
                                           Case{"last_of_3", "\xef\xbf\xbf", 0xffff, 3},
                                           Case{"first_of_4", "\xf0\x90\x80\x80", 0x10000, 4},
                                           Case{"last", "\xf4\x8f\xbf\xbf", 0x10ffff, 4}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    Malformed, Utf8,
    ::testing::Values(Case{"continuation", "\x80", kReplacementCharacter, 1},
                      Case{"overlong_2", "\xc1\xbf", kReplacementCharacter, 1},
                      Case{"overlong_3", "\xe0\x9f\xbf", kReplacementCharacter, 1},
                      Case{"overlong_4", "\xf0\x8f\xbf\xbf", kReplacementCharacter, 1},
                      Case{"surrogate", "\xed\xa0\x80", kReplacementCharacter, 1},
                      Case{"too_large", "\xf4\x90\x80\x80", kReplacementCharacter, 1},
                      Case{"five_bytes", "\xf8\x88\x80\x80\x80", kReplacementCharacter, 1},
                      Case{"no_byte_of_any", "\xff", kReplacementCharacter, 1},
                      Case{"cut_2", "\xc3", kReplacementCharacter, 1},
                      Case{"cut_3", "\xe2\x82", kReplacementCharacter, 1},
                      Case{"cut_4", "\xf0\x9f\x98", kReplacementCharacter, 1},
                      Case{"broken_off", "\xe2\x82\x61", kReplacementCharacter, 1}),
    name_of);

}  // namespace utf8_test
}  // namespace idproxy
