#include "app/server_limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "idproxy/base/server_release.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app {
namespace server_limits_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

rewrite::Rule counter() {
  rewrite::Rule rule = test::rule("shop.orders", "number");
  rule.strategy_name = "counter";
  return rule;
}

TEST(ServerRelease, IsNamedByItsWireVersion) {
  using server_release::name_of;
  EXPECT_EQ(name_of(0), "");
  EXPECT_EQ(name_of(8), "MongoDB before 4.4");
  EXPECT_EQ(name_of(9), "MongoDB 4.4");
  EXPECT_EQ(name_of(10), "MongoDB 4.x");
  EXPECT_EQ(name_of(13), "MongoDB 5.0");
  EXPECT_EQ(name_of(14), "MongoDB 5.x");
  EXPECT_EQ(name_of(17), "MongoDB 6.0");
  EXPECT_EQ(name_of(21), "MongoDB 7.0");
  EXPECT_EQ(name_of(22), "MongoDB 7.x");
  EXPECT_EQ(name_of(25), "MongoDB 8.0");
  EXPECT_EQ(name_of(27), "MongoDB 8.x");
}

TEST(ServerLimits, AreNoneSince60OrWhereItIsNotKnown) {
  rewrite::Rule rule = counter();
  rule.report = true;
  EXPECT_THAT(limits_of(rule, 17), IsEmpty());
  EXPECT_THAT(limits_of(rule, 0), IsEmpty());
  EXPECT_EQ(note_on_limits(rule, 17), "");
}

TEST(ServerLimits, DependOnTheRule) {
  rewrite::Rule plain = test::rule("shop.orders", "number");
  plain.strategy_name = "uuid";
  EXPECT_THAT(limits_of(plain, 13), IsEmpty());
  EXPECT_THAT(limits_of(counter(), 13), ElementsAre(HasSubstr("within ten seconds")));
  plain.unique_index = ids::UniqueIndex::require;
  plain.report = true;
  EXPECT_THAT(limits_of(plain, 16),
              ElementsAre(HasSubstr("within ten seconds"), HasSubstr("report no values")));
  EXPECT_THAT(note_on_limits(plain, 9), HasSubstr("with MongoDB 4.4: a collection"));
}

TEST(ServerLimits, AreThoseOfTheOldest) {
  std::vector<net::ServerStatistics::Listener> servers(3);
  EXPECT_EQ(oldest_of(servers), 0);
  servers[0].wire_version = 17;
  servers[2].wire_version = 13;
  EXPECT_EQ(oldest_of(servers), 13);
}

}  // namespace server_limits_test
}  // namespace idproxy::app
