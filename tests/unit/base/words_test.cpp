#include "idproxy/base/words.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace idproxy {
namespace words_test {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 4> kWords{"digits", "leading_zeros", "ns", "max_fill"};

TEST(Words, WritesNumbersAndTimesForPeople) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  const std::pair<std::chrono::nanoseconds, const char*> times[] = {
      {0ns, "0.0 s"},      {840ms, "0.8 s"},  {9999ms, "9.9 s"},
      {10s, "10 s"},       {59999ms, "59 s"}, {60s, "1 min"},
      {70s, "1 min 10 s"}, {3h + 59s, "3 h"}, {2h + 10min, "2 h 10 min"},
  };
  for (const auto& [time, text] : times) EXPECT_EQ(seconds_text(time), text);
}

TEST(Words, FindsWhatWasProbablyMeant) {
  EXPECT_EQ(closest("digts", kWords), "digits");
  EXPECT_EQ(closest("diigts", kWords), "digits");
  EXPECT_EQ(closest("leadingzeros", kWords), "leading_zeros");
  EXPECT_EQ(closest("maxfill", kWords), "max_fill");
  EXPECT_EQ(closest("version", kWords), std::nullopt);
  EXPECT_EQ(closest("dgt", kWords), std::nullopt) << "three errors";
  EXPECT_EQ(closest("nz", kWords), "ns");
  EXPECT_EQ(closest("x", kWords), std::nullopt) << "as many errors as letters";
  EXPECT_EQ(closest("lead", kWords), "leading_zeros");
  EXPECT_EQ(closest("ma", kWords), std::nullopt) << "too short to be the beginning of a word";
  EXPECT_EQ(closest("max", std::array<std::string_view, 2>{"max_fill", "max_jump"}), std::nullopt);
  EXPECT_EQ(closest("", kWords), std::nullopt);
  EXPECT_EQ(closest("digits", {}), std::nullopt);
}

TEST(Words, Lists) {
  EXPECT_EQ(listed(kWords), "digits, leading_zeros, ns or max_fill");
  EXPECT_EQ(listed(std::span(kWords).first(1)), "digits");
  EXPECT_EQ(listed({}), "");
}

TEST(Words, PercentEncodesAllButUnreservedCharacters) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b&c=d#\r\n/?"), "a%20b%26c%3Dd%23%0D%0A%2F%3F");
  EXPECT_EQ(percent_encoded("é"), "%C3%A9");
  EXPECT_EQ(percent_encoded(std::string_view("\0", 1)), "%00");
}

TEST(Words, SayWhatAConnectionStringMustHave) {
  EXPECT_EQ(remedy_for_set(""), "remove that");
  EXPECT_EQ(remedy_for_set("rs0"), "write replicaSet=rs0");
  EXPECT_EQ(remedy_for_set("a&b"), "write replicaSet=a%26b");
  EXPECT_EQ(remedy_for_set("x/;1e echo MARK;#"), "write replicaSet=x%2F%3B1e%20echo%20MARK%3B%23");
  EXPECT_EQ(remedy_for_set(std::string(161, 'x')), "name another server");
}

TEST(Words, ShowsNoCredentials) {
  EXPECT_EQ(shown("mongodb://bob:secret@host/db"), "mongodb://***@host/db");
  EXPECT_EQ(shown("mongodb://bob:s@cr/t@host"), "mongodb://***@host");
  EXPECT_EQ(shown("mongodb://host/?tlsCertificateKeyFilePassword=secret"), "mongodb://host/");
  EXPECT_EQ(shown("bob@example.org"), "bob@example.org");
}

TEST(Words, ShowsOneShortLine) {
  EXPECT_EQ(shown("a\nb\x1b[1m"), "a\\u000ab\\u001b[1m");
  EXPECT_EQ(shown(std::string(100, 'x')), std::string(80, 'x') + "…");
  EXPECT_EQ(shown(std::string(79, 'x') + "\xc3\xa9"), std::string(79, 'x') + "…");
}

TEST(Words, ListsAreCut) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(list_text({}, 2), "");
  EXPECT_EQ(list_text(names, 3), "a, b, c");
  EXPECT_EQ(list_text(names, 3, " and "), "a, b and c");
  EXPECT_EQ(list_text(names, 2, " and "), "a, b and 1 more");
  EXPECT_EQ(and_more(1234), "and 1,234 more");
}

}  // namespace words_test
}  // namespace idproxy
