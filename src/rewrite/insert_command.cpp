#include "idproxy/rewrite/insert_command.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace idproxy::rewrite {
namespace {

constexpr std::string_view kDocuments = "documents";

bool is_index(std::string_view key, std::size_t number) {
  std::array<char, 20> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return key == std::string_view(text.data(), end);
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
      // mongod also accepts the deprecated symbol type.
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
  const wire::DocumentSequence* sequence = insert.sequence(kDocuments);
  if (sequence == nullptr) return {};
  command.sequence = *sequence;
  command.documents = sequence->documents;
  return command;
}

bool InsertCommand::repeats_stmt_id() const {
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

}  // namespace idproxy::rewrite
