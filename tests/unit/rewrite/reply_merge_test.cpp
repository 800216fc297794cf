#include "idproxy/rewrite/reply_merge.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "support/replies.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace reply_merge_test {

using namespace test;

/// A reply to a command that carried these documents of the batch.
struct Answer {
  std::string fields;
  std::vector<std::int32_t> documents;
  std::uint32_t flags = 0;
};

void add(ReplyMerge& merge, const Answer& answer) {
  const Exact exact(reply_message(answer.fields, 99, answer.flags));
  const auto message = wire::OpMsgView::parse(exact.view());
  const auto reply = WriteReply::read(message->body(), answer.documents.size());
  ASSERT_TRUE(reply);
  merge.add(*message, *reply, answer.documents);
}

/// The merged reply, checked to be one whole OP_MSG; its body's fields.
std::string merged(const std::vector<Answer>& answers,
                   const std::vector<RefusedDocument>& refused = {},
                   const std::vector<Assigned>& assigned = {}) {
  ReplyMerge merge;
  for (const Answer& answer : answers) add(merge, answer);
  Buffer out;
  merge.append(7, refused, assigned, out);
  const auto view = wire::OpMsgView::parse(out.view());
  if (!view) return "no OP_MSG";
  EXPECT_EQ(view->header().message_length, static_cast<std::int32_t>(out.size()));
  EXPECT_EQ(view->header().response_to, 7);
  EXPECT_EQ(load_u32(out.view().data() + wire::kFlagsOffset), answers.back().flags);
  const std::string body = text_of(view->body());
  return body.substr(4, body.size() - 5);
}

std::string op_time(std::int64_t term, std::uint64_t time) {
  return doc_field("opTime", timestamp_field("ts", time) + long_field("t", term));
}
std::string cluster_time(std::uint64_t time, const std::string& signed_by) {
  return doc_field("$clusterTime", timestamp_field("clusterTime", time) +
                                       doc_field("signature", string_field("hash", signed_by)));
}
std::string operation_time(std::uint64_t time) {
  return timestamp_field("operationTime", time);
}
std::string election(char id) {
  return element(bson::Type::object_id, "electionId", std::string(12, id));
}
std::string concern_error(std::int32_t code) {
  return doc_field("writeConcernError", int_field("code", code));
}
std::string labels(const std::vector<std::string>& all) {
  return texts_field("errorLabels", all);
}
std::string retried(const std::vector<std::int32_t>& all) {
  return numbers_field("retriedStmtIds", all);
}

