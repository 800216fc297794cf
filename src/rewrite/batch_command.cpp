#include "idproxy/rewrite/batch_command.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "idproxy/base/text.hpp"

namespace idproxy::rewrite {
namespace {

bool is_index(std::string_view key, std::size_t number) {
  std::array<char, 20> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return key == std::string_view(text.data(), end);
}

}  // namespace

std::optional<WriteKind> write_kind(std::string_view command) {
  if (equals(command, "insert")) return WriteKind::insert;
  if (equals(command, "update")) return WriteKind::update;
  // mongod accepts both spellings.
  if (equals(command, "findAndModify") || equals(command, "findandmodify")) {
    return WriteKind::find_and_modify;
  }
  return std::nullopt;
}

std::string_view BatchCommand::identifier() const {
  if (kind == WriteKind::find_and_modify) return {};
  return kind == WriteKind::insert ? "documents" : "updates";
}

std::optional<BatchCommand> BatchCommand::read(const wire::OpMsgView& message) {
  bson::Elements fields(message.body());
  const auto name = fields.next();
  const auto kind = name ? write_kind(name->key) : std::nullopt;
  // mongod also accepts the deprecated symbol type.
  if (!kind || (name->type != bson::Type::string && name->type != bson::Type::symbol)) return {};
  BatchCommand command;
  command.kind = *kind;
  command.collection = name->text();
  const std::string_view identifier = command.identifier();
  std::size_t dbs = 0;
  std::size_t arrays = 0;
  while (const auto field = fields.next()) {
    // Two names. Both spellings of one have the same size.
    if (field->key.size() == name->key.size() && write_kind(field->key) == kind) return {};
    if (equals(field->key, "$db")) {
      if (field->type != bson::Type::string) return {};
      command.db = field->text();
      ++dbs;
    } else if (!identifier.empty() && field->key == identifier) {
      if (field->type != bson::Type::array) return {};
      command.statements = field->value;
      command.array_element = {field->begin, field->end()};
      ++arrays;
    } else if (!identifier.empty() && equals(field->key, "stmtIds") &&
               field->type == bson::Type::array) {
      command.stmt_ids = field->value;
    }
  }
  if (fields.malformed() || dbs != 1) return {};
  if (*kind == WriteKind::find_and_modify) {
    command.statements = message.body();
    if (message.sequence_count() > 0) return {};
    return command;
  }
  if (arrays + message.sequence_count() != 1) return {};
  if (arrays == 1) return command;
  command.sequence = message.sequence(identifier);
  if (!command.sequence) return {};
  command.statements = command.sequence->documents;
  return command;
}

bool BatchCommand::repeats_stmt_id() const {
  if (stmt_ids.empty()) return false;
  std::vector<std::int64_t> numbers;
  bson::Elements elements(stmt_ids);
  while (const auto element = elements.next()) {
    // mongod refuses all other types.
    if (element->type == bson::Type::int32) numbers.push_back(load_i32(element->value.data()));
  }
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) != numbers.end();
}

BatchStatements::BatchStatements(const BatchCommand& command) {
  if (command.in_array()) {
    array_.emplace(command.statements);
  } else {
    rest_ = command.statements;
  }
}

std::optional<Bytes> BatchStatements::next() {
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

}  // namespace idproxy::rewrite
