#include "idproxy/rewrite/duplicates.hpp"

#include <gtest/gtest.h>

#include "support/fake_store.hpp"
#include "support/replies.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace duplicate_key_test {

using namespace test;

/// The fields of shop.orders that a fresh value may help against this error.
std::vector<std::string> helped(const std::string& error, std::vector<std::string> fields,
                                std::string_view ns = "shop.orders") {
  std::vector<Rule> rules;
  for (auto& field : fields) rules.push_back(rule("*", std::move(field)));
  const RuleSet set(std::move(rules), "idproxy");
  const Plan plan = set.plan("shop", "orders");
  const Exact exact(error);
  std::vector<std::string> found;
  for (const auto at : curable(exact.view(), ns, plan)) found.push_back(plan[at].rule->field);
  return found;
}

std::string pattern(const std::vector<std::string>& keys) {
  return write_error(0, 11000, duplicate_fields(keys));
}
using Fields = std::vector<std::string>;

TEST(DuplicateKey, IsOursIfAKeyIsTheFieldOrADocumentItLiesIn) {
  const struct {
    const char* name;
    std::vector<std::string> keys;
    Fields fields, ours;
  } rows[] = {
      {"the field", {"_id"}, {"_id"}, {"_id"}},
      {"another field", {"mail"}, {"_id"}, {}},
      {"a compound index", {"t", "n"}, {"n"}, {"n"}},
      {"two of ours in it", {"a", "b"}, {"_id", "b", "a"}, {"b", "a"}},
      {"one of two of ours", {"b", "x"}, {"a", "b"}, {"b"}},
      {"a document above", {"registration"}, {"registration.number"}, {"registration.number"}},
      {"two levels above", {"a"}, {"a.b.c"}, {"a.b.c"}},
      {"the dotted field", {"a.b"}, {"a.b"}, {"a.b"}},
      {"a path below", {"n.x"}, {"n"}, {}},
      {"a path below, in a compound index", {"n.x", "t"}, {"n"}, {}},
      {"a path beside", {"a.c"}, {"a.b"}, {}},
      {"the beginning of a name", {"num"}, {"number"}, {}},
      {"a longer name", {"number2"}, {"number"}, {}},
      {"the beginning of a segment", {"a.b"}, {"a.bc"}, {}},
      {"a dotted name's beginning with a dot", {"a."}, {"a.b"}, {}},
      {"an empty key", {""}, {"_id"}, {}},
      {"no key", {}, {"_id"}, {}},
      {"another case", {"_ID"}, {"_id"}, {}},
  };
  for (const auto& row : rows)
    EXPECT_EQ(helped(pattern(row.keys), row.fields), row.ours) << row.name;
}

/// Every key shape against every field shape, by a rule that is written another way than the
/// code's.
TEST(DuplicateKey, AgreesWithTheRuleOnGeneratedPaths) {
  std::vector<std::string> paths;
  const std::string names[] = {"a", "b", "ab", "_id"};
  for (const auto& first : names) {
    paths.push_back(first);
    for (const auto& second : names) {
      paths.push_back(first + "." + second);
      for (const auto& third : {"a", "ab"}) paths.push_back(first + "." + second + "." + third);
    }
  }
  for (const auto& key : paths) {
    for (const auto& field : paths) {
      const bool ours = (field + ".").substr(0, key.size() + 1) == key + ".";
      EXPECT_EQ(helped(pattern({"zip", key, "zap"}), {"other", field}),
                ours ? Fields{field} : Fields{})
          << key << " " << field;
    }
  }
}

