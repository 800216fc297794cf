#include "idproxy/base/scalars.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace idproxy {
namespace scalars_test {

using namespace std::chrono_literals;

TEST(Scalars, ReadsIntegersInDecimalOnly) {
  EXPECT_EQ(read_integer("0").value, 0);
  EXPECT_EQ(read_integer("-5").value, -5);
  EXPECT_EQ(read_integer("-9223372036854775808").value, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read_integer("9223372036854775807").value, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(read_integer("9223372036854775808").reading, Reading::too_large);
  for (const char* text : {"", "-", "+5", "007", "0x10", "0o7", "1e3", "1.0", "1_000", "1,000",
                           " 1", "1 ", "one", "--1"}) {
    EXPECT_EQ(read_integer(text).reading, Reading::malformed) << text;
  }
}

TEST(Scalars, ReadsNumbers) {
  EXPECT_EQ(read_number("0.5").value, 0.5);
  EXPECT_EQ(read_number("-2").value, -2);
  for (const char* text : {"", ".5", "5.", "1e3", "0x1", "nan", "inf", "00.5", "1.2.3"}) {
    EXPECT_EQ(read_number(text).reading, Reading::malformed) << text;
  }
}

TEST(Scalars, ReadsDurations) {
  EXPECT_EQ(read_duration("250ms").value, 250ms);
  EXPECT_EQ(read_duration("0ms").value, 0ms);
  EXPECT_EQ(read_duration("5s").value, 5s);
  EXPECT_EQ(read_duration("1m").value, 1min);
  EXPECT_EQ(read_duration("24h").value, 24h);
  EXPECT_EQ(read_duration("5").reading, Reading::no_unit);
  EXPECT_EQ(read_duration("0").reading, Reading::no_unit);
  EXPECT_EQ(read_duration("99999999999999999999s").reading, Reading::too_large);
  EXPECT_EQ(read_duration("9223372036854775807h").reading, Reading::too_large);
  for (const char* text : {"", "s", "5 s", "-5s", "1.5s", "5sec", "5S", "05s", "1m30s", "5d"}) {
    EXPECT_EQ(read_duration(text).reading, Reading::malformed) << text;
  }
}

TEST(Scalars, ReadsSizes) {
  EXPECT_EQ(read_size("512B").value, 512);
  EXPECT_EQ(read_size("64KiB").value, 64 << 10);
  EXPECT_EQ(read_size("256MiB").value, 256 << 20);
  EXPECT_EQ(read_size("1GiB").value, 1 << 30);
  EXPECT_EQ(read_size("256").reading, Reading::no_unit);
  EXPECT_EQ(read_size("9223372036854775807GiB").reading, Reading::too_large);
  for (const char* text : {"", "MiB", "256MB", "256M", "256 MiB", "256mib", "-1B"}) {
    EXPECT_EQ(read_size(text).reading, Reading::malformed) << text;
  }
}

TEST(Scalars, WritesTheLargestUnitWithoutARest) {
  EXPECT_EQ(duration_text(0ms), "0ms");
  EXPECT_EQ(duration_text(1500ms), "1500ms");
  EXPECT_EQ(duration_text(90s), "90s");
  EXPECT_EQ(duration_text(60s), "1m");
  EXPECT_EQ(duration_text(24h), "24h");
  EXPECT_EQ(size_text(0), "0B");
  EXPECT_EQ(size_text(1 << 20), "1MiB");
  EXPECT_EQ(size_text(1025), "1025B");
  EXPECT_EQ(number_text(0.95), "0.95");
}

}  // namespace scalars_test
}  // namespace idproxy
