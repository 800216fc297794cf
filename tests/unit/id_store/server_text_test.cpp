#include "id_store/server_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idproxy::id_store {
namespace server_text_test {

using testing::HasSubstr;
using testing::Not;

struct Case {
  std::int32_t code;
  const char* said;
  const char* kept;
};

/// As servers have said it: 6.0.5, and FerretDB 1.24.2 (238).
constexpr Case kCases[] = {
    {238, R"(support for field "fields" is not implemented yet)",
     R"(support for field "fields" is not implemented yet)"},
    {40415, "BSON field 'find.zork' is an unknown field.",
     "BSON field 'find.zork' is an unknown field."},
    {59, "no such command: 'findAndModify'", "no such command: 'findAndModify'"},
    {11000, R"(E11000 duplicate key error collection: a.b index: n_1 dup key: { n: "SECRET" })",
     "E11000 duplicate key error collection: a.b index: n_1 …"},
    {11000,
     R"(E11000 duplicate key error collection: a.b index: n_1 collation: { locale: "de" } dup key: )",
     "E11000 duplicate key error collection: a.b index: n_1 …"},
    {13, R"(not authorized on idproxy to execute command { find: "c", filter: { _id: "SECRET" } })",
     "not authorized on idproxy …"},
    {2, "Failed to apply $inc operations to current value ((NumberLong)77) for document {_id: 5}",
     "Failed to apply $inc operations to current value …"},
    {14,
     R"(Cannot apply $inc to a value of non-numeric type. {_id: "SECRET"} has the field 'COUNT')",
     "Cannot apply $inc to a value of non-numeric type. …"},
    {241, "Failed to parse number 'SECRET' in $convert with no onError value",
     "Failed to parse number …"},
    {10334, "BSONObj size: 17 (0x11) is invalid. First element: _id: 'SECRET'", "BSONObj size: …"},
    {121, "Document failed validation", "Document failed validation"},
    {9, "77", ""},
    {0, "", ""},
};

TEST(ServerText, KeepsWhatIsNoValue) {
  for (const Case& each : kCases) EXPECT_EQ(server_text(each.code, each.said), each.kept);
}

TEST(ServerText, IsOneLineOfTextWithABound) {
  EXPECT_EQ(server_text(59, "a\nb\x01 \xff!"), "a\\u000ab\\u0001 \xef\xbf\xbd!");
  const std::string is_long = server_text(59, std::string(299, 'x') + "äöü");
  EXPECT_EQ(is_long, std::string(299, 'x') + "…");
}

TEST(ServerText, HasTheNameOfTheCode) {
  mongo::Reply reply;
  reply.kind = mongo::Reply::Kind::refused;
  reply.code = 238;
  reply.message = "not implemented";
  EXPECT_EQ(error_text(reply), "error 238: not implemented");
  reply.document = mongo::Document().add("codeName", "NotImplemented");
  EXPECT_EQ(error_text(reply), "error 238 NotImplemented: not implemented");
  reply.message.clear();
  EXPECT_EQ(error_text(reply), "error 238 NotImplemented");
}

}  // namespace server_text_test
}  // namespace idproxy::id_store
