#include "id_store/things.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace idproxy::id_store {
namespace things_test {

/// What rules hold of it.
struct Served {
  bool stopped = false;
  void stop() { stopped = true; }
};
struct Named : Thing<Named> {
  explicit Named(std::string of) : spec(std::move(of)) {}
  std::string spec;
  std::shared_ptr<Served> served = std::make_shared<Served>();
};
using NamedThings = Things<Named, &Named::served>;
using Got = NamedThings::Got;

class ThingsTest : public testing::Test {
 protected:
  auto get(const std::string& spec, std::uint64_t watch) {
    return things.get(
        "a", watch, [&](const auto& known) { return known->spec == spec; },
        [&] { return std::make_shared<Named>(spec); });
  }
  NamedThings things;
};

TEST_F(ThingsTest, TheRulesOfAllWatchesShareAThing) {
  const auto [first, made] = get("x", 1);
  EXPECT_EQ(made, Got::made);
  EXPECT_EQ(get("x", 1), std::pair(first, Got::known));
  EXPECT_EQ(get("x", 2), std::pair(first, Got::renewed));
  EXPECT_EQ(get("x", 1), std::pair(first, Got::known));
  EXPECT_EQ(first->watch, 2U);
}

TEST_F(ThingsTest, TheNewestWatchDecidesWhatItIs) {
  const auto first = get("x", 1).first;
  const auto [second, got] = get("y", 2);
  EXPECT_EQ(got, Got::made);
  EXPECT_EQ(get("x", 1), std::pair(second, Got::known));
  EXPECT_EQ(things.all().size(), 2U) << "the first one goes on serving who has it";
  EXPECT_EQ(things.in_force().at("a"), second);
  EXPECT_TRUE(things.is_in_force("a", *second));
  EXPECT_FALSE(things.is_in_force("a", *first));
  things.forget("a", *first);
  EXPECT_EQ(things.in_force().size(), 1U) << "that is another one";
  things.forget_retired_if([](const auto&) { return true; });
  EXPECT_EQ(things.all().size(), 1U);
}

TEST_F(ThingsTest, ItsFieldsAreThoseOfTheNewestRulesThatItServes) {
  const ids::CounterField one{"db.one", "n", {}};
  const ids::CounterField two{"db.two", "n", {}};
  const auto first = get("x", 1).first;
  first->add_field(one, 1);
  EXPECT_EQ(get("x", 2).first, first);
  first->add_field(two, 2);
  things.rules_are_made(2, [](const auto&) {});
  (void)get("y", 3);
  EXPECT_EQ(first->fields, std::vector{two}) << "it goes on serving who has it";
}

/// A reload asks for it by one rule after the other, and a task may read its fields in between.
TEST_F(ThingsTest, NoFieldIsMissingWhileRulesAreMade) {
  const ids::CounterField gone{"db.gone", "n", {}};
  const ids::CounterField one{"db.one", "n", {}};
  const ids::CounterField two{"db.two", "n", {}};
  const ids::CounterField more{"db.more", "n", {}};
  using Fields = std::vector<ids::CounterField>;
  const auto thing = get("x", 1).first;
  for (const ids::CounterField& each : {gone, one, two}) thing->add_field(each, 1);
  std::vector<std::shared_ptr<Named>> changed;
  const auto note = [&](const auto& each) { changed.push_back(each); };
  things.rules_are_made(1, note);
  EXPECT_TRUE(changed.empty());

  (void)get("x", 2);
  EXPECT_EQ(thing->fields, (Fields{gone, one, two}));
  EXPECT_TRUE(thing->add_field(one, 2));
  EXPECT_EQ(thing->fields, (Fields{gone, two, one}));
  EXPECT_FALSE(thing->add_field(one, 2));
  EXPECT_TRUE(thing->add_field(more, 2));
  things.rules_are_made(1, note);
  EXPECT_EQ(thing->fields, (Fields{gone, two, one, more})) << "those were the rules before";
  EXPECT_TRUE(thing->add_field(two, 2));
  things.rules_are_made(2, note);
  EXPECT_EQ(thing->fields, (Fields{one, more, two}));
  EXPECT_EQ(changed, std::vector{thing});

  things.rules_are_made(3, note);
  (void)get("x", 3);
  EXPECT_TRUE(thing->fields.empty()) << "a collection of a wildcard, which is used later";
}

TEST_F(ThingsTest, NothingIsLeftOfAThingThatCannotBeMade) {
  const auto fail = [](const auto&) { return false; };
  const auto make = []() -> std::shared_ptr<Named> { throw std::bad_alloc(); };
  EXPECT_THROW((void)things.get("a", 1, fail, make), std::bad_alloc);
  EXPECT_TRUE(things.all().empty());
  const auto first = get("x", 1).first;
  EXPECT_THROW((void)things.get("a", 2, fail, make), std::bad_alloc);
  EXPECT_EQ(things.all(), std::vector{first}) << "it goes on serving who has it";
  EXPECT_TRUE(things.in_force().empty());
}

TEST_F(ThingsTest, WhatTheNewestRulesDoNotNameRetires) {
  const auto first = get("x", 1).first;
  things.retire_older(1);
  EXPECT_TRUE(things.is_in_force("a", *first));
  things.retire_older(2);
  EXPECT_FALSE(things.is_in_force("a", *first));
  EXPECT_EQ(things.all(), std::vector{first});
}

TEST_F(ThingsTest, FieldsAreThoseOfTheNewestRules) {
  const ids::CounterField n{"db.c", "n", {}};
  const ids::CounterField m{"db.c", "m", {}};
  const auto thing = get("x", 1).first;
  EXPECT_TRUE(thing->add_field(n, 1));
  EXPECT_FALSE(thing->add_field(n, 1));
  EXPECT_TRUE(thing->add_field(m, 1));
  (void)get("x", 2);
  EXPECT_FALSE(thing->add_field(m, 1)) << "its rules are about to end";
  EXPECT_TRUE(thing->add_field(n, 2));
  things.rules_are_made(2, [](const auto&) {});
  EXPECT_EQ(thing->fields, std::vector{n});
}

TEST_F(ThingsTest, WhatIsStoppedStaysSo) {
  const auto first = get("x", 1).first;
  const auto second = get("y", 2).first;
  std::vector<std::shared_ptr<Named>> woken;
  things.stop([&](const auto& thing) {
    EXPECT_TRUE(thing->served->stopped);
    woken.push_back(thing);
  });
  EXPECT_EQ(woken, (std::vector{first, second}));
  EXPECT_TRUE(things.is_stopping());
  EXPECT_TRUE(get("z", 3).first->served->stopped);
}

TEST_F(ThingsTest, NotReadyAreThoseInForceWithAnObstacle) {
  (void)get("x", 1);
  const auto second = get("y", 2).first;
  second->add_field({"db.c", "n", {}}, 2);
  const auto why = [](const Named& thing) -> std::optional<ids::Error> {
    return ids::Error{ids::Errc::unavailable, thing.spec};
  };
  const auto found = things.not_ready(why);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].why.reason, "y");
  EXPECT_EQ(found[0].fields, second->fields);
  EXPECT_TRUE(things.not_ready([](const Named&) { return std::optional<ids::Error>(); }).empty());
}

TEST_F(ThingsTest, WhenThereAreManySomeAreForgotten) {
  const auto make = [&](int n) {
    (void)things.get(
        std::to_string(n), 1, [](const auto&) { return true; },
        [] { return std::make_shared<Named>(""); });
  };
  for (int n = 0; n < 1024; ++n) make(n);
  EXPECT_TRUE(things.are_many());
  things.forget_if([](const auto&) { return false; });
  EXPECT_FALSE(things.are_many());
  for (int n = 1024; n < 2048; ++n) make(n);
  EXPECT_TRUE(things.are_many());
}

}  // namespace things_test
}  // namespace idproxy::id_store
