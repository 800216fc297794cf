#include "id_store/index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store::test {
namespace index_test {

using mongo::Array;
using mongo::Document;

Document listed(const Document& options, const Document& key = Document().add("number", 1)) {
  Document index;
  index.add("v", 2).add("key", key).add("name", "i");
  return index.append(options);
}

Document filtered(const Document& condition, const char* field = "number") {
  return Document()
      .add("unique", true)
      .add("partialFilterExpression", Document().add(field, condition));
}

struct Uses {
  bool reads_numbers;
  bool guards_numbers;
  bool reads_strings;
  bool guards_strings;
};

struct Row {
  const char* name;
  Document index;
  Uses uses;
};

constexpr Uses kNothing{false, false, false, false};
constexpr Uses kAll{true, true, true, true};
constexpr Uses kReads{true, false, true, false};
constexpr Uses kNumbers{true, true, false, false};
constexpr Uses kStrings{false, false, true, true};

void expect_uses(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Index index = index_of(row.index.bytes());
    EXPECT_EQ(can_read(index, "number", ValueType::number), row.uses.reads_numbers) << row.name;
    EXPECT_EQ(guards(index, {"number", ValueType::number}), row.uses.guards_numbers) << row.name;
    EXPECT_EQ(can_read(index, "number", ValueType::string), row.uses.reads_strings) << row.name;
    EXPECT_EQ(guards(index, {"number", ValueType::string}), row.uses.guards_strings) << row.name;
    EXPECT_FALSE(can_read(index, "other", ValueType::number)) << row.name;
    EXPECT_FALSE(guards(index, {"other", ValueType::number})) << row.name;
  }
}

TEST(Index, ByItsOptions) {
  const Document unique = Document().add("unique", true);
  const Document spec = listed(unique);
  expect_uses({
      {"plain", listed({}), kReads},
      {"unique", listed(unique), kAll},
      {"not_unique", listed(Document().add("unique", false)), kReads},
      {"sparse", listed(Document().add("sparse", true)), kReads},
      {"unique_sparse", listed(Document(unique).add("sparse", true)), kAll},
      {"hidden", listed(Document(unique).add("hidden", true)), {false, true, false, true}},
      {"collated", listed(Document(unique).add("collation", Document().add("locale", "de"))), kAll},
      {"expiring", listed(Document(unique).add("expireAfterSeconds", 1)), kAll},
      {"nothing", Document(), kNothing},
      {"key_that_is_none", Document().add("key", 1).add("unique", true), kNothing},
      {"being_built",
       Document().add("spec", spec).add("buildUUID", "u"),
       {false, true, false, true}},
  });
  EXPECT_TRUE(index_of(Document().add("spec", spec).bytes()).building);
}

TEST(Index, ByItsKey) {
  const Document unique = Document().add("unique", true);
  const auto number = [] { return Document().add("number", 1); };
  expect_uses({
      {"descending", listed(unique, Document().add("number", -1)), kAll},
      {"double", listed(unique, Document().add("number", 1.0)), kAll},
      {"hashed", listed({}, Document().add("number", "hashed")), kNothing},
      {"text", listed({}, Document().add("number", "text")), kNothing},
      {"first_of_two", listed(unique, number().add("other", -1)), kReads},
      {"second_of_two", listed(unique, Document().add("x", 1).add("number", 1)), kNothing},
      {"before_a_sphere", listed({}, number().add("place", "2dsphere")), kNothing},
      {"before_a_wildcard", listed({}, number().add("other.$**", 1)), kNothing},
      {"wildcard", listed({}, Document().add("$**", 1)), kNothing},
      {"beneath", listed(unique, Document().add("number.x", 1)), kNothing},
      {"prefix", listed(unique, Document().add("num", 1)), kNothing},
  });
}

