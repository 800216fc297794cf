#include "app/state/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace health_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Snapshot sample() {
  Snapshot snapshot;
  snapshot.rules =
      test::rule_set_of(test::rule("shop.orders", "number"), test::rule("shop.*", "_id"));
  snapshot.not_ready = {0, 2};
  snapshot.net.listeners = {
      {.listener = "127.0.0.1:27117", .server = "db1:27017", .up = true, .connections = 3},
      {.listener = "127.0.0.1:27118",
       .server = "db2:27017",
       .up = false,
       .connections = 1,
       .fault = "refused"}};
  snapshot.net.connections_open = 4;
  return snapshot;
}

admin::HttpResponse page(Phase phase, const std::optional<Snapshot>& snapshot) {
  return readyz(phase, snapshot, {});
}

TEST(Readyz, IsReadyWhileItServes) {
  const Snapshot shown = sample();
  const admin::HttpResponse response = page(Phase::serving, shown);
  EXPECT_EQ(response.status, 200U);
  EXPECT_EQ(response.body,
            "ready\n"
            "error: server db2:27017 cannot be reached: refused\n"
            "error: rule 1 (shop.*, _id) gives no values in 2 collections\n"
            "listener 127.0.0.1:27117 -> db1:27017: server up, 3 clients\n"
            "listener 127.0.0.1:27118 -> db2:27017: server down, 1 client\n"
            "rule 0 (shop.orders, number, counting): ready\n"
            "rule 1 (shop.*, _id, counting): gives no values in 2 collections; why: "
            "db.adminCommand({idproxy: \"status\"})\n"
            "id store: answers\n");
}

TEST(Readyz, NamesTheReleaseAndWhatARuleCannotHaveThere) {
  Snapshot shown = sample();
  shown.net.listeners[0].release = "MongoDB 6.0.27";
  EXPECT_THAT(page(Phase::serving, shown).body,
              HasSubstr("db1:27017: server up, MongoDB 6.0.27, 3 clients\n"));
  shown.net.listeners[1].wire_version = 9;
  shown.net.listeners[1].release = "MongoDB 4.4.2";
  rewrite::Rule reports = test::rule("shop.orders", "number");
  reports.report = true;
  shown.rules = test::rule_set_of(reports);
  shown.not_ready = {0};
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body, HasSubstr("db2:27017: server down, MongoDB 4.4.2, 1 client\n"));
  EXPECT_THAT(body, HasSubstr("counting): ready\n  with MongoDB 4.4: updates and findAndModify "
                              "that a driver may repeat report no values\n"));
}

TEST(Readyz, SaysWhyARuleIsNotReady) {
  Snapshot shown = sample();
  shown.reasons = {{"no unique index; make it with X"}, {}};
  shown.not_ready = {1, 0};
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body,
              HasSubstr("\nerror: rule 0 (shop.orders, number) is not ready: no unique index; "
                        "make it with X\n"));
  EXPECT_THAT(body, HasSubstr("\nrule 0 (shop.orders, number, counting): not ready\n"));
  EXPECT_THAT(body, HasSubstr("\nrule 1 (shop.*, _id, counting): ready\n"));
}

TEST(Readyz, SaysThatTheFirstInsertReadsTheCollection) {
  Snapshot shown = sample();
  shown.numbers = {{0, "shop.orders", ids::CounterNumbers{.next = 1, .held = 0, .left = {}}}};
  EXPECT_THAT(page(Phase::serving, shown).body,
              HasSubstr("\nrule 0 (shop.orders, number, counting): ready\n"));
  std::get<ids::CounterNumbers>(shown.numbers[0].numbers).reads_all = true;
  EXPECT_THAT(page(Phase::serving, shown).body,
              HasSubstr("\nrule 0 (shop.orders, number, counting): ready; the first insert reads "
                        "the whole collection, unless an index begins with number by then\n"));
}

TEST(Readyz, SaysWhatIsLeftOfNumbersThatRunOut) {
  Snapshot shown = sample();
  shown.not_ready = {0, 2};
  shown.run_out = {{1, "shop.a", RunOut::End::max, 37, 5}, {1, "shop.b", RunOut::End::width, 9, 6}};
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body, HasSubstr("\nwarning: rule 1 (shop.*, _id): 37 numbers are left up to max; at "
                              "the rate of the last hour they last 7 hours in one of its "
                              "collections\n"));
  EXPECT_THAT(body, HasSubstr("\nwarning: rule 1 (shop.*, _id): 9 numbers are left in the "
                              "template's width, and then values get longer; at the rate of the "
                              "last hour they last 90 minutes in one of its collections\n"))
      << "although others give no values";
  EXPECT_THAT(status_line(Phase::serving, shown),
              testing::EndsWith("; 4 clients; numbers run out: see /readyz"));
}

