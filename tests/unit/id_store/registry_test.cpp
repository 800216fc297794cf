#include "id_store/registry.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

namespace idproxy::id_store {
namespace registry_test {

struct Thing : Registered {
  explicit Thing(std::string of) : spec(std::move(of)) {}
  std::string spec;
};
using Got = Registry<Thing>::Got;

class RegistryTest : public testing::Test {
 protected:
  auto get(const std::string& spec, std::uint64_t watch) {
    return registry.get(
        "a", watch, [&](const auto& known) { return known->spec == spec; },
        [&] { return std::make_shared<Thing>(spec); });
  }
  Registry<Thing> registry;
};

TEST_F(RegistryTest, TheRulesOfAllWatchesShareAThing) {
  const auto [first, made] = get("x", 1);
  EXPECT_EQ(made, Got::made);
  EXPECT_EQ(get("x", 1), std::pair(first, Got::known));
  EXPECT_EQ(get("x", 2), std::pair(first, Got::renewed));
  EXPECT_EQ(get("x", 1), std::pair(first, Got::known));
  EXPECT_EQ(first->watch, 2U);
}

TEST_F(RegistryTest, TheNewestWatchDecidesWhatItIs) {
  const auto first = get("x", 1).first;
  const auto [second, got] = get("y", 2);
  EXPECT_EQ(got, Got::made);
  EXPECT_EQ(get("x", 1), std::pair(second, Got::known));
  EXPECT_EQ(registry.all().size(), 2U) << "the first one goes on serving who has it";
  EXPECT_EQ(registry.in_force().at("a"), second);
  EXPECT_TRUE(registry.is_in_force("a", *second));
  EXPECT_FALSE(registry.is_in_force("a", *first));
  registry.forget("a", *first);
  EXPECT_EQ(registry.in_force().size(), 1U) << "that is another one";
  registry.forget_retired_if([](const auto&) { return true; });
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST_F(RegistryTest, NothingIsLeftOfAThingThatCannotBeMade) {
  const auto fail = [](const auto&) { return false; };
  const auto make = []() -> std::shared_ptr<Thing> { throw std::bad_alloc(); };
  EXPECT_THROW((void)registry.get("a", 1, fail, make), std::bad_alloc);
  EXPECT_TRUE(registry.all().empty());
  const auto first = get("x", 1).first;
  EXPECT_THROW((void)registry.get("a", 2, fail, make), std::bad_alloc);
  EXPECT_EQ(registry.all(), std::vector{first}) << "it goes on serving who has it";
  EXPECT_TRUE(registry.in_force().empty());
}

TEST_F(RegistryTest, WhatTheNewestRulesDoNotNameRetires) {
  const auto first = get("x", 1).first;
  registry.retire_older(1);
  EXPECT_TRUE(registry.is_in_force("a", *first));
  registry.retire_older(2);
  EXPECT_FALSE(registry.is_in_force("a", *first));
  EXPECT_EQ(registry.all(), std::vector{first});
}

TEST_F(RegistryTest, FieldsAreThoseOfTheNewestRules) {
  const ids::CounterField n{"db.c", "n", {}};
  const ids::CounterField m{"db.c", "m", {}};
  const auto thing = get("x", 1).first;
  EXPECT_TRUE(thing->add_field(n, 1));
  EXPECT_FALSE(thing->add_field(n, 1));
  EXPECT_TRUE(thing->add_field(m, 1));
  (void)get("x", 2);
  EXPECT_TRUE(thing->fields.empty());
  EXPECT_FALSE(thing->add_field(m, 1)) << "its rules are about to end";
  EXPECT_TRUE(thing->add_field(n, 2));
  EXPECT_EQ(thing->fields, std::vector{n});
}

}  // namespace registry_test
}  // namespace idproxy::id_store
