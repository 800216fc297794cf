#include "rewrite/upsert_statement.hpp"

#include <array>
#include <bit>
#include <string_view>
#include <utility>

namespace idproxy::rewrite {
namespace {

/// The meaning of an option such as `upsert` to mongod, which accepts booleans and numbers, and
/// treats null as absent.
enum class Truth { no, yes, unknown, refused };

Truth truth_of(const bson::Element& option) {
  switch (option.type) {
    case bson::Type::boolean:
    case bson::Type::int32:
    case bson::Type::int64:
      return option.as_integer() == 0 ? Truth::no : Truth::yes;
    case bson::Type::number_double:
      return std::bit_cast<double>(load_i64(option.value.data())) == 0 ? Truth::no : Truth::yes;
    case bson::Type::null:
    case bson::Type::undefined:
      return Truth::no;
    case bson::Type::decimal128:
      return Truth::unknown;
    default:
      return Truth::refused;
  }
}

/// The fields of a statement that matter here. Each may occur once.
struct Fields {
  std::optional<bson::Element> filter, update, upsert, multi, remove;

  /// Returns false if a field is repeated or the statement is malformed.
  [[nodiscard]] bool read(Bytes statement, bool in_batch) {
    const std::array<std::pair<std::string_view, std::optional<bson::Element>*>, 4> all{
        {{in_batch ? "q" : "query", &filter},
         {in_batch ? "u" : "update", &update},
         {in_batch ? "multi" : "remove", in_batch ? &multi : &remove},
         {"upsert", &upsert}}};
    bson::Elements elements(statement);
    while (const auto element = elements.next()) {
      for (const auto& [name, field] : all) {
        if (element->key != name) continue;
        if (field->has_value()) return false;
        *field = *element;
      }
    }
    return !elements.malformed();
  }
};

Truth truth_of(const std::optional<bson::Element>& option) {
  return option ? truth_of(*option) : Truth::no;
}

bool is_absent(const std::optional<bson::Element>& field) {
  return !field || field->type == bson::Type::null || field->type == bson::Type::undefined;
}

}  // namespace

std::optional<UpsertStatement> UpsertStatement::read(Bytes statement, WriteKind kind) {
  const bool in_batch = kind == WriteKind::update;
  Fields fields;
  if (!fields.read(statement, in_batch)) return std::nullopt;
  const Truth upsert = truth_of(fields.upsert);
  const Truth multi = truth_of(fields.multi);
  const Truth remove = truth_of(fields.remove);
  if (upsert == Truth::refused || multi == Truth::refused || remove == Truth::refused) return {};
  UpsertStatement found;
  found.whole = statement;
  found.multi = multi != Truth::no;
  if (upsert == Truth::no || remove == Truth::yes) return found;
  // In findAndModify, the filter is optional.
  if (is_absent(fields.filter) ? in_batch : fields.filter->type != bson::Type::document) return {};
  if (!is_absent(fields.filter)) found.filter = fields.filter->value;
  if (is_absent(fields.update)) return std::nullopt;
  found.update = *fields.update;
  if (found.update.type != bson::Type::document && !found.is_pipeline()) return std::nullopt;
  found.kind = upsert == Truth::yes && remove == Truth::no ? Kind::upsert : Kind::unknown;
  return found;
}

bool has_upsert(const BatchCommand& command) {
  BatchStatements statements(command);
  while (const auto statement = statements.next()) {
    const auto upsert = bson::find(*statement, "upsert");
    if (upsert && truth_of(*upsert) != Truth::no) return true;
  }
  return false;
}

}  // namespace idproxy::rewrite
