#include "rewrite/upsert.hpp"

#include <gtest/gtest.h>

#include <span>

#include "rewrite/upsert_statement.hpp"
#include "support/rule_set.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace upsert_test {

using namespace test;
using Reason = ForwardReason;
using Verdict = UpsertVerdict::Kind;

// ---- paths -----------------------------------------------------------------------------------

TEST(UpsertPaths, OverlapAtDotsOnly) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [a, b] : {Pair{"a", "a"}, Pair{"a", "a.b"}, Pair{"a.b", "a.b.c"}}) {
    EXPECT_TRUE(overlap(a, b) && overlap(b, a)) << a << " " << b;
  }
  for (const auto& [a, b] :
       {Pair{"a", "ab"}, Pair{"a.b", "a.c"}, Pair{"a", "b.a"}, Pair{"", "a"}}) {
    EXPECT_FALSE(overlap(a, b) || overlap(b, a)) << a << " " << b;
  }
}

// ---- statements ------------------------------------------------------------------------------

const std::string kFilter = doc_field("q", int_field("k", 1));
const std::string kSet = doc_field("$set", int_field("x", 1));
const std::string kUpsert = bool_field("upsert", true);

struct Statement {
  explicit Statement(std::string_view fields, WriteKind kind = WriteKind::update)
      : bytes(doc(fields)), read(UpsertStatement::read(bytes.view(), kind)) {}
  Exact bytes;
  std::optional<UpsertStatement> read;
};

TEST(UpsertStatement, TellsUpserts) {
  using Kind = UpsertStatement::Kind;
  const std::string u = doc_field("u", kSet);
  const std::string decimal(16, '\1');
  const struct {
    const char* name;
    std::string fields;
    std::optional<Kind> kind;
  } rows[] = {
      {"no option", kFilter + u, Kind::plain},
      {"false", kFilter + u + bool_field("upsert", false), Kind::plain},
      {"true", kFilter + u + kUpsert, Kind::upsert},
      {"the option first", kUpsert + u + kFilter, Kind::upsert},
      {"1", kFilter + u + int_field("upsert", 1), Kind::unknown},
      {"0", kFilter + u + int_field("upsert", 0), Kind::plain},
      {"a long", kFilter + u + long_field("upsert", -7), Kind::unknown},
      {"0.5", kFilter + u + double_field("upsert", 0.5), Kind::unknown},
      {"-0.0", kFilter + u + double_field("upsert", -0.0), Kind::plain},
      {"null", kFilter + u + element(bson::Type::null, "upsert", ""), Kind::plain},
      {"a decimal", kFilter + u + element(bson::Type::decimal128, "upsert", decimal),
       Kind::unknown},
      {"text", kFilter + u + string_field("upsert", "true"), std::nullopt},
      {"twice", kFilter + u + kUpsert + kUpsert, std::nullopt},
      {"two filters", kFilter + kFilter + u + kUpsert, std::nullopt},
      {"two updates", kFilter + u + u + kUpsert, std::nullopt},
      {"no filter", u + kUpsert, std::nullopt},
      {"no update", kFilter + kUpsert, std::nullopt},
      {"a filter that is text", string_field("q", "") + u + kUpsert, std::nullopt},
      {"an update that is text", kFilter + string_field("u", "") + kUpsert, std::nullopt},
      {"malformed", kFilter + u + kUpsert + element(static_cast<bson::Type>(0x42), "x", ""),
       std::nullopt},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Statement statement(row.fields);
    ASSERT_EQ(statement.read.has_value(), row.kind.has_value());
    if (row.kind) {
      EXPECT_EQ(statement.read->kind, *row.kind);
    }
  }
  EXPECT_FALSE(Statement(kFilter + u + kUpsert).read->multi);
  EXPECT_TRUE(Statement(kFilter + u + kUpsert + bool_field("multi", true)).read->multi);
}

