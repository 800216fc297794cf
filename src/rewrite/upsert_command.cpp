#include "rewrite/upsert_command.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/bulk_write.hpp"
#include "rewrite/keep.hpp"
#include "rewrite/left_out.hpp"
#include "rewrite/upsert.hpp"
#include "rewrite/upsert_statement.hpp"

namespace idproxy::rewrite {

bool goes_alone(const WriteRequest& write) {
  const bool is_bulk = write.command.kind == WriteKind::bulk_write;
  if (is_bulk || write.message.has(wire::flag::kMoreToCome)) return false;
  if (write.command.kind == WriteKind::update) {
    Statements statements(write.command);
    if (!statements.next() || statements.next()) return false;
  }
  const auto options = write.command.divisible(1);
  return options && options->acknowledged;
}

bool found_nothing(Bytes reply) {
  return bson::find_integer(reply, "ok") == 1 && bson::find_integer(reply, "n") == 0 &&
         !bson::find(reply, "writeErrors") && !bson::find(reply, "retriedStmtIds");
}

namespace {

CommandError refused_upsert(const Forwarded& forwarded) {
  return {ErrorCode::operation_failed,
          "mongo-idproxy: an upsert into " + forwarded.assignment->ns +
              " can get no value for field '" + forwarded.assignment->rule->field + "' (" +
              std::string(name_of(forwarded.reason)) + "), and the rule's `upserts` is refuse; " +
              std::string(way_out_of(forwarded.reason, forwarded.assignment->rule->field))};
}

/// `all` is sorted by assignment. `same`: true for the entry that `one` adds to.
template <class Entry, class Same>
void add(const Entry& one, std::vector<Entry>& all, std::uint64_t Entry::* number, Same same) {
  const auto its = std::ranges::equal_range(all, one.assignment, std::less<>(), &Entry::assignment);
  const auto known = std::ranges::find_if(its, same);
  if (known != its.end()) {
    (*known).*number += one.*number;
  } else {
    all.insert(its.end(), one);
  }
}

}  // namespace

void count(const Forwarded& statement, std::vector<Forwarded>& forwarded) {
  add(statement, forwarded, &Forwarded::upserts, [&](const Forwarded& each) {
    return each.reason == statement.reason && each.brings_value == statement.brings_value;
  });
}

void count(const TakenAway& updates, std::vector<TakenAway>& taken) {
  add(updates, taken, &TakenAway::updates,
      [&](const TakenAway& each) { return each.reason == updates.reason; });
}

namespace {

/// True if an update by operators does something beside what these rules leave out, of which each
/// that gives a value, or passes the statement on, does something.
bool does_more(const UpsertStatement& statement, const Plan& rules) {
  for (const bson::Element& each : bson::Elements(statement.update)) {
    if (each.type != bson::Type::document) continue;
    for (const bson::Element& path : bson::Elements(each.value)) {
      const auto leaves_out = [&](const Assignment& its) {
        return is_left_out(each, path, *its.rule) &&
               judge(statement, its, true).kind == UpsertVerdict::Kind::unfulfilled;
      };
      if (std::ranges::none_of(rules, leaves_out)) return true;
    }
  }
  return false;
}

/// Whether its stored value stays. From an upsert by operators that should get a value and cannot,
/// nothing is left out: it may have to insert what is left, which must be something. A rule with
/// conditions gives no value to a replacement that goes together with others, since it may find a
/// document without one. `rules`: all of the collection.
KeepVerdict keep_of(const UpsertStatement& statement, const Assignment& assignment,
                    const Plan& rules, bool is_alone, UpsertVerdict& upsert) {
  KeepVerdict keep = judge_keep(statement, assignment, is_alone);
  const bool is_kept = keep.kind == KeepVerdict::Kind::kept;
  upsert = judge(statement, assignment, is_kept);
  using Kind = UpsertVerdict::Kind;
  const bool assigns = upsert.kind == Kind::assign;
  const bool is_plain = statement.kind == UpsertStatement::Kind::plain;
  const auto needs_none = [&] {
    return upsert.kind == Kind::unfulfilled && does_more(statement, rules);
  };
  if (is_kept && !statement.is_replacement && !is_plain && !assigns && !needs_none()) {
    keep = {KeepVerdict::Kind::lost, LossReason::unset};
  }
  if (assigns && statement.is_replacement && !is_alone && !assignment.rule->when.empty()) {
    upsert = {Kind::forward, ForwardReason::depends_on_document};
  }
  return keep;
}

/// Scans one statement of a command, of which `all` has the rules of `ns`: notes in `given` which
/// values it gets and keeps, and counts it in `result` if it is an upsert that does not get one, or
/// takes one away. `is_alone`: as for judge_keep(). Returns false if mongod will refuse the
/// command.
bool scan_upsert(const UpsertStatement& statement, std::int32_t index, bool is_alone,
                 const BulkNamespace& ns, const Plan& all, GivenValues& given, ScanResult& result) {
  for (std::size_t i = 0; i < ns.plan->size(); ++i) {
    const Assignment& assignment = all[ns.first + i];
    UpsertVerdict verdict{};
    const KeepVerdict keep = keep_of(statement, assignment, *ns.plan, is_alone, verdict);
    if (keep.kind == KeepVerdict::Kind::malformed) return false;
    if (verdict.kind == UpsertVerdict::Kind::malformed) return false;
    if (keep.kind == KeepVerdict::Kind::kept) {
      given.kept.push_back({index, static_cast<std::uint16_t>(ns.first + i)});
    } else if (keep.kind == KeepVerdict::Kind::lost) {
      count({&assignment, keep.reason, 1}, result.taken_away);
    }
    if (verdict.kind == UpsertVerdict::Kind::assign) {
      given.given.push_back({index, static_cast<std::uint16_t>(ns.first + i), 0});
      if (assignment.sequences == nullptr) continue;
      given.sequences.resize(all.size());
      // judge() has admitted the statement.
      const auto values = known_values(statement, assignment.sequences->fields());
      given.sequences[ns.first + i].add_value(*assignment.sequences, *values, given.opening);
      continue;
    }
    if (statement.kind == UpsertStatement::Kind::plain || assignment.implied) continue;
    if (brings_zero(statement, *assignment.rule)) result.leaves_zero = &assignment;
    if (verdict.kind != UpsertVerdict::Kind::forward) continue;
    count({&assignment, verdict.reason, 1, brings_value(statement, *assignment.rule)},
          result.forwarded);
  }
  return true;
}

/// True if the command fails because a rule refuses upserts that get no value: `result` says so.
bool fails_for_upserts(ScanResult& result) {
  const auto refused = std::ranges::find_if(result.forwarded, [](const Forwarded& each) {
    return each.assignment->rule->upserts == Upserts::refuse && !each.brings_value &&
           !each.past_the_rules;
  });
  if (refused == result.forwarded.end()) return false;
  result.kind = ScanResult::Kind::failed;
  result.error = refused_upsert(*refused);
  return true;
}

/// Ends the scan, which has understood the command so far.
bool fail(CommandError error, ScanResult& result) {
  result.kind = ScanResult::Kind::failed;
  result.error = std::move(error);
  return true;
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

/// Counts the command once for the rules of a time-series collection.
void count_past(const Plan& rules, std::vector<Forwarded>& forwarded) {
  const auto known =
      std::ranges::equal_range(forwarded, &rules.front(), std::less<>(), &Forwarded::assignment);
  if (!known.empty()) return;
  for (const Assignment& each : rules) {
    count({.assignment = &each,
           .reason = ForwardReason::time_series,
           .upserts = 1,
           .past_the_rules = true},
          forwarded);
  }
}

/// Scans a document that a bulkWrite inserts.
bool scan_document(const WriteRequest& write, const BulkOp& op, std::int32_t index,
                   GivenValues& given, InsertRewriter& documents, ScanResult& result) {
  const BulkNamespace& ns = write.namespaces[op.ns];
  if (ns.time_series) count_past(*ns.time_series, result.forwarded);
  if (!ns.plan) return true;
  if (ns.plan->reserves()) return fail(cannot_reserve(*ns.plan), result);
  return documents.scan_one(write, ns, op.document, index, given, result);
}

/// Notes in `given` the value of a stored document, as WriteRequest::assigns says. Returns false if
/// no rule has one. It counts as an upsert, whose reply says whether the value is used.
bool scan_assigned(UpsertStatement& statement, const WriteRequest& write, GivenValues& given) {
  statement.kind = UpsertStatement::Kind::upsert;
  const Plan& plan = *write.plan;
  const auto its = std::ranges::find_if(plan, [&](const Assignment& each) {
    return !each.implied && each.rule->field == write.assigns->field;
  });
  if (its == plan.end()) return false;
  const auto place = static_cast<std::size_t>(its - plan.begin());
  if (its->sequences != nullptr) {
    const std::vector<ids::FieldValue>& values = write.assigns->values;
    // Of another rule after a reload, perhaps.
    const bool is_known = values.size() == its->sequences->fields().size();
    if (!is_known || !its->sequences->refusal(values).empty()) return false;
    given.sequences.resize(plan.size());
    given.sequences[place].add_value(*its->sequences, values, given.opening);
  }
  given.given.push_back({0, static_cast<std::uint16_t>(place), 0});
  return true;
}

/// Scans the statements of one command. Returns false if mongod will refuse it.
bool scan_all(const WriteRequest& write, GivenValues& given, InsertRewriter& documents,
              ScanResult& result) {
  const bool is_bulk = write.command.kind == WriteKind::bulk_write;
  const bool is_alone = goes_alone(write);
  const BulkNamespace only{write.plan};
  const std::optional<BulkOp> update{BulkOp{.kind = BulkOp::Kind::update, .document = {}}};
  given.wanted.assign(write.plan->size(), 0);
  Statements statements(write.command);
  std::int32_t index = 0;
  for (; const auto bytes = statements.next(); ++index) {
    if (static_cast<std::size_t>(index) == kMaxBatch) return false;
    const auto op = is_bulk ? BulkOp::read(*bytes, write.namespaces.size()) : update;
    if (!op) return false;
    if (op->is_unclear) {
      return fail({ErrorCode::operation_failed,
                   "mongo-idproxy: an operation of a bulkWrite must name its collection by an "
                   "integer, not by a Decimal128 or NaN"},
                  result);
    }
    const BulkNamespace& ns = is_bulk ? write.namespaces[op->ns] : only;
    UpsertStatement statement;
    statement.whole = *bytes;
    if (op->kind == BulkOp::Kind::insert) {
      statement.kind = UpsertStatement::Kind::insert;
      if (!scan_document(write, *op, index, given, documents, result)) return false;
    } else if (op->kind == BulkOp::Kind::update) {
      const auto found = UpsertStatement::read(*bytes, write.command.kind);
      if (!found) return false;
      statement = *found;
      statement.is_encrypted = !is_bulk && write.command.is_encrypted;
      if (write.assigns != nullptr) {
        if (!scan_assigned(statement, write, given)) return false;
      } else if (ns.plan &&
                 !scan_upsert(statement, index, is_alone, ns, *write.plan, given, result)) {
        return false;
      }
    }
    given.upserts.push_back(statement.parts(write.message.message()));
    if (given.given.size() > kMostValues) return fail(too_large(), result);
    if (result.kind == ScanResult::Kind::failed) return true;
  }
  result.statements = static_cast<std::size_t>(index);
  return !statements.malformed();
}

}  // namespace

ScanResult scan_updates(const WriteRequest& write, GivenValues& given, InsertRewriter& documents) {
  ScanResult result;
  if (!scan_all(write, given, documents, result)) {
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

}  // namespace idproxy::rewrite
