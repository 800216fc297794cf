#include "idproxy/rewrite/write.hpp"

#include <array>
#include <limits>
#include <utility>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {

void GivenSequences::add_value(std::shared_ptr<ids::Source> sequence, Known& known) {
  const auto next = static_cast<std::uint32_t>(all.size());
  const auto [its, is_new] = known.emplace(sequence.get(), next);
  if (is_new) all.push_back(std::move(sequence));
  of_value.push_back(its->second);
}

void GivenValues::clear() {
  for (ids::Values& each : values) each.clear();
  given.clear();
  wanted.clear();
  sequences.clear();
  multi.clear();
}

std::size_t GivenValues::capacity() const {
  std::size_t size = given.capacity() * sizeof(Given);
  for (const ids::Values& each : values) size += each.capacity();
  return size;
}
namespace {

/// False if an element is not an int32, the only type that mongod accepts here.
bool read_numbers(const bson::Element& array, std::vector<std::int32_t>& out) {
  if (array.type != bson::Type::array) return false;
  bson::Elements elements(array.value);
  while (const auto element = elements.next()) {
    if (element->type != bson::Type::int32) return false;
    out.push_back(load_i32(element->value.data()));
  }
  return !elements.malformed();
}

}  // namespace

std::optional<WriteOptions> WriteOptions::read(Bytes body) {
  enum : unsigned {
    kWriteConcern,
    kOrdered,
    kAutocommit,
    kTxnNumber,
    kMaxTime,
    kStmtId,
    kStmtIds,
    kFields
  };
  std::array<bool, kFields> seen{};
  const auto once = [&](unsigned field) { return !std::exchange(seen[field], true); };
  WriteOptions options;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    const bool null = field->type == bson::Type::null;  // like an absent field, if allowed
    const auto number = field->as_integer();
    if (field->key == "ordered") {
      if (!once(kOrdered) || (!number && !null)) return {};
      options.ordered = number != 0;
    } else if (field->key == "autocommit") {
      const bool no = field->type == bson::Type::boolean && number == 0;
      if (!once(kAutocommit) || (!no && !null)) return {};
      options.in_transaction = no;
    } else if (field->key == "writeConcern") {
      if (!once(kWriteConcern) || field->type != bson::Type::document) return {};
      const auto w = bson::find(field->value, "w");
      options.acknowledged = !w || w->as_integer() != 0;
    } else if (field->key == "txnNumber") {
      if (!once(kTxnNumber) || (field->type != bson::Type::int64 && !null)) return {};
      options.has_txn_number = !null;
    } else if (field->key == "maxTimeMS") {
      if (!once(kMaxTime) || !number || *number < 0) return {};
      if (field->type == bson::Type::boolean) return {};
      if (*number > 0) options.max_time_ms = number;
    } else if (field->key == "stmtId") {
      if (!once(kStmtId) || (field->type != bson::Type::int32 && !null)) return {};
      if (!null) options.stmt_id = load_i32(field->value.data());
    } else if (field->key == "stmtIds") {
      if (!once(kStmtIds) || !read_numbers(*field, options.stmt_ids)) return {};
    }
  }
  if (fields.malformed() || (seen[kStmtId] && seen[kStmtIds])) return {};
  return options;
}

bool WriteOptions::numbers(std::size_t statements) const {
  if (!stmt_ids.empty()) return stmt_ids.size() == statements;
  const auto last = std::int64_t{stmt_id} + static_cast<std::int64_t>(statements) - 1;
  return last <= std::numeric_limits<std::int32_t>::max();
}

std::optional<WriteOptions> divisible(const wire::OpMsgView& command, std::size_t statements) {
  auto options = WriteOptions::read(command.body());
  if (!options) return std::nullopt;
  const bool numbered = options->has_txn_number && !options->in_transaction;
  if (numbered && !options->numbers(statements)) return std::nullopt;
  // The reply would not say where it stopped.
  if (options->ordered && !options->acknowledged) return std::nullopt;
  return options;
}

}  // namespace idproxy::rewrite