TEST(Readyz, NamesThreeCountersThatRunOut) {
  Snapshot shown = sample();
  for (std::uint64_t left = 1; left <= 3; ++left) {
    shown.run_out.push_back({1, "shop.a", RunOut::End::max, left, 0});
  }
  EXPECT_THAT(page(Phase::serving, shown).body, testing::Not(HasSubstr(" more)")));
  shown.run_out.resize(7, {1, "shop.b", RunOut::End::max, 9, 0});
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body,
              HasSubstr(" 3 numbers are left up to max in one of its collections (and 4 more)\n"));
  EXPECT_THAT(body, testing::Not(HasSubstr(" 9 numbers")));
}

TEST(Readyz, SaysThatNoUniqueIndexGuardsAField) {
  Snapshot shown = sample();
  shown.unguarded[0] = {"shop.orders", {}, ""};
  shown.unguarded[1] = {"shop.a", {}, "", 3};
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body, HasSubstr("\nwarning: rule 0 (shop.orders, number): no unique index keeps a "
                              "value from being stored twice\n"));
  EXPECT_THAT(body, HasSubstr("\nwarning: rule 1 (shop.*, _id): no unique index keeps a value from "
                              "being stored twice in 3 collections\n"));
}

TEST(Readyz, NamesNoCollectionThatTheConfigurationDoesNot) {
  Snapshot shown = sample();
  shown.unguarded[1] = {"shop.a", {}, "", 3};
  shown.run_out = {{1, "shop.a", RunOut::End::max, 37, 5}};
  shown.refused = {{1, "shop.a", "shop.a has no index", 6, nullptr},
                   {1, "shop.a", "held", 6, std::make_shared<const ids::NumberHolder>()}};
  EXPECT_THAT(page(Phase::serving, shown).body, testing::Not(HasSubstr("shop.a")));
}

TEST(Readyz, SaysWhyTheStoreDoesNotAnswer) {
  Snapshot shown = sample();
  shown.store.up = false;
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body, HasSubstr("\nerror: the id store does not answer\n"));
  EXPECT_THAT(body, HasSubstr("\nid store: down\n"));
  shown.store.down_reason = "refuses the proxy's login: Authentication failed.";
  EXPECT_THAT(page(Phase::serving, shown).body,
              HasSubstr("\nerror: the id store refuses the proxy's login: Authentication "
                        "failed.\n"));
}

TEST(Readyz, SaysWhatIsWrongWithAServer) {
  Snapshot shown = sample();
  shown.net.listeners[0].fault = "it is a member of the replica set a";
  const std::string body = page(Phase::serving, shown).body;
  EXPECT_THAT(body, HasSubstr("\nerror: server db1:27017: it is a member of the replica set a\n"));
  EXPECT_THAT(body, HasSubstr(" -> db1:27017: server up, 3 clients\n"));
  shown.net.listeners[0].oldest = 5s;
  EXPECT_THAT(page(Phase::serving, shown).body,
              HasSubstr(" -> db1:27017: server slow, 3 clients\n"));
}

TEST(Readyz, IsNotReadyBeforeAndAfter) {
  EXPECT_EQ(page(Phase::starting, std::nullopt).status, 503U);
  EXPECT_EQ(page(Phase::starting, std::nullopt).body, "starting\n");
  const Snapshot shown = sample();
  EXPECT_EQ(page(Phase::starting, shown).status, 503U);
  EXPECT_EQ(page(Phase::draining, shown).status, 503U);
  EXPECT_TRUE(page(Phase::draining, shown).body.starts_with("draining\n"));
}

TEST(StatusLine, SaysWhatIsServed) {
  Snapshot shown = sample();
  EXPECT_EQ(status_line(Phase::starting, std::nullopt), "starting");
  EXPECT_EQ(status_line(Phase::serving, shown),
            "serving 127.0.0.1:27117 -> db1:27017, 127.0.0.1:27118 -> db2:27017; 4 clients");
  EXPECT_EQ(status_line(Phase::draining, shown), "draining; 4 clients");
  shown.last_reload_failed = true;
  EXPECT_THAT(status_line(Phase::serving, shown), HasSubstr("; 4 clients; the last reload failed"));
  shown.last_reload_failed = false;
  for (int i = 0; i < 5; ++i) shown.net.listeners.push_back(shown.net.listeners[0]);
  shown.net.connections_open = 1;
  EXPECT_THAT(status_line(Phase::serving, shown), HasSubstr(" and 4 more; 1 client"));
}

}  // namespace health_test
}  // namespace idproxy::app::state
