#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "database.hpp"
#include "id_store/index.hpp"

/// The unique index that is advised can be made, and does not hinder what is stored later.
namespace idproxy::id_store::test {
namespace index_advice_test {

class IndexAdviceTest : public testing::Test {
 protected:
  [[nodiscard]] Namespace orders() const { return {database.name(), "orders"}; }
  void insert(std::initializer_list<const char*> documents) {
    for (const char* document : documents) database.insert("orders", std::string(document));
  }
  /// The end of the command, behind the key.
  std::string advice(ValueType type = ValueType::number) {
    const std::string command = advise_index(client, orders(), {"n", type}).text();
    return command.substr(command.find("}, ") + 3);
  }
  /// True if an index guards the field then.
  bool make(ValueType type = ValueType::number) {
    bool is_new = false;
    const mongo::Reply made = make_index(client, orders(), {"n", type}, is_new);
    EXPECT_TRUE(made.ok()) << made.message;
    std::vector<Index> indexes;
    EXPECT_TRUE(list_indexes(client, orders(), indexes).ok());
    return std::ranges::any_of(indexes,
                               [&](const Index& index) { return guards(index, {"n", type}); });
  }

  Database database;
  mongo::Client client = pool().client();
};

constexpr const char* kExisting =
    R"({unique: true, partialFilterExpression: {"n": {$exists: true}}, name: "n_idproxy"}))";

TEST_F(IndexAdviceTest, WithoutACollectionIsOfWhatExists) {
  EXPECT_EQ(advice(), kExisting);
  EXPECT_TRUE(make());
}

TEST_F(IndexAdviceTest, OfAnEmptyCollectionIsOfWhatExists) {
  insert({"{}"});
  database.remove_all("orders");
  EXPECT_EQ(advice(), kExisting);
}

TEST_F(IndexAdviceTest, WhereDocumentsLackTheFieldIsOfWhatExists) {
  insert({"{}", "{}", R"({"n": 1})"});
  EXPECT_EQ(advice(), kExisting);
  EXPECT_TRUE(make());
  insert({"{}"});
}

TEST_F(IndexAdviceTest, WhereAllOfManyHaveTheFieldIsOfWhatExists) {
  insert({R"({"n": "a"})"});
  for (int n = 2; n < 1000; ++n) database.insert("orders", "{\"n\": " + std::to_string(n) + "}");
  EXPECT_EQ(advice(), kExisting);
  insert({R"({"n": 1})"});
  EXPECT_EQ(advice(), kExisting);
  EXPECT_TRUE(make());
}

TEST_F(IndexAdviceTest, WhereAFewHaveTheFieldIsOfWhatExists) {
  insert({R"({"n": 1})", R"({"n": 2})"});
  EXPECT_TRUE(make());
  insert({"{}", "{}"});
}

TEST_F(IndexAdviceTest, WhereSomeAreNullIsPartial) {
  insert({R"({"n": null})", R"({"n": null})", R"({"n": 1})", "{}"});
  EXPECT_EQ(
      advice(),
      R"({unique: true, partialFilterExpression: {"n": {$type: "number"}}, name: "n_idproxy"}))");
  EXPECT_TRUE(make());
  insert({R"({"n": null})", "{}"});
}

TEST_F(IndexAdviceTest, ForStringsIsPartialByTheirType) {
  insert({R"({"n": null})", R"({"n": null})", R"({"n": "a"})"});
  EXPECT_EQ(
      advice(ValueType::string),
      R"({unique: true, partialFilterExpression: {"n": {$type: "string"}}, name: "n_idproxy"}))");
  EXPECT_TRUE(make(ValueType::string));
}

TEST_F(IndexAdviceTest, BesideAnIndexOfAnotherKindIsTheSame) {
  insert({"{}", R"({"n": 1})"});
  database.write(json(R"({"createIndexes": "orders", "indexes": [
    {"key": {"n": 1}, "name": "n_1", "partialFilterExpression": {"n": {"$gt": 5}}}]})"));
  EXPECT_EQ(advice(), kExisting);
  EXPECT_TRUE(make());
}

TEST_F(IndexAdviceTest, BesideAnOrdinaryIndexToo) {
  database.write(
      json(R"({"createIndexes": "orders", "indexes": [{"key": {"n": 1}, "name": "n_1"}]})"));
  EXPECT_EQ(advice(), kExisting);
  EXPECT_TRUE(make());
}

}  // namespace index_advice_test
}  // namespace idproxy::id_store::test
