#include "idproxy/rewrite/statements.hpp"

#include <algorithm>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {
namespace {

/// The NUL of the number at `at`, as an array has it as a key; null if there is another key.
const std::uint8_t* end_of_index(const std::uint8_t* at, const std::uint8_t* end,
                                 std::size_t number) {
  const std::uint8_t* const first = at;
  std::size_t read = 0;
  for (; at != end && *at >= '0' && *at <= '9' && read <= number; ++at) {
    read = read * 10 + static_cast<std::size_t>(*at - '0');
  }
  const bool shortest = at - first == 1 || *first != '0';
  return at != first && at != end && *at == 0 && read == number && shortest ? at : nullptr;
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

std::string_view WriteCommand::identifier() const {
  if (kind == WriteKind::find_and_modify) return {};
  return kind == WriteKind::insert ? "documents" : "updates";
}

std::optional<WriteCommand> WriteCommand::read(const wire::OpMsgView& message) {
  bson::Elements fields(message.body());
  const auto name = fields.next();
  const auto kind = name ? write_kind(name->key) : std::nullopt;
  // mongod also accepts the deprecated symbol type.
  if (!kind || (name->type != bson::Type::string && name->type != bson::Type::symbol)) return {};
  WriteCommand command;
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
      // MongoDB 4.4 takes {"0": …} as well (observed, 4.4.2); later ones refuse it.
      const bool is_list = field->type == bson::Type::array || field->type == bson::Type::document;
      if (!is_list) return {};
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

std::optional<std::vector<std::int32_t>> WriteCommand::movable() const {
  std::vector<std::int32_t> all;
  Statements walk(*this);
  while (walk.next()) all.push_back(static_cast<std::int32_t>(all.size()));
  if (walk.malformed() || !walk.plain_keys()) return std::nullopt;
  return all;
}

bool WriteCommand::repeats_stmt_id() const {
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

Statements::Statements(const WriteCommand& command)
    : at_(command.statements.data()),
      end_(at_ + command.statements.size()),
      in_array_(command.in_array()) {
  if (!in_array_) return;
  at_ += 4;
  --end_;
}

/// Goes from an element of the array to its value. False if that is no document.
bool Statements::skip_key() {
  if (static_cast<bson::Type>(*at_) != bson::Type::document) return false;
  const std::uint8_t* const key = at_ + 1;
  const std::uint8_t* nul = plain_keys_ ? end_of_index(key, end_, count_++) : nullptr;
  if (nul == nullptr) {
    plain_keys_ = false;
    nul = std::find(key, end_, 0);
  }
  at_ = nul + 1;
  return nul != end_;
}

}  // namespace idproxy::rewrite
