#include "idproxy/rewrite/memory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::rewrite {
namespace rights_test {

using namespace std::chrono_literals;

TEST(Rights, LastAsLongAsTheLogin) {
  Rights rights;
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
  rights.add("shop.orders", Right::insert, 5s);
  EXPECT_TRUE(rights.has("shop.orders", Right::insert));
  rights.forget();
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
}

/// {idproxy: "next"} is no write that the server checks itself.
TEST(Rights, AreFreshForAMinute) {
  Rights rights;
  EXPECT_FALSE(rights.has_lately("shop.orders", Right::insert, 5s));
  rights.add("shop.orders", Right::insert, 5s);
  EXPECT_TRUE(rights.has_lately("shop.orders", Right::insert, 65s - 1ns));
  EXPECT_FALSE(rights.has_lately("shop.orders", Right::insert, 65s));
  rights.add("shop.orders", Right::insert, 60s);
  EXPECT_TRUE(rights.has_lately("shop.orders", Right::insert, 65s));
}

TEST(Rights, IncludeThoseThatAreLess) {
  Rights rights;
  rights.add("shop.orders", Right::upsert, 0s);
  EXPECT_TRUE(rights.has("shop.orders", Right::insert));
  EXPECT_TRUE(rights.has("shop.orders", Right::upsert));
  EXPECT_FALSE(rights.has("shop.orders", Right::find_and_modify));
  rights.add("shop.orders", Right::insert, 0s);
  EXPECT_TRUE(rights.has("shop.orders", Right::upsert)) << "what was said stays so";
}

TEST(Rights, AreOfOneNamespace) {
  Rights rights;
  rights.add("shop.orders", Right::insert, 0s);
  for (const char* other : {"shop.order", "shop.orders2", "shop", "", "Shop.orders"}) {
    EXPECT_FALSE(rights.has(other, Right::insert)) << other;
  }
  rights.add("shop.items", Right::insert, 0s);
  rights.remove("shop.orders");
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
  EXPECT_TRUE(rights.has("shop.items", Right::insert));
}

TEST(Rights, AreOfABoundedNumberOfNamespaces) {
  Rights rights;
  const auto name = [](std::size_t i) { return "shop.c" + std::to_string(i); };
  for (std::size_t i = 0; i < Rights::kMost + 1; ++i) rights.add(name(i), Right::insert, 0s);
  std::size_t known = 0;
  for (std::size_t i = 0; i < Rights::kMost + 1; ++i) known += rights.has(name(i), Right::insert);
  EXPECT_EQ(known, Rights::kMost);
  EXPECT_TRUE(rights.has(name(Rights::kMost), Right::insert)) << "the newest";
}

}  // namespace rights_test
}  // namespace idproxy::rewrite
