#include "idproxy/rewrite/condition.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace condition_test {

using namespace test;

Condition among(const std::string& field, const std::vector<std::string>& values) {
  return {field, std::nullopt, values};
}

std::optional<bool> all_hold_for(const std::vector<Condition>& conditions,
                                 const std::string& fields) {
  const Exact document(doc(fields));
  return all_hold(conditions, document.view());
}

const std::string kNull = element(bson::Type::null, "", "");
std::string null_as(std::string_view name) {
  return element(bson::Type::null, name, "");
}

TEST(Condition, ComparesAsTheServerDoes) {
  const std::vector<Condition> one{among("a", {long_field("", 1)})};
  for (const std::string& fields :
       {int_field("a", 1), long_field("a", 1), double_field("a", 1.0)}) {
    EXPECT_EQ(all_hold_for(one, fields), true);
  }
  for (const std::string& fields :
       {int_field("a", 2), double_field("a", 1.5), bool_field("a", true), string_field("a", "1"),
        array_field("a", {}), null_as("a"), std::string(), int_field("A", 1),
        doc_field("a", int_field("a", 1)), string_field("a", std::string(300, '1'))}) {
    EXPECT_EQ(all_hold_for(one, fields), false);
  }
}

TEST(Condition, TakesAMissingFieldForNull) {
  const std::vector<Condition> null{among("a.b", {kNull, string_field("", "x")})};
  EXPECT_EQ(all_hold_for(null, ""), true);
  EXPECT_EQ(all_hold_for(null, doc_field("a", "")), true);
  EXPECT_EQ(all_hold_for(null, doc_field("a", null_as("b"))), true);
  EXPECT_EQ(all_hold_for(null, doc_field("a", string_field("b", "x"))), true);
  EXPECT_EQ(all_hold_for(null, doc_field("a", string_field("b", "y"))), false);
}

TEST(Condition, AsksWhetherAFieldIsThere) {
  const std::vector<Condition> there{{"a.b", true, {}}};
  const std::vector<Condition> missing{{"a.b", false, {}}};
  const std::string null = doc_field("a", null_as("b"));
  EXPECT_EQ(all_hold_for(there, null), true);
  EXPECT_EQ(all_hold_for(missing, null), false);
  EXPECT_EQ(all_hold_for(there, ""), false);
  EXPECT_EQ(all_hold_for(missing, int_field("a", 1)), true);
}

TEST(Condition, NeverHoldsForArrays) {
  const std::string array = array_field("a", {doc(int_field("b", 1))});
  for (const Condition& each :
       {Condition{"a.b", true, {}}, Condition{"a.b", false, {}}, among("a.b", {long_field("", 1)}),
        among("a.b", {kNull}), Condition{"a", true, {}}, among("a", {kNull})}) {
    EXPECT_EQ(all_hold_for({each}, array), false);
  }
}

TEST(Condition, HoldsForAllOrForNone) {
  const std::vector<Condition> both{among("a", {long_field("", 1)}), {"b", false, {}}};
  EXPECT_EQ(all_hold_for(both, int_field("a", 1)), true);
  EXPECT_EQ(all_hold_for(both, int_field("a", 1) + int_field("b", 1)), false);
  EXPECT_EQ(all_hold_for({}, int_field("a", 1)), true);
  EXPECT_EQ(all_hold_for(both, std::string("\x10") + "b"), std::nullopt);
}

TEST(Condition, IsAFilterOfTheServer) {
  Buffer filter;
  bson::Scope document(filter);
  append_filter(std::vector<Condition>{among("a.b", {long_field("", 1), string_field("", "x.y"),
                                                     kNull, string_field("", "\xff")}),
                                       {"c", true, {}}},
                filter);
  document.close();
  const auto no_array = [](const std::string& field) {
    return doc(doc_field(field, string_field("$type", "array")));
  };
  const std::string text = element(bson::Type::regex, "1", std::string("^x\\.y\\z\0\0", 9));
  const std::string values = long_field("0", 1) + text + null_as("2") + string_field("3", "\xff");
  EXPECT_EQ(as_text(filter.view()),
            doc(doc_field("a.b", element(bson::Type::array, "$in", doc(values))) +
                doc_field("c", bool_field("$exists", true)) +
                array_field("$nor", {no_array("a"), no_array("a.b"), no_array("c")})));
}

}  // namespace condition_test
}  // namespace idproxy::rewrite