TEST(UpsertStatement, TellsUpsertsOfFindAndModify) {
  using Kind = UpsertStatement::Kind;
  const std::string head = string_field("findAndModify", "orders");
  const std::string update = doc_field("update", kSet);
  const struct {
    const char* name;
    std::string fields;
    std::optional<Kind> kind;
  } rows[] = {
      {"an upsert", head + doc_field("query", "") + update + kUpsert, Kind::upsert},
      {"without a filter", head + update + kUpsert, Kind::upsert},
      {"no upsert", head + update, Kind::plain},
      {"q and u are no fields of it", head + kFilter + doc_field("u", kSet) + kUpsert,
       std::nullopt},
      {"it removes", head + bool_field("remove", true) + kUpsert, Kind::plain},
      {"it does not remove", head + update + bool_field("remove", false) + kUpsert, Kind::upsert},
      {"neither", head + kUpsert, std::nullopt},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Statement statement(row.fields, WriteKind::find_and_modify);
    ASSERT_EQ(statement.read.has_value(), row.kind.has_value());
    if (row.kind) {
      EXPECT_EQ(statement.read->kind, *row.kind);
    }
  }
}

// ---- verdicts --------------------------------------------------------------------------------

constexpr UpsertVerdict kAssigns{Verdict::assign, {}};
constexpr UpsertVerdict kNeedsNone{Verdict::not_needed, {}};
constexpr UpsertVerdict kMalformedOnes{Verdict::malformed, {}};
constexpr UpsertVerdict forwards(Reason reason) {
  return {Verdict::forward, reason};
}

struct Row {
  const char* name;
  std::string filter;  // elements
  std::string update;  // the whole element u
  UpsertVerdict id;    // of a rule for _id
  UpsertVerdict number;
  UpsertVerdict nested;  // of a rule for reg.number
};

UpsertVerdict verdict(const Row& row, const char* field, Upserts upserts = Upserts::assign) {
  Rule the_rule = rule("shop.*", field);
  the_rule.upserts = upserts;
  const auto rules = rule_set_of(std::move(the_rule));
  const Plan plan = rules->plan("shop", "orders");
  const Statement statement(doc_field("q", row.filter) + row.update + kUpsert);
  if (!statement.read) return kMalformedOnes;
  return judge(*statement.read, plan.front());
}

void expect_verdicts(std::span<const Row> rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(verdict(row, "_id"), row.id);
    EXPECT_EQ(verdict(row, "number"), row.number);
    EXPECT_EQ(verdict(row, "reg.number"), row.nested);
  }
}

std::string u(std::string_view elements) {
  return doc_field("u", elements);
}
const std::string kK = int_field("k", 1);
const std::string kBroken = element(static_cast<bson::Type>(0x42), "x", "");

std::string deep(int levels) {
  std::string elements = int_field("x", 1);
  for (int i = 0; i < levels; ++i) elements = doc_field("x", elements);
  return elements;
}

