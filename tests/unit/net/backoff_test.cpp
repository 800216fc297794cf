#include "net/backoff.hpp"

#include <gtest/gtest.h>

namespace idproxy::net {
namespace backoff_test {

using namespace std::chrono_literals;

TEST(Backoff, DoublesUpToTwoSecondsAndVaries) {
  Backoff backoff;
  std::chrono::nanoseconds now = 1h;
  EXPECT_EQ(backoff.wait(now), 0ns);
  std::chrono::nanoseconds longest = 50ms;
  for (int i = 0; i < 12; ++i) {
    backoff.failed(now, system_random());
    const auto wait = backoff.wait(now);
    EXPECT_GE(wait, longest / 2);
    EXPECT_LT(wait, longest);
    // Others that had begun before count no further.
    backoff.failed(now + wait / 2, system_random());
    EXPECT_EQ(backoff.wait(now), wait);
    now += wait;
    EXPECT_EQ(backoff.wait(now), 0ns);
    longest = std::min<std::chrono::nanoseconds>(longest * 2, 2s);
  }
}

TEST(Backoff, LetsOneTryAtATime) {
  Backoff backoff;
  backoff.failed(1h, system_random());
  EXPECT_FALSE(backoff.claim(1h));
  EXPECT_TRUE(backoff.claim(2h));
  EXPECT_FALSE(backoff.claim(2h));
  backoff.release();
  EXPECT_TRUE(backoff.claim(2h));
  backoff.failed(2h, system_random());
  EXPECT_EQ(backoff.failures(), 2U);
  EXPECT_FALSE(backoff.claim(2h));
  EXPECT_TRUE(backoff.claim(3h));
}

TEST(Backoff, BeginsAnewAfterASuccess) {
  Backoff backoff;
  for (int i = 0; i < 5; ++i) {
    backoff.failed(std::chrono::hours(i + 1), system_random());
  }
  EXPECT_TRUE(backoff.claim(6h));
  backoff.succeeded();
  EXPECT_EQ(backoff.failures(), 0U);
  EXPECT_EQ(backoff.wait(5h), 0ns);
  backoff.failed(6h, system_random());
  EXPECT_LT(backoff.wait(6h), 50ms);
}

}  // namespace backoff_test
}  // namespace idproxy::net
