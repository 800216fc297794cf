#include "rewrite/earlier_attempts.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "idproxy/base/words.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {

bool RepeatedInsert::is_invalid(const WriteError& error) {
  return error.code != ErrorCode::duplicate_key &&
         error.code != ErrorCode::document_validation_failure;
}

bool RepeatedInsert::accounts_for_all(const WriteReply& reply, std::size_t sent) {
  const auto accounted = reply.n.value_or(0) + static_cast<std::int64_t>(reply.errors.size());
  return accounted == static_cast<std::int64_t>(sent);
}

std::vector<std::int32_t> RepeatedInsert::shifted(const WriteReply& reply,
                                                  const WriteOptions& options,
                                                  std::size_t statements) {
  std::vector<std::int32_t> numbers;
  std::int32_t valid = 0;
  auto error = reply.errors.begin();
  for (std::int32_t each = 0; each < static_cast<std::int32_t>(statements); ++each) {
    while (error != reply.errors.end() && error->index < each) ++error;
    numbers.push_back(options.number_of(valid));
    const bool failed = error != reply.errors.end() && error->index == each;
    if (!failed || !is_invalid(*error)) ++valid;
  }
  return numbers;
}

bool RepeatedInsert::may_be_mixed_up(const WriteReply& reply, std::size_t sent,
                                     bool loses_writes) const {
  if (sorted_out_ || sent < 2) return false;
  const bool has_errors = loses_writes && !std::ranges::all_of(reply.errors, is_invalid);
  return has_errors || !accounts_for_all(reply, sent);
}

std::vector<std::int32_t> RepeatedInsert::doubt(const wire::OpMsgView& message,
                                                const WriteReply& reply,
                                                std::span<const std::int32_t> out) {
  lost_ = lost_ || !accounts_for_all(reply, out.size());
  sorted_out_ = true;
  reply_.clear();
  reply_.append(message.message());
  invalid_.clear();
  for (const WriteError& error : reply.errors) {
    if (is_invalid(error)) invalid_.push_back(out[static_cast<std::size_t>(error.index)]);
  }
  std::vector<std::int32_t> valid;
  std::ranges::set_difference(out, invalid_, std::back_inserter(valid));
  return valid;
}

RepeatedInsert::Verdict RepeatedInsert::judge(
    const std::optional<std::vector<std::int32_t>>& executed, const WriteReply& reply,
    std::span<const std::int32_t> out) {
  Verdict verdict{Verdict::Kind::send_again, {out.begin(), out.end()}};
  std::vector<std::int32_t>& missing = verdict.statements;
  if (executed) {
    std::erase_if(missing,
                  [&](std::int32_t each) { return std::ranges::binary_search(*executed, each); });
    const bool is_right = std::ranges::equal(missing, reply.errors, {}, {}, [&](const auto& each) {
      return out[static_cast<std::size_t>(each.index)];
    });
    if (is_right) return {Verdict::Kind::believe};
    verdict.stored = static_cast<std::int64_t>(executed->size());
  }
  if (!invalid_.empty()) return {Verdict::Kind::give_up};
  // A reply has to come from the server: to one that it has executed it says so again.
  if (missing.empty()) {
    missing.push_back(out.back());
    --verdict.stored;
  }
  singly_ = !executed;
  return verdict;
}

namespace {

using bson::append_inside;
using bson::Type;

// What the update has in common with the insert.
constexpr std::array<std::string_view, 5> kKeptInSession = {"lsid", "txnNumber", "apiVersion",
                                                            "apiStrict", "apiDeprecationErrors"};

void append_statement(std::string_view key, Buffer& out) {
  append_inside(out, Type::document, key, [&] {
    append_inside(out, Type::document, "q", [&] {
      append_inside(out, Type::document, "_id",
                    [&] { append_inside(out, Type::array, "$in", [] {}); });
    });
    append_inside(out, Type::document, "u", [&] {
      append_inside(out, Type::document, "$set", [&] { bson::append_int32(out, "_", 0); });
    });
  });
}

}  // namespace