TEST(Index, ByItsFilter) {
  const auto type = [](const auto& types) { return Document().add("$type", types); };
  const Document exists = Document().add("$exists", true);
  const auto names = [](std::initializer_list<std::string_view> all) {
    Array array;
    for (const std::string_view name : all) array.push(name);
    return array;
  };
  const Array codes = Array().push(16).push(std::int64_t{18}).push(1.0).push(19);
  expect_uses({
      {"exists", listed(filtered(exists)), kAll},
      {"exists_1", listed(filtered(Document().add("$exists", 1))), kAll},
      {"exists_not", listed(filtered(Document().add("$exists", false))), kNothing},
      {"number", listed(filtered(type("number"))), kNumbers},
      {"string", listed(filtered(type("string"))), kStrings},
      {"string_2", listed(filtered(type(2))), kStrings},
      {"all_numbers", listed(filtered(type(names({"long", "int", "decimal", "double"})))),
       kNumbers},
      {"all_numbers_by_code", listed(filtered(type(codes))), kNumbers},
      {"numbers_and_strings", listed(filtered(type(names({"number", "string"})))), kAll},
      {"long", listed(filtered(type("long"))), kNothing},
      {"int", listed(filtered(type(16))), kNothing},
      {"long_and_int", listed(filtered(type(names({"long", "int"})))), kNothing},
      {"date", listed(filtered(type("date"))), kNothing},
      {"unknown_code", listed(filtered(type(-1))), kNothing},
      {"no_types", listed(filtered(type(Array()))), kNothing},
      {"greater", listed(filtered(Document().add("$gt", 0))), kNothing},
      {"two_conditions", listed(filtered(Document(exists).add("$gt", 0))), kNothing},
      {"other_field", listed(filtered(exists, "other")), kNothing},
      {"prefix", listed(filtered(exists, "num")), kNothing},
      {"value", listed(Document().add("partialFilterExpression", Document().add("number", 1))),
       kNothing},
      {"empty", listed(Document().add("partialFilterExpression", Document())), kNothing},
      {"compound", listed(filtered(exists), Document().add("number", 1).add("x", 1)), kReads},
  });
  const Document two = Document().add("number", exists).add("paid", exists);
  EXPECT_FALSE(guards(
      index_of(listed(Document().add("unique", true).add("partialFilterExpression", two)).bytes()),
      {"number", ValueType::number}));
}

TEST(Index, ByItsFilterIfARuleMakesOneTypeOnly) {
  const auto of_type = [](const auto& type) {
    return index_of(listed(filtered(Document().add("$type", type))).bytes());
  };
  const Index longs = of_type("long");
  EXPECT_TRUE(guards(longs, {"number", ValueType::int64}));
  EXPECT_FALSE(guards(longs, {"number", ValueType::int32}));
  EXPECT_FALSE(can_read(longs, "number", ValueType::int64)) << "a stored 7.0 is not in it";
  const std::vector<Index> both{longs, of_type("number")};
  EXPECT_EQ(guard_among(both, {"number", ValueType::int64}), &both[0]);
  EXPECT_EQ(readable_guard_among(both, {"number", ValueType::int64}), &both[1]);
  EXPECT_TRUE(guards(of_type("int"), {"number", ValueType::int32}));
  EXPECT_TRUE(guards(of_type(16), {"number", ValueType::int32}));
  EXPECT_TRUE(guards(of_type(Array().push("int").push("long")), {"number", ValueType::int64}));
  EXPECT_FALSE(guards(of_type("string"), {"number", ValueType::int64}));
  for (const ValueType each : {ValueType::int32, ValueType::int64}) {
    EXPECT_TRUE(guards(of_type("number"), {"number", each}));
    EXPECT_EQ(alias_of(each), "number");
  }
  EXPECT_EQ(value_type_of(bson::Type::int32), ValueType::int32);
  EXPECT_EQ(value_type_of(bson::Type::int64), ValueType::int64);
}

TEST(Index, ByItsFilterForOtherTypes) {
  const Index binary = index_of(listed(filtered(Document().add("$type", "binData"))).bytes());
  EXPECT_TRUE(guards(binary, {"number", ValueType::binary}));
  EXPECT_FALSE(guards(binary, {"number", ValueType::object_id}));
  EXPECT_FALSE(guards(binary, {"number", ValueType::other}));
  const Index ids = index_of(listed(filtered(Document().add("$type", 7))).bytes());
  EXPECT_TRUE(guards(ids, {"number", ValueType::object_id}));
}

// ---- values that repeat by design

Index unique_on(std::initializer_list<const char*> fields) {
  Document key;
  for (const char* field : fields) key.add(field, 1);
  return index_of(listed(Document().add("unique", true), key).bytes());
}

TEST(ScopedIndex, GuardsIfItsKeyIsTheFieldAndTheScope) {
  const Repetition tenant{{"tenant"}};
  EXPECT_TRUE(guards(unique_on({"tenant", "number"}), {"number", ValueType::number, tenant}));
  EXPECT_TRUE(guards(unique_on({"number", "tenant"}), {"number", ValueType::number, tenant}));
  EXPECT_FALSE(guards(unique_on({"number"}), {"number", ValueType::number, tenant}));
  EXPECT_FALSE(guards(unique_on({"tenant", "number", "x"}), {"number", ValueType::number, tenant}));
  EXPECT_FALSE(guards(unique_on({"site", "number"}), {"number", ValueType::number, tenant}));
  EXPECT_FALSE(guards(unique_on({"tenant", "number"}), {"number", ValueType::number}));
  const Repetition both{{"site.name", "tenant"}};
  EXPECT_TRUE(
      guards(unique_on({"tenant", "site.name", "number"}), {"number", ValueType::number, both}));
}