TEST(DuplicateKey, ReadsThePatternWhateverElseTheErrorSays) {
  const std::string key = doc_field("keyPattern", int_field("_id", 1));
  const auto error = [](const std::string& fields) { return write_error(3, 11000, fields); };
  const std::string invalid =
      string_field("errmsg",
                   "E11000 duplicate key error collection: shop.orders index: other_1 dup "
                   "key: { x: \"\xC3...\" }");
  const std::string collated =
      string_field("errmsg",
                   "E11000 duplicate key error collection: shop.orders index: c collation: "
                   "{ locale: \"de\" } dup key: { _id: \"0x292b\" }") +
      key + doc_field("keyValue", string_field("_id", "292b2d0107")) +
      element(bson::Type::array, "hexEncoded", doc(bool_field("0", true))) +
      doc_field("collation", string_field("locale", "de"));
  const struct {
    const char* name;
    std::string error;
    bool ours;
  } rows[] = {
      {"nothing else", error(key), true},
      {"errmsg is no UTF-8 and names another index", error(invalid + key), true},
      {"errmsg is a number", error(int_field("errmsg", 1) + key), true},
      {"collated", error(collated), true},
      {"descending", error(doc_field("keyPattern", int_field("_id", -1))), true},
      {"a text index", error(doc_field("keyPattern", string_field("_id", "text"))), true},
      {"clustered: no index in errmsg",
       error(string_field("errmsg",
                          "E11000 duplicate key error collection: shop.orders dup key: "
                          "{ _id: 1 }") +
             key),
       true},
      {"keyValue of ours under a pattern that is not",
       error(doc_field("keyPattern", int_field("x", 1)) +
             doc_field("keyValue", int_field("_id", 1))),
       false},
      {"keyValue alone", error(doc_field("keyValue", int_field("_id", 1))), false},
      {"pattern is text, errmsg ours",
       error(string_field("keyPattern", "_id") +
             string_field("errmsg", "collection: shop.orders index: _id_ dup key: { }")),
       false},
      {"pattern is an array",
       error(element(bson::Type::array, "keyPattern", doc(int_field("_id", 1)))), false},
      {"pattern is null", error(element(bson::Type::null, "keyPattern", "")), false},
      {"pattern is broken behind our key",
       error(doc_field("keyPattern",
                       int_field("_id", 1) + element(static_cast<bson::Type>(0x42), "x", ""))),
       false},
      {"at the top level", doc(ok(0) + int_field("code", 11000) + invalid + key), true},
  };
  for (const auto& row : rows) EXPECT_EQ(!helped(row.error, {"_id"}).empty(), row.ours) << row.name;
}

