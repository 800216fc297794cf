#include "net/ending.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/replies.hpp"

namespace idproxy::net {
namespace unreachable_test {

using namespace test;
using Kind = Refusal::Kind;

constexpr std::size_t kLongest = std::size_t{64} * 1024;
const std::string kErrmsg = "mongo-idproxy: cannot reach db1:27017: Connection refused";
const std::string kPing = int_field("ping", 1) + string_field("$db", "admin");

Refusal to(const std::string& request) {
  const Exact exact(request);
  return refuse_unreachable(exact.view(), kErrmsg, 99);
}

/// The refusal with these labels.
std::string refusal(const std::vector<std::string>& labels) {
  return doc(ok(0) + string_field("errmsg", kErrmsg) + int_field("code", 6) +
             string_field("codeName", "HostUnreachable") + texts_field("errorLabels", labels));
}

/// An OP_MSG ping of this length.
std::string ping_of(std::size_t length) {
  const std::string comment = "comment";
  const std::size_t overhead = op_msg(body(doc(kPing + string_field(comment, "")))).size();
  return op_msg(body(doc(kPing + string_field(comment, std::string(length - overhead, 'x')))));
}

TEST(UnreachableMessage, NamesTheServerAndTheReason) {
  EXPECT_EQ(unreachable_text("db1:27017", "Connection refused"), kErrmsg);
}

TEST(UnreachableAnswer, HasTheReasonAndTheLabelsOfARequestThatWasNotSent) {
  const std::string retryable = string_field("insert", "orders") + long_field("txnNumber", 5);
  const struct {
    const char* name;
    std::string fields;
    std::vector<std::string> labels;
  } rows[] = {
      {"ping", kPing, {"RetryableWriteError"}},
      {"write that a driver may repeat", retryable, {"RetryableWriteError", "NoWritesPerformed"}},
      {"in a transaction",
       retryable + bool_field("autocommit", false),
       {"TransientTransactionError"}},
  };
  for (const auto& [name, fields, labels] : rows) {
    SCOPED_TRACE(name);
    const Refusal answer = to(op_msg(body(doc(fields))));
    ASSERT_EQ(answer.kind, Kind::reply);
    EXPECT_EQ(text_of(answer.reply.view()), addressed(op_msg(body(refusal(labels))), 99, 7));
  }
}

TEST(UnreachableAnswer, IsForTheFirstRequestAlone) {
  const std::string first = op_msg(body(doc(kPing)));
  const Refusal answer = to(first + op_msg(body(doc(int_field("hello", 1)))));
  ASSERT_EQ(answer.kind, Kind::reply);
  EXPECT_EQ(text_of(answer.reply.view()), text_of(to(first).reply.view()));
}

TEST(UnreachableAnswer, NeedsTheWholeRequest) {
  const std::string ping = op_msg(body(doc(kPing)));
  for (std::size_t cut = 0; cut < ping.size(); ++cut) {
    const Refusal answer = to(ping.substr(0, cut));
    EXPECT_EQ(answer.kind, Kind::need_more) << cut;
    EXPECT_EQ(answer.bytes, cut < wire::kHeaderSize ? wire::kHeaderSize : ping.size()) << cut;
    EXPECT_TRUE(answer.reply.empty());
  }
}

TEST(UnreachableAnswer, DoesNotWaitForALargeRequest) {
  const std::string longest = ping_of(kLongest);
  EXPECT_EQ(to(longest.substr(0, 16)).kind, Kind::need_more);
  EXPECT_EQ(to(longest).kind, Kind::reply);
  const std::string longer = ping_of(kLongest + 1);
  EXPECT_EQ(to(longer.substr(0, 16)).kind, Kind::close);
  EXPECT_EQ(to(longer).kind, Kind::close);
}

TEST(UnreachableAnswer, IsTheEndForHello) {
  for (const char* name : {"hello", "isMaster", "ismaster"}) {
    const std::string hello = doc(int_field(name, 1));
    EXPECT_EQ(to(op_msg(body(hello))).kind, Kind::close) << name;
    EXPECT_EQ(to(op_query("admin.$cmd", hello)).kind, Kind::close) << name;
  }
}

TEST(UnreachableAnswer, IsTheEndForWhatCannotBeAnswered) {
  const auto with_length = [](std::int32_t length) { return i32(length) + std::string(12, '\1'); };
  const struct {
    const char* name;
    std::string bytes;
  } rows[] = {
      {"nobody waits", op_msg(body(doc(kPing)), wire::flag::kMoreToCome)},
      {"OP_GET_MORE", test::message(2005, std::string(40, '\0'))},
      {"OP_COMPRESSED", test::message(2012, "anything")},
      {"no command", op_msg(body(doc()))},
      {"a header alone", test::message(2013, "")},
      {"length 15", with_length(15)},
      {"length 0", with_length(0)},
      {"negative length", with_length(-1)},
      {"greatest length", with_length(0x7fffffff)},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(20, '\0')},
  };
  for (const auto& [name, bytes] : rows) EXPECT_EQ(to(bytes).kind, Kind::close) << name;
}

}  // namespace unreachable_test
}  // namespace idproxy::net
