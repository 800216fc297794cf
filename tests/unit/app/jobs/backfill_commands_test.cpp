#include "app/jobs/backfill_commands.hpp"

#include <gtest/gtest.h>

#include "support/rule_set.hpp"

namespace idproxy::app::jobs {
namespace backfill_commands_test {

using id_store::mongo::Array;
using id_store::mongo::Document;
using id_store::mongo::Reply;
using rewrite::Assign;
using Failure = UpdateOutcome::Failure;
using Kind = UpdateOutcome::Kind;

std::string json(const Document& document) {
  char* text = bson_as_relaxed_extended_json(document.get(), nullptr);
  std::string copy = text;
  bson_free(text);
  std::erase(copy, ' ');
  return copy;
}

BackfillTarget target(const char* field, Assign assign = Assign::missing) {
  return {{"shop", "orders"}, field, assign};
}

BackfillId id(const Document& document) {
  return BackfillId(as_text(document.bytes()));
}

TEST(BackfillCommands, FindDocumentsWithoutAValue) {
  EXPECT_EQ(json(without_value(target("n"))), R"({"n":{"$exists":false}})");
  EXPECT_EQ(json(without_value(target("n", Assign::missing_or_null))),
            R"({"n":{"$eq":null,"$not":{"$type":"array"}}})");
  EXPECT_EQ(json(without_value(target("n", Assign::missing_or_zero))),
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
  EXPECT_EQ(show_without_value(target("n")).text(),
            R"(db.getSiblingDB("shop").getCollection("orders").find({"n": {$exists: false}}))");
  EXPECT_EQ(show_without_value(target("n", Assign::missing_or_null)).text(),
            R"(db.getSiblingDB("shop").getCollection("orders").find({"n": null}))");
  EXPECT_EQ(
      show_without_value(target("n", Assign::missing_or_zero)).text(),
      R"(db.getSiblingDB("shop").getCollection("orders").find({"n": {$in: [null, 0, "", )"
      R"(ObjectId("000000000000000000000000"), UUID("00000000-0000-0000-0000-000000000000"), )"
      R"(BinData(3, "AAAAAAAAAAAAAAAAAAAAAA==")]}}))");
}

/// An error of the document at this index.
Document error_at(std::int32_t index, std::int32_t code) {
  return Document().add("index", index).add("code", code);
}

Document duplicate_at(std::int32_t index, const char* key) {
  return error_at(index, 11000).add("keyPattern", Document().add(key, 1));
}

Reply answered(std::int32_t n) {
  Reply reply;
  reply.document.add("n", n).add("ok", 1.0);
  return reply;
}

/// As Client::write() returns it.
Reply stopped(std::int32_t n, const Document& error) {
  Reply reply = answered(n);
  reply.kind = Reply::Kind::refused;
  reply.document.add("writeErrors", Array().push(error));
  return reply;
}

UpdateOutcome outcome(const Reply& reply, std::size_t sent = 10) {
  const auto rules = test::rule_set_of(test::rule("shop.orders", "a.number"));
  return outcome_of(reply, sent, "shop.orders", rules->plan("shop", "orders"));
}

TEST(BackfillOutcome, AllWereTried) {
  const auto all = outcome(answered(10));
  EXPECT_EQ(all.kind, Kind::answered);
  EXPECT_EQ(all.tried, 10U);
  EXPECT_EQ(all.changed, 10U);
  EXPECT_EQ(all.failure, Failure::none);
  EXPECT_EQ(outcome(answered(7)).changed, 7U);
}

TEST(BackfillOutcome, StoppedAtADocument) {
  const struct {
    const char* name;
    Document error;
    Failure failure;
  } rows[] = {
      {"our duplicate", duplicate_at(3, "a.number"), Failure::duplicate},
      {"one of an index above", duplicate_at(3, "a"), Failure::duplicate},
      {"a foreign one", duplicate_at(3, "mail"), Failure::denied},
      {"one of an unknown index", error_at(3, 11000), Failure::perhaps_stored},
      {"the validator", error_at(3, 121), Failure::denied},
      {"a blocked path", error_at(3, 28), Failure::denied},
      {"too large", error_at(3, 17419), Failure::denied},
      {"a lost shard", error_at(3, 133), Failure::perhaps_stored},
  };
  for (const auto& row : rows) {
    const auto found = outcome(stopped(2, row.error));
    EXPECT_EQ(found.kind, Kind::answered) << row.name;
    EXPECT_EQ(found.tried, 3U) << row.name;
    EXPECT_EQ(found.changed, 2U) << row.name;
    EXPECT_EQ(found.failure, row.failure) << row.name;
  }
}

TEST(BackfillOutcome, IsNotKnownWithoutAMajority) {
  Reply reply = answered(10);
  reply.kind = Reply::Kind::not_majority;
  EXPECT_EQ(outcome(reply).kind, Kind::unknown);
  reply.kind = Reply::Kind::unreachable;
  EXPECT_EQ(outcome(reply).kind, Kind::unknown);
  // What precedes the error may be undone, too.
  reply = stopped(2, error_at(2, 121));
  reply.document.add("writeConcernError", Document().add("code", 64));
  EXPECT_EQ(outcome(reply).kind, Kind::unknown);
}

TEST(BackfillOutcome, OfARefusedCommand) {
  Reply reply;
  reply.kind = Reply::Kind::refused;
  reply.code = 13;
  reply.document.add("ok", 0.0).add("code", 13);
  EXPECT_EQ(outcome(reply).kind, Kind::refused);
  EXPECT_EQ(outcome(reply).code, 13);
  // An answer that makes no sense proves nothing.
  EXPECT_EQ(outcome(stopped(2, error_at(10, 121))).kind, Kind::refused);
  EXPECT_EQ(outcome(stopped(2, error_at(-1, 121))).kind, Kind::refused);
}

TEST(BackfillOutcome, NamesErrorsThatPeopleKnow) {
  EXPECT_EQ(reason_of_failure(121), "the collection's validator refuses it (error 121)");
  EXPECT_EQ(reason_of_failure(10334), "it would be too large (error 10334)");
  EXPECT_EQ(reason_of_failure(5), "the server refuses the update (error 5)");
}

TEST(BackfillOutcome, LostCursorsAreWorthReadingAgain) {
  Reply reply;
  reply.kind = Reply::Kind::refused;
  reply.code = 43;
  EXPECT_TRUE(is_worth_repeating(reply));
  reply.code = 13;
  EXPECT_FALSE(is_worth_repeating(reply));
  reply.kind = Reply::Kind::unreachable;
  EXPECT_TRUE(is_worth_repeating(reply));
}

}  // namespace backfill_commands_test
}  // namespace idproxy::app::jobs
