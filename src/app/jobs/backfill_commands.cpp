#include "app/jobs/backfill_commands.hpp"

#include <algorithm>
#include <array>

#include "idproxy/base/printable.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/zero_value.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Array;
using id_store::mongo::Document;
using id_store::mongo::Reply;
using Failure = UpdateOutcome::Failure;

/// {key: _id} of a document.
Document of_id(std::string_view key, const BackfillId& id) {
  const auto element = bson::find(as_bytes(id), "_id");
  return element ? Document().add(key, element->type, element->value) : Document();
}

bool has_parents(const BackfillTarget& target) {
  return target.field.find('.') != std::string::npos;
}

/// Conditions for a path that no value blocks: each part before the last one is absent or an
/// object. An array matches the type of its elements, too.
Array open_path(const std::string& path) {
  Array conditions;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    const std::string parent = path.substr(0, dot);
    const Document no_array = Document().add("$type", "array");
    Array either;
    either.push(Document().add(parent, Document().add("$exists", false)));
    either.push(Document().add(parent, Document().add("$type", "object").add("$not", no_array)));
    conditions.push(Document().add("$or", either));
  }
  return conditions;
}

bool lies_within(const std::string& path, const std::string& parent) {
  return path == parent || path.starts_with(parent + ".");
}

/// The first of writeErrors: the only one, since the update is ordered.
std::optional<Bytes> write_error(Bytes reply) {
  const auto errors = bson::find(reply, "writeErrors", bson::Type::array);
  return errors ? bson::document_in(errors->value, "0") : std::nullopt;
}

Failure failure_of(Bytes error, std::int32_t code, std::string_view ns, const rewrite::Plan& plan) {
  if (code == ErrorCode::duplicate_key &&
      !rewrite::curable(error, ns, plan, [] { return false; }).empty()) {
    return Failure::duplicate;
  }
  return rewrite::denies(error) ? Failure::denied : Failure::perhaps_stored;
}

}  // namespace

BackfillId id_of(Bytes document) {
  const auto id = bson::find(document, "_id");
  return id ? BackfillId(as_text(Document().add("_id", id->type, id->value).bytes()))
            : BackfillId();
}

Document projection_of(const std::vector<std::string>& paths) {
  std::vector<std::string> shown{"_id"};
  for (const std::string& path : paths) {
    if (std::ranges::any_of(shown, [&](const auto& each) { return lies_within(path, each); })) {
      continue;
    }
    std::erase_if(shown, [&](const auto& each) { return lies_within(each, path); });
    shown.push_back(path);
  }
  Document projection;
  for (const std::string& path : shown) projection.add(path, 1);
  return projection;
}

Document filter_of(std::span<const rewrite::Condition> when) {
  if (when.empty()) return {};
  Buffer conditions;
  bson::Scope document(conditions);
  rewrite::append_filter(when, conditions);
  document.close();
  return Document(conditions.view());
}

Document only_those(const Document& when) {
  return when.empty() ? Document() : Document().add("$and", Array().push(when));
}

Document without_value(const BackfillTarget& target) {
  Buffer condition;
  bson::Scope document(condition);
  rewrite::append_missing(target.assign, condition);
  document.close();
  return only_those(target.when).add(target.field, Document(condition.view()));
}

Document without_value_and_open(const BackfillTarget& target) {
  Document filter = without_value(target);
  if (has_parents(target)) filter.add("$and", open_path(target.field));
  return filter;
}

std::optional<Document> without_value_and_blocked(const BackfillTarget& target) {
  if (!has_parents(target)) return std::nullopt;
  const Document is_open = Document().add("$and", open_path(target.field));
  return without_value(target).add("$nor", Array().push(is_open));
}

Document count_documents(const BackfillTarget& target, const Document& filter) {
  return Document().add("count", target.ns.collection).add("query", filter);
}

Document find_ids(const BackfillTarget& target, const Document& filter, const BackfillOrder& order,
                  std::int32_t batch) {
  return Document()
      .add("find", target.ns.collection)
      .add("filter", filter)
      .add("sort", Document().add(order.field, order.direction))
      .add("projection", projection_of(target.beside))
      .add("batchSize", batch)
      .add("allowDiskUse", true);
}

Document update_of(const BackfillTarget& target, std::span<const BackfillId> ids,
                   const ids::Values& values) {
  const Document lacks = without_value(target);
  Array updates;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Document query = Document().add("_id", of_id("$eq", ids[i])).append(lacks);
    const Document change =
        Document().add("$set", Document().add(target.field, values.type(), values[i]));
    updates.push(Document().add("q", query).add("u", change));
  }
  return Document().add("update", target.ns.collection).add("updates", updates);
}

