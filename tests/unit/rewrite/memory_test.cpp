#include "idproxy/rewrite/memory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::rewrite {
namespace insert_rights_test {

using namespace std::chrono_literals;

TEST(InsertRights, LastForAMinute) {
  InsertRights rights;
  EXPECT_FALSE(rights.has("shop.orders", 5s));
  rights.add("shop.orders", 5s);
  EXPECT_TRUE(rights.has("shop.orders", 5s));
  EXPECT_TRUE(rights.has("shop.orders", 65s - 1ns));
  EXPECT_FALSE(rights.has("shop.orders", 65s));
  rights.add("shop.orders", 60s);
  EXPECT_TRUE(rights.has("shop.orders", 65s));
}

TEST(InsertRights, AreOfOneNamespace) {
  InsertRights rights;
  rights.add("shop.orders", 0s);
  for (const char* other : {"shop.order", "shop.orders2", "shop", "", "Shop.orders"}) {
    EXPECT_FALSE(rights.has(other, 1s)) << other;
  }
}

TEST(InsertRights, AreForgottenAtOnce) {
  InsertRights rights;
  rights.add("shop.orders", 0s);
  rights.add("shop.items", 0s);
  rights.forget();
  EXPECT_FALSE(rights.has("shop.orders", 1s));
  EXPECT_FALSE(rights.has("shop.items", 1s));
}

TEST(InsertRights, AreOfTheLastNamespacesAlone) {
  InsertRights rights;
  const auto name = [](std::size_t i) { return "shop.c" + std::to_string(i); };
  for (std::size_t i = 0; i < InsertRights::kMost; ++i) {
    rights.add(name(i), std::chrono::seconds(i));
  }
  rights.add(name(0), 20s);  // again, so that it is the newest
  rights.add("shop.one_more", 20s);
  EXPECT_TRUE(rights.has(name(0), 20s));
  EXPECT_FALSE(rights.has(name(1), 20s)) << "the oldest";
  for (std::size_t i = 2; i < InsertRights::kMost; ++i) {
    EXPECT_TRUE(rights.has(name(i), 20s)) << i;
  }
  EXPECT_TRUE(rights.has("shop.one_more", 20s));
}

}  // namespace insert_rights_test
}  // namespace idproxy::rewrite
