#include "idproxy/rewrite/insert_command.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace idproxy::rewrite {
namespace {

constexpr std::string_view kDocuments = "documents";

bool is_index(std::string_view key, std::size_t number) {
  std::array<char, 20> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return key == std::string_view(text.data(), end);
}

/// False if an element is no int32, the only type that mongod takes here.
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

std::optional<InsertCommand> InsertCommand::read(const wire::OpMsgView& insert) {
  InsertCommand command;
  std::size_t inserts = 0;
  std::size_t dbs = 0;
  std::size_t arrays = 0;
  bson::Elements fields(insert.body());
  while (const auto field = fields.next()) {
    if (field->key == "insert") {
      // mongod takes the deprecated symbol type too.
      if (field->type != bson::Type::string && field->type != bson::Type::symbol) return {};
      command.collection = field->text();
      ++inserts;
    } else if (field->key == "$db") {
      if (field->type != bson::Type::string) return {};
      command.db = field->text();
      ++dbs;
    } else if (field->key == kDocuments) {
      if (field->type != bson::Type::array) return {};
      command.documents = field->value;
      command.array_element = {field->begin, field->end()};
      ++arrays;
    } else if (field->key == "stmtIds" && field->type == bson::Type::array) {
      command.stmt_ids = field->value;
    }
  }
  if (fields.malformed() || inserts != 1 || dbs != 1 || arrays > 1) return {};
  if (arrays + insert.sequence_count() != 1) return {};
  if (arrays == 1) return command;
  command.sequence = insert.sequence(kDocuments);
  if (command.sequence == nullptr) return {};
  command.documents = command.sequence->documents;
  return command;
}

bool InsertCommand::repeats_stmt_id() const {
  if (stmt_ids.empty()) return false;
  std::vector<std::int64_t> numbers;
  bson::Elements elements(stmt_ids);
  while (const auto element = elements.next()) {
    // mongod refuses all but int32.
    if (element->type == bson::Type::int32) numbers.push_back(load_i32(element->value.data()));
  }
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) != numbers.end();
}

InsertDocuments::InsertDocuments(const InsertCommand& command) {
  if (command.in_body()) {
    array_.emplace(command.documents);
  } else {
    rest_ = command.documents;
  }
}

std::optional<Bytes> InsertDocuments::next() {
  if (array_) {
    const auto element = array_->next();
    malformed_ = array_->malformed() || (element && element->type != bson::Type::document);
    if (!element || malformed_) return std::nullopt;
    plain_keys_ = plain_keys_ && is_index(element->key, count_++);
    return element->value;
  }
  if (rest_.empty()) return std::nullopt;
  const auto document = bson::document_at(rest_);
  malformed_ = !document;
  if (document) rest_ = rest_.subspan(document->size());
  return document;
}

std::optional<InsertOptions> InsertOptions::read(Bytes body) {
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
  InsertOptions options;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    const bool null = field->type == bson::Type::null;  // is as good as absent, where it is allowed
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

bool InsertOptions::numbers(std::size_t documents) const {
  if (!stmt_ids.empty()) return stmt_ids.size() == documents;
  const auto last = std::int64_t{stmt_id} + static_cast<std::int64_t>(documents) - 1;
  return last <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace idproxy::rewrite