void ExecutedQuestion::emit(const AboutInsert& about, const WriteOptions& options,
                            wire::PatchedMessage& out) const {
  OwnCommand command(*about.insert, about.request_id);
  Buffer& update = command.body();
  bson::append_string(update, "update", split_ns(about.ns).collection);
  append_inside(update, Type::array, "updates", [&] {
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      append_statement(std::to_string(i), update);
    }
  });
  append_inside(update, Type::array, "stmtIds", [&] {
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      bson::append_int32(update, std::to_string(i), options.number_of(statements_[i]));
    }
  });
  bson::append_bool(update, "ordered", false);
  append_inside(update, Type::document, "writeConcern",
                [&] { bson::append_int32(update, "w", 1); });
  if (about.max_time_ms) bson::append_int64(update, "maxTimeMS", *about.max_time_ms);
  command.send(kKeptInSession, split_ns(about.ns).db, out);
}

std::optional<std::vector<std::int32_t>> ExecutedQuestion::read(
    const wire::OpMsgView& reply) const {
  const Bytes body = reply.body();
  if (bson::find_integer(body, "ok") != 1 || bson::find(body, "writeErrors")) return std::nullopt;
  const auto n = bson::find_integer(body, "n");
  const auto upserted = bson::find(body, "upserted");
  if (!upserted) return n == 0 ? std::optional(std::vector<std::int32_t>()) : std::nullopt;
  if (upserted->type != Type::array) return std::nullopt;
  std::vector<std::int32_t> executed;
  for (const bson::Element& entry : bson::Elements(upserted->value)) {
    if (entry.type != Type::document) return std::nullopt;
    const auto index = bson::find_integer(entry.value, "index");
    if (!index || *index < 0 || *index >= static_cast<std::int64_t>(statements_.size())) {
      return std::nullopt;
    }
    executed.push_back(statements_[static_cast<std::size_t>(*index)]);
  }
  std::ranges::sort(executed);
  const bool adds_up = n == static_cast<std::int64_t>(executed.size()) &&
                       std::ranges::adjacent_find(executed) == executed.end();
  return adds_up ? std::optional(std::move(executed)) : std::nullopt;
}

namespace {

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
void StoredQuestion::emit(const AboutInsert& about, const Plan& plan,
                          wire::PatchedMessage& out) const {
  OwnCommand command(*about.insert, about.request_id);
  Buffer& query = command.body();
  bson::append_string(query, "find", split_ns(about.ns).collection);
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
  if (about.max_time_ms) bson::append_int64(query, "maxTimeMS", *about.max_time_ms);
  command.send(kKeptInQuery, split_ns(about.ns).db, out);
}

bool StoredQuestion::read(const wire::OpMsgView& reply) {
  const auto batch = first_batch(reply.body());
  if (!batch) return false;
  bson::Elements documents(*batch);
  while (const auto each = documents.next()) {
    if (each->type != bson::Type::document) return false;
    const auto id = bson::find(each->value, "_id");
    if (id) documents_[key_of(id->type, as_text(id->value))].append(each->value);
  }
  return !documents.malformed();
}

const Buffer* StoredQuestion::document(std::int32_t statement) const {
  const ids::TypedValue& id = ids_[static_cast<std::size_t>(statement)];
  if (id == ids::TypedValue{}) return nullptr;
  const auto found = documents_.find(key_of(id.type, id.bytes));
  return found == documents_.end() ? nullptr : &found->second;
}

std::optional<bson::Element> StoredQuestion::value(std::int32_t statement,
                                                   std::string_view field) const {
  const Buffer* found = document(statement);
  if (found == nullptr) return std::nullopt;
  const auto value = field_at(found->view(), field);
  if (!value || value->is != ids::FieldValue::Is::there) return std::nullopt;
  return value->element;
}

}  // namespace idproxy::rewrite