TEST(ScopedIndex, GuardsWithAFurtherFieldIfTheProxyDoesNotKnowIt) {
  const Repetition and_more{{"tenant"}, true};
  EXPECT_TRUE(
      guards(unique_on({"tenant", "year", "number"}), {"number", ValueType::number, and_more}));
  EXPECT_FALSE(guards(unique_on({"tenant", "number"}), {"number", ValueType::number, and_more}));
  EXPECT_TRUE(guards(unique_on({"number", "day"}), {"number", ValueType::number, {{}, true}}));
}

TEST(ScopedIndex, ReadsTheFieldBehindTheScope) {
  const std::vector<std::string> scope{"site", "tenant"};
  const auto reads = [&](std::initializer_list<const char*> fields) {
    return can_read(unique_on(fields), "number", ValueType::number, scope);
  };
  EXPECT_TRUE(reads({"tenant", "site", "number"}));
  EXPECT_TRUE(reads({"tenant", "number"}));
  EXPECT_TRUE(reads({"number", "x"}));
  EXPECT_FALSE(reads({"x", "number"}));
  EXPECT_FALSE(reads({"tenant", "x", "number"}));
  EXPECT_FALSE(can_read(unique_on({"tenant", "number"}), "number", ValueType::number));
}

// ---- the proxy's own

Document own(const Document& options = {}, const Document& key = Document().add("number", 1),
             const char* name = "number_idproxy") {
  Document index;
  index.add("v", 2).add("key", key).add("name", name);
  return index.append(options);
}

TEST(OwnIndex, HasANameOfItsOwn) {
  EXPECT_EQ(own_name({"number"}), "number_idproxy");
  EXPECT_EQ(own_name({"a.b"}), "a.b_idproxy");
  EXPECT_EQ(own_name({"number", ValueType::int64, {{"tenant", "site"}}}),
            "tenant_site_number_idproxy");
}

