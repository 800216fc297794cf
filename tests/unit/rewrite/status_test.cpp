#include "rewrite/status.hpp"

#include <gtest/gtest.h>

#include "support/replies.hpp"

namespace idproxy::rewrite {
namespace status_test {

using namespace test;

const std::string kAdmin = string_field("$db", "admin");
const std::string kStatus = string_field("idproxy", "status");
constexpr std::uint32_t kChecksum = wire::flag::kChecksumPresent;
const std::string kTimes = doc_field("$clusterTime", timestamp_field("clusterTime", 5)) +
                           timestamp_field("operationTime", 4);

std::string request(std::string_view fields = {}, std::uint32_t flags = 0) {
  return addressed(op_msg(body(doc(kStatus + kAdmin + std::string(fields))), flags), 11, 0);
}

// --- The request ---

std::string fault(std::string_view fields) {
  const Exact exact(op_msg(body(doc(fields))));
  const auto error = fault_of_status_request(*wire::OpMsgView::parse(exact.view()));
  if (!error) return "";
  return std::to_string(static_cast<int>(error->code)) + " " + error->message;
}

TEST(StatusRequest, IsForAdminAlone) {
  const std::string only_admin = "13 idproxy may only be run against the admin database.";
  EXPECT_EQ(fault(kStatus + kAdmin), "");
  EXPECT_EQ(fault(kAdmin + kStatus),
            "2 mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: \"next\"}, and "
            "nothing else");
  EXPECT_EQ(fault(kStatus + long_field("maxTimeMS", 1) + kAdmin), "");
  EXPECT_EQ(fault(kStatus + string_field("$db", "test")), only_admin);
  EXPECT_EQ(fault(kStatus + string_field("$db", "Admin")), only_admin);
  EXPECT_EQ(fault(kStatus + int_field("$db", 1)), only_admin);
  EXPECT_EQ(fault(kStatus), only_admin);
  EXPECT_EQ(fault(int_field("idproxy", 1) + string_field("$db", "test")), only_admin);
}

TEST(StatusRequest, KnowsOneWord) {
  for (const std::string& what :
       {int_field("idproxy", 1), string_field("idproxy", "Status"), string_field("idproxy", ""),
        string_field("idproxy", "status", bson::Type::symbol), doc_field("idproxy", kStatus)}) {
    EXPECT_EQ(fault(what + kAdmin),
              "2 mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: \"next\"}, and "
              "nothing else");
  }
}

TEST(StatusRequest, AsksTheServerForNothingElse) {
  for (const std::uint32_t flags : {0U, kChecksum, wire::flag::kExhaustAllowed}) {
    const Exact exact(request(doc_field("lsid", "") + long_field("txnNumber", 1), flags));
    wire::PatchedMessage out;
    ask_for_right(*wire::OpMsgView::parse(exact.view()), out);
    EXPECT_FALSE(out.borrows());
    Buffer copy;
    out.copy({}, 0, copy);
    EXPECT_EQ(
        text_of(copy.view()),
        addressed(op_msg(body(doc(int_field("hostInfo", 1) + kAdmin)), flags & kChecksum), 11, 0));
  }
}

// --- The reply ---

const std::string kStatusFields = string_field("version", "1.2.3") + array_field("rules", {});

/// The answer, or "not understood".
std::string answer(std::string_view server, std::uint32_t request_flags = 0) {
  const Exact asked(request("", request_flags));
  const Exact sent(server);
  const auto request = *wire::OpMsgView::parse(asked.view());
  const auto reply = *wire::OpMsgView::parse(sent.view());
  const auto permits = permits_status(reply);
  if (!permits) return "not understood";
  Buffer out;
  out.append(as_bytes("before"));
  const Exact document(doc(kStatusFields));
  *permits ? append_status_reply(request, reply, document.view(), out)
           : append_status_refusal(request, reply, out);
  EXPECT_EQ(text_of(out.view()).substr(0, 6), "before");
  return text_of(out.view()).substr(6);
}

TEST(StatusReply, HasTheDocumentAndTheServersTimes) {
  const std::string reply = reply_message(string_field("extra", "x") + ok() + kTimes, 11);
  EXPECT_EQ(answer(reply), reply_message(kStatusFields + ok() + kTimes, 11));
  EXPECT_EQ(answer(reply_message(ok(), 11)), reply_message(kStatusFields + ok(), 11));
}

TEST(StatusReply, HasAChecksumIfTheRequestHas) {
  const std::string fields = kStatusFields + ok();
  for (const std::uint32_t flags : {0U, kChecksum}) {
    for (const std::uint32_t server_flags : {0U, kChecksum}) {
      EXPECT_EQ(answer(reply_message(ok(), 11, server_flags), flags),
                reply_message(fields, 11, flags));
      EXPECT_EQ(answer(reply_message(failure(91, "ends"), 11, server_flags), flags),
                reply_message(failure(91, "ends"), 11, flags));
    }
  }
}

// --- Errors ---

TEST(StatusReply, NamesTheRightThatIsNeeded) {
  const auto error = [](const std::string& text) {
    return reply_message(ok(0) + string_field("errmsg", text) + int_field("code", 13) +
                             string_field("codeName", "Unauthorized") + kTimes,
                         11);
  };
  EXPECT_EQ(answer(error("command hostInfo requires authentication")),
            error("mongo-idproxy: the status is for those who may do hostInfo on the cluster, "
                  "which the role clusterMonitor includes; the server says: command hostInfo "
                  "requires authentication"));
}

TEST(StatusReply, PassesOtherErrorsOn) {
  const std::string version = doc_field(
      "topologyVersion",
      element(bson::Type::object_id, "processId", std::string(12, 'p')) + long_field("counter", 3));
  for (const std::string& fields :
       {failure(91, "The server is in quiesce mode", {"RetryableWriteError"}) + version + kTimes,
        ok(0), int_field("ok", 0) + int_field("errmsg", 1) + int_field("code", 13)}) {
    EXPECT_EQ(answer(reply_message(fields, 11)), reply_message(fields, 11));
  }
}

TEST(StatusReply, IsNoneIfTheServersCannotBeUnderstood) {
  for (const std::string& fields :
       {std::string(), ok() + ok(), ok(2), ok(0.5), string_field("ok", "1"), ok() + "\x10",
        string_field("errmsg", "no ok"), ok() + element(bson::Type::string, "errmsg", i32(99))}) {
    EXPECT_EQ(answer(reply_message(fields, 11)), "not understood");
  }
}

TEST(StatusReply, NeedsAWholeReply) {
  const std::string last = kTimes;
  const std::string fields = failure(13, "no") + last;
  const std::size_t ends[] = {
      ok(0).size(), (ok(0) + string_field("errmsg", "no")).size(), failure(13, "no").size(),
      fields.size() - timestamp_field("operationTime", 4).size(), fields.size()};
  for (std::size_t cut = 0; cut <= fields.size(); ++cut) {
    const bool whole = std::ranges::find(ends, cut) != std::end(ends);
    EXPECT_EQ(answer(reply_message(fields.substr(0, cut), 11)) != "not understood", whole) << cut;
  }
}

}  // namespace status_test
}  // namespace idproxy::rewrite
