// Which updates take a stored value away, and which can leave it.

#include "rewrite/keep.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/messages.hpp"
#include "support/rule_set.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace keep_test {

using namespace test;
using Kind = KeepVerdict::Kind;
using Reason = LossReason;

constexpr KeepVerdict kUntouched{Kind::untouched, {}};
constexpr KeepVerdict kKept{Kind::kept, {}};
constexpr KeepVerdict lost(Reason reason) {
  return {Kind::lost, reason};
}

struct How {
  const char* field = "number";
  Keep keep = Keep::replacements;
  Assign assign = Assign::missing;
  bool is_alone = true;
};

KeepVerdict verdict(const std::string& fields, const How& how = {}) {
  Rule its = rule("shop.*", how.field, how.assign);
  its.keep = how.keep;
  const auto rules = rule_set_of(std::move(its));
  const std::string bytes = doc(fields);
  const auto statement = UpsertStatement::read(as_bytes(bytes), WriteKind::update);
  EXPECT_TRUE(statement);
  const Plan plan = rules->plan("shop", "orders");
  return judge_keep(*statement, plan.front(), how.is_alone);
}

const std::string kFilter = doc_field("q", int_field("k", 1));
const std::string kUpsert = bool_field("upsert", true);
const std::string kNull = element(bson::Type::null, "number", "");

std::string u(const std::string& elements) {
  return kFilter + doc_field("u", elements);
}
std::string op(const std::string& name, const std::string& elements) {
  return u(doc_field(name, elements));
}
std::string deep(int levels) {
  std::string elements = int_field("x", 1);
  for (int i = 0; i < levels; ++i) elements = doc_field("x", elements);
  return elements;
}

TEST(Keep, JudgesReplacements) {
  const std::string plain = u(int_field("x", 1));
  EXPECT_EQ(verdict(plain), kKept);
  EXPECT_EQ(verdict(u("")), kKept);
  EXPECT_EQ(verdict(plain + kUpsert), kKept);
  EXPECT_EQ(verdict(plain, {.field = "_id"}), kUntouched);
  EXPECT_EQ(verdict(plain, {.keep = Keep::off}), lost(Reason::off));
  EXPECT_EQ(verdict(plain + bool_field("multi", true)), kUntouched);
  EXPECT_EQ(verdict(u(long_field("number", 5))), kUntouched);
  EXPECT_EQ(verdict(u(long_field("number", 5)), {.assign = Assign::always}), kKept);
  EXPECT_EQ(verdict(u(kNull)), lost(Reason::sets_missing));
  EXPECT_EQ(verdict(u(kNull), {.keep = Keep::always}), kKept);
  EXPECT_EQ(verdict(u(kNull), {.assign = Assign::missing_or_null}), kKept);
  EXPECT_EQ(verdict(u(long_field("number", 0)), {.assign = Assign::missing_or_zero}), kKept);
  EXPECT_EQ(verdict(u(long_field("number", 0))), kUntouched);
}

TEST(Keep, ForwardsWhatAPipelineDoesOtherwise) {
  const std::string x = int_field("x", 1);
  EXPECT_EQ(verdict(u(element(bson::Type::timestamp, "x", std::string(8, '\0')))),
            lost(Reason::server_time));
  EXPECT_EQ(verdict(u(doc_field("y", element(bson::Type::timestamp, "x", std::string(8, '\0'))))),
            kKept);
  EXPECT_EQ(verdict(u(x + int_field("$y", 1))), lost(Reason::dollar_name));
  EXPECT_EQ(verdict(u(x + x)), lost(Reason::repeated_name));
  std::string many;
  for (int i = 0; i < 40; ++i) many += int_field("f" + std::to_string(i), 1);
  EXPECT_EQ(verdict(u(many)), kKept);
  for (const char* name : {"f0", "f23", "f24", "f39"}) {
    EXPECT_EQ(verdict(u(many + int_field(name, 1))), lost(Reason::repeated_name)) << name;
  }
  EXPECT_EQ(verdict(u(x) + array_of("arrayFilters", {})), lost(Reason::array_filters));
  EXPECT_EQ(verdict(u(x) + doc_field("c", "")), lost(Reason::array_filters));
  EXPECT_EQ(verdict(u(deep(160))), kKept);
  EXPECT_EQ(verdict(u(deep(171))), lost(Reason::too_deep));
  EXPECT_EQ(verdict(u(x) + element(bson::Type::decimal128, "upsert", std::string(16, '\1'))),
            lost(Reason::unknown_form));
}

