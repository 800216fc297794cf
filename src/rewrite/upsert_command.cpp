#include "rewrite/upsert_command.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "rewrite/keep.hpp"
#include "rewrite/part_frame.hpp"
#include "rewrite/upsert.hpp"
#include "rewrite/upsert_edit.hpp"

namespace idproxy::rewrite {
namespace {

std::int64_t as_signed(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

// ---- reading ---------------------------------------------------------------------------------

/// Notes which sequence the next value of the assignment comes from, as for a document. judge() has
/// admitted the statement.
void choose_sequence(const UpsertStatement& statement, const ids::Sequences& sequences,
                     GivenSequences& its, ids::Opening opening) {
  const auto values = known_values(statement, sequences.fields());
  // Only the date decides: the same for all statements of a command, also at midnight.
  if (values->empty() && !its.all.empty()) return its.of_value.push_back(0);
  its.add_value(sequences.sequence(*values, opening));
}

}  // namespace

bool goes_alone(const WriteRequest& write) {
  const bool is_bulk = write.command.kind == WriteKind::bulk_write;
  if (is_bulk || write.message.has(wire::flag::kMoreToCome)) return false;
  if (write.command.kind == WriteKind::update) {
    Statements statements(write.command);
    if (!statements.next() || statements.next()) return false;
  }
  const auto options = divisible(write.message, 1);
  return options && options->acknowledged;
}

bool says_nothing_found(Bytes reply, WriteKind kind) {
  const bool is_one = kind == WriteKind::find_and_modify;
  if (bson::find_integer(reply, "ok") != 1) {
    return is_one && bson::find_integer(reply, "code") == ErrorCode::was_upsert;
  }
  if (bson::find(reply, "writeErrors") || bson::find(reply, "retriedStmtIds")) return false;
  if (!is_one) return bson::find_integer(reply, "n") == 0;
  const auto last = bson::find(reply, "lastErrorObject", bson::Type::document);
  return last && bson::find_integer(last->value, "n") == 0;
}

namespace {

/// Scans the statements of one command. Returns false if mongod will refuse it.
bool scan_all(const WriteRequest& write, GivenValues& given, ScanResult& result) {
  const bool is_alone = goes_alone(write);
  const bool is_encrypted = bson::find(write.message.body(), "encryptionInformation").has_value();
  Statements statements(write.command);
  std::int32_t index = 0;
  for (; const auto statement = statements.next(); ++index) {
    if (static_cast<std::size_t>(index) == kMaxBatch) return false;
    auto found = UpsertStatement::read(*statement, write.command.kind);
    if (found) found->is_encrypted = is_encrypted;
    if (!found ||
        !scan_upsert(*found, index, is_alone, {write.plan, 0}, *write.plan, given, result)) {
      return false;
    }
    given.upserts.push_back(found->parts(write.message.message()));
    if (given.given.size() <= kMostValues) continue;
    result.kind = ScanResult::Kind::failed;
    result.error = too_large();
    return true;
  }
  result.statements = static_cast<std::size_t>(index);
  return !statements.malformed();
}

CommandError refused_upsert(const Forwarded& forwarded) {
  return {ErrorCode::operation_failed,
          "mongo-idproxy: an upsert into " + forwarded.assignment->ns +
              " can get no value for field '" + forwarded.assignment->rule->field + "' (" +
              std::string(name_of(forwarded.reason)) + "), and the rule's `upserts` is refuse; " +
              std::string(way_out_of(forwarded.reason, forwarded.assignment->rule->field))};
}

}  // namespace

namespace {

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

/// Whether its stored value stays. From an upsert by operators that can get no value, nothing is
/// left out: it may have to insert what is left.
KeepVerdict keep_of(const UpsertStatement& statement, const Assignment& assignment, bool is_alone,
                    UpsertVerdict& upsert) {
  KeepVerdict keep = judge_keep(statement, assignment, is_alone);
  const bool is_kept = keep.kind == KeepVerdict::Kind::kept;
  upsert = judge(statement, assignment, is_kept);
  const bool is_plain = statement.kind == UpsertStatement::Kind::plain;
  if (is_kept && !statement.is_replacement && !is_plain &&
      upsert.kind != UpsertVerdict::Kind::assign) {
    keep = {KeepVerdict::Kind::lost, LossReason::unset};
  }
  return keep;
}

}  // namespace

bool scan_upsert(const UpsertStatement& statement, std::int32_t index, bool is_alone,
                 const BulkNamespace& ns, const Plan& all, GivenValues& given, ScanResult& result) {
  for (std::size_t i = 0; i < ns.plan->size(); ++i) {
    const Assignment& assignment = all[ns.first + i];
    UpsertVerdict verdict{};
    const KeepVerdict keep = keep_of(statement, assignment, is_alone, verdict);
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
      choose_sequence(statement, *assignment.sequences, given.sequences[ns.first + i],
                      given.opening);
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

ScanResult scan_upserts(const WriteRequest& write, GivenValues& given) {
  ScanResult result;
  if (!scan_all(write, given, result)) {
    given = {};
    return {};
  }
  if (result.kind == ScanResult::Kind::failed || fails_for_upserts(result)) return result;
  if (given.given.empty() && given.kept.empty()) return result;
  number_values(*write.plan, given);
  result.size = write.message.message().size();
  result.kind = ScanResult::Kind::assigned;
  return result;
}

namespace {

/// True if the field has a type that mongod accepts. Only for fields that a statement may have.
bool has_known_type(const bson::Element& field) {
  using bson::Type;
  const auto is = [&](std::initializer_list<Type> types) {
    return std::ranges::find(types, field.type) != types.end();
  };
  if (field.key == "u" || field.key == "updateMods") return is({Type::document, Type::array});
  if (field.key == "multi" || field.key == "upsert") return is({Type::boolean});
  if (field.key == "hint") return is({Type::document, Type::string});
  if (field.key == "insert" || field.key == "update" || field.key == "delete") {
    return is({Type::int32});
  }
  if (field.key != "arrayFilters") return is({Type::document});
  if (field.type != Type::array) return false;
  bson::Elements filters(field.value);
  while (const auto filter = filters.next()) {
    if (filter->type != Type::document) return false;
  }
  return true;
}

}  // namespace

bool separable_statement(Bytes statement, std::span<const std::string_view> known,
                         std::size_t needed) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  if (as_signed(statement.size()) > bson::kMaxInternalDocument) return false;
  if (!bson::well_formed(statement, kLevels)) return false;
  std::vector<std::string_view> names;
  bson::Elements fields(statement);
  while (const auto field = fields.next()) {
    if (std::ranges::find(known, field->key) == known.end() || !has_known_type(*field))
      return false;
    if (std::ranges::find(names, field->key) != names.end()) return false;
    names.push_back(field->key);
  }
  return std::ranges::all_of(known.first(needed), [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  });
}

bool separable_updates(const WriteCommand& command) {
  static constexpr auto kFields = std::to_array<std::string_view>(
      {"q", "u", "multi", "upsert", "hint", "collation", "arrayFilters", "c", "sort"});
  Statements statements(command);
  while (const auto statement = statements.next()) {
    if (!separable_statement(*statement, kFields, 2)) return false;
  }
  return !statements.malformed() && statements.plain_keys();
}

// ---- writing ---------------------------------------------------------------------------------

namespace {

/// The places of the lengths around the statements, and what they are before the change.
class LengthsAround {
 public:
  explicit LengthsAround(wire::PatchedMessage& out) : out_(out) {}

  /// Keeps the message from `at` on up to the length at `place`, and makes room for that.
  void open(Bytes message, std::size_t& at, std::size_t place) {
    out_.keep(at, place);
    open_[count_++] = {out_.add_i32(), load_i32(message.data() + place)};
    at = place + 4;
  }
  void close(std::int64_t growth) {
    for (const Open& each : std::span(open_).first(count_)) {
      out_.set_i32(each.place, each.value + growth);
    }
  }

 private:
  struct Open {
    std::size_t place;
    std::int64_t value;
  };
  wire::PatchedMessage& out_;
  std::array<Open, 3> open_{};
  std::size_t count_ = 0;
};

}  // namespace

namespace {

/// The statements that get or keep values, ascending.
std::vector<std::int32_t> changed_statements(const GivenValues& given) {
  std::vector<std::int32_t> all;
  all.reserve(given.given.size() + given.kept.size());
  for (const Given& each : given.given) all.push_back(each.statement);
  for (const Kept& each : given.kept) all.push_back(each.statement);
  if (!given.kept.empty()) std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  return all;
}

}  // namespace

void emit_upserts(const WriteRequest& write, const GivenValues& given, UpsertEdit::As as,
                  wire::PatchedMessage& out) {
  const WriteCommand& command = write.command;
  const Bytes message = write.message.message();
  const auto offset = [&](Bytes part) {
    return static_cast<std::size_t>(part.data() - message.data());
  };
  out.start(message);
  LengthsAround lengths(out);
  std::size_t at = 0;
  lengths.open(message, at, 0);
  if (command.in_array()) {
    lengths.open(message, at, offset(write.message.body()));
    lengths.open(message, at, offset(command.statements));
  } else if (command.sequence) {
    lengths.open(message, at, offset(command.sequence->whole) + 1);
  }
  std::int64_t growth = 0;
  for (const std::int32_t index : changed_statements(given)) {
    const UpsertEdit edit(write, given, index, as);
    const Bytes statement = edit.statement().whole;
    out.keep(at, offset(statement));
    edit.write(message, statement, out);
    at = offset(statement) + statement.size();
    growth += edit.growth();
  }
  const std::int64_t body = as_signed(write.message.body().size());
  if (command.in_array() && body <= bson::kMaxInternalDocument &&
      body + growth > bson::kMaxInternalDocument) {
    // As InsertRewriter does with documents.
    if (const auto all = command.movable()) {
      const std::int32_t request_id = write.message.header().request_id;
      static_cast<void>(emit_part_of_upserts(
          write, given, {*all, nullptr, true, std::nullopt, request_id}, out, as));
      return;
    }
  }
  const bool checksum = write.message.has(wire::flag::kChecksumPresent);
  out.keep(at, message.size() - (checksum ? 4 : 0));
  lengths.close(growth);
  if (checksum) out.add_checksum();
}

namespace {

/// Writes a findAndModify with another request id and maxTimeMS.
void emit_find_and_modify(const WriteRequest& write, const GivenValues& given,
                          const WritePart& part, wire::PatchedMessage& out) {
  const wire::OpMsgView& client = write.message;
  const Bytes message = client.message();
  const UpsertEdit edit(write, given, 0);
  out.start(message);
  const std::size_t message_size = out.add_i32();
  out.set_i32(out.add_i32(), part.request_id);
  out.keep(8, wire::kSectionsOffset);
  *out.add(1) = 0;
  const std::size_t start = out.size();
  const std::size_t size = out.add_i32();
  bson::Elements fields(client.body());
  while (const auto field = fields.next()) {
    const Bytes element(field->begin, field->end());
    const auto at = static_cast<std::size_t>(field->begin - message.data());
    if (part.options != nullptr && field->key == "maxTimeMS") {
      Buffer time;
      if (part.max_time_ms) bson::append_int64(time, field->key, *part.max_time_ms);
      out.add(time.view());
    } else if (field->value.data() == edit.statement().update.data()) {
      edit.write(message, element, out);
    } else if (part.leaves_out_begin(field->key)) {
      continue;
    } else if (part.instead.empty() || !bson::find(part.instead, field->key)) {
      out.keep(at, at + element.size());
    }
  }
  if (!part.instead.empty()) {
    out.add(part.instead.subspan(4, part.instead.size() - bson::kMinDocument));
  }
  *out.add(1) = 0;
  out.set_i32(size, as_signed(out.size() - start));
  const bool checksum = client.has(wire::flag::kChecksumPresent);
  out.set_i32(message_size, as_signed(out.size() + (checksum ? 4 : 0)));
  if (checksum) out.add_checksum();
}

}  // namespace

std::size_t emit_part_of_upserts(const WriteRequest& write, const GivenValues& given,
                                 const WritePart& part, wire::PatchedMessage& out,
                                 UpsertEdit::As as) {
  if (write.command.kind == WriteKind::find_and_modify) {
    emit_find_and_modify(write, given, part, out);
    return 1;
  }
  PartFrame frame(write, part, out);
  for (const std::int32_t index : part.statements) {
    const UpsertEdit edit(write, given, index, as);
    edit.write(write.message.message(), edit.statement().whole, out);
    if (!frame.has_room()) break;
  }
  return frame.close();
}

}  // namespace idproxy::rewrite