void add_uuid(const ids::CollectionUuid& uuid, Document& update) {
  bson_append_binary(update.get(), "collectionUUID", -1, BSON_SUBTYPE_UUID, uuid.data(),
                     static_cast<std::uint32_t>(uuid.size()));
}

Document update_of_nothing(const BackfillTarget& target) {
  const Document nothing = Document().add("_id", Document().add("$in", Array()));
  const Document change = Document().add("$set", Document().add(target.field, 0));
  return Document()
      .add("update", target.ns.collection)
      .add("updates", Array().push(Document().add("q", nothing).add("u", change)));
}

Document find_values(const BackfillTarget& target, std::span<const BackfillId> ids) {
  Document keys;
  for (std::size_t i = 0; i < ids.size(); ++i) keys.append(of_id(std::to_string(i), ids[i]));
  Document among;
  bson_append_array(among.get(), "$in", -1, keys.get());
  const auto most = static_cast<std::int32_t>(ids.size());
  return Document()
      .add("find", target.ns.collection)
      .add("filter", Document().add("_id", among))
      .add("projection", Document().add(target.field, 1))
      .add("batchSize", most);
}

Commands show_without_value(const BackfillTarget& target) {
  std::string condition = "null";
  if (target.assign == rewrite::Assign::missing) condition = "{$exists: false}";
  if (target.assign == rewrite::Assign::missing_or_zero) {
    condition =
        "{$in: [null, 0, \"\", ObjectId(\"000000000000000000000000\"), "
        "UUID(\"00000000-0000-0000-0000-000000000000\"), "
        "BinData(3, \"AAAAAAAAAAAAAAAAAAAAAA==\")]}";
  }
  const std::string when =
      target.when.empty()
          ? ""
          : ", $and: [" + id_store::mongo::value_in_mongosh(target.when.bytes()) + "]";
  return Commands().mongosh(id_store::in_mongosh(target.ns) + ".find({" + in_quotes(target.field) +
                                ": " + condition + when + "})",
                            {target.ns.db, target.ns.collection, target.field});
}

UpdateOutcome outcome_of(const Reply& reply, std::size_t sent, std::string_view ns,
                         const rewrite::Plan& plan) {
  using Kind = UpdateOutcome::Kind;
  const bool is_durable = !bson::find(reply.document.bytes(), "writeConcernError");
  if (reply.kind == Reply::Kind::unreachable || reply.kind == Reply::Kind::not_majority ||
      !is_durable) {
    return {.kind = Kind::unknown};
  }
  const auto error = write_error(reply.document.bytes());
  if (!error && !reply.ok()) return {.kind = Kind::refused, .code = reply.code};
  UpdateOutcome outcome{.tried = sent};
  if (error) {
    const std::int64_t index = bson::integer_in(*error, "index");
    if (index < 0 || static_cast<std::size_t>(index) >= sent) {
      return {.kind = Kind::refused, .code = reply.code};
    }
    outcome.tried = static_cast<std::size_t>(index);
    outcome.code = static_cast<std::int32_t>(bson::integer_in(*error, "code"));
    if (outcome.code == ErrorCode::collection_uuid_mismatch) {
      return {.kind = Kind::refused, .code = outcome.code};
    }
    outcome.failure = failure_of(*error, outcome.code, ns, plan);
  }
  const std::int64_t changed = bson::integer_in(reply.document.bytes(), "n");
  outcome.changed = static_cast<std::size_t>(std::max<std::int64_t>(changed, 0));
  return outcome;
}

std::string reason_of_failure(std::int32_t code) {
  const std::string error = " (error " + std::to_string(code) + ")";
  if (code == ErrorCode::document_validation_failure)
    return "the collection's validator refuses it" + error;
  if (code == ErrorCode::path_not_viable) return "the path to the field is blocked" + error;
  if (code == ErrorCode::duplicate_key) {
    return "another document has the same value in a unique index on other fields" + error;
  }
  if (is(code, CodeTrait::too_large)) return "it would be too large" + error;
  return "the server refuses the update" + error;
}

std::string refusal_of(const Reply& reply, const std::string& ns, std::string_view needs,
                       const ids::Error& advice, std::string_view cannot) {
  if (reply.refused(ErrorCode::unauthorized)) {
    return std::string(needs) + " on " + ns + ": " + advice.reason;
  }
  if (reply.kind != Reply::Kind::refused) return "the servers do not answer: " + reply.message;
  return ns + " " + std::string(cannot) + ": " + reply.message;
}

bool is_worth_repeating(const Reply& reply) {
  if (reply.kind == Reply::Kind::unreachable) return true;
  return reply.kind == Reply::Kind::refused && is(reply.code, CodeTrait::cursor_lost);
}

}  // namespace idproxy::app::jobs