TEST(DuplicateKey, GoesByTheIndexNameWithoutPattern) {
  const std::string shop = "E11000 duplicate key error collection: shop.orders index: ";
  const struct {
    const char* name;
    std::string errmsg;
    Fields fields, ours;
  } rows[] = {
      {"_id_", shop + "_id_ dup key: { _id: 1 }", {"_id", "n"}, {"_id"}},
      {"a field under _id", shop + "_id_ dup key: { : 1 }", {"_id.seq"}, {"_id.seq"}},
      {"a field that merely begins so", shop + "_id_ dup key: { : 1 }", {"_id2"}, {}},
      {"FIELD_1", shop + "n_1 dup key: { : 1 }", {"n", "_id"}, {"n"}},
      {"compound", shop + "n_1_t_-1 dup key: { : 1, : 2 }", {"n"}, {"n"}},
      {"second in a compound name", shop + "t_1_n_1 dup key: { : 1 }", {"n"}, {}},
      {"dotted", shop + "a.b_1 dup key: { : 1 }", {"a.b"}, {"a.b"}},
      {"a document above", shop + "a_1 dup key: { : 1 }", {"a.b"}, {}},
      {"merely begins like the field", shop + "number_1 dup key: { : 1 }", {"num"}, {}},
      {"the field and more before the underscore", shop + "num2_1 dup key: { : 1 }", {"num"}, {}},
      // The name cannot tell num_x from num: both are given a fresh value.
      {"a field whose name goes on with an underscore",
       shop + "num_x_1 dup key: { : 1 }",
       {"num", "num_x"},
       {"num", "num_x"}},
      {"the bare field", shop + "n dup key: { : 1 }", {"n"}, {}},
      {"a name of its own", shop + "uniq dup key: { : 1 }", {"n"}, {}},
      {"another case", shop + "N_1 dup key: { : 1 }", {"n"}, {}},
      {"collated",
       shop + "n_1 collation: { locale: \"de\" } dup key: { : \"0x2a\" }",
       {"n"},
       {"n"}},
      {"behind other words",
       "Plan executor error :: caused by :: " + shop + "n_1 dup key: { }",
       {"n"},
       {"n"}},
      {"clustered",
       "E11000 duplicate key error collection: shop.orders dup key: { _id: 1 }",
       {"_id"},
       {}},
      {"nothing behind the name", shop + "_id_", {"_id"}, {"_id"}},
      {"nothing behind the name of another", shop + "n_1", {"n", "_id"}, {"n"}},
      {"nothing but a name of its own", shop + "uniq", {"n"}, {}},
      {"cut in the name", shop + "_i", {"_id"}, {}},
      {"cut before the name", shop, {"_id"}, {}},
      {"another text",
       "Duplicate key violation on the requested collection: Index 'n_1'",
       {"n", "_id"},
       {"n"}},
      {"another text, of _id",
       "Duplicate key violation on the requested collection: Index '_id_'",
       {"n", "_id"},
       {"_id"}},
      {"another text, cut",
       "Duplicate key violation on the requested collection: Index '_id_",
       {"_id"},
       {}},
      {"another text, without the name",
       "Duplicate key violation on the requested collection: Index '<unknown>'",
       {"_id"},
       {}},
      {"no words of mongod's", "duplicate", {"_id"}, {}},
      {"empty", "", {"_id"}, {}},
      {"of another collection",
       "E11000 duplicate key error collection: shop.others index: _id_ dup key: { }",
       {"_id"},
       {}},
      {"of a longer one",
       "E11000 duplicate key error collection: shop.orders2 index: _id_ dup key: { }",
       {"_id"},
       {}},
      {"no UTF-8", shop + "_id_ dup key: { : \"\xC3...\" }", {"_id"}, {"_id"}},
      {"a NUL in a value", shop + std::string("_id_ dup key: { : \"\0\" }", 23), {"_id"}, {"_id"}},
      {"a NUL before the name", shop + std::string("\0_id_ dup key: { }", 18), {"_id"}, {}},
      {"words of mongod's in a value",
       shop + "uniq dup key: { : \" index: _id_ dup key\" }",
       {"_id"},
       {}},
      {"all of them in a value",
       shop + "uniq dup key: { : \"" + shop + "_id_ dup key\" }",
       {"_id"},
       {}},
  };
  for (const auto& row : rows) {
    const auto error = write_error(0, 11000, string_field("errmsg", row.errmsg));
    EXPECT_EQ(helped(error, row.fields), row.ours) << row.name;
  }
  EXPECT_EQ(helped(write_error(0, 11000), {"_id"}), Fields{});
  EXPECT_EQ(helped(write_error(0, 11000, int_field("errmsg", 1)), {"_id"}), Fields{});
  const auto symbol = string_field("errmsg", shop + "_id_ dup key: { }", bson::Type::symbol);
  EXPECT_EQ(helped(write_error(0, 11000, symbol), {"_id"}), Fields{});
}

