#include "idproxy/base/time_zone.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace idproxy {
namespace time_zone_test {

using namespace std::chrono_literals;
using Date = std::chrono::year_month_day;
using std::chrono::sys_days;

/// Midnight in UTC plus `time`.
std::chrono::nanoseconds at(Date date, std::chrono::seconds time) {
  return sys_days(date).time_since_epoch() + time;
}

constexpr Date kEve{2024y / std::chrono::December / 31};
constexpr Date kNewYear{2025y / std::chrono::January / 1};

TEST(TimeZone, IsUtcByDefault) {
  EXPECT_EQ(TimeZone().date_at(at(kEve, 24h - 1s)), kEve);
  EXPECT_EQ(TimeZone().date_at(at(kEve, 24h - 1s) + 999'999'999ns), kEve);
  EXPECT_EQ(TimeZone().date_at(at(kNewYear, 0s)), kNewYear);
  EXPECT_EQ(TimeZone().date_at(-1ns), (Date{1969y / std::chrono::December / 31}));
  EXPECT_EQ(TimeZone::find("UTC")->date_at(at(kNewYear, 0s)), kNewYear);
}

/// Two hosts may differ in `localtime`, and a path may lead to a pipe, for which an open waits.
TEST(TimeZone, IsANameOfTheDatabase) {
  for (const char* none :
       {"localtime", "/etc/localtime", "../../../etc/localtime", "file:/etc/localtime",
        "libc:localtime", "Europe", "Europe/Atlantis", ""}) {
    EXPECT_FALSE(TimeZone::find(none)) << none;
  }
  EXPECT_TRUE(TimeZone::find("Etc/GMT+1"));
  const std::string directory = ::testing::TempDir() + "zones";
  ::mkdir(directory.c_str(), 0700);
  ::mkfifo((directory + "/Pipe").c_str(), 0600);
  ::setenv("TZDIR", directory.c_str(), 1);
  EXPECT_FALSE(TimeZone::find("Pipe"));
  ::unsetenv("TZDIR");
}

TEST(TimeZone, ChangesTheDateAtLocalMidnight) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  ASSERT_TRUE(berlin);
  EXPECT_EQ(berlin->date_at(at(kEve, 23h - 1s)), kEve);
  EXPECT_EQ(berlin->date_at(at(kEve, 23h)), kNewYear);
  const auto kolkata = TimeZone::find("Asia/Kolkata");  // +05:30
  ASSERT_TRUE(kolkata);
  EXPECT_EQ(kolkata->date_at(at(kEve, 18h + 30min - 1s)), kEve);
  EXPECT_EQ(kolkata->date_at(at(kEve, 18h + 30min)), kNewYear);
  const auto hawaii = TimeZone::find("Pacific/Honolulu");  // -10:00
  ASSERT_TRUE(hawaii);
  EXPECT_EQ(hawaii->date_at(at(kNewYear, 10h - 1s)), kEve);
}

TEST(TimeZone, FollowsDaylightSaving) {
  const auto berlin = TimeZone::find("Europe/Berlin");
  ASSERT_TRUE(berlin);
  const Date before{2026y / std::chrono::March / 28};  // +01:00 until the 29th, 01:00 UTC
  const Date change{2026y / std::chrono::March / 29};
  EXPECT_EQ(berlin->date_at(at(before, 23h)), change);
  EXPECT_EQ(berlin->date_at(at(change, 22h - 1s)), change);  // +02:00
  EXPECT_EQ(berlin->date_at(at(change, 22h)), (Date{2026y / std::chrono::March / 30}));
  const Date back{2026y / std::chrono::October / 25};  // +01:00 from 01:00 UTC on
  EXPECT_EQ(berlin->date_at(at(back, 23h - 1s)), back);
  EXPECT_EQ(berlin->date_at(at(back, 23h)), (Date{2026y / std::chrono::October / 26}));
}

/// The files list changes of the clock up to 2037 at most; then a rule applies.
TEST(TimeZone, FollowsDaylightSavingOfLaterYears) {
  const auto sydney = TimeZone::find("Australia/Sydney");
  ASSERT_TRUE(sydney);
  const Date eve{2059y / std::chrono::December / 31};  // +11:00
  EXPECT_EQ(sydney->date_at(at(eve, 13h - 1s)), eve);
  EXPECT_EQ(sydney->date_at(at(eve, 13h)), (Date{2060y / std::chrono::January / 1}));
}

TEST(TimeZone, KnowsLeapDays) {
  const Date leap{2028y / std::chrono::February / 29};
  EXPECT_EQ(TimeZone().date_at(at(2028y / std::chrono::February / 28, 24h)), leap);
  EXPECT_EQ(TimeZone().date_at(at(leap, 24h)), (Date{2028y / std::chrono::March / 1}));
  EXPECT_EQ(TimeZone().date_at(at(2026y / std::chrono::February / 28, 24h)),
            (Date{2026y / std::chrono::March / 1}));
}

TEST(TimeZone, IsNotFoundUnderAnotherName) {
  for (const char* name : {"", "Europe/Atlantis", "europe/berlin/", "../../etc/passwd", "+01:00"}) {
    EXPECT_FALSE(TimeZone::find(name)) << name;
  }
}

}  // namespace time_zone_test
}  // namespace idproxy
