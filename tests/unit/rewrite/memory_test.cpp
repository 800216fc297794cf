#include "idproxy/rewrite/memory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::rewrite {
namespace insert_rights_test {

using namespace std::chrono_literals;

TEST(InsertRights, LastAsLongAsTheLogin) {
  InsertRights rights;
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
  rights.add("shop.orders", Right::insert, 5s);
  EXPECT_TRUE(rights.has("shop.orders", Right::insert));
  rights.forget();
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
}

/// {idproxy: "next"} is no write that the server checks itself.
TEST(InsertRights, AreFreshForAMinute) {
  InsertRights rights;
  EXPECT_FALSE(rights.has_lately("shop.orders", Right::insert, 5s));
  rights.add("shop.orders", Right::insert, 5s);
  EXPECT_TRUE(rights.has_lately("shop.orders", Right::insert, 65s - 1ns));
  EXPECT_FALSE(rights.has_lately("shop.orders", Right::insert, 65s));
  rights.add("shop.orders", Right::insert, 60s);
  EXPECT_TRUE(rights.has_lately("shop.orders", Right::insert, 65s));
}

TEST(InsertRights, IncludeThoseThatAreLess) {
  InsertRights rights;
  rights.add("shop.orders", Right::upsert, 0s);
  EXPECT_TRUE(rights.has("shop.orders", Right::insert));
  EXPECT_TRUE(rights.has("shop.orders", Right::upsert));
  EXPECT_FALSE(rights.has("shop.orders", Right::find_and_modify));
  rights.add("shop.orders", Right::insert, 0s);
  EXPECT_TRUE(rights.has("shop.orders", Right::upsert)) << "what was said stays so";
}

TEST(InsertRights, AreOfOneNamespace) {
  InsertRights rights;
  rights.add("shop.orders", Right::insert, 0s);
  for (const char* other : {"shop.order", "shop.orders2", "shop", "", "Shop.orders"}) {
    EXPECT_FALSE(rights.has(other, Right::insert)) << other;
  }
  rights.add("shop.items", Right::insert, 0s);
  rights.remove("shop.orders");
  EXPECT_FALSE(rights.has("shop.orders", Right::insert));
  EXPECT_TRUE(rights.has("shop.items", Right::insert));
}

TEST(InsertRights, AreOfTheLastNamespacesAlone) {
  InsertRights rights;
  const auto name = [](std::size_t i) { return "shop.c" + std::to_string(i); };
  for (std::size_t i = 0; i < InsertRights::kMost; ++i) rights.add(name(i), Right::insert, 0s);
  rights.add(name(0), Right::insert, 0s);  // again, so that it is the newest
  rights.add("shop.one_more", Right::insert, 0s);
  EXPECT_TRUE(rights.has(name(0), Right::insert));
  EXPECT_FALSE(rights.has(name(1), Right::insert)) << "the oldest";
  for (std::size_t i = 2; i < InsertRights::kMost; ++i) {
    EXPECT_TRUE(rights.has(name(i), Right::insert)) << i;
  }
  EXPECT_TRUE(rights.has("shop.one_more", Right::insert));
}

}  // namespace insert_rights_test
}  // namespace idproxy::rewrite