TEST(Upsert, JudgesOperators) {
  const UpsertVerdict filter = forwards(Reason::filter_names_field);
  const UpsertVerdict update = forwards(Reason::update_names_field);
  const UpsertVerdict unknown = forwards(Reason::unknown_form);
  const std::string on_insert = "$setOnInsert";
  const Row rows[] = {
      {"operators", kK, u(kSet), kAssigns, kAssigns, kAssigns},
      {"no filter", "", u(kSet), kAssigns, kAssigns, kAssigns},
      {"an existing $setOnInsert", kK, u(kSet + doc_field(on_insert, int_field("y", 1))), kAssigns,
       kAssigns, kAssigns},
      {"an empty one", kK, u(doc_field(on_insert, "")), kAssigns, kAssigns, kAssigns},
      {"a value of the client's", kK,
       u(doc_field(on_insert,
                   int_field("_id", 1) + int_field("number", 1) + int_field("reg.number", 1))),
       kNeedsNone, kNeedsNone, kNeedsNone},
      {"that is null", kK, u(doc_field(on_insert, element(bson::Type::null, "number", "")) + kSet),
       kAssigns, kNeedsNone, kAssigns},
      {"in a document", kK, u(doc_field(on_insert, doc_field("reg", int_field("number", 1)))),
       kAssigns, kAssigns, kNeedsNone},
      {"a document without it", kK, u(doc_field(on_insert, doc_field("reg", int_field("x", 1)))),
       kAssigns, kAssigns, update},
      {"below the field", kK,
       u(doc_field(on_insert, int_field("number.x", 1) + int_field("_id.x", 1))), update, update,
       kAssigns},
      // The filter.
      {"equality", int_field("_id", 1) + int_field("number", 1) + int_field("reg.number", 1),
       u(kSet), filter, filter, filter},
      {"another one", int_field("_id", 1), u(kSet), filter, kAssigns, kAssigns},
      {"below the field", int_field("_id.a", 1) + int_field("number.a", 1), u(kSet), filter, filter,
       kAssigns},
      {"around the field", int_field("reg", 1), u(kSet), kAssigns, kAssigns, filter},
      {"a document around it", doc_field("reg", int_field("type", 1)), u(kSet), kAssigns, kAssigns,
       filter},
      {"beside the field", int_field("reg.type", 1), u(kSet), kAssigns, kAssigns, kAssigns},
      {"$gt", doc_field("_id", int_field("$gt", 1)), u(kSet), filter, kAssigns, kAssigns},
      {"in $and", array_of("$and", {item(kK), item(int_field("number", 1))}), u(kSet), kAssigns,
       filter, kAssigns},
      {"in $or in $and",
       array_of("$and", {item(array_of("$or", {item(doc_field("_id", int_field("$eq", 1)))}))}),
       u(kSet), filter, kAssigns, kAssigns},
      {"in $nor", array_of("$nor", {item(int_field("reg.number", 1))}), u(kSet), kAssigns, kAssigns,
       filter},
      {"in $elemMatch", doc_field("reg", doc_field("$elemMatch", int_field("number", 1))), u(kSet),
       kAssigns, filter, filter},
      {"in $elemMatch of another field",
       doc_field("items", doc_field("$elemMatch", int_field("number", 1))), u(kSet), kAssigns,
       filter, kAssigns},
      {"in a document", doc_field("x", doc_field("y", int_field("_id", 1))), u(kSet), filter,
       kAssigns, kAssigns},
      {"a name that begins like it", int_field("number2", 1) + int_field("_ids", 1), u(kSet),
       kAssigns, kAssigns, kAssigns},
      {"many levels", deep(140), u(kSet), kAssigns, kAssigns, kAssigns},
      {"too many levels", deep(200), u(kSet), unknown, unknown, unknown},
      {"a malformed filter", doc_field("x", kBroken), u(kSet), kMalformedOnes, kMalformedOnes,
       kMalformedOnes},
      // The update.
      {"$set", kK, u(doc_field("$set", int_field("number", 1) + int_field("_id", 1))), update,
       update, kAssigns},
      {"$inc beside others", kK, u(kSet + doc_field("$inc", int_field("reg.number", 1))), kAssigns,
       kAssigns, update},
      {"$unset around", kK, u(doc_field("$unset", int_field("reg", 1))), kAssigns, kAssigns,
       update},
      {"$push below", kK, u(doc_field("$push", int_field("number.list", 1))), kAssigns, update,
       kAssigns},
      {"$rename to it", kK, u(doc_field("$rename", string_field("old", "number"))), kAssigns,
       update, kAssigns},
      {"$rename from it", kK, u(doc_field("$rename", string_field("reg.number", "old"))), kAssigns,
       kAssigns, update},
      {"beside the field", kK, u(doc_field("$set", int_field("reg.type", 1))), kAssigns, kAssigns,
       kAssigns},
      {"into arrays", kK, u(doc_field("$set", int_field("reg.$[].x", 1))), kAssigns, kAssigns,
       update},
      {"into filtered arrays", kK, u(doc_field("$set", int_field("reg.$[i]", 1))), kAssigns,
       kAssigns, update},
      {"into other arrays", kK, u(doc_field("$set", int_field("list.$[].number", 1))), kAssigns,
       kAssigns, kAssigns},
      {"values do not count", kK,
       u(doc_field("$push", doc_field("list", int_field("_id", 1) + int_field("number", 1)))),
       kAssigns, kAssigns, kAssigns},
      {"$setOnInsert twice", kK,
       u(doc_field(on_insert, int_field("a", 1)) + doc_field(on_insert, int_field("b", 1))),
       unknown, unknown, unknown},
      {"operators and fields", kK, u(kSet + int_field("x", 1)), unknown, unknown, unknown},
      {"an operator with a number", kK, u(int_field("$set", 1)), unknown, unknown, unknown},
      {"a malformed operator", kK, u(doc_field("$set", kBroken)), kMalformedOnes, kMalformedOnes,
       kMalformedOnes},
      {"a malformed update", kK, u(kSet + kBroken), kMalformedOnes, kMalformedOnes, kMalformedOnes},
  };
  expect_verdicts(rows);
}

