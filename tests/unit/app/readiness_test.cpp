#include "app/readiness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "idproxy/observability/log.hpp"
#include "support/fake_store.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app {
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
    return reasons_of({std::move(rules), "idproxy", has_store ? store : nullptr});
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
  const RuleLists lists = lists_of(rules, {"", "reason", ""});
  EXPECT_EQ(lists.ready, "0 (a.a, n), 2 (c.*, n)");
  EXPECT_EQ(lists.not_ready, "1 (b.b, n)");
}

TEST(RuleListsTest, StayShort) {
  std::vector<rewrite::Rule> rules;
  for (int i = 0; i < 25; ++i) rules.push_back(test::rule("a.a", "n"));
  EXPECT_TRUE(
      lists_of(rules, std::vector<std::string>(25)).ready.ends_with("19 (a.a, n) and 5 more"));
}

class ReadinessLogTest : public ::testing::Test {
 protected:
  using Obstacles = std::vector<id_store::Watch::CounterObstacle>;

  std::string look(const Obstacles& obstacles) {
    ::testing::internal::CaptureStderr();
    log::start({log::Level::info, log::Format::json});
    log_.look(rules_, obstacles);
    return ::testing::internal::GetCapturedStderr();
  }
  static Obstacles obstacle(const char* reason, bool passes = false) {
    return {{not_ready(0, "shop.orders", reason), passes}};
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
  EXPECT_EQ(look({}), "");
  EXPECT_THAT(look(obstacle("no index")),
              HasSubstr(R"("event":"not_ready","ns":"shop.orders","field":"number",)"
                        R"("reason":"no index")"));
  EXPECT_EQ(look(obstacle("no index")), "");
  EXPECT_THAT(look(obstacle("no privilege")), HasSubstr(R"("reason":"no privilege")"));
  EXPECT_THAT(look({}), HasSubstr(R"("event":"ready_again","ns":"shop.orders")"));
  EXPECT_EQ(look({}), "");
}

TEST_F(ReadinessLogTest, LeavesOutWhatPasses) {
  EXPECT_EQ(look(obstacle("not checked yet", true)), "");
  EXPECT_NE(look(obstacle("no index")), "");
  EXPECT_EQ(look(obstacle("the collection is being read", true)), "") << "it is not ready again";
  EXPECT_EQ(look(obstacle("no index")), "");
  EXPECT_NE(look({}), "");
}

}  // namespace readiness_test
}  // namespace idproxy::app
