#include "net/lately.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::net {
namespace {

using namespace std::chrono_literals;

TEST(Lately, CountsTheLastTenSeconds) {
  Lately lately;
  for (int second = 0; second < 100; ++second) {
    for (int i = 0; i < 10; ++i) lately.add(1, 5, std::chrono::seconds(second) + i * 100ms);
  }
  EXPECT_NEAR(lately.rates(100s).requests, 10, 1);
  EXPECT_NEAR(lately.rates(100s).documents, 50, 5);
  EXPECT_NEAR(lately.rates(105s).requests, 5, 1);
  EXPECT_EQ(lately.rates(120s).requests, 0);
  EXPECT_EQ(lately.rates(100'000s).documents, 0);
}

TEST(Lately, AddsWhatAnotherOneHasCounted) {
  Lately sum;
  Lately other;
  other.add(10, 20, 1s);
  sum.add(5, 0, 12s);
  sum.add(other, 12s);
  EXPECT_DOUBLE_EQ(sum.rates(12s).requests, (5 + 10 * 0.8) / 10);
  EXPECT_DOUBLE_EQ(sum.rates(12s).documents, 20 * 0.8 / 10);
}

TEST(EndedClients, KeepsFewNames) {
  EndedClients ended;
  Lately sent;
  sent.add(1, 0, 1s);
  for (int i = 0; i < 1000; ++i) ended.add("app" + std::to_string(i), sent, 1s);
  EXPECT_EQ(ended.by_application().size(), 100U);
  EXPECT_NEAR(ended.others().rates(1s).requests, 90, 1e-9);

  Lately later;
  later.add(1, 0, 60s);
  ended.add("later", Lately(), 60s);
  EXPECT_FALSE(ended.by_application().contains("later")) << "has sent nothing";
  ended.add("later", later, 60s);
  EXPECT_EQ(ended.by_application().size(), 1U) << "the others are forgotten";
}

}  // namespace
}  // namespace idproxy::net
