#include "idproxy/rewrite/reply.hpp"

#include <gtest/gtest.h>

#include "support/replies.hpp"

namespace idproxy::rewrite {
namespace reply_test {

using namespace test;

constexpr std::uint32_t kChecksum = wire::flag::kChecksumPresent;
const std::string kRetryable(kRetryableWriteError);
const std::string kTransient(kTransientTransactionError);
const std::string kNoWrites(kNoWritesPerformed);

std::string shutting_down(const std::vector<std::string>& labels) {
  return doc(ok(0) + string_field("errmsg", "mongo-idproxy is shutting down") +
             int_field("code", 91) + string_field("codeName", "ShutdownInProgress") +
             (labels.empty() ? "" : texts_field("errorLabels", labels)));
}

/// The answer, behind what was there before; or "none".
std::string answer(std::string_view request) {
  const Exact exact(request);
  Buffer out;
  out.append(as_bytes("before"));
  const bool answered = append_shutdown_reply(exact.view(), 11, out);
  EXPECT_EQ(text_of(out.view()).substr(0, 6), "before");
  EXPECT_EQ(answered, out.size() > 6);
  return answered ? text_of(out.view()).substr(6) : "none";
}

TEST(ShutdownReply, HasTheLabelThatMakesADriverTryAgain) {
  const std::string outside = long_field("txnNumber", 5);
  const std::string inside = outside + bool_field("autocommit", false);
  const struct {
    const char* name;
    std::string fields;
    std::vector<std::string> labels;
  } rows[] = {
      {"insert", string_field("insert", "orders"), {kRetryable}},
      {"retryable insert", string_field("insert", "orders") + outside, {kRetryable, kNoWrites}},
      {"retryable update", string_field("update", "orders") + outside, {kRetryable, kNoWrites}},
      {"find", string_field("find", "orders"), {kRetryable}},
      {"getMore", long_field("getMore", 5), {kRetryable}},
      {"autocommit that is true",
       int_field("find", 1) + bool_field("autocommit", true),
       {kRetryable}},
      {"insert in a transaction", string_field("insert", "orders") + inside, {kTransient}},
      {"first in a transaction",
       string_field("find", "o") + inside + bool_field("startTransaction", true),
       {kTransient}},
      {"commitTransaction", int_field("commitTransaction", 1) + inside, {kRetryable}},
      {"abortTransaction", int_field("abortTransaction", 1) + inside, {kRetryable}},
      {"hello", int_field("hello", 1), {}},
      {"isMaster", int_field("isMaster", 1), {}},
      {"ismaster", int_field("ismaster", 1), {}},
  };
  for (const auto& [name, fields, labels] : rows) {
    SCOPED_TRACE(name);
    const std::string document = shutting_down(labels);
    for (const std::uint32_t flags : {0U, kChecksum, wire::flag::kExhaustAllowed}) {
      EXPECT_EQ(answer(op_msg(body(doc(fields)), flags)),
                addressed(op_msg(body(document), flags & kChecksum), 11, 7));
    }
    EXPECT_EQ(answer(op_msg(sequence("x", {doc()}) + body(doc(fields)))),
              addressed(op_msg(body(document)), 11, 7));
    EXPECT_EQ(answer(op_query("shop.$cmd", doc(fields))), addressed(op_reply(document), 11, 7));
    EXPECT_EQ(answer(op_query("shop.$cmd", doc(doc_field("$query", fields)))),
              addressed(op_reply(document), 11, 7));
  }
}

TEST(ShutdownReply, IsNoneWhereNobodyWaitsOrNothingCanBeRead) {
  const std::string insert = body(doc(insert_fields()));
  const struct {
    const char* name;
    std::string bytes;
  } rows[] = {
      {"moreToCome", op_msg(insert, wire::flag::kMoreToCome)},
      {"OP_INSERT", message(2002, i32(0) + std::string("shop.o\0", 7) + doc())},
      {"OP_COMPRESSED", message(2012, "anything")},
      {"OP_GET_MORE", message(2005, std::string(40, '\0'))},
      {"unknown", message(4711, "anything")},
      {"header only", message(2013, "")},
      {"two bodies", op_msg(insert + insert)},
      {"empty body", op_msg(body(doc()))},
      {"OP_QUERY on a collection, whose reader would take an error for a document",
       op_query("shop.orders", doc(int_field("x", 1)))},
      {"OP_QUERY cut", op_query("shop.$cmd", "")},
  };
  for (const auto& [name, bytes] : rows) EXPECT_EQ(answer(bytes), "none") << name;
}

TEST(ShutdownReply, IsNoneToAMessageThatIsCut) {
  const std::string fields = string_field("find", "orders") + bool_field("autocommit", false);
  for (const std::string& whole : {op_msg(body(doc(fields)), kChecksum),
                                   op_query("shop.$cmd", doc(doc_field("query", fields)))}) {
    for (std::size_t size = wire::kHeaderSize; size < whole.size(); ++size) {
      EXPECT_EQ(answer(whole.substr(0, size)), "none") << size;
    }
  }
}

TEST(ShutdownReply, EndsAStreamOfHellos) {
  Buffer out;
  append_shutdown_reply_to(4711, 11, out);
  EXPECT_EQ(text_of(out.view()), addressed(op_msg(body(shutting_down({}))), 11, 4711));
}

TEST(ErrorReply, AnswersWhatCannotBeRead) {
  const CommandError error{ErrorCode::invalid_bson, "text", kRetryableWriteError};
  const std::string document =
      doc(ok(0) + string_field("errmsg", "text") + int_field("code", 22) +
          string_field("codeName", "InvalidBSON") + texts_field("errorLabels", {kRetryable}));
  const auto reply = [&](std::string_view request) {
    const Exact exact(request);
    Buffer out;
    append_error_reply(exact.view(), 11, error, out);
    return text_of(out.view());
  };
  const std::string plain = addressed(op_msg(body(document)), 11, 7);
  EXPECT_EQ(reply(message(2013, "")), plain);
  EXPECT_EQ(reply(message(2013, "\1")), plain);
  EXPECT_EQ(reply(message(2013, i32(0))), plain);
  EXPECT_EQ(reply(message(2013, i32(1))), addressed(op_msg(body(document), kChecksum), 11, 7));
  EXPECT_EQ(reply(message(2004, "")), addressed(op_reply(document), 11, 7));
}

TEST(FailureOfLater, HasNotTheLabelThatIsTrueOfItAlone) {
  const auto failure = [](const std::vector<std::string>& labels) {
    return doc(ok(0) + texts_field("errorLabels", labels) + int_field("code", 10107));
  };
  const auto told = [](const std::string& document) {
    const Exact exact(op_msg(body(document), kChecksum));
    Buffer out;
    append_failure_of_later(*wire::OpMsgView::parse(exact.view()), 4711, out);
    return text_of(out.view());
  };
  const auto as = [](const std::string& document) {
    return addressed(op_msg(body(document), kChecksum), 7, 4711);
  };
  EXPECT_EQ(told(failure({kRetryable, kNoWrites})), as(failure({kRetryable})));
  EXPECT_EQ(told(failure({kNoWrites, kRetryable})), as(failure({kRetryable})));
  EXPECT_EQ(told(failure({kRetryable})), as(failure({kRetryable})));
  const std::string odd = doc(ok(0) + string_field("errorLabels", kNoWrites));
  EXPECT_EQ(told(odd), as(odd));
}

}  // namespace reply_test
}  // namespace idproxy::rewrite