TEST(Upsert, JudgesReplacements) {
  const UpsertVerdict loses = forwards(Reason::replacement_loses_field);
  const UpsertVerdict replaces = forwards(Reason::replacement);
  const UpsertVerdict empty = forwards(Reason::empty_update);
  const Row rows[] = {
      {"without the field", kK, u(int_field("x", 1)), replaces, loses, loses},
      {"with it", kK,
       u(int_field("_id", 1) + int_field("number", 1) + doc_field("reg", int_field("number", 1))),
       kNeedsNone, kNeedsNone, kNeedsNone},
      {"with a document around it", kK, u(doc_field("reg", int_field("x", 1))), replaces, loses,
       loses},
      {"with a number around it", kK, u(int_field("reg", 1)), replaces, loses, loses},
      {"of a document with this _id", int_field("_id", 1), u(int_field("x", 1)),
       forwards(Reason::filter_names_field), loses, loses},
      {"empty", kK, u(""), empty, empty, empty},
      {"malformed", kK, u(kBroken), kMalformedOnes, kMalformedOnes, kMalformedOnes},
  };
  expect_verdicts(rows);
}

TEST(Upsert, JudgesPipelines) {
  const UpsertVerdict filter = forwards(Reason::filter_names_field);
  const UpsertVerdict update = forwards(Reason::update_names_field);
  const UpsertVerdict unknown = forwards(Reason::unknown_form);
  const UpsertVerdict replaces = forwards(Reason::pipeline_replaces);
  const UpsertVerdict fixes = forwards(Reason::filter_fixes_id);
  const auto stages = [](const std::vector<std::string>& all) { return array_of("u", all); };
  const auto set = [](std::string_view elements) { return item(doc_field("$set", elements)); };
  const auto expression = [&](std::string_view text) {
    return stages({set(doc_field("x", array_of("$concat", {string_field("", text)})))});
  };
  const Row rows[] = {
      {"stages that set", kK,
       stages({set(int_field("x", 1)), item(doc_field("$addFields", int_field("y", 1)))}), kAssigns,
       kAssigns, kAssigns},
      {"no stage", kK, stages({}), kAssigns, kAssigns, kAssigns},
      {"the field", kK, stages({set(int_field("x", 1)), set(int_field("number", 1))}), kAssigns,
       update, kAssigns},
      {"_id", kK, stages({set(int_field("_id", 1))}), update, kAssigns, kAssigns},
      {"around it", kK, stages({set(doc_field("reg", int_field("x", 1)))}), kAssigns, kAssigns,
       update},
      {"within a document", kK, stages({set(doc_field("x", int_field("number", 1)))}), kAssigns,
       kAssigns, kAssigns},
      {"an expression that reads it", kK, expression("$number"), kAssigns, update, kAssigns},
      {"that reads below it", kK, expression("$reg.number.x"), kAssigns, kAssigns, update},
      {"that reads around it", kK, expression("$reg"), kAssigns, kAssigns, update},
      {"of $$ROOT", kK, expression("$$ROOT._id"), update, kAssigns, kAssigns},
      {"of $$CURRENT", kK, expression("$$CURRENT.number"), kAssigns, update, kAssigns},
      {"of another field", kK, expression("$numbers"), kAssigns, kAssigns, kAssigns},
      {"a text", kK, expression("number"), kAssigns, kAssigns, kAssigns},
      {"$getField", kK, stages({set(doc_field("x", string_field("$getField", "number")))}),
       kAssigns, update, kAssigns},
      {"$getField of a variable", kK,
       stages({set(doc_field("x", doc_field("$getField", string_field("field", "_id") +
                                                             string_field("input", "$$x"))))}),
       update, kAssigns, kAssigns},
      {"$unset", kK, stages({item(string_field("$unset", "x"))}), replaces, replaces, replaces},
      {"$project", kK, stages({set(""), item(doc_field("$project", int_field("x", 1)))}), replaces,
       replaces, replaces},
      {"$replaceWith", kK, stages({item(string_field("$replaceWith", "$x"))}), replaces, replaces,
       replaces},
      {"$replaceRoot", kK, stages({item(doc_field("$replaceRoot", ""))}), replaces, replaces,
       replaces},
      {"another stage", kK, stages({item(doc_field("$match", ""))}), unknown, unknown, unknown},
      {"a stage with two names", kK,
       stages({item(doc_field("$set", "") + doc_field("$addFields", ""))}), unknown, unknown,
       unknown},
      {"a stage without a name", kK, stages({item("")}), unknown, unknown, unknown},
      {"a number", kK, stages({int_field("", 1)}), unknown, unknown, unknown},
      {"a stage of text", kK, stages({item(string_field("$set", ""))}), unknown, unknown, unknown},
      {"the filter names it", int_field("number", 1), stages({set(int_field("x", 1))}), kAssigns,
       filter, kAssigns},
      {"the filter fixes _id", int_field("_id", 1), stages({set(int_field("x", 1))}), filter, fixes,
       fixes},
      {"malformed", kK, stages({set(kBroken)}), kMalformedOnes, kMalformedOnes, kMalformedOnes},
  };
  expect_verdicts(rows);
}

