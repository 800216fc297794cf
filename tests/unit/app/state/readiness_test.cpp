#include "app/state/readiness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "idproxy/base/server_release.hpp"
#include "idproxy/log/log.hpp"
#include "support/fake_store.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace readiness_test {

using ids::Errc;
using ids::Readiness;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ids::NotReady not_ready(std::size_t rule, std::string ns, std::string reason) {
  return {rule, std::move(ns), {Readiness::Kind::not_ready, {Errc::exhausted, std::move(reason)}}};
}

struct ReasonsTest : ::testing::Test {
  std::vector<std::string> reasons(bool has_store = true) {
    std::vector<rewrite::Rule> rules;
    for (const char* ns : {"shop.orders", "shop.view", "shop.*"}) {
      rules.push_back(test::rule(ns, "number"));
    }
    std::vector<std::string> texts;
    for (const Reason& each :
         reasons_of({std::move(rules), "idproxy", has_store ? store : nullptr})) {
      texts.push_back(each.whole());
    }
    return texts;
  }
  const std::shared_ptr<test::FakeStore> store = std::make_shared<test::FakeStore>();
};

TEST_F(ReasonsTest, AreEmptyForRulesThatAreReady) {
  EXPECT_THAT(reasons(), ElementsAre("", "", ""));
  EXPECT_THAT(reasons(false), ElementsAre("", "", ""));
}

TEST_F(ReasonsTest, AreThoseOfTheCollectionsThatRulesName) {
  store->listed = {not_ready(0, "shop.orders", "no index"),
                   {1, "shop.view", {Readiness::Kind::left_alone, {}}},
                   not_ready(2, "shop.hidden", "full")};
  EXPECT_THAT(
      reasons(),
      ElementsAre("no index", "a view or a time-series collection: no rule applies to it", ""));
}

/// Its reason may name a collection that only clients know.
TEST_F(ReasonsTest, AreNoneOfACounterOfManyCollections) {
  store->listed = {not_ready(2, "shop.*", "shop.hidden has no index")};
  EXPECT_THAT(reasons(), ElementsAre("", "", ""));
}

TEST(RuleListsTest, NameRulesByPositionAndField) {
  std::vector<rewrite::Rule> rules;
  for (const char* ns : {"a.a", "b.b", "c.*"}) rules.push_back(test::rule(ns, "n"));
  const RuleLists lists = lists_of(rules, {{}, {"reason"}, {}});
  EXPECT_EQ(lists.ready, "0 (a.a, n), 2 (c.*, n)");
  EXPECT_EQ(lists.not_ready, "1 (b.b, n)");
}

TEST(RuleListsTest, StayShort) {
  std::vector<rewrite::Rule> rules;
  for (int i = 0; i < 25; ++i) rules.push_back(test::rule("a.a", "n"));
  EXPECT_TRUE(lists_of(rules, std::vector<Reason>(25)).ready.ends_with("19 (a.a, n) and 5 more"));
}

class ReadinessLogTest : public ::testing::Test {
 protected:
  using Obstacles = std::vector<ids::NotReady>;

  std::string update(const Obstacles& obstacles) {
    ::testing::internal::CaptureStderr();
    log::start({log::Level::info, log::Format::json});
    log_.update(rules_, obstacles);
    return ::testing::internal::GetCapturedStderr();
  }
  static Obstacles obstacle(const char* reason, bool is_transient = false) {
    Obstacles all{not_ready(0, "shop.orders", reason)};
    all.front().readiness.error.is_transient = is_transient;
    return all;
  }

 private:
  static std::vector<rewrite::Rule> rules() {
    std::vector<rewrite::Rule> rules;
    rules.push_back(test::rule("shop.orders", "number"));
    return rules;
  }
  std::vector<rewrite::Rule> rules_ = rules();
  ReadinessLog log_;
};

TEST_F(ReadinessLogTest, HasEachChangeOnce) {
  EXPECT_EQ(update({}), "");
  EXPECT_THAT(update(obstacle("no index")),
              HasSubstr(R"("event":"not_ready","ns":"shop.orders","field":"number",)"
                        R"("reason":"no index")"));
  EXPECT_EQ(update(obstacle("no index")), "");
  EXPECT_THAT(update(obstacle("no privilege")), HasSubstr(R"("reason":"no privilege")"));
  EXPECT_THAT(update({}), HasSubstr(R"("event":"ready_again","ns":"shop.orders")"));
  EXPECT_EQ(update({}), "");
}

TEST_F(ReadinessLogTest, LeavesOutWhatPasses) {
  EXPECT_EQ(update(obstacle("not checked yet", true)), "");
  EXPECT_NE(update(obstacle("no index")), "");
  EXPECT_EQ(update(obstacle("the collection is being read", true)), "") << "it is not ready again";
  EXPECT_EQ(update(obstacle("no index")), "");
  EXPECT_NE(update({}), "");
}

}  // namespace readiness_test

namespace server_limits_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

rewrite::Rule counter() {
  rewrite::Rule rule = test::rule("shop.orders", "number");
  rule.strategy_name = "counter";
  return rule;
}

TEST(ServerRelease, IsNamedByItsVersionOrItsWireVersion) {
  using server_release::name_of;
  EXPECT_EQ(name_of(17, "6.0.27"), "MongoDB 6.0.27");
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

}  // namespace idproxy::app::state
