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
    {"documents", WriteFields::documents, {}},
    {"updates", WriteFields::updates, {"q", "u", "upsert", "multi", "", "arrayFilters", "c"}},
    {"", {}, {"query", "update", "upsert", "", "remove", "arrayFilters", ""}},
    {"ops",
     WriteFields::ops,
     {"filter", "updateMods", "upsert", "multi", "", "arrayFilters", "constants"}},
}};

/// By WriteFields::Name.
constexpr std::array<std::string_view, 20> kFields{
    "insert",        "update",         "findAndModify",
    "findandmodify", "bulkWrite",      "$db",
    "documents",     "updates",        "ops",
    "nsInfo",        "ordered",        "autocommit",
    "writeConcern",  "txnNumber",      "maxTimeMS",
    "stmtId",        "stmtIds",        "encryptionInformation",
    "apiStrict",     "collectionUUID",
};

/// Of the commands, with whose names kFields begins.
constexpr std::array<WriteKind, 5> kKinds{
    WriteKind::insert,          WriteKind::update,     WriteKind::find_and_modify,
    WriteKind::find_and_modify, WriteKind::bulk_write,
};

}  // namespace

const WriteForm& form_of(WriteKind kind) {
  return kForms[static_cast<std::size_t>(kind)];
}

std::optional<WriteKind> write_kind(std::string_view command) {
  for (std::size_t each = 0; each < kKinds.size(); ++each) {
    if (command == kFields[each]) return kKinds[each];
  }
  return std::nullopt;
}

WriteFields::WriteFields() : KnownFields(kFields) {}

bool WriteOptions::read(const WriteFields& fields) {
  using Its = WriteFields;
  using bson::Type;
  if (fields.is_twice(Its::ordered, Its::stmt_ids)) return false;
  // Null is like an absent field, if it is allowed.
  if (const auto* field = fields[Its::ordered]) {
    const auto number = field->as_integer();
    if (!number && field->type != Type::null) return false;
    ordered = number != 0;
  }
  if (const auto* field = fields[Its::autocommit]) {
    in_transaction = field->type == Type::boolean && field->as_integer() == 0;
    if (!in_transaction && field->type != Type::null) return false;
  }
  if (const auto* field = fields[Its::write_concern]) {
    if (field->type != Type::document) return false;
    acknowledged = bson::find_integer(field->value, "w") != 0;
  }
  if (const auto* field = fields[Its::txn_number]) {
    has_txn_number = field->type == Type::int64;
    if (!has_txn_number && field->type != Type::null) return false;
  }
  if (const auto* field = fields[Its::max_time_ms]) {
    const auto number = field->as_integer();
    if (!number || *number < 0 || field->type == Type::boolean) return false;
    if (*number > 0) max_time_ms = number;
  }
  const auto* const ids = fields[Its::stmt_ids];
  if (const auto* field = fields[Its::stmt_id]) {
    if (ids != nullptr) return false;
    if (field->type != Type::int32) return field->type == Type::null;
    stmt_id = load_i32(field->value.data());
  }
  return ids == nullptr || read_numbers(*ids, stmt_ids);
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

/// Reads what the command has beside its name and its options. False if mongod will refuse it for
/// that.
bool take_fields(const wire::OpMsgView& message, const WriteFields& fields, WriteCommand& out) {
  using Its = WriteFields;
  using bson::Type;
  const bool is_bulk = out.kind == WriteKind::bulk_write;
  const auto* const db = fields[Its::database];
  if (db == nullptr || db->type != Type::string || fields.is_twice(Its::database)) return false;
  out.places.db = out.place_of(as_bytes(db->text()));
  out.is_encrypted = fields[Its::encryption_information] != nullptr;
  // findAndModify and the strict Stable API do not know the field (observed, 6.0.5).
  const auto* const strict = fields[Its::api_strict];
  const bool is_strict =
      strict != nullptr && (strict->as_integer() == 1 || fields.is_twice(Its::api_strict));
  // Nobody would hear that the collection is another one.
  const bool is_answered =
      (!out.options || out.options->acknowledged) && !message.has(wire::flag::kMoreToCome);
  out.takes_uuid =
      out.in_batch() && is_answered && !is_strict && fields[Its::collection_uuid] == nullptr;
  if (!out.in_batch()) return true;
  const auto list = form_of(out.kind).list;
  if (const auto* field = fields[list]) {
    // MongoDB 4.4 takes {"0": …} as well (observed, 4.4.2); later ones refuse it.
    const bool is_list = field->type == Type::array || (field->type == Type::document && !is_bulk);
    if (!is_list || fields.is_twice(list)) return false;
    out.places.statements = out.place_of(field->value);
    out.places.array_element = out.place_of({field->begin, field->end()});
  }
  if (const auto* field = fields[Its::ns_info]; is_bulk && field != nullptr) {
    if (field->type != Type::array || fields.is_twice(Its::ns_info)) return false;
    out.places.ns_info = out.place_of(field->value);
    out.ns_info_in_array = true;
  }
  const auto* const ids = fields[Its::stmt_ids];
  if (ids == nullptr) return true;
  if (fields.is_twice(Its::stmt_ids)) return false;
  if (ids->type == Type::array) out.places.stmt_ids = out.place_of(ids->value);
  return true;
}

/// Finds the statements, and the collections of a bulkWrite, that are not in the body. False if
/// they are missing or there more than once.
bool take_sections(const wire::OpMsgView& message, WriteCommand& out) {
  if (!out.in_batch()) {
    out.places.statements = out.place_of(message.body());
    return message.sequence_count() == 0;
  }
  const bool is_bulk = out.kind == WriteKind::bulk_write;
  const std::size_t in_body = (out.in_array() ? 1U : 0U) + (out.ns_info_in_array ? 1U : 0U);
  if (in_body + message.sequence_count() != (is_bulk ? 2U : 1U)) return false;
  if (is_bulk && !out.ns_info_in_array) {
    const auto ns_info = message.sequence("nsInfo");
    if (!ns_info) return false;
    out.places.ns_info = out.place_of(ns_info->documents);
  }
  if (out.in_array()) return true;
  const auto sequence = message.sequence(out.identifier());
  if (!sequence) return false;
  out.places.sequence = out.place_of(sequence->whole);
  out.places.statements = out.place_of(sequence->documents);
  return true;
}

}  // namespace

