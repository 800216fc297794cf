#include "rewrite/find_and_modify.hpp"

#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/part_frame.hpp"

namespace idproxy::rewrite {
namespace {

/// Sets `n` to 1, and `upserted` if a document was inserted, if the lastErrorObject says that one
/// was found or inserted. `assigns`: one that was found has the value.
void read_last_error(const bson::Element& last_error, bool assigns, WriteReply& reply) {
  if (last_error.type != bson::Type::document) return;
  const auto updated = bson::find(last_error.value, "updatedExisting", bson::Type::boolean);
  const bool inserted = bson::find(last_error.value, "upserted").has_value();
  const auto n = bson::find_integer(last_error.value, "n");
  if (!updated || !n) return;
  const bool found = updated->as_integer() == 1;
  if (assigns && !inserted && *n == (found ? 1 : 0)) {
    reply.n = n;
    if (found) reply.upserted.push_back(0);
    return;
  }
  if (*n != 1 || found == inserted) return;
  reply.n = 1;
  if (inserted) reply.upserted.push_back(0);
}

}  // namespace

bool FindAndModify::found_nothing(Bytes reply) {
  if (bson::find_integer(reply, "ok") != 1) {
    return bson::find_integer(reply, "code") == ErrorCode::was_upsert;
  }
  if (bson::find(reply, "writeErrors") || bson::find(reply, "retriedStmtIds")) return false;
  const auto last = bson::find(reply, "lastErrorObject", bson::Type::document);
  return last && bson::find_integer(last->value, "n") == 0;
}

std::optional<std::size_t> FindAndModify::emit(WritePart part, Workspace& /*workspace*/,
                                               wire::PatchedMessage& out) const {
  part.numbered = false;
  const UpsertEdit edit(write(), given(), 0);
  return PartFrame(write(), part, out, &edit).close();
}

/// What other writes have beside these fields means nothing here.
std::optional<WriteReply> FindAndModify::read(Bytes body, std::size_t /*sent*/) const {
  FieldsOnce once;
  WriteReply reply;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (field->key == "ok" || field->key == "code") {
      if (!reply.take(*field, once)) return {};
    } else if (field->key == "lastErrorObject") {
      if (!once(field->key)) return {};
      read_last_error(*field, write().assigns != nullptr, reply);
    } else if (field->key == "retriedStmtId") {
      if (!once(field->key) || field->type != bson::Type::int32) return {};
      reply.retried = 1;
    }
  }
  if (fields.malformed() || !once.has("ok")) return {};
  return reply;
}

bool FindAndModify::adds_up(const WriteReply& reply, const WriteOptions& /*options*/,
                            std::span<const std::int32_t> /*sent*/) const {
  return reply.n && (*reply.n == 1 || write().assigns != nullptr);
}

}  // namespace idproxy::rewrite
