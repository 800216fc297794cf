#include "rewrite/bulk_write.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {

// ---- reading ---------------------------------------------------------------------------------

namespace {

/// A position in nsInfo as mongod reads it, from a number of any type; it cuts off fractions.
/// Nothing for other values, and for Decimal128, which `is_unclear` tells apart.
std::optional<std::size_t> position(const bson::Element& number, std::size_t namespaces,
                                    bool& is_unclear) {
  std::optional<std::int64_t> at;
  if (number.type == bson::Type::number_double) {
    const double its = std::trunc(std::bit_cast<double>(load_i64(number.value.data())));
    is_unclear = std::isnan(its);
    if (its >= 0 && its < static_cast<double>(namespaces)) at = static_cast<std::int64_t>(its);
  } else if (number.type == bson::Type::int32 || number.type == bson::Type::int64) {
    at = number.as_integer();
  }
  is_unclear = is_unclear || number.type == bson::Type::decimal128;
  if (!at || *at < 0 || *at >= static_cast<std::int64_t>(namespaces)) return std::nullopt;
  return static_cast<std::size_t>(*at);
}

}  // namespace

std::optional<BulkOp> BulkOp::read(Bytes op, std::size_t namespaces) {
  bson::Elements fields(op);
  const auto first = fields.next();
  if (!first) return std::nullopt;
  BulkOp found;
  if (first->key == "insert") {
    found.kind = Kind::insert;
  } else if (first->key == "update") {
    found.kind = Kind::update;
  } else if (first->key == "delete") {
    found.kind = Kind::remove;
  } else {
    return std::nullopt;
  }
  const auto ns = position(*first, namespaces, found.is_unclear);
  if (found.is_unclear) return found;
  if (!ns) return std::nullopt;
  found.ns = *ns;
  while (const auto field = fields.next()) {
    if (found.kind != Kind::insert || field->key != "document") continue;
    if (field->type != bson::Type::document || !found.document.empty()) return std::nullopt;
    found.document = field->value;
  }
  const bool is_whole = found.kind != Kind::insert || !found.document.empty();
  return is_whole && !fields.malformed() ? std::optional(found) : std::nullopt;
}

namespace {

/// The rules of several collections, as one plan.
struct JoinedPlan {
  std::vector<std::shared_ptr<const Plan>> parts;
  Plan all;
};

/// An outline if one of them is.
std::shared_ptr<const Plan> join(std::vector<std::shared_ptr<const Plan>> parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<Assignment> all;
  auto is = Plan::Is::bound;
  for (const auto& part : parts) {
    all.insert(all.end(), part->begin(), part->end());
    if (!part->is_bound()) is = Plan::Is::outline;
  }
  auto joined = std::make_shared<const JoinedPlan>(std::move(parts), Plan(std::move(all), is));
  const Plan* plan = &joined->all;
  return {std::move(joined), plan};
}

}  // namespace

bool read_namespaces(WriteRequest& write, Namespaces& namespaces,
                     std::optional<CommandError>& fault) {
  // So that nobody can keep a thread busy with looking them up. mongod has no such limit.
  constexpr std::size_t kMost = 10'000;
  constexpr std::size_t kMostRules = 10'000;
  const auto too_many = [&](const std::string& what) {
    fault = {ErrorCode::operation_failed,
             "mongo-idproxy: a bulkWrite may have at most 10000 " + what + "; send several"};
    return false;
  };
  write.known = &namespaces;
  write.namespaces.clear();
  std::vector<std::shared_ptr<const Plan>> parts;
  std::map<const Plan*, std::size_t> known;  // where its assignments begin
  std::size_t assignments = 0;
  bool has_past = false;  // a time-series collection, past whose rules it may insert
  Statements entries(write.command.ns_info(), write.command.ns_info_in_array);
  while (const auto entry = entries.next()) {
    const auto ns = bson::find(*entry, "ns", bson::Type::string);
    if (!ns) return false;
    if (write.namespaces.size() == kMost) return too_many("collections where rules are configured");
    const auto [db, collection] = split_ns(ns->text());
    BulkNamespace& its = write.namespaces.emplace_back();
    if (!namespaces.possible(collection)) continue;
    its.plan = namespaces.plan(db, collection);
    if (its.plan == nullptr) {
      its.time_series = namespaces.time_series(db, collection);
      has_past = has_past || its.time_series;
      continue;
    }
    const auto [place, is_new] = known.emplace(its.plan.get(), assignments);
    its.first = place->second;
    its.names_uuid = bson::find(*entry, "collectionUUID").has_value();
    if (!is_new) continue;
    assignments += its.plan->size();
    if (assignments > kMostRules) return too_many("fields with rules");
    parts.push_back(its.plan);
  }
  if (entries.malformed()) return false;
  if (!parts.empty() || has_past) write.plan = join(std::move(parts));
  return true;
}