TEST(Upsert, AsksTheRuleLast) {
  const Row safe{"", kK, u(kSet), {}, {}, {}};
  EXPECT_EQ(verdict(safe, "number", Upserts::forward), forwards(Reason::configured));
  EXPECT_EQ(verdict(safe, "number", Upserts::refuse), kAssigns);
  const Row unsafe{"", kK, u(""), {}, {}, {}};
  EXPECT_EQ(verdict(unsafe, "number", Upserts::forward), forwards(Reason::empty_update));
}

/// Of a rule with `when`: only if the document that is inserted is certain to fulfil it.
TEST(Upsert, AsksTheConditions) {
  const std::string ann = string_field("t", "ann");
  const std::string set_x = u(doc_field("$set", int_field("x", 1)));
  const auto set = [](const std::string& elements) { return u(doc_field("$set", elements)); };
  const auto depends = forwards(Reason::depends_on_document);
  const UpsertVerdict unfulfilled{UpsertVerdict::Kind::unfulfilled, {}};
  const Condition is_ann{"t", std::nullopt, {string_field("", "ann"), string_field("", "bob")}};
  const Condition no_x{"x", false, {}};
  const Condition there{"t", true, {}};
  const struct {
    const char* name;
    std::string filter, update;
    std::vector<Condition> when;
    UpsertVerdict expected;
  } rows[] = {
      {"the filter fixes it", ann, set_x, {is_ann}, kAssigns},
      {"the other value", string_field("t", "bob"), set_x, {is_ann}, kAssigns},
      {"$set", kK, set(ann), {is_ann}, kAssigns},
      {"$setOnInsert", kK, u(doc_field("$setOnInsert", ann)), {is_ann}, kAssigns},
      {"another value", string_field("t", "eve"), set_x, {is_ann}, unfulfilled},
      {"none", kK, set_x, {is_ann}, unfulfilled},
      {"an array", kK, set(array_of("t", {string_field("", "ann")})), {is_ann}, unfulfilled},
      {"$exists", ann, set_x, {there}, kAssigns},
      {"$exists of none", kK, set_x, {there}, unfulfilled},
      {"both hold", ann, u(doc_field("$set", kK)), {is_ann, no_x}, kAssigns},
      {"one does not", ann, set_x, {is_ann, no_x}, unfulfilled},
      {"one does not, the other is open",
       doc_field("t", string_field("$gt", "a")),
       set_x,
       {is_ann, no_x},
       depends},
      {"$gt", doc_field("t", string_field("$gt", "a")), set_x, {is_ann}, depends},
      {"another one in both", string_field("t", "bob"), set(ann), {is_ann}, depends},
      {"$inc", kK, u(doc_field("$inc", int_field("t", 1))), {is_ann}, depends},
      {"a pipeline", kK, array_of("u", {item(doc_field("$set", ann))}), {is_ann}, depends},
      {"a pipeline that names the field",
       kK,
       array_of("u", {item(doc_field("$set", int_field("number", 1)))}),
       {is_ann},
       forwards(Reason::update_names_field)},
      {"its own value",
       kK,
       set(ann + int_field("number", 1)),
       {is_ann},
       forwards(Reason::update_names_field)},
  };
  for (const auto& row : rows) {
    Rule the_rule = rule("shop.*", "number");
    the_rule.when = row.when;
    const auto rules = rule_set_of(std::move(the_rule));
    const Statement statement(doc_field("q", row.filter) + row.update + kUpsert);
    EXPECT_EQ(judge(*statement.read, rules->plan("shop", "orders").front()), row.expected)
        << row.name;
  }
}

