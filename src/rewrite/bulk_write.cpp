#include "rewrite/bulk_write.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "rewrite/own_message.hpp"
#include "rewrite/part_frame.hpp"
#include "rewrite/upsert_command.hpp"
#include "rewrite/upsert_edit.hpp"

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
  Statements entries(write.command.ns_info, write.command.ns_info_in_array);
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
    if (!is_new) continue;
    assignments += its.plan->size();
    if (assignments > kMostRules) return too_many("fields with rules");
    parts.push_back(its.plan);
  }
  if (entries.malformed()) return false;
  if (!parts.empty() || has_past) write.plan = join(std::move(parts));
  return true;
}

namespace {

/// Counts the command for the rules of a time-series collection.
void count_past(const Plan& rules, std::vector<Forwarded>& forwarded) {
  for (const Assignment& each : rules) {
    count({.assignment = &each,
           .reason = ForwardReason::time_series,
           .upserts = 1,
           .past_the_rules = true},
          forwarded);
  }
}

/// Reservations name documents of one collection, by their `_id`s. A document's own values are
/// reserved, too.
CommandError cannot_reserve(const Plan& plan) {
  const auto its = std::ranges::find_if(
      plan, [](const Assignment& each) { return each.reservations != nullptr; });
  return {ErrorCode::operation_failed,
          "mongo-idproxy: " + its->ns + " has a field '" + its->rule->field +
              "' whose values are reserved (reserve), which the command bulkWrite does not get; "
              "insert with insertMany of the collection"};
}

/// Scans all operations. Returns false if mongod will refuse the command.
bool scan_ops(const WriteRequest& write, GivenValues& given, InsertRewriter& documents,
              ScanResult& result) {
  const Bytes message = write.message.message();
  given.wanted.assign(write.plan->size(), 0);
  std::unordered_set<const Plan*> past;  // each counts once
  Statements ops(write.command);
  std::int32_t index = 0;
  for (; const auto bytes = ops.next(); ++index) {
    if (static_cast<std::size_t>(index) == kMaxBatch) return false;
    const auto op = BulkOp::read(*bytes, write.namespaces.size());
    if (!op) return false;
    if (op->is_unclear) {
      result.kind = ScanResult::Kind::failed;
      result.error = {ErrorCode::operation_failed,
                      "mongo-idproxy: an operation of a bulkWrite must name its collection by an "
                      "integer, not by a Decimal128 or NaN"};
      return true;
    }
    const BulkNamespace& ns = write.namespaces[op->ns];
    UpsertStatement statement;
    statement.whole = *bytes;
    if (op->kind == BulkOp::Kind::insert) {
      statement.kind = UpsertStatement::Kind::insert;
      if (ns.plan && ns.plan->reserves()) {
        result.kind = ScanResult::Kind::failed;
        result.error = cannot_reserve(*ns.plan);
        return true;
      }
      if (ns.plan && !documents.scan_one(write, ns, op->document, index, given, result)) {
        return false;
      }
      if (ns.time_series && past.insert(ns.time_series.get()).second) {
        count_past(*ns.time_series, result.forwarded);
      }
    } else if (op->kind == BulkOp::Kind::update) {
      const auto found = UpsertStatement::read(*bytes, WriteKind::bulk_write);
      if (!found) return false;
      statement = *found;
      if (ns.plan && !scan_upsert(statement, index, false, ns, *write.plan, given, result)) {
        return false;
      }
    }
    given.upserts.push_back(statement.parts(message));
    if (given.given.size() > kMostValues) {
      result.kind = ScanResult::Kind::failed;
      result.error = too_large();
    }
    if (result.kind == ScanResult::Kind::failed) return true;
  }
  result.statements = static_cast<std::size_t>(index);
  return !ops.malformed();
}

}  // namespace

ScanResult scan_bulk(const WriteRequest& write, GivenValues& given, InsertRewriter& documents) {
  ScanResult result;
  if (!scan_ops(write, given, documents, result)) {
    given = {};
    return {};
  }
  if (result.kind == ScanResult::Kind::failed || fails_for_upserts(result)) return result;
  if (given.given.empty() && given.kept.empty() && result.refused.empty()) return result;
  number_values(*write.plan, given);
  result.size = write.message.message().size();
  result.kind = ScanResult::Kind::assigned;
  return result;
}

bool wants_results(const WriteRequest& write, const GivenValues& given) {
  const auto options = divisible(write.message, given.upserts.size());
  if (!options || !options->acknowledged) return false;
  return std::ranges::any_of(given.given, [&](const Given& each) {
    const auto& statement = given.upserts[static_cast<std::size_t>(each.statement)];
    const Assignment& its = (*write.plan)[each.assignment];
    const bool lends = its.source == nullptr || its.source->lends();
    if (its.in_turn) return true;
    return (statement.kind != UpsertParts::Kind::insert && lends) || its.rule->report;
  });
}

