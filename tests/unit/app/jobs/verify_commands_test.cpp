#include "app/jobs/verify_commands.hpp"

#include <gtest/gtest.h>

namespace idproxy::app::jobs {
namespace verify_commands_test {

using id_store::mongo::Document;

VerifyTarget target_of(std::vector<std::string> scope) {
  return {{"shop", "orders"}, "number", std::move(scope), {}, {}};
}

Document index_of(const Document& key, const Document& more = {}) {
  return Document().add("key", key).add("name", "an_index").append(more);
}

/// The name of the index, if it will do.
std::string name_with(const Document& index, std::vector<std::string> scope = {}) {
  return verify_order(target_of(std::move(scope)), {&index, 1}).index;
}

const Document kNumber = Document().add("number", 1);
const Document kHasNumber = Document().add("number", Document().add("$exists", true));

TEST(VerifyOrder, IsThatOfAnIndexThatHoldsAllDocuments) {
  EXPECT_EQ(name_with(index_of(kNumber)), "an_index");
  EXPECT_EQ(name_with(index_of(Document().add("number", -1.0))), "an_index");
  EXPECT_EQ(name_with(index_of(kNumber, Document().add("sparse", true))), "an_index");
  EXPECT_EQ(name_with(index_of(Document(kNumber).add("more", 1))), "an_index");
  EXPECT_EQ(name_with(index_of(kNumber, Document().add("partialFilterExpression", kHasNumber))),
            "an_index");
}

TEST(VerifyOrder, IsNotThatOfOthers) {
  const Document numbers = Document().add("number", Document().add("$type", "number"));
  EXPECT_EQ(name_with(index_of(kNumber, Document().add("partialFilterExpression", numbers))), "");
  EXPECT_EQ(name_with(index_of(kNumber, Document().add("collation", Document()))), "");
  EXPECT_EQ(name_with(index_of(kNumber, Document().add("hidden", true))), "");
  EXPECT_EQ(name_with(index_of(Document().add("number", "hashed"))), "");
  EXPECT_EQ(name_with(index_of(Document().add("a", 1).add("number", 1))), "");
  EXPECT_EQ(name_with(Document().add("spec", index_of(kNumber)).add("buildUUID", 1)), "");
}

TEST(VerifyOrder, HasTheScopeInFront) {
  const std::vector<std::string> scope{"city", "tenant"};
  const Document other = Document().add("tenant", 1).add("city", 1).add("number", 1);
  const Document mixed = Document().add("tenant", 1).add("city", 1).add("number", -1);
  EXPECT_EQ(name_with(index_of(other), scope), "an_index");
  EXPECT_EQ(name_with(index_of(mixed), scope), "");
  EXPECT_EQ(name_with(index_of(kNumber), scope), "");
  EXPECT_EQ(verify_order(target_of(scope), {}).keys,
            (std::vector<std::string>{"city", "tenant", "number"}));
  EXPECT_EQ(verify_order(target_of(scope), std::vector{index_of(other)}).keys,
            (std::vector<std::string>{"tenant", "city", "number"}));
}

TEST(VerifyFind, ReadsNoMoreThanItNeeds) {
  VerifyTarget target = target_of({"tenant"});
  target.field = "bill.number";
  target.beside = {"bill", "tenant"};
  target.among = Document().add("tenant", "a");
  EXPECT_EQ(id_store::mongo::json_of(
                find_verified(target, {{"tenant", "bill.number"}, "i"}, "majority").bytes()),
            R"({ "find" : "orders", "filter" : { "tenant" : "a", "bill.number" : )"
            R"({ "$exists" : true } }, "sort" : { "tenant" : 1, "bill.number" : 1 }, )"
            R"("projection" : { "_id" : 1, "bill" : 1, "tenant" : 1 }, "batchSize" : 5000, )"
            R"("collation" : { "locale" : "simple" }, "readConcern" : { "level" : "majority" }, )"
            R"("hint" : "i" })");
}

TEST(VerifyFind, LooksForTheNumbersOfAGapAsTheyAreWritten) {
  VerifiedSequence sequence;
  sequence.scope = as_text(Document().add("tenant", "a").bytes());
  sequence.format.output = ids::NumberFormat::Output::string;
  sequence.format.prefix = "R";
  EXPECT_EQ(
      id_store::mongo::json_of(find_numbers(target_of({"tenant"}), sequence, {9, 10}).bytes()),
      R"({ "find" : "orders", "filter" : { "tenant" : "a", "number" : { "$in" : )"
      R"([ "R9", "R10" ] } }, "projection" : { "number" : 1 }, )"
      R"("collation" : { "locale" : "simple" } })");
}

}  // namespace verify_commands_test
}  // namespace idproxy::app::jobs
