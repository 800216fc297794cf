#include "idproxy/rewrite/statements.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/document_fields.hpp"

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

/// False if an element is not an int32, the only type that mongod accepts here.
bool read_numbers(const bson::Element& array, std::vector<std::int32_t>& out) {
  if (array.type != bson::Type::array) return false;
  bson::Elements elements(array.value);
  while (const auto element = elements.next()) {
    if (element->type != bson::Type::int32 || out.size() == kMaxBatch) return false;
    out.push_back(load_i32(element->value.data()));
  }
  return !elements.malformed();
}

/// By WriteKind.
constexpr std::array<WriteForm, 4> kForms{{
    {{"insert", "insert"}, "documents", {}},
    {{"update", "update"}, "updates", {"q", "u", "upsert", "multi", "", "arrayFilters", "c"}},
    {{"findAndModify", "findandmodify"},
     "",
     {"query", "update", "upsert", "", "remove", "arrayFilters", ""}},
    {{"bulkWrite", "bulkWrite"},
     "ops",
     {"filter", "updateMods", "upsert", "multi", "", "arrayFilters", "constants"}},
}};

}  // namespace

const WriteForm& form_of(WriteKind kind) {
  return kForms[static_cast<std::size_t>(kind)];
}

std::optional<WriteKind> write_kind(std::string_view command) {
  for (std::size_t i = 0; i < kForms.size(); ++i) {
    const auto& names = kForms[i].names;
    if (command == names[0] || command == names[1]) return static_cast<WriteKind>(i);
  }
  return std::nullopt;
}

bool WriteOptions::take(const bson::Element& field, FieldsOnce& once) {
  // Most fields are none of these: lsid, $db, $clusterTime.
  if (field.key.size() < std::string_view("stmtId").size() || field.key[0] == '$') return true;
  const bool null = field.type == bson::Type::null;  // like an absent field, if allowed
  if (equals(field.key, "ordered")) {
    const auto number = field.as_integer();
    if (!once(field.key) || (!number && !null)) return false;
    ordered = number != 0;
  } else if (equals(field.key, "autocommit")) {
    const bool no = field.type == bson::Type::boolean && field.as_integer() == 0;
    if (!once(field.key) || (!no && !null)) return false;
    in_transaction = no;
  } else if (equals(field.key, "writeConcern")) {
    if (!once(field.key) || field.type != bson::Type::document) return false;
    acknowledged = bson::find_integer(field.value, "w") != 0;
  } else if (equals(field.key, "txnNumber")) {
    if (!once(field.key) || (field.type != bson::Type::int64 && !null)) return false;
    has_txn_number = !null;
  } else if (equals(field.key, "maxTimeMS")) {
    const auto number = field.as_integer();
    if (!once(field.key) || !number || *number < 0) return false;
    if (field.type == bson::Type::boolean) return false;
    if (*number > 0) max_time_ms = number;
  } else if (equals(field.key, "stmtId")) {
    if (!once(field.key) || once.has("stmtIds")) return false;
    if (field.type != bson::Type::int32 && !null) return false;
    if (!null) stmt_id = load_i32(field.value.data());
  } else if (equals(field.key, "stmtIds")) {
    if (!once(field.key) || once.has("stmtId")) return false;
    if (!read_numbers(field, stmt_ids)) return false;
  }
  return true;
}

bool WriteOptions::numbers(std::size_t statements) const {
  if (!stmt_ids.empty()) return stmt_ids.size() == statements;
  const auto last = std::int64_t{stmt_id} + static_cast<std::int64_t>(statements) - 1;
  return last <= std::numeric_limits<std::int32_t>::max();
}

std::optional<WriteOptions> WriteCommand::divisible(std::size_t statement_count) const {
  if (!options) return std::nullopt;
  if (options->may_be_repeated() && !options->numbers(statement_count)) return std::nullopt;
  // The reply would not say where it stopped.
  if (options->ordered && !options->acknowledged) return std::nullopt;
  return options;
}

