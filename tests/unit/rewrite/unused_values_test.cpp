#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/reply_merge.hpp"

#include <gtest/gtest.h>

#include "support/lending_source.hpp"
#include "support/replies.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace unused_values_test {

using namespace test;

TEST(UnusedValues, ReturnInTheirOrderToStrategiesThatTakeThemBack) {
  const auto lending = std::make_shared<Lending>();
  auto lent = rule("shop.*", "a");
  lent.strategy = shared_source<LendingSource>(lending);
  const auto rules = rule_set_of(std::move(lent), rule("shop.*", "b"));
  const Plan plan = rules->plan("shop", "orders");
  GivenValues given;
  given.values.resize(2);
  for (std::int64_t i = 1; i <= 4; ++i) {
    store_i64(given.values[0].add(bson::Type::int64, 8), i);
    store_i64(given.values[1].add(bson::Type::int64, 8), i);
  }
  // The first statement has been renewed: its value is the last.
  given.given = {{0, 0, 3}, {0, 1, 0}, {1, 0, 1}, {2, 0, 2}};
  give_back(plan, given, [](std::size_t at) { return at != 3; });
  EXPECT_EQ(lending->calls, "back 2 4; ");
  give_back(plan, given, [](std::size_t) { return false; });
  EXPECT_EQ(lending->calls, "back 2 4; ");
}

TEST(UnusedValues, AreThoseOfStatementsWhoseErrorProvesIt) {
  for (const std::int32_t code : {2, 13, 40, 53, 54, 66, 121, 166, 361, 10334}) {
    EXPECT_TRUE(denies(as_bytes(write_error(0, code)))) << code;
  }
  for (const std::int32_t code : {6, 50, 91, 189, 10107, 11602}) {
    EXPECT_FALSE(denies(as_bytes(write_error(0, code)))) << code;
  }
  EXPECT_TRUE(denies(as_bytes(duplicate(0))));
  EXPECT_FALSE(denies(as_bytes(write_error(0, 11000))));  // of no known key
  EXPECT_FALSE(denies(as_bytes(doc())));
}

TEST(UnusedValues, AreAllOfACommandThatWasNotExecuted) {
  for (const std::int64_t code : {13, 73, 166}) EXPECT_TRUE(stores_nothing(code)) << code;
  for (const std::int64_t code : {0, 50, 91, 10107, 11000}) {
    EXPECT_FALSE(stores_nothing(code)) << code;
  }
}

}  // namespace unused_values_test
}  // namespace idproxy::rewrite
