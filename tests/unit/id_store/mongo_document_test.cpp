#include <gtest/gtest.h>

#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store::mongo {
namespace {

std::string json(const Document& document) {
  return json_of(document.bytes());
}

TEST(MongoDocument, IsWrittenAsItIsRead) {
  const Document find{
      {"find", "orders"}, {"filter", {"_id", {"$in", Array{1, "a"}}}}, {"limit", 1}};
  EXPECT_EQ(json(find),
            R"({ "find" : "orders", "filter" : { "_id" : { "$in" : [ 1, "a" ] } }, "limit" : 1 })");
}

TEST(MongoDocument, TakesTheElementsOfOthers) {
  const Document identity{{"_id", "a"}, {"b", true}};
  EXPECT_EQ(json({identity, {"n", std::int64_t{2}}}), R"({ "_id" : "a", "b" : true, "n" : 2 })");
  EXPECT_EQ(json({"q", {identity}}), R"({ "q" : { "_id" : "a", "b" : true } })");
  EXPECT_EQ(json({Document(), {"q", Document()}}), R"({ "q" : {  } })");
}

TEST(MongoDocument, ElementsAreInTheOrderInWhichTheyAreWritten) {
  int n = 0;
  EXPECT_EQ(json({{"a", ++n}, {"b", ++n}, {"c", Array{Document{"d", ++n}, ++n}}}),
            R"({ "a" : 1, "b" : 2, "c" : [ { "d" : 3 }, 4 ] })");
}

}  // namespace
}  // namespace idproxy::id_store::mongo
