#include "rewrite/stored_look.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/own_command.hpp"

namespace idproxy::rewrite {
namespace {

using bson::append_inside;

// What the query has in common with the insert.
constexpr std::array<std::string_view, 3> kKeptInQuery = {"apiVersion", "apiStrict",
                                                          "apiDeprecationErrors"};

std::string key_of(bson::Type type, std::string_view bytes) {
  return static_cast<char>(type) + std::string(bytes);
}

void append_projection(const Plan& plan, Buffer& out) {
  std::set<std::string_view> fields{"_id"};
  for (const Assignment& each : plan) fields.insert(each.rule->field);
  append_inside(out, bson::Type::document, "projection", [&] {
    for (const std::string_view field : fields) bson::append_int32(out, field, 1);
  });
}

}  // namespace

/// The query belongs to no session, so that it cannot end a transaction of the client.
void StoredLook::emit(const Question& question, const Plan& plan, wire::PatchedMessage& out) const {
  const std::size_t dot = question.ns.find('.');
  OwnCommand command(*question.insert, question.request_id);
  Buffer& query = command.body();
  bson::append_string(query, "find", question.ns.substr(dot + 1));
  append_inside(query, bson::Type::document, "filter", [&] {
    append_inside(query, bson::Type::document, "_id", [&] {
      append_inside(query, bson::Type::array, "$in", [&] {
        std::size_t at = 0;
        for (const ids::TypedValue& id : ids_) {
          if (id == ids::TypedValue{}) continue;
          bson::append_head(query, id.type, std::to_string(at++));
          query.append(as_bytes(id.bytes));
        }
      });
    });
  });
  append_projection(plan, query);
  bson::append_int32(query, "batchSize", static_cast<std::int32_t>(ids_.size()));
  bson::append_bool(query, "singleBatch", true);
  // Whatever the deployment's default is: what was written a moment ago counts.
  append_inside(query, bson::Type::document, "readConcern",
                [&] { bson::append_string(query, "level", "local"); });
  if (question.max_time_ms) bson::append_int64(query, "maxTimeMS", *question.max_time_ms);
  command.send(kKeptInQuery, question.ns.substr(0, dot), out);
}

bool StoredLook::read(const wire::OpMsgView& reply) {
  const auto cursor = bson::find(reply.body(), "cursor");
  if (!cursor || cursor->type != bson::Type::document) return false;
  const auto batch = bson::find(cursor->value, "firstBatch");
  if (!batch || batch->type != bson::Type::array) return false;
  bson::Elements documents(batch->value);
  while (const auto each = documents.next()) {
    if (each->type != bson::Type::document) return false;
    const auto id = bson::find(each->value, "_id");
    if (id) documents_[key_of(id->type, as_text(id->value))].append(each->value);
  }
  return !documents.malformed();
}

const Buffer* StoredLook::document(std::int32_t statement) const {
  const ids::TypedValue& id = ids_[static_cast<std::size_t>(statement)];
  if (id == ids::TypedValue{}) return nullptr;
  const auto found = documents_.find(key_of(id.type, id.bytes));
  return found == documents_.end() ? nullptr : &found->second;
}

std::optional<bson::Element> StoredLook::value(std::int32_t statement,
                                               std::string_view field) const {
  const Buffer* found = document(statement);
  if (found == nullptr) return std::nullopt;
  const auto value = field_at(found->view(), field);
  if (!value || value->is != ids::FieldValue::Is::there) return std::nullopt;
  return value->element;
}

}  // namespace idproxy::rewrite