/// Only the collection's indexes can tell then.
TEST(DuplicateKey, IsOfTheOnlyIndexIfTheTextNamesNone) {
  const std::string text = "E11000 duplicate key error collection: shop.orders";
  using Indexes = std::optional<ids::UniqueIndexes>;
  const Indexes none(std::in_place);
  const Indexes n{{{"n"}}};
  const struct {
    const char* name;
    std::string errmsg;
    Indexes indexes;
    bool may_have_id;
    Fields fields, ours;
  } rows[] = {
      {"the only one", text, n, false, {"n", "_id"}, {"n"}},
      {"but for that on _id", text, n, true, {"n", "_id"}, {}},
      {"only that on _id", text, none, true, {"n", "_id"}, {"_id"}},
      {"only that on _id, which the rule does not fill", text, none, true, {"n"}, {}},
      {"none at all", text, none, false, {"n", "_id"}, {}},
      {"not known", text, std::nullopt, false, {"n", "_id"}, {}},
      {"two", text, {{{"n"}, {"mail"}}}, false, {"n"}, {}},
      {"another field's", text, {{{"mail"}}}, false, {"n"}, {}},
      {"of several fields", text, {{{"t", "n"}}}, false, {"n"}, {"n"}},
      {"around the field", text, {{{"a"}}}, false, {"a.b"}, {"a.b"}},
      {"below the field", text, {{{"n.x"}}}, false, {"n"}, {}},
      {"with the key", text + " dup key: { : 7 }", n, false, {"n"}, {"n"}},
      {"behind other words", "findAndModify :: caused by :: " + text, n, false, {"n"}, {"n"}},
      {"an index with a name of its own", text + " index: uniq", n, false, {"n"}, {}},
      {"another collection", text + "2", n, false, {"n"}, {}},
      {"other words behind it", text + " failed", n, false, {"n"}, {}},
      {"another text",
       "Duplicate key violation on the requested collection.",
       n,
       false,
       {"n"},
       {"n"}},
      {"another text, without a point",
       "Duplicate key violation on the requested collection",
       n,
       false,
       {"n"},
       {"n"}},
      {"another text, with an index of a name of its own",
       "Duplicate key violation on the requested collection: Index 'uniq'",
       n,
       false,
       {"n"},
       {}},
      {"no words of a server's", "duplicate", n, false, {"n"}, {}},
  };
  for (const auto& row : rows) {
    const auto store = std::make_shared<FakeStore>();
    store->indexes = row.indexes;
    std::vector<Rule> rules;
    for (const auto& field : row.fields) rules.push_back(rule("*", field));
    const RuleSet set(std::move(rules), "idproxy", store);
    const Plan plan = set.plan("shop", "orders");
    const Exact error(write_error(0, 11000, string_field("errmsg", row.errmsg)));
    Fields ours;
    for (const auto at :
         curable(error.view(), "shop.orders", plan, [&] { return row.may_have_id; })) {
      ours.push_back(plan[at].rule->field);
    }
    EXPECT_EQ(ours, row.ours) << row.name;
  }
}

TEST(DuplicateKey, TellsAnIndexOnOneFieldAlone) {
  const auto is_alone = [](const std::string& error, std::string_view field) {
    const Exact exact(error);
    return is_on_field_alone(exact.view(), field);
  };
  EXPECT_TRUE(is_alone(pattern({"n"}), "n"));
  EXPECT_TRUE(is_alone(pattern({"a.b"}), "a.b"));
  EXPECT_FALSE(is_alone(pattern({"a"}), "a.b"));
  EXPECT_FALSE(is_alone(pattern({"n", "t"}), "n"));
  EXPECT_FALSE(is_alone(pattern({"t", "n"}), "n"));
  EXPECT_FALSE(is_alone(pattern({}), "n"));
  EXPECT_FALSE(is_alone(write_error(0, 11000, string_field("keyPattern", "n")), "n"));
  EXPECT_FALSE(is_alone(write_error(0, 11000), "n"));
}

/// A collection may have any name: words of mongod's in it are no index.
TEST(DuplicateKey, IsNotMisledByTheNameOfACollection) {
  const struct {
    std::string ns, index;
    bool ours;
  } rows[] = {
      {"shop. index: _id_ dup key", "uniq", false},
      {"shop. index: uniq dup key", "_id_", true},
      {"shop.a dup key b", "_id_", true},
      {"shop.x collation: y", "_id_", true},
      {"shop.collection: shop.x index: _id_ dup key: ", "uniq", false},
      {"shop.\xFF\xFE", "_id_", true},
  };
  for (const auto& [ns, index, ours] : rows) {
    const auto error =
        write_error(0, 11000,
                    string_field("errmsg", "E11000 duplicate key error collection: " + ns +
                                               " index: " + index + " dup key: { _id: 1 }"));
    EXPECT_EQ(helped(error, {"_id"}, ns), ours ? Fields{"_id"} : Fields{}) << ns;
  }
}

}  // namespace duplicate_key_test
}  // namespace idproxy::rewrite