TEST(Keep, AFilterWithTheFieldMustBeAlone) {
  const std::string named =
      doc_field("q", int_field("number", 1)) + doc_field("u", int_field("x", 1));
  EXPECT_EQ(verdict(named, {.is_alone = false}), kKept);
  EXPECT_EQ(verdict(named + kUpsert), kKept);
  EXPECT_EQ(verdict(named + kUpsert, {.is_alone = false}), lost(Reason::filter_names_field));
}

TEST(Keep, FollowsDottedPaths) {
  const How dotted{.field = "a.b"};
  EXPECT_EQ(verdict(u(int_field("x", 1)), dotted), kKept);
  EXPECT_EQ(verdict(u(doc_field("a", int_field("c", 1))), dotted), kKept);
  EXPECT_EQ(verdict(u(doc_field("a", int_field("b", 1))), dotted), kUntouched);
  EXPECT_EQ(verdict(u(int_field("a", 1)), dotted), lost(Reason::other_form));
  EXPECT_EQ(verdict(u(array_of("a", {})), dotted), lost(Reason::other_form));
  EXPECT_EQ(verdict(op("$unset", string_field("a", "")), dotted), lost(Reason::unset));
  EXPECT_EQ(verdict(op("$set", doc_field("a", int_field("c", 1))), dotted),
            lost(Reason::sets_missing));
  EXPECT_EQ(verdict(op("$set", doc_field("a", int_field("b", 1))), dotted), lost(Reason::sets));
}

TEST(Keep, JudgesOperators) {
  const How always{.keep = Keep::always};
  const std::string unset = op("$unset", string_field("number", ""));
  EXPECT_EQ(verdict(op("$set", int_field("x", 1))), kUntouched);
  EXPECT_EQ(verdict(op("$setOnInsert", kNull)), kUntouched);
  EXPECT_EQ(verdict(unset), lost(Reason::unset));
  EXPECT_EQ(verdict(unset, always), kKept);
  EXPECT_EQ(verdict(op("$set", kNull)), lost(Reason::sets_missing));
  EXPECT_EQ(verdict(op("$set", kNull), always), kKept);
  EXPECT_EQ(verdict(op("$set", long_field("number", 7)), always), lost(Reason::sets));
  EXPECT_EQ(verdict(op("$inc", long_field("number", 7)), always), lost(Reason::sets));
  EXPECT_EQ(verdict(op("$rename", string_field("number", "old")), always), lost(Reason::renames));
  EXPECT_EQ(verdict(op("$rename", string_field("old", "number")), always), lost(Reason::renames));
  EXPECT_EQ(verdict(u(doc_field("$unset", string_field("number", "")) +
                      doc_field("$inc", int_field("number", 1))),
                    always),
            lost(Reason::sets));
}

TEST(Keep, JudgesPipelines) {
  const auto stages = [](const std::string& stage) {
    return kFilter + array_of("u", {item(stage)});
  };
  EXPECT_EQ(verdict(stages(doc_field("$set", int_field("x", 1)))), kUntouched);
  EXPECT_EQ(verdict(stages(doc_field("$set", int_field("number", 1)))), lost(Reason::pipeline));
  EXPECT_EQ(verdict(stages(string_field("$unset", "x"))), kUntouched);
  EXPECT_EQ(verdict(stages(string_field("$unset", "number"))), lost(Reason::pipeline));
  EXPECT_EQ(verdict(stages(int_field("$unset", 1))), kUntouched);
  EXPECT_EQ(verdict(stages(array_of("$unset", {string_field("", "number")}))),
            lost(Reason::pipeline));
  EXPECT_EQ(verdict(stages(doc_field("$replaceWith", ""))), lost(Reason::pipeline));
}

}  // namespace keep_test
}  // namespace idproxy::rewrite