TEST(OwnIndex, IsKnownByItsNameAndExactlyItsOptions) {
  const Document existing = filtered(Document().add("$exists", true));
  const Document key = Document().add("number", 1);
  struct {
    const char* name;
    Document index;
    bool is_own;
  } const rows[] = {
      {"existing", own(existing), true},
      {"descending", own(existing, Document().add("number", -1)), true},
      {"second", own(existing, key, "number_idproxy_2"), true},
      {"of_4_4", own(Document(existing).add("ns", "shop.orders")), true},
      {"of_its_type", own(filtered(Document().add("$type", "number"))), true},
      {"of_another_type", own(filtered(Document().add("$type", "long"))), false},
      {"another_name", own(existing, key, "number_1"), false},
      {"another_beginning", own(existing, key, "number_idproxy_old"), false},
      {"plain", own(Document().add("unique", true)), false},
      {"not_unique",
       own(Document().add("partialFilterExpression",
                          Document().add("number", Document().add("$exists", true)))),
       false},
      {"sparse", own(Document(existing).add("sparse", true)), false},
      {"hidden", own(Document(existing).add("hidden", true)), false},
      {"collation", own(Document(existing).add("collation", Document().add("locale", "de"))),
       false},
      {"expires", own(Document(existing).add("expireAfterSeconds", 10)), false},
      {"two_fields", own(existing, Document().add("number", 1).add("x", 1)), false},
      {"another_field", own(existing, Document().add("no", 1)), false},
      {"another_condition", own(filtered(Document().add("$exists", 1))), false},
      {"another_field_exists", own(filtered(Document().add("$exists", true), "no")), false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(is_own(index_of(row.index.bytes()), {"number", ValueType::int64}), row.is_own)
        << row.name;
  }
  const UniqueField scoped{"number", ValueType::int64, {{"tenant", "site"}}};
  const auto with = [&](std::initializer_list<const char*> fields) {
    Document all;
    for (const char* field : fields) all.add(field, 1);
    return index_of(own(existing, all, "tenant_site_number_idproxy").bytes());
  };
  EXPECT_TRUE(is_own(with({"tenant", "site", "number"}), scoped));
  EXPECT_FALSE(is_own(with({"site", "tenant", "number"}), scoped));
}

TEST(OwnIndex, YieldsToAnotherThatGuards) {
  const auto made = [](const Document& index) { return index_of(index.bytes()); };
  const Index its = made(own(filtered(Document().add("$exists", true))));
  const Index guard = made(listed(Document().add("unique", true)));
  const Index typed = made(listed(filtered(Document().add("$type", "long"))));
  Index building = guard;
  building.building = true;
  const auto name = [](std::vector<Index> indexes, ValueType type = ValueType::int64) {
    const Index* to = yields_to(indexes, {"number", type});
    return to == nullptr ? "" : to->name;
  };
  EXPECT_EQ(name({its, guard}), "i");
  EXPECT_EQ(name({its, typed}), "") << "a counter could not read the highest number";
  EXPECT_EQ(name({its, building}), "");
  EXPECT_EQ(name({its, made(listed({}))}), "");
  EXPECT_EQ(name({its}), "");
  EXPECT_EQ(name({guard, guard}), "");
  Index second = its;
  second.name += "_2";
  EXPECT_EQ(name({its, second}), "") << "it has made both";
}

// ---- the command that makes one

TEST(CreateIndexCommand, HasTheFieldsOfTheScope) {
  const Repetition repeats{{"tenant", "site.name"}};
  const std::string begin = R"(db.getSiblingDB("shop").getCollection("orders").createIndex()";
  const std::string options = R"({unique: true, partialFilterExpression: {"no": {$exists: true}})";
  EXPECT_EQ(create_index_command({"shop", "orders"}, {"no", ValueType::number, repeats}, {}).text(),
            begin + R"({"tenant": 1, "site.name": 1, "no": -1}, )" + options +
                R"(, name: "tenant_site.name_no_idproxy"}))");
  EXPECT_EQ(
      create_index_command({"shop", "orders"}, {"no", ValueType::number, {{}, true}}, {}).text(),
      begin + R"({"no": -1, <a field that differs from period to period>: 1}, )" + options +
          R"(, name: "no_idproxy"}))");
}

TEST(CreateIndexCommand, HasTheFormAndAName) {
  const Namespace ns{"shop", "orders"};
  const std::string begin = R"(db.getSiblingDB("shop").getCollection("orders").createIndex()";
  const auto command = [&](const IndexOffer& offer, ValueType type = ValueType::number) {
    return create_index_command(ns, {"no", type}, offer).text();
  };
  EXPECT_EQ(command({}), begin + R"({"no": -1}, {unique: true, partialFilterExpression: )"
                                 R"({"no": {$exists: true}}, name: "no_idproxy"}))");
  EXPECT_EQ(command({.descending = false}),
            begin + R"({"no": 1}, {unique: true, partialFilterExpression: )"
                    R"({"no": {$exists: true}}, name: "no_idproxy"}))");
  EXPECT_EQ(command({IndexForm::partial, "no_idproxy_2"}, ValueType::string),
            begin + R"({"no": -1}, {unique: true, partialFilterExpression: )"
                    R"({"no": {$type: "string"}}, name: "no_idproxy_2"}))");
  EXPECT_EQ(command({.by_bytes = true}),
            begin + R"({"no": -1}, {unique: true, partialFilterExpression: )"
                    R"({"no": {$exists: true}}, collation: {locale: "simple"}, )"
                    R"(name: "no_idproxy"}))");
}

TEST(CreateIndexCommand, IsForNamesThatAreNoTrap) {
  const auto command = [](const std::string& collection, const std::string& field,
                          const std::string& scope = "x") {
    return create_index_command({"a", collection}, {field, ValueType::number, {{scope}}}, {});
  };
  EXPECT_EQ(command("b c;$(x)", "d.e").text(),
            R"x(db.getSiblingDB("a").getCollection("b c;$(x)").createIndex({"x": 1, "d.e": -1}, )x"
            R"({unique: true, partialFilterExpression: {"d.e": {$exists: true}}, )"
            R"(name: "x_d.e_idproxy"}))");
  EXPECT_TRUE(command(R"x(b"); db.dropDatabase(); (")x", "d").empty());
  EXPECT_TRUE(command("b\\", "d").empty());
  EXPECT_TRUE(command("b", "d\x1b[2J").empty());
  EXPECT_TRUE(command("b", "d", "\xe2\x80\xae").empty());
}

TEST(CreateIndexCommand, AvoidsNamesInUse) {
  const auto named = [](std::initializer_list<const char*> names) {
    std::vector<Index> indexes;
    for (const char* name : names) indexes.push_back({.name = name});
    return indexes;
  };
  EXPECT_EQ(free_name(named({"_id_", "no_1"}), {"no"}), "no_idproxy");
  EXPECT_EQ(free_name(named({"no_idproxy"}), {"no"}), "no_idproxy_2");
  EXPECT_EQ(free_name(named({"no_idproxy_2", "no_idproxy"}), {"no"}), "no_idproxy_3");
}

}  // namespace index_test
}  // namespace idproxy::id_store::test
