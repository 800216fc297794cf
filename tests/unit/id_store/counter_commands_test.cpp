#include "id_store/counter_commands.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {
namespace counter_commands_test {

using mongo::Document;

/// The statement for the counter of this tenant.
std::string statement_for(const Document& tenant) {
  ids::CounterPlace place;
  place.db = "idproxy";
  place.collection = "counters";
  place.value_field = "next";
  place.key_is = ids::CounterPlace::KeyIs::document;
  place.key = as_text(tenant.bytes());
  return set_by_hand(place, 7).text();
}

TEST(SetByHand, IsAStatementOfMongosh) {
  const std::string before = R"(db.getSiblingDB("idproxy").getCollection("counters").updateOne()";
  const std::string after = R"(, {$set: {"next": NumberLong("7")}}, {upsert: true}))";
  EXPECT_EQ(statement_for(Document().add("t", "a b")),
            before + R"({ "_id" : { "t" : "a b" } })" + after);
  EXPECT_EQ(statement_for(Document().add("t", std::int32_t{5})),
            before + R"({ "_id" : { "t" : 5 } })" + after);
  EXPECT_EQ(statement_for(Document().add("t", std::int64_t{5})),
            before +
                R"(EJSON.parse("{ \"_id\" : { \"t\" : { \"$numberLong\" : \"5\" } } }", )"
                R"({relaxed: false}))" +
                after);
  const std::array<std::uint8_t, 12> id{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(statement_for(Document().add("t", bson::Type::object_id, id)),
            before +
                R"(EJSON.parse("{ \"_id\" : { \"t\" : { \"$oid\" : )"
                R"(\"0102030405060708090a0b0c\" } } }", {relaxed: false}))" +
                after);
}

// A25: a client chooses its tenant.
TEST(SetByHand, IsLeftOutForATrap) {
  for (const char* tenant : {"a'b", "a`b", "a\"b", "a\\b", "a\nb", "a\xe3\x85\xa4"}) {
    EXPECT_EQ(statement_for(Document().add("t", tenant)), "") << tenant;
  }
}

}  // namespace counter_commands_test
}  // namespace idproxy::id_store