TEST(Upsert, LeavesLargeStatementsAlone) {
  const auto sets = [](std::size_t size) {
    return Row{"", kK, u(doc_field("$set", string_field("x", std::string(size, 'x')))), {}, {}, {}};
  };
  constexpr std::size_t kDocument = std::size_t{1} << 24U;
  EXPECT_EQ(verdict(sets(kDocument), "number"), kAssigns);
  EXPECT_EQ(verdict(sets(kDocument + 8192), "number"), forwards(Reason::too_large));
}

// ---- what an upsert says of the document that it inserts ---------------------------------------

/// What known_values() says of a field: its value as an element without a name, "missing" or "?".
std::string known(const std::string& filter, const std::string& update, const std::string& field) {
  const Statement statement(doc_field("q", filter) + update + kUpsert);
  const std::string fields[] = {field};
  const auto values = known_values(*statement.read, fields);
  if (!values) return "?";
  const ids::FieldValue& value = values->front();
  if (value.is == ids::FieldValue::Is::missing) return "missing";
  return element(value.element.type, "", as_text(value.element.value));
}

TEST(UpsertValues, AreKnownWhereTheStatementFixesThem) {
  const std::string ann = string_field("t", "ann");
  const std::string set_x = doc_field("$set", int_field("x", 1));
  const std::string null = element(bson::Type::null, "t", "");
  const std::string is_ann = string_field("", "ann");
  const auto set = [](const std::string& elements) { return u(doc_field("$set", elements)); };
  const auto on_insert = [&](const std::string& elements) {
    return u(set_x + doc_field("$setOnInsert", elements));
  };
  const auto all = [](const std::vector<std::string>& filters) {
    return array_of("$and", filters);
  };
  const std::string eq = doc_field("t", string_field("$eq", "ann"));
  const struct {
    const char* name;
    std::string filter, update, expected;
  } rows[] = {
      {"equality", ann + kK, u(set_x), is_ann},
      {"$eq", kK + eq, u(set_x), is_ann},
      {"in $and", all({item(kK), item(ann)}), u(set_x), is_ann},
      {"in $and in $and", kK + all({item(all({item(eq)}))}), u(set_x), is_ann},
      {"$set", kK, set(ann), is_ann},
      {"$setOnInsert", kK, on_insert(ann), is_ann},
      {"null", null, u(set_x), element(bson::Type::null, "", "")},
      {"an array", element(bson::Type::array, "t", doc()), u(set_x),
       element(bson::Type::array, "", doc())},
      {"the same in both", ann, set(ann), is_ann},
      {"nowhere", kK, u(set_x), "missing"},
      {"nowhere, without a filter", "", u(set_x), "missing"},
      {"the name of another", string_field("tt", "ann"), u(set_x), "missing"},
      {"a path beside it", string_field("s.t", "ann"), u(set_x), "missing"},
      // Not certain.
      {"another value in both", string_field("t", "bob"), set(ann), "?"},
      {"another type in both", long_field("t", 1), set(int_field("t", 1)), "?"},
      {"twice in the filter", ann + ann, u(set_x), "?"},
      {"twice, with $and", ann + all({item(ann)}), u(set_x), "?"},
      {"twice in the update", kK, u(doc_field("$set", ann) + doc_field("$setOnInsert", ann)), "?"},
      {"twice in $set", kK, set(ann + ann), "?"},
      {"and a condition", doc_field("t", string_field("$eq", "a") + string_field("$ne", "b")),
       u(set_x), "?"},
      {"a condition beside it", ann + all({item(doc_field("t", string_field("$ne", "b")))}),
       u(set_x), "?"},
      {"$in of one", doc_field("t", array_of("$in", {is_ann})), u(set_x), "?"},
      {"$gt", doc_field("t", int_field("$gt", 1)), u(set_x), "?"},
      {"$exists", doc_field("t", bool_field("$exists", false)), u(set_x), "?"},
      {"$or", array_of("$or", {item(ann)}), u(set_x), "?"},
      {"$nor", array_of("$nor", {item(ann)}), u(set_x), "?"},
      {"$elemMatch", doc_field("t", doc_field("$elemMatch", string_field("$eq", "ann"))), u(set_x),
       "?"},
      {"a regular expression", element(bson::Type::regex, "t", std::string("a\0\0", 3)), u(set_x),
       "?"},
      {"$eq of a regular expression",
       doc_field("t", element(bson::Type::regex, "$eq", std::string("a\0\0", 3))), u(set_x), "?"},
      {"below it", string_field("t.x", "ann"), u(set_x), "?"},
      {"$inc", kK, u(doc_field("$inc", int_field("t", 1))), "?"},
      {"equality and $inc", int_field("t", 1), u(doc_field("$inc", int_field("t", 1))), "?"},
      {"equality and $unset", ann, u(doc_field("$unset", string_field("t", ""))), "?"},
      {"$unset", kK, u(doc_field("$unset", string_field("t", ""))), "?"},
      {"$rename from it", ann, u(doc_field("$rename", string_field("t", "old"))), "?"},
      {"$rename to it", kK, u(doc_field("$rename", string_field("old", "t"))), "?"},
      {"$push", kK, u(doc_field("$push", ann)), "?"},
      {"$set below it", kK, set(string_field("t.x", "ann")), "?"},
      {"a pipeline", ann, array_of("u", {item(set_x)}), "?"},
      {"a replacement", ann, u(ann), is_ann},
      {"one without it", ann, u(kK), "missing"},
      {"one with it twice", kK, u(ann + ann), "?"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(known(row.filter, row.update, "t"), row.expected) << row.name;
  // A dotted field.
  EXPECT_EQ(known(string_field("a.t", "ann"), u(set_x), "a.t"), is_ann);
  EXPECT_EQ(known(kK, set(string_field("a.t", "ann")), "a.t"), is_ann);
  EXPECT_EQ(known(kK, set(doc_field("a", ann + kK)), "a.t"), is_ann);
  EXPECT_EQ(known(kK, set(doc_field("a", kK)), "a.t"), "?");
  EXPECT_EQ(known(kK, set(doc_field("a", ann + ann)), "a.t"), "?");
  EXPECT_EQ(known(doc_field("a", ann), u(set_x), "a.t"), "?");
  EXPECT_EQ(known(string_field("a.b", "ann"), u(set_x), "a.t"), "missing");
  EXPECT_EQ(known(kK, set(string_field("a.$[].x", "ann")), "a.t"), "?");
  // The server makes an _id.
  EXPECT_EQ(known(kK, u(set_x), "_id"), "?");
  EXPECT_EQ(known(kK, u(set_x), "_id.t"), "?");
  EXPECT_EQ(known(string_field("_id", "ann"), u(set_x), "_id"), is_ann);
}

/// Whether a document without a value of the rule would have one all the same.
TEST(UpsertValues, CountIfTheRuleWouldLeaveThem) {
  const std::string null = element(bson::Type::null, "n", "");
  const std::string seven = int_field("n", 7);
  const std::string zero = int_field("n", 0);
  const auto set = [](const std::string& elements) { return u(doc_field("$set", elements)); };
  const std::string no = u(doc_field("$set", int_field("x", 1)));
  const struct {
    const char* name;
    std::string filter, update;
    Assign assign;
    bool brings, is_zero;
  } rows[] = {
      {"$set", kK, set(seven), Assign::missing, true, false},
      {"$set of 0", kK, set(zero), Assign::missing, true, true},
      {"$set of 0, which is none", kK, set(zero), Assign::missing_or_zero, false, false},
      {"$set of null", kK, set(null), Assign::missing, false, true},
      {"$set of null, which is none", kK, set(null), Assign::missing_or_null, false, false},
      {"$set in its place", seven, set(null), Assign::missing, false, true},
      {"$inc", kK, u(doc_field("$inc", seven)), Assign::missing, true, false},
      {"$unset", kK, u(doc_field("$unset", seven)), Assign::missing, false, false},
      {"$push below", kK, u(doc_field("$push", int_field("n.x", 7))), Assign::missing, false,
       false},
      {"the filter", seven, no, Assign::missing, true, false},
      {"the filter with null", null, no, Assign::missing, false, true},
      {"the filter with more than one", doc_field("n", int_field("$gt", 7)), no, Assign::missing,
       false, false},
      {"the filter, and then $unset", seven, u(doc_field("$unset", seven)), Assign::missing, false,
       false},
      {"neither", kK, no, Assign::missing, false, false},
      {"a replacement", kK, u(seven), Assign::missing, true, false},
      {"without it", seven, u(kK), Assign::missing, false, false},
      {"a pipeline", kK, array_of("u", {item(doc_field("$set", seven))}), Assign::missing, false,
       false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Statement statement(doc_field("q", row.filter) + row.update + kUpsert);
    const Rule the_rule = rule("shop.*", "n", row.assign);
    EXPECT_EQ(brings_value(*statement.read, the_rule), row.brings);
    EXPECT_EQ(brings_zero(*statement.read, the_rule), row.is_zero);
  }
  const Statement by_id(doc_field("q", int_field("_id", 7)) + u(kK) + kUpsert);
  EXPECT_TRUE(brings_value(*by_id.read, rule("shop.*", "_id")));
}

/// Whatever is cut off: no byte beyond the end is read.
TEST(Upsert, ReadsWithinItsBytes) {
  const std::string whole =
      doc(doc_field("q", array_of("$and", {item(kK)})) +
          u(kSet + doc_field("$setOnInsert", doc_field("reg", int_field("x", 1)))) + kUpsert);
  const auto rules = rule_set_of(rule("shop.*", "reg.number"));
  const Plan plan = rules->plan("shop", "orders");
  for (std::size_t i = 4; i + 1 < whole.size(); ++i) {
    for (const char byte : {'\0', '\1', '\3', '\4', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = byte;
      const Exact exact(damaged);
      const auto read = UpsertStatement::read(exact.view(), WriteKind::update);
      if (!read) continue;
      static_cast<void>(judge(*read, plan.front()));
      static_cast<void>(brings_value(*read, *plan.front().rule));
    }
  }
}

}  // namespace upsert_test
}  // namespace idproxy::rewrite