bool wants_results(const WriteRequest& write, const GivenValues& given) {
  const auto options = write.command.divisible(given.upserts.size());
  if (!options || !options->acknowledged) return false;
  return std::ranges::any_of(given.given, [&](const Given& each) {
    const auto& statement = given.upserts[static_cast<std::size_t>(each.statement)];
    const Assignment& its = (*write.plan)[each.assignment];
    const bool lends = its.source == nullptr || its.source->lends();
    if (its.in_turn) return true;
    return (statement.kind != UpsertParts::Kind::insert && lends) || its.rule->report;
  });
}

// ---- replies ---------------------------------------------------------------------------------

namespace {

/// A cursor in a reply.
struct Cursor {
  std::int64_t id = 0;
  Bytes batch;  ///< value of the array
};

std::optional<Cursor> read_cursor(Bytes body, std::string_view batch) {
  const auto cursor = bson::find(body, "cursor", bson::Type::document);
  if (!cursor) return std::nullopt;
  const auto id = bson::find(cursor->value, "id", bson::Type::int64);
  const auto its = bson::find(cursor->value, batch, bson::Type::array);
  if (!id || !its) return std::nullopt;
  return Cursor{load_i64(id->value.data()), its->value};
}

std::optional<std::int64_t> count_in(Bytes body, std::string_view name) {
  const auto count = bson::find_integer(body, name);
  return count && *count >= 0 ? count : std::nullopt;
}

/// Reads the results, which must ascend, into `reply`.
bool read_results(Bytes array, std::size_t statements, WriteReply& reply) {
  std::int64_t last = -1;
  bson::Elements results(array);
  while (const auto result = results.next()) {
    if (result->type != bson::Type::document) return false;
    const auto index = bson::find(result->value, "idx", bson::Type::int32);
    const auto ok = bson::find_integer(result->value, "ok");
    if (!index || !ok) return false;
    const std::int32_t at = load_i32(index->value.data());
    if (at <= last || at >= static_cast<std::int64_t>(statements)) return false;
    last = at;
    ++reply.results;
    if (*ok == 1) {
      if (bson::find(result->value, "upserted")) reply.upserted.push_back(at);
      continue;
    }
    const auto code = bson::find_integer(result->value, "code");
    if (!code) return false;
    reply.errors.push_back({at, *code, result->value});
  }
  return !results.malformed();
}

/// True if none of the fields that are read or merged occurs twice.
bool has_fields_once(Bytes body) {
  static constexpr auto kKnown =
      std::to_array<std::string_view>({"ok", "cursor", "nErrors", "nInserted", "nMatched",
                                       "nModified", "nUpserted", "nDeleted", "retriedStmtIds"});
  FieldsOnce once;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (std::ranges::find(kKnown, field->key) != kKnown.end() && !once(field->key)) return false;
  }
  return !fields.malformed();
}

}  // namespace

