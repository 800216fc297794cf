#include "app/state/status_document.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

#include "app/json_view.hpp"
#include "idproxy/bson/elements.hpp"
#include "support/fake_store.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace status_document_test {

namespace json = boost::json;
using ids::Errc;
using ids::Readiness;

struct StatusDocument : ::testing::Test {
  StatusDocument() {
    std::vector<rewrite::Rule> all;
    for (const char* ns : {"shop.a", "shop.b"}) all.push_back(test::rule(ns, "number"));
    snapshot.rules = std::make_shared<const rewrite::RuleSet>(std::move(all), "idproxy", store);
    snapshot.net.listeners = {
        {.listener = "0.0.0.0:27117", .server = "db1:27017", .told = "app1:27117"},
        {.listener = "0.0.0.0:27118", .server = "db2:27017", .told = "app1:27118"}};
  }

  json::value document() const { return status_document(sources, &snapshot, {}, {}, {}); }

  const std::shared_ptr<test::FakeStore> store = std::make_shared<test::FakeStore>();
  Snapshot snapshot;
  StatusSources sources;
};

TEST_F(StatusDocument, NamesTheListenerThatIsAsked) {
  EXPECT_EQ(document().as_object().if_contains("listener"), nullptr);
  sources.asked = "app1:27118";
  EXPECT_EQ(document().at("listener").as_string(), "app1:27118");
  EXPECT_EQ(document().at("server").as_string(), "db2:27017");
  sources.asked = "gone:1";
  EXPECT_TRUE(document().at("server").is_null());
}

TEST_F(StatusDocument, NamesCollectionsOnlyToThoseWhoMayLook) {
  store->listed = {{1, "shop.b", {Readiness::Kind::left_alone, {}}},
                   {0, "shop.a", {Readiness::Kind::not_ready, {Errc::unavailable, "not looked"}}}};
  snapshot.numbers = {{0, "shop.a", ids::CounterNumbers{1001, 99, 9000, {{7, 1000}}}},
                      {1, "shop.b", ids::SpaceUse{880, 0.5, 0.75}}};
  const json::value page = document();
  EXPECT_EQ(page.at("rules").at(0).as_object().if_contains("not_ready"), nullptr);
  EXPECT_EQ(page.at("rules").at(0).as_object().if_contains("numbers"), nullptr);

  sources.asked = "app1:27117";
  const json::value all = document();
  EXPECT_EQ(all.at("rules").at(0).at("not_ready"),
            json::parse(R"([{"ns": "shop.a", "code": 6, "reason": "not looked"}])"));
  EXPECT_EQ(all.at("rules").at(0).at("numbers"),
            json::parse(R"([{"ns": "shop.a", "sequence": null, "next": 1001, "held": 99,
                             "left": 9000, "reads_collection": false, "live_ranges": 7,
                             "ranges": 1000}])"));
  EXPECT_EQ(all.at("rules").at(1).at("not_ready"),
            json::parse(R"([{"ns": "shop.b", "code": null, "reason":
                             "a view or a time-series collection: no rule applies to it"}])"));
  EXPECT_EQ(all.at("rules").at(1).at("numbers"),
            json::parse(R"([{"ns": "shop.b", "sequence": null, "documents": 880, "fill": 0.5,
                             "max_fill": 0.75}])"));
}

TEST_F(StatusDocument, HasTheCountsOfRules) {
  rewrite::RuleOutcomes& of = snapshot.rules->outcomes(1);
  of.assigned += 1;
  of.resent = 2;
  of.cured = 3;
  of.given_up = 4;
  of.foreign = 5;
  of.transient = 6;
  of.surfaced = 7;
  of.unacknowledged = 8;
  of.handed_out = 9;
  of.forwarded[static_cast<std::size_t>(rewrite::ForwardReason::replacement)] = 10;
  const json::value its = document().at("rules").at(1);
  std::uint64_t next = 1;
  for (const char* name : {"values", "resent", "cured", "given_up", "foreign", "transient",
                           "surfaced", "unacknowledged", "handed_out"}) {
    EXPECT_EQ(its.at(name).to_number<std::uint64_t>(), next++) << name;
  }
  EXPECT_EQ(its.at("duplicates").to_number<int>(), 6);
  EXPECT_EQ(its.at("forwarded"), json::parse(R"({"replacement": 10})"));
}

TEST_F(StatusDocument, ListsTwentyCollectionsOfARule) {
  for (int i = 0; i < 30; ++i) snapshot.numbers.push_back({1, "shop.c", ids::CounterNumbers{}});
  sources.asked = "app1:27117";
  EXPECT_EQ(document().at("rules").at(1).at("numbers").as_array().size(), 20U);
}

TEST_F(StatusDocument, IsBson) {
  sources.asked = "app1:27117";
  snapshot.numbers = {
      {0, "shop.a", ids::CounterNumbers{-3, 7, std::numeric_limits<std::uint64_t>::max()}}};
  snapshot.rules->outcomes(0).assigned += std::uint64_t{1} << 40;
  const Buffer made = bson_of(document());
  EXPECT_TRUE(bson::well_formed(made.view(), 10));
  const auto rules = bson::find(made.view(), "rules");
  const auto first = bson::find(rules->value, "0");
  EXPECT_EQ(bson::find(first->value, "values")->as_integer(), std::int64_t{1} << 40);
  const auto numbers = bson::find(bson::find(first->value, "numbers")->value, "0");
  EXPECT_EQ(bson::find(numbers->value, "next")->type, bson::Type::int32);
  EXPECT_EQ(bson::find(numbers->value, "left")->as_integer(),
            std::numeric_limits<std::int64_t>::max());
}

}  // namespace status_document_test
}  // namespace idproxy::app::state