/// Each field alone, between n and ok or behind them: of a batch of three documents, of which the
/// second went again.
TEST(ReplyMerge, MergesFieldByField) {
  const std::uint64_t large = std::uint64_t{0xF000'0000} << 32;  // past the sign of an int64
  const struct {
    const char* name;
    std::string first, last, both;
  } rows[] = {
      {"n is the sum", n(2) + ok(), n(1) + ok(), n(3) + ok()},
      {"n in a long", long_field("n", 2) + ok(), n(1) + ok(), n(3) + ok()},
      {"no n at all", ok(), ok(), ok()},
      {"an error that is cured", n(2) + write_errors({duplicate(1)}) + ok(), n(1) + ok(),
       n(3) + ok()},
      {"an error that takes its place", n(2) + write_errors({duplicate(1)}) + ok(),
       n(0) + write_errors({write_error(0, 121)}) + ok(),
       n(2) + write_errors({write_error(1, 121)}) + ok()},
      {"errors of others stay",
       n(0) + write_errors({write_error(0, 2), duplicate(1), duplicate(2, {"x"})}) + ok(),
       n(1) + ok(), n(1) + write_errors({write_error(0, 2), duplicate(2, {"x"})}) + ok()},
      {"an empty writeErrors", n(2) + write_errors({}) + ok(), n(1) + write_errors({}) + ok(),
       n(3) + ok()},
      {"retriedStmtIds of both", n(2) + retried({0, 2}) + ok(), n(1) + retried({1, 0}) + ok(),
       n(3) + retried({0, 2, 1}) + ok()},
      {"retriedStmtIds of the first", n(2) + retried({-7}) + ok(), n(1) + ok(),
       n(3) + retried({-7}) + ok()},
      {"labels of both", n(2) + concern_error(91) + ok() + labels({"A", "B"}),
       n(1) + concern_error(91) + ok() + labels({"C", "A"}),
       n(3) + concern_error(91) + ok() + labels({"A", "B", "C"})},
      {"a label that is not true of all", n(2) + ok(),
       n(0) + concern_error(91) + ok() + labels({"A", "NoWritesPerformed"}),
       n(2) + concern_error(91) + ok() + labels({"A"})},
      {"nor is there another", n(2) + ok(),
       n(0) + concern_error(91) + ok() + labels({"NoWritesPerformed"}),
       n(2) + concern_error(91) + ok()},
      {"a label that is", n(0) + ok(),
       n(0) + concern_error(91) + ok() + labels({"NoWritesPerformed"}),
       n(0) + concern_error(91) + ok() + labels({"NoWritesPerformed"})},
      {"labels of an error that is gone", n(2) + concern_error(91) + ok() + labels({"A"}),
       n(1) + ok(), n(3) + ok()},
      {"writeConcernError of the last", n(2) + ok(), n(1) + concern_error(64) + ok(),
       n(3) + concern_error(64) + ok()},
      {"writeConcernError of both", n(2) + concern_error(91) + ok(),
       n(1) + concern_error(64) + ok(), n(3) + concern_error(64) + ok()},
      {"writeConcernError that is made good", n(2) + concern_error(64) + ok(), n(1) + ok(),
       n(3) + ok()},
      {"electionId of the last", n(2) + election('a') + ok(), n(1) + election('b') + ok(),
       n(3) + election('b') + ok()},
      {"opTime of the greater time", n(2) + op_time(1, 9) + ok(), n(1) + op_time(1, 8) + ok(),
       n(3) + op_time(1, 9) + ok()},
      {"opTime of the greater term", n(2) + op_time(1, 9) + ok(), n(1) + op_time(2, 8) + ok(),
       n(3) + op_time(2, 8) + ok()},
      {"opTime with a term before one without", n(2) + op_time(1, 3) + ok(),
       n(1) + timestamp_field("opTime", 8) + ok(), n(3) + op_time(1, 3) + ok()},
      {"opTime past the sign bit", n(2) + op_time(1, large) + ok(), n(1) + op_time(1, 8) + ok(),
       n(3) + op_time(1, large) + ok()},
      {"operationTime, the greater", n(2) + ok() + operation_time(9),
       n(1) + ok() + operation_time(8), n(3) + ok() + operation_time(9)},
      {"$clusterTime, the later whole", n(2) + ok() + cluster_time(9, "nine"),
       n(1) + ok() + cluster_time(8, "eight"), n(3) + ok() + cluster_time(9, "nine")},
      {"$clusterTime, the last whole", n(2) + ok() + cluster_time(8, "eight"),
       n(1) + ok() + cluster_time(9, "nine"), n(3) + ok() + cluster_time(9, "nine")},
      {"$clusterTime, equal: the last", n(2) + ok() + cluster_time(8, "old"),
       n(1) + ok() + cluster_time(8, "new"), n(3) + ok() + cluster_time(8, "new")},
      {"$clusterTime of no document", n(2) + ok() + cluster_time(8, "eight"),
       n(1) + ok() + int_field("$clusterTime", 9), n(3) + ok() + cluster_time(8, "eight")},
      {"ok as the last has it", n(2) + ok(), n(1) + int_field("ok", 1), n(3) + int_field("ok", 1)},
      {"unknown fields of the last", n(2) + int_field("x", 1) + ok() + int_field("y", 1),
       n(1) + doc_field("recoveryToken", "") + ok() + int_field("z", 1),
       n(3) + doc_field("recoveryToken", "") + ok() + int_field("z", 1)},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(merged({{row.first, {0, 1, 2}}, {row.last, {1}}}), row.both) << row.name;
  }
}

/// What the last reply lacks goes where mongod has it.
TEST(ReplyMerge, KeepsTheOrderOfFields) {
  const std::string times = cluster_time(9, "s") + operation_time(9);
  const std::string first = n(2) + election('e') + op_time(1, 5) + write_errors({duplicate(0)}) +
                            retried({2}) + concern_error(64) + ok() + labels({"A"}) + times;
  const std::string last = n(0) + election('e') + op_time(1, 9) + concern_error(64) + ok() + times;
  EXPECT_EQ(merged({{first, {0, 1, 2}}, {last, {}}}),
            n(2) + election('e') + op_time(1, 9) + write_errors({duplicate(0)}) + retried({2}) +
                concern_error(64) + ok() + labels({"A"}) + times);
  // One reply alone comes out as it went in.
  EXPECT_EQ(merged({{first, {0, 1, 2}}}), first);
}

/// Fields of a bulkWrite's reply that nobody has checked in this one.
TEST(ReplyMerge, TakesNoOtherReplyForThatToABulkWrite) {
  const std::string result = doc(double_field("ok", 1) + int_field("idx", 4711));
  const std::string cursor = doc_field("cursor", array_field("firstBatch", {result, doc("")}));
  const std::string others = cursor + string_field("nErrors", "x") + int_field("nInserted", 7);
  EXPECT_EQ(merged({{n(1) + ok(), {0}}, {n(1) + others + ok(), {1}}}), n(2) + others + ok());
}

TEST(ReplyMerge, FindsTheClientsIndexes) {
  const Answer parts[] = {
      {n(1) + write_errors({duplicate(0), write_error(2, 2)}) + ok(), {0, 1, 2}},
      {n(0) + write_errors({duplicate(0), duplicate(1)}) + ok(), {3, 4}},
      {n(1) + write_errors({write_error(1, 121), duplicate(2)}) + ok(), {0, 3, 4}},
      {n(0) + write_errors({duplicate(0)}) + ok(), {4}},
  };
  EXPECT_EQ(merged({parts, parts + 4}),
            n(2) + write_errors({write_error(2, 2), write_error(3, 121), duplicate(4)}) + ok());
  ReplyMerge merge;
  for (const auto& part : parts) add(merge, part);
  std::vector<std::int32_t> failed;
  for (const auto& [document, entry] : merge.errors()) failed.push_back(document);
  EXPECT_EQ(failed, (std::vector<std::int32_t>{2, 3, 4}));
}

TEST(ReplyMerge, AddsUpWhatUpdatesDid) {
  const std::string more = string_field("more", "x");
  const auto entry = [](std::int32_t index, std::int64_t id, std::string_view rest = {}) {
    return doc(int_field("index", index) + long_field("_id", id) + std::string(rest));
  };
  const std::vector<Answer> answers = {
      {n(3) + array_field("upserted", {entry(0, 5), entry(3, 6, more)}) + modified(1) +
           write_errors({duplicate(1)}) + ok(),
       {0, 1, 2, 3}},
      {n(4) + modified(2) + ok(), {1}},
      {n(1) + array_field("upserted", {entry(1, 7)}) + modified(0) + ok(), {4, 5}}};
  EXPECT_EQ(merged(answers),
            n(8) + array_field("upserted", {entry(0, 5), entry(3, 6, more), entry(5, 7)}) +
                modified(3) + ok());
  // The last reply has no such field.
  EXPECT_EQ(merged({answers[0], answers[1]}),
            n(7) + array_field("upserted", {entry(0, 5), entry(3, 6, more)}) + modified(3) + ok());
  // Errors come first.
  const std::string failed = write_errors({write_error(2, 121)});
  const Answer first{
      n(1) + failed + retried({7}) + array_field("upserted", {entry(0, 5)}) + modified(0) + ok(),
      {0, 1, 2}};
  EXPECT_EQ(merged({first}), first.fields);
  EXPECT_EQ(
      merged({first, {n(1) + modified(1) + ok(), {1}}}),
      n(2) + failed + retried({7}) + array_field("upserted", {entry(0, 5)}) + modified(1) + ok());
  ReplyMerge merge;
  for (const Answer& answer : answers) add(merge, answer);
  EXPECT_TRUE(merge.upserted(0) && merge.upserted(3) && merge.upserted(5));
  EXPECT_FALSE(merge.upserted(1) || merge.upserted(4));
}

TEST(ReplyMerge, KeepsAnEntryAsItStoodButForItsIndex) {
  const std::string more = string_field("errmsg", "E11000 \xC3...") +
                           doc_field("keyPattern", int_field("_id", 1)) +
                           doc_field("errInfo", doc_field("details", int_field("x", 1)));
  const std::string entry = doc(int_field("code", 121) + int_field("index", 0) + more);
  EXPECT_EQ(
      merged({{n(0) + write_errors({entry}) + ok(), {41}}}),
      n(0) + write_errors({doc(int_field("index", 41) + int_field("code", 121) + more)}) + ok());
}

TEST(ReplyMerge, SaysWhichStatementsHadBeenExecuted) {
  ReplyMerge merge;
  add(merge, {n(2) + retried({0, -3}) + ok(), {0, 1}});
  add(merge, {n(1) + retried({2'147'483'647}) + ok(), {2}});
  for (const std::int32_t statement : {0, -3, 2'147'483'647}) EXPECT_TRUE(merge.retried(statement));
  EXPECT_FALSE(merge.retried(1));
}

TEST(ReplyMerge, ReplacesTheErrorsOfRefusedDocuments) {
  const std::vector<RefusedDocument> refused = {{1, ErrorCode::path_not_viable, "not viable"},
                                                {3, ErrorCode::bad_value, "twice"}};
  const auto ours = [](std::int32_t index, std::int32_t code, std::string_view text) {
    return write_error(index, code, string_field("errmsg", text));
  };
  EXPECT_EQ(merged({{n(0) +
                         write_errors({write_error(0, 53), write_error(1, 53),
                                       write_error(2, 11000), write_error(3, 53)}) +
                         ok(),
                     {0, 1, 2, 3}}},
                   refused),
            n(0) +
                write_errors({write_error(0, 53), ours(1, 28, "not viable"), write_error(2, 11000),
                              ours(3, 2, "twice")}) +
                ok());
  // Only the error that mongod was made to give.
  EXPECT_EQ(merged({{n(0) + write_errors({write_error(0, 13)}) + ok(), {1}}}, refused),
            n(0) + write_errors({write_error(1, 13)}) + ok());
}

TEST(ReplyMerge, ReportsBehindEverything) {
  const std::string value = i32(42);
  const std::vector<Assigned> assigned = {{0, "_id", bson::Type::int32, as_bytes(value)},
                                          {2, "a.b", bson::Type::int32, as_bytes(value)}};
  const auto entry = [](std::int32_t index, std::string_view field) {
    return doc(int_field("index", index) + string_field("field", field) + int_field("value", 42));
  };
  const std::string fields = n(3) + ok() + operation_time(5);
  EXPECT_EQ(
      merged({{fields, {0, 1, 2}}}, {}, assigned),
      fields + doc_field("idproxy", array_field("assigned", {entry(0, "_id"), entry(2, "a.b")})));
}

TEST(ReplyMerge, KeepsTheChecksumOfTheLastReply) {
  const Answer plain{n(1) + ok(), {0}};
  const Answer checked{n(1) + ok(), {1}, wire::flag::kChecksumPresent};
  EXPECT_EQ(merged({plain, checked}), n(2) + ok());
  EXPECT_EQ(merged({checked, plain}), n(2) + ok());
}

constexpr std::size_t kLargestReply = 16'793'600;

/// 100,000 errors with 30 MB of text: each keeps its index and code.
TEST(ReplyMerge, BoundsTheTextsOfErrors) {
  const std::string text = string_field("errmsg", std::string(300, 'e'));
  std::string errors;
  for (std::int32_t i = 0; i < 20'000; ++i) {
    errors += element(bson::Type::document, "", write_error(i, 11000, text));
  }
  const std::string reply_of_a_part =
      n(0) + element(bson::Type::array, "writeErrors", doc(errors)) + ok();
  ReplyMerge merge;
  for (std::int32_t part = 0; part < 5; ++part) {
    std::vector<std::int32_t> documents(20'000);
    std::iota(documents.begin(), documents.end(), part * 20'000);
    add(merge, {reply_of_a_part, documents});
  }
  Buffer out;
  merge.append(7, {}, {}, out);
  EXPECT_GT(out.size(), 8'000'000U);
  const auto view = wire::OpMsgView::parse(out.view());
  ASSERT_TRUE(view);
  EXPECT_LE(view->body().size(), kLargestReply);
  const auto reply = WriteReply::read(view->body(), 100'000);
  ASSERT_TRUE(reply);
  const auto& merged_errors = reply->errors;
  ASSERT_EQ(merged_errors.size(), 100'000U);
  EXPECT_EQ(merged_errors.back().code, 11000);
  EXPECT_EQ(text_of(merged_errors.back().document),
            write_error(99'999, 11000, string_field("errmsg", "")));
  EXPECT_EQ(text_of(merged_errors.front().document), write_error(0, 11000, text));
}

/// Each of them fits into a reply, both do not.
TEST(ReplyMerge, BoundsTheTextsOfAFewLargeErrors) {
  const std::string text = string_field("errmsg", std::string(9'000'000, 'e'));
  const std::string fields =
      merged({{n(0) + write_errors({write_error(0, 121, text)}) + ok(), {0}},
              {n(0) + write_errors({write_error(0, 121, text)}) + ok(), {1}}});
  EXPECT_TRUE(fields == n(0) +
                            write_errors({write_error(0, 121, text),
                                          write_error(1, 121, string_field("errmsg", ""))}) +
                            ok());
}

TEST(ReplyMerge, BoundsTheReport) {
  const std::string value = i32(20'000) + std::string(19'999, 'v') + '\0';
  const std::vector<Assigned> assigned(1000, {0, "_id", bson::Type::string, as_bytes(value)});
  const std::string fields = merged({{n(1) + ok(), {0}}}, {}, assigned);
  EXPECT_LE(fields.size() + 5, kLargestReply);
  const std::string whole = doc(fields);
  const auto report = bson::find(as_bytes(whole), "idproxy");
  ASSERT_TRUE(report);
  EXPECT_EQ(bson::find(report->value, "truncated")->as_integer(), 1);
}

}  // namespace reply_merge_test
}  // namespace idproxy::rewrite
