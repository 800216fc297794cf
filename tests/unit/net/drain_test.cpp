#include "net/ending.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "support/messages.hpp"

namespace idproxy::net::drain {
namespace drain_test {

using namespace test;
using Kind = Refusal::Kind;

// ---- when a connection closes ------------------------------------------------------------------

TEST(DrainNext, LooksForARequestBeforeItCloses) {
  EXPECT_EQ(next({}), Next::read);
  EXPECT_EQ(next({.seen_empty = true}), Next::close);
}

TEST(DrainNext, ClosesWithoutLookingIfNoRequestIsReadAnyMore) {
  EXPECT_EQ(next({.ended = true}), Next::close);
  EXPECT_EQ(next({.inside_message = true, .ended = true}), Next::close)
      << "the rest of the message will not be read";
}

TEST(DrainNext, WaitsWhileSomethingIsUnderWay) {
  const struct {
    const char* name;
    Progress progress;
  } rows[] = {
      {"a handshake", {.handshaking = true}},
      {"an exchange", {.busy = true}},
      {"unsent bytes", {.unsent = true}},
      {"one reply", {.outstanding = 1}},
      {"many replies", {.outstanding = std::numeric_limits<std::uint64_t>::max()}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const bool seen_empty : {false, true}) {
      for (const bool ended : {false, true}) {
        Progress progress = row.progress;
        progress.seen_empty = seen_empty;
        progress.ended = ended;
        EXPECT_EQ(next(progress), Next::wait);
      }
    }
  }
}

TEST(DrainNext, WaitsForTheRestOfAMessage) {
  EXPECT_EQ(next({.inside_message = true}), Next::wait);
  EXPECT_EQ(next({.inside_message = true, .seen_empty = true}), Next::wait);
}

// ---- late requests -----------------------------------------------------------------------------

constexpr std::size_t kLongest = std::size_t{1024} * 1024;
const std::string kPing = op_msg(body(doc(int_field("ping", 1) + string_field("$db", "admin"))));

Refusal refuse(const std::string& request) {
  const Exact exact(request);
  return refuse_late(exact.view(), request.size(), 99);
}

/// An OP_MSG ping of this length.
std::string ping_of(std::size_t length) {
  const std::size_t overhead =
      op_msg(body(doc(int_field("ping", 1) + string_field("comment", "")))).size();
  return op_msg(body(
      doc(int_field("ping", 1) + string_field("comment", std::string(length - overhead, 'x')))));
}

TEST(DrainRefuse, AnswersACommandWithShutdownInProgress) {
  const Refusal late = refuse(kPing);
  ASSERT_EQ(late.kind, Kind::reply);
  const auto reply = wire::OpMsgView::parse(late.reply.view());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header().request_id, 99);
  EXPECT_EQ(reply->header().response_to, 7);
  const std::string fields = text_of(reply->body());
  EXPECT_NE(fields.find(int_field("code", 91)), std::string::npos);
  EXPECT_NE(fields.find(string_field("codeName", "ShutdownInProgress")), std::string::npos);
}

TEST(DrainRefuse, AnswersALegacyQueryInItsOwnForm) {
  const Refusal late = refuse(op_query("admin.$cmd", doc(int_field("isMaster", 1))));
  ASSERT_EQ(late.kind, Kind::reply);
  const auto header = wire::read_header(late.reply.view());
  EXPECT_EQ(header.op_code, wire::OpCode::reply);
  EXPECT_EQ(header.response_to, 7);
}

TEST(DrainRefuse, NeedsTheWholeMessage) {
  for (std::size_t cut = 0; cut < kPing.size(); ++cut) {
    const Exact front(std::string_view(kPing).substr(0, cut));
    const Refusal late = refuse_late(front.view(), kPing.size(), 99);
    EXPECT_EQ(late.kind, Kind::need_more) << cut;
    EXPECT_TRUE(late.reply.empty());
  }
}

TEST(DrainRefuse, DoesNotWaitForALongMessage) {
  const std::string longest = ping_of(kLongest);
  EXPECT_EQ(refuse(longest).kind, Kind::reply);
  EXPECT_EQ(refuse_late(as_bytes(longest).first(16), kLongest, 99).kind, Kind::need_more);
  EXPECT_EQ(refuse_late(as_bytes(longest).first(16), kLongest + 1, 99).kind, Kind::close);
  EXPECT_EQ(refuse(ping_of(kLongest + 1)).kind, Kind::close);
}

TEST(DrainRefuse, EndsForAMessageThatCannotBeAnswered) {
  const struct {
    const char* name;
    std::string request;
  } rows[] = {
      {"OP_GET_MORE",
       message(2005, i32(0) + std::string("shop.orders\0", 12) + i32(0) + std::string(8, '\0'))},
      {"an unknown opcode", message(4711, "?")},
      {"a header alone", message(2013, "")},
      {"no sections", message(2013, i32(0))},
      {"an empty command", op_msg(body(doc()))},
      {"a query of a collection", op_query("shop.orders", doc(int_field("x", 1)))},
      {"no reply expected", op_msg(body(doc(int_field("ping", 1))), wire::flag::kMoreToCome)},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Refusal late = refuse(row.request);
    EXPECT_EQ(late.kind, Kind::close);
    EXPECT_TRUE(late.reply.empty());
  }
}

}  // namespace drain_test
}  // namespace idproxy::net::drain
