#include "idproxy/rewrite/hello.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace {

using namespace test;

/// The patched message, or "other", "as it is".
std::string patched(std::string_view bytes) {
  const Exact exact(bytes);
  wire::PatchedMessage out;
  switch (patch_hello_request(exact.view(), out)) {
    case HelloRequest::other:
      return "other";
    case HelloRequest::as_it_is:
      return "as it is";
    case HelloRequest::patched:
      break;
  }
  Buffer copy;
  out.copy(exact.view(), 0, copy);
  return text_of(copy.view());
}

const std::string kCompression =
    element(bson::Type::array, "compression", doc(string_field("0", "zlib")));
const std::string kHello = int_field("hello", 1);
const std::string kRest = string_field("$db", "admin");

TEST(PatchHelloRequest, TakesCompressionOut) {
  for (const std::uint32_t flags :
       {0U, wire::flag::kChecksumPresent, wire::flag::kExhaustAllowed}) {
    EXPECT_EQ(patched(op_msg(body(doc(kHello + kCompression + kRest)), flags)),
              op_msg(body(doc(kHello + kRest)), flags));
  }
  EXPECT_EQ(
      patched(op_msg(sequence("x", {}) + body(doc(kHello + kCompression)) + sequence("y", {}))),
      op_msg(sequence("x", {}) + body(doc(kHello)) + sequence("y", {})));
}

TEST(PatchHelloRequest, LeavesAllElse) {
  EXPECT_EQ(patched(op_msg(body(doc(kHello + kRest)))), "as it is");
  EXPECT_EQ(patched(op_msg(body(doc(int_field("ping", 1) + kCompression)))), "other");
  EXPECT_EQ(patched(op_msg(body(doc(kHello + "\x10")))), "other");
  EXPECT_EQ(patched(op_msg(body(doc()))), "other");
  // Left to mongod's own errors.
  EXPECT_EQ(patched(op_msg(body(doc(kHello + kCompression + kRest + kCompression)))), "other");
  EXPECT_EQ(patched(op_msg(body(doc(kHello + int_field("compression", 1))))), "other");
  const std::string ints = element(bson::Type::array, "compression", doc(int_field("0", 1)));
  EXPECT_EQ(patched(op_msg(body(doc(kHello + ints)))), "other");
}

TEST(PatchHelloRequest, ReadsTheLegacyForms) {
  const auto query = [](std::string_view document) {
    return message(
        2004, i32(4) + std::string("admin.$cmd\0", 11) + i32(0) + i32(-1) + std::string(document));
  };
  const std::string is_master = int_field("isMaster", 1);
  EXPECT_EQ(patched(query(doc(is_master + kCompression))), query(doc(is_master)));
  EXPECT_EQ(patched(query(doc(doc_field("$query", is_master + kCompression) + kRest))),
            query(doc(doc_field("$query", is_master) + kRest)));
  EXPECT_EQ(patched(query(doc(doc_field("$query", int_field("ping", 1) + kCompression)))), "other");
  EXPECT_EQ(patched(query("")), "other");
}

TEST(ReadHelloReply, KnowsAMemberOfAReplicaSet) {
  const std::string document =
      doc(string_field("setName", "rs0") + string_field("me", "db1:27017") + int_field("ok", 1));
  const std::string op_reply = message(1, i32(8) + std::string(12, '\0') + i32(1) + document);
  for (const std::string& bytes : {op_msg(body(document)), op_reply}) {
    const auto reply = read_hello_reply(as_bytes(bytes));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->set_name, "rs0");
    EXPECT_EQ(reply->me, "db1:27017");
  }
  EXPECT_TRUE(read_hello_reply(as_bytes(op_msg(body(doc()))))->set_name.empty());
  EXPECT_FALSE(read_hello_reply(as_bytes(message(1, "short"))));
}

}  // namespace
}  // namespace idproxy::rewrite