// ---- writing ---------------------------------------------------------------------------------

namespace {

/// Writes one operation. Returns false if it is malformed.
bool emit_op(const WriteRequest& write, const GivenValues& given, const WritePart& part,
             std::int32_t index, InsertRewriter& documents, wire::PatchedMessage& out) {
  const Bytes message = write.message.message();
  const UpsertParts& parts = given.upserts[static_cast<std::size_t>(index)];
  const Bytes whole = *bson::document_at(message.subspan(parts.whole));
  const std::size_t at = parts.whole;
  if (parts.kind != UpsertParts::Kind::insert) {
    UpsertEdit(write, given, index).write(message, whole, out);
    return true;
  }
  const auto op = BulkOp::read(whole, write.namespaces.size());
  if (!op) return false;
  const BulkNamespace& ns = write.namespaces[op->ns];
  const bool is_refused =
      std::ranges::binary_search(part.refused, index, {}, &RefusedDocument::index);
  if (!ns.plan && !is_refused) {
    out.keep(at, at + whole.size());
    return true;
  }
  const std::size_t start = out.size();
  const std::size_t length = out.add_i32();
  const auto document = static_cast<std::size_t>(op->document.data() - message.data());
  out.keep(at + 4, document);
  if (is_refused) {
    out.add(refused_document());
  } else if (!documents.emit_one(write, ns, given, index, op->document, out)) {
    return false;
  }
  out.keep(document + op->document.size(), at + whole.size());
  out.set_i32(length, static_cast<std::int64_t>(out.size() - start));
  return true;
}

}  // namespace

std::optional<std::size_t> emit_part_of_bulk(const WriteRequest& write, const GivenValues& given,
                                             const WritePart& part, InsertRewriter& documents,
                                             wire::PatchedMessage& out) {
  PartFrame frame(write, part, out);
  for (const std::int32_t index : part.statements) {
    if (!emit_op(write, given, part, index, documents, out)) return std::nullopt;
    if (!frame.has_room()) break;
  }
  return frame.close();
}

bool separable_bulk(const WriteRequest& write) {
  static constexpr auto kInsert = std::to_array<std::string_view>({"insert", "document"});
  static constexpr auto kUpdate =
      std::to_array<std::string_view>({"update", "filter", "updateMods", "multi", "upsert", "hint",
                                       "collation", "arrayFilters", "constants", "sort"});
  static constexpr auto kDelete =
      std::to_array<std::string_view>({"delete", "filter", "multi", "hint", "collation"});
  Statements ops(write.command);
  while (const auto bytes = ops.next()) {
    const auto op = BulkOp::read(*bytes, write.namespaces.size());
    if (!op) return false;
    const bool is_separable =
        op->kind == BulkOp::Kind::insert   ? separable_statement(*bytes, kInsert, 2)
        : op->kind == BulkOp::Kind::update ? separable_statement(*bytes, kUpdate, 3)
                                           : separable_statement(*bytes, kDelete, 2);
    if (!is_separable) return false;
  }
  return !ops.malformed() && ops.plain_keys();
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

}  // namespace

std::optional<WriteReply> read_bulk_reply(Bytes body, std::size_t statements) {
  // Of a failure, the fields are those of other commands.
  if (bson::find_integer(body, "ok") != 1) return WriteReply::read(body, statements);
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
    if (retried->type != bson::Type::array) return std::nullopt;
    bson::Elements numbers(retried->value);
    while (const auto number = numbers.next()) {
      if (number->type != bson::Type::int32) return std::nullopt;
      ++reply.retried;
    }
    if (numbers.malformed()) return std::nullopt;
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
  ReplyFrame frame(joined_, first->header().request_id, first->header().response_to, false);
  bson::Scope body(joined_);
  bson::Elements fields(first->body());
  while (const auto field = fields.next()) {
    if (field->key != "cursor") {
      bson::append_copy(joined_, *field);
      continue;
    }
    bson::append_inside(joined_, bson::Type::document, "cursor", [&] {
      bson::append_int64(joined_, "id", 0);
      bson::append_inside(joined_, bson::Type::array, "firstBatch",
                          [&] { joined_.append(results_.view()); });
      if (const auto ns = bson::find(field->value, "ns")) bson::append_copy(joined_, *ns);
    });
  }
  body.close();
  frame.close();
  const auto view = wire::OpMsgView::parse(joined_.view());
  return view ? std::optional(*view) : std::nullopt;
}

}  // namespace idproxy::rewrite