bool WriteCommand::read(const wire::OpMsgView& message, WriteFields& fields, WriteCommand& out) {
  out.message = message.message().data();
  if (!fields.read(message.body())) return false;
  // The command is the first field. No other may have its name, in any spelling.
  const bson::Element* name = nullptr;
  bool is_in_both = true;
  for (std::size_t each = 0; each < kKinds.size(); ++each) {
    const auto* const its = fields[each];
    if (its == nullptr || its->begin != message.body().data() + 4) continue;
    name = its;
    out.kind = kKinds[each];
    is_in_both = fields.is_twice(each);
  }
  if (name == nullptr || is_in_both) return false;
  is_in_both = fields[WriteFields::find_and_modify] != nullptr &&
               fields[WriteFields::find_and_modify_in_lower_case] != nullptr;
  if (is_in_both && out.kind == WriteKind::find_and_modify) return false;
  if (out.kind != WriteKind::bulk_write) {  // which names its collections elsewhere
    // mongod also accepts the deprecated symbol type.
    if (name->type != bson::Type::string && name->type != bson::Type::symbol) return false;
    out.places.collection = out.place_of(as_bytes(name->text()));
  }
  if (!out.options.emplace().read(fields)) out.options.reset();
  return take_fields(message, fields, out) && take_sections(message, out);
}

std::optional<std::vector<std::int32_t>> WriteCommand::movable() const {
  std::vector<std::int32_t> all;
  Statements walk(*this);
  while (walk.next()) all.push_back(static_cast<std::int32_t>(all.size()));
  if (walk.malformed() || !walk.plain_keys()) return std::nullopt;
  return all;
}

bool WriteCommand::repeats_stmt_id() const {
  if (places.stmt_ids.size == 0) return false;
  std::vector<std::int64_t> numbers;
  for (const bson::Element& element : bson::Elements(stmt_ids())) {
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
