#include "app/backfill_commands.hpp"

#include <gtest/gtest.h>

namespace idproxy::app {
namespace backfill_commands_test {

using id_store::mongo::Document;
using Lacks = BackfillTarget::Lacks;

std::string json(const Document& document) {
  char* text = bson_as_relaxed_extended_json(document.get(), nullptr);
  std::string copy = text;
  bson_free(text);
  std::erase(copy, ' ');
  return copy;
}

BackfillTarget target(const char* field, Lacks lacks = Lacks::field) {
  return {{"shop", "orders"}, field, lacks};
}

BackfillId id(const Document& document) {
  return BackfillId(as_text(document.bytes()));
}

TEST(BackfillCommands, FindDocumentsWithoutAValue) {
  EXPECT_EQ(json(without_value(target("n"))), R"({"n":{"$exists":false}})");
  EXPECT_EQ(json(without_value(target("n", Lacks::field_or_value))),
            R"({"n":{"$eq":null,"$not":{"$type":"array"}}})");
  EXPECT_EQ(json(without_value(target("n", Lacks::value_or_zero))),
            R"({"n":{"$in":[null,0,{"$regularExpression":{"pattern":"^\\z","options":""}},)"
            R"({"$oid":"000000000000000000000000"},)"
            R"({"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}},)"
            R"({"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"03"}}],)"
            R"("$not":{"$type":"array"}}})");
  EXPECT_EQ(json(without_value_and_open(target("n"))), R"({"n":{"$exists":false}})");
  EXPECT_FALSE(without_value_and_blocked(target("n")));
}

TEST(BackfillCommands, TellOpenPathsFromBlockedOnes) {
  const std::string a =
      R"({"$or":[{"a":{"$exists":false}},{"a":{"$type":"object","$not":{"$type":"array"}}}]})";
  const std::string ab =
      R"({"$or":[{"a.b":{"$exists":false}},{"a.b":{"$type":"object","$not":{"$type":"array"}}}]})";
  EXPECT_EQ(json(without_value_and_open(target("a.b.n"))),
            R"({"a.b.n":{"$exists":false},"$and":[)" + a + "," + ab + "]}");
  EXPECT_EQ(json(*without_value_and_blocked(target("a.n"))),
            R"({"a.n":{"$exists":false},"$nor":[{"$and":[)" + a + "]}]}");
}

TEST(BackfillCommands, ReadIdsInOrder) {
  EXPECT_EQ(json(find_ids(target("n"), Document(), {"created", -1}, 100)),
            R"({"find":"orders","filter":{},"sort":{"created":-1},"projection":{"_id":1},)"
            R"("batchSize":100,"allowDiskUse":true})");
}

TEST(BackfillCommands, ReadBesideTheIdWhatTheServerAllowsTogether) {
  BackfillTarget with = target("n");
  with.beside = {"site.name", "tenant", "_id.x", "site"};
  const std::string command = json(find_ids(with, Document(), {}, 1));
  EXPECT_NE(command.find(R"("projection":{"_id":1,"tenant":1,"site":1})"), std::string::npos)
      << command;
}

TEST(BackfillCommands, UpdateOnlyDocumentsThatStillLackAValue) {
  ids::Values values;
  for (const std::int64_t number : {7, 8, 9}) store_i64(values.add(bson::Type::int64, 8), number);
  const std::vector<BackfillId> ids{id(Document().add("_id", 1)),
                                    id(Document().add("_id", Document().add("x", "y")))};
  EXPECT_EQ(json(update_of(target("a.n"), ids, values)),
            R"({"update":"orders","updates":[)"
            R"({"q":{"_id":{"$eq":1},"a.n":{"$exists":false}},"u":{"$set":{"a.n":7}}},)"
            R"({"q":{"_id":{"$eq":{"x":"y"}},"a.n":{"$exists":false}},"u":{"$set":{"a.n":8}}}]})");
  EXPECT_EQ(json(find_values(target("a.n"), ids)),
            R"({"find":"orders","filter":{"_id":{"$in":[1,{"x":"y"}]}},)"
            R"("projection":{"a.n":1},"batchSize":2})");
}

TEST(BackfillCommands, AskForThePrivilegeWithoutChangingAnything) {
  EXPECT_EQ(json(update_of_nothing(target("n"))),
            R"({"update":"orders","updates":[{"q":{"_id":{"$in":[]}},"u":{"$set":{"n":0}}}]})");
}

TEST(BackfillCommands, ShowWhatIsLeft) {
  EXPECT_EQ(show_without_value(target("n")),
            R"(db.getSiblingDB("shop").getCollection("orders").find({"n": {$exists: false}}))");
  EXPECT_EQ(show_without_value(target("n", Lacks::field_or_value)),
            R"(db.getSiblingDB("shop").getCollection("orders").find({"n": null}))");
  EXPECT_EQ(
      show_without_value(target("n", Lacks::value_or_zero)),
      R"(db.getSiblingDB("shop").getCollection("orders").find({"n": {$in: [null, 0, "", )"
      R"(ObjectId("000000000000000000000000"), UUID("00000000-0000-0000-0000-000000000000"), )"
      R"(BinData(3, "AAAAAAAAAAAAAAAAAAAAAA==")]}}))");
}

}  // namespace backfill_commands_test
}  // namespace idproxy::app
