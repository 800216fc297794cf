#include "rewrite/right_question.hpp"

#include <array>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {
namespace {

using bson::Type;

void append_empty(Buffer& out, Type type, std::string_view key) {
  bson::append_inside(out, type, key, [] {});
}

void append_insert(Buffer& out) {
  bson::append_inside(out, Type::array, "documents", [&] {
    bson::append_head(out, Type::document, "0");
    out.append(refused_document());
  });
}

void append_update(Buffer& out, std::string_view key, bool upsert) {
  bson::append_inside(out, Type::document, key, [&] {
    append_empty(out, Type::document, "q");
    bson::append_inside(out, Type::document, "u", [&] { bson::append_int32(out, "$idproxy", 1); });
    bson::append_bool(out, "upsert", upsert);
  });
}

void append_updates(Buffer& out) {
  bson::append_bool(out, "ordered", true);
  bson::append_inside(out, Type::array, "updates", [&] {
    append_update(out, "0", false);
    append_update(out, "1", true);
  });
}

void append_find_and_modify(Buffer& out) {
  append_empty(out, Type::document, "query");
  append_empty(out, Type::array, "update");
  append_empty(out, Type::array, "arrayFilters");
  bson::append_bool(out, "upsert", true);
}

}  // namespace

void ask_right(const wire::OpMsgView& client, std::int32_t request_id, std::string_view db,
               std::string_view collection, Right right, wire::PatchedMessage& out) {
  static constexpr std::array<std::string_view, 6> kKept = {
      "maxTimeMS",  "comment",   "bypassDocumentValidation",
      "apiVersion", "apiStrict", "apiDeprecationErrors"};
  static constexpr std::array<std::string_view, 3> kCommands = {"insert", "update",
                                                                "findAndModify"};
  OwnCommand question(client, request_id);
  Buffer& body = question.body();
  bson::append_string(body, kCommands[static_cast<std::size_t>(right)], collection);
  if (right == Right::insert) append_insert(body);
  if (right == Right::upsert) append_updates(body);
  if (right == Right::find_and_modify) append_find_and_modify(body);
  // With majority, the server would wait for the connection's earlier writes to be replicated.
  bson::append_inside(body, Type::document, "writeConcern",
                      [&] { bson::append_int32(body, "w", 1); });
  question.send(kKept, db, out);
}

RightAnswer read_right(const wire::OpMsgView& reply, Right right) {
  const auto read = WriteReply::read(reply.body(), 2);
  if (!read) return RightAnswer::malformed;
  if (says_not_permitted(*read)) return RightAnswer::may_not;
  if (read->ok) return read->errors.empty() ? RightAnswer::malformed : RightAnswer::may;
  // ShardKeyNotFound is what a mongos says of a sharded collection before it looks at the update
  // (not observed).
  const bool is_wrong =
      read->code == ErrorCode::failed_to_parse || read->code == ErrorCode::shard_key_not_found;
  return is_wrong && right == Right::find_and_modify ? RightAnswer::may : RightAnswer::failed;
}

}  // namespace idproxy::rewrite