std::optional<WriteReply> read_bulk_reply(Bytes body, std::size_t statements) {
  // Of a failure, the fields are those of other commands.
  if (bson::find_integer(body, "ok") != 1) return WriteReply::read(body, statements);
  if (!has_fields_once(body)) return std::nullopt;
  const auto cursor = read_cursor(body, "firstBatch");
  const auto errors = count_in(body, "nErrors");
  const auto inserted = count_in(body, "nInserted");
  const auto upserted = count_in(body, "nUpserted");
  if (!cursor || cursor->id != 0 || !errors || !inserted || !upserted) return std::nullopt;
  WriteReply reply;
  reply.ok = true;
  reply.n = inserted;
  reply.modified = count_in(body, "nModified");
  reply.n_upserted = *upserted;
  if (!read_results(cursor->batch, statements, reply)) return std::nullopt;
  if (static_cast<std::size_t>(*errors) != reply.errors.size()) return std::nullopt;
  if (const auto retried = bson::find(body, "retriedStmtIds")) {
    const auto count = count_of(*retried, bson::Type::int32);
    if (!count) return std::nullopt;
    reply.retried = *count;
  }
  return reply;
}

BulkResults::Next BulkResults::add(const wire::OpMsgView& reply) {
  const bool is_first = cursor_ == 0;
  if (is_first) {
    first_.clear();
    results_.clear();
    count_ = batches_ = 0;
  }
  const auto cursor = bson::find_integer(reply.body(), "ok") == 1
                          ? read_cursor(reply.body(), is_first ? "firstBatch" : "nextBatch")
                          : std::nullopt;
  if (!cursor) return is_first ? Next::done : Next::malformed;  // which the reader finds, too
  if (is_first && cursor->id == 0) return Next::done;
  if (is_first) first_.append(reply.message());
  if (!is_first && cursor->id != 0 && cursor->id != cursor_) return Next::malformed;
  // One that is empty could follow another for ever.
  if (!append(cursor->batch) || ++batches_ > kMaxBatch) return Next::malformed;
  cursor_ = cursor->id;
  return cursor_ == 0 ? Next::done : Next::more;
}

/// Returns false if the results are malformed, more than a command has operations, or too large.
bool BulkResults::append(Bytes batch) {
  bson::Elements results(batch);
  while (const auto result = results.next()) {
    if (result->type != bson::Type::document || count_ == kMaxBatch) return false;
    if (results_.size() + result->value.size() > kMostWithIds) return false;
    bson::append_head(results_, bson::Type::document, std::to_string(count_++));
    results_.append(result->value);
  }
  return !results.malformed();
}

void BulkResults::ask(const wire::OpMsgView& client, std::int32_t request_id,
                      wire::PatchedMessage& out) const {
  static constexpr auto kKept = std::to_array<std::string_view>(
      {"lsid", "apiVersion", "apiStrict", "apiDeprecationErrors", "txnNumber", "autocommit"});
  // Outside of a transaction, getMore has no txnNumber.
  const bool in_transaction = bson::find(client.body(), "autocommit").has_value();
  constexpr std::size_t kOutside = 4;
  OwnCommand command(client, request_id);
  bson::append_int64(command.body(), "getMore", cursor_);
  bson::append_string(command.body(), "collection", "$cmd.bulkWrite");
  command.send(std::span(kKept).first(in_transaction ? kKept.size() : kOutside), "admin", out);
}

std::optional<wire::OpMsgView> BulkResults::joined() {
  if (first_.empty()) return std::nullopt;
  const auto first = wire::OpMsgView::parse(first_.view());
  joined_.clear();
  const wire::MsgHeader& its = first->header();
  append_op_msg(joined_, its.request_id, its.response_to, false, [&] {
    for (const bson::Element& field : bson::Elements(first->body())) {
      if (field.key != "cursor") {
        bson::append_copy(joined_, field);
        continue;
      }
      bson::append_inside(joined_, bson::Type::document, "cursor", [&] {
        bson::append_int64(joined_, "id", 0);
        bson::append_inside(joined_, bson::Type::array, "firstBatch",
                            [&] { joined_.append(results_.view()); });
        if (const auto ns = bson::find(field.value, "ns")) bson::append_copy(joined_, *ns);
      });
    }
  });
  const auto view = wire::OpMsgView::parse(joined_.view());
  return view ? std::optional(*view) : std::nullopt;
}

}  // namespace idproxy::rewrite