namespace {

/// What has been seen of a body so far.
struct BodyFields {
  FieldsOnce once;
  std::size_t dbs = 0;
  std::size_t arrays = 0;
};

/// Reads a field behind the name of the command. False if mongod will refuse the command for it.
bool take_field(const bson::Element& field, BodyFields& seen, WriteCommand& out) {
  const bool is_bulk = out.kind == WriteKind::bulk_write;
  const std::string_view identifier = out.identifier();
  if (out.options && !out.options->take(field, seen.once)) out.options.reset();
  if (equals(field.key, "encryptionInformation")) out.is_encrypted = true;
  // findAndModify and the strict Stable API do not know the field (observed, 6.0.5).
  const bool is_strict = equals(field.key, "apiStrict") && field.as_integer() == 1;
  if (is_strict || equals(field.key, "collectionUUID")) out.takes_uuid = false;
  if (equals(field.key, "$db")) {
    if (field.type != bson::Type::string) return false;
    out.db = field.text();
    ++seen.dbs;
  } else if (!identifier.empty() && field.key == identifier) {
    // MongoDB 4.4 takes {"0": …} as well (observed, 4.4.2); later ones refuse it.
    const bool is_list =
        field.type == bson::Type::array || (field.type == bson::Type::document && !is_bulk);
    if (!is_list) return false;
    out.statements = field.value;
    out.array_element = {field.begin, field.end()};
    ++seen.arrays;
  } else if (is_bulk && equals(field.key, "nsInfo")) {
    if (field.type != bson::Type::array || out.ns_info_in_array) return false;
    out.ns_info = field.value;
    out.ns_info_in_array = true;
  } else if (!identifier.empty() && equals(field.key, "stmtIds") &&
             field.type == bson::Type::array) {
    out.stmt_ids = field.value;
  }
  return true;
}

/// Finds the statements, and the collections of a bulkWrite, that are not in the body. False if
/// they are missing or there more than once.
bool take_sections(const wire::OpMsgView& message, std::size_t arrays, WriteCommand& out) {
  if (!out.in_batch()) {
    out.statements = message.body();
    return message.sequence_count() == 0;
  }
  const bool is_bulk = out.kind == WriteKind::bulk_write;
  const std::size_t in_body = arrays + (out.ns_info_in_array ? 1 : 0);
  if (arrays > 1 || in_body + message.sequence_count() != (is_bulk ? 2U : 1U)) return false;
  if (is_bulk && !out.ns_info_in_array) {
    const auto ns_info = message.sequence("nsInfo");
    if (!ns_info) return false;
    out.ns_info = ns_info->documents;
  }
  if (arrays == 1) return true;
  const auto sequence = message.sequence(out.identifier());
  if (!sequence) return false;
  out.sequence = sequence->whole;
  out.statements = sequence->documents;
  return true;
}

}  // namespace

bool WriteCommand::read(const wire::OpMsgView& message, WriteCommand& out) {
  bson::Elements fields(message.body());
  const auto name = fields.next();
  const auto kind = name ? write_kind(name->key) : std::nullopt;
  if (!kind) return false;
  out.kind = *kind;
  if (*kind != WriteKind::bulk_write) {  // which names its collections elsewhere
    // mongod also accepts the deprecated symbol type.
    if (name->type != bson::Type::string && name->type != bson::Type::symbol) return false;
    out.collection = name->text();
  }
  out.options.emplace();
  out.takes_uuid = out.in_batch();
  BodyFields seen;
  bson::Element field;
  while (fields.next(field)) {
    // Two names. Both spellings of one have the same size.
    if (field.key.size() == name->key.size() && write_kind(field.key) == kind) return false;
    if (!take_field(field, seen, out)) return false;
  }
  return !fields.malformed() && seen.dbs == 1 && take_sections(message, seen.arrays, out);
}

void WriteCommand::refer_to(Bytes copy, const wire::OpMsgView& message) {
  for (Bytes* each : {&statements, &array_element, &sequence, &stmt_ids, &ns_info}) {
    *each = message.moved(*each, copy);
  }
  for (std::string_view* each : {&collection, &db}) {
    *each = as_text(message.moved(as_bytes(*each), copy));
  }
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
  for (const bson::Element& element : bson::Elements(stmt_ids)) {
    // mongod refuses all other types.
    if (element.type == bson::Type::int32) numbers.push_back(load_i32(element.value.data()));
  }
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) != numbers.end();
}

Statements::Statements(Bytes all, bool in_array)
    : at_(all.data()), end_(at_ + all.size()), in_array_(in_array) {
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
