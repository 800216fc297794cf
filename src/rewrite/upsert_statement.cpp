#include "rewrite/upsert_statement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/bson/elements.hpp"

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
  std::optional<bson::Element> filter, update, upsert, multi, remove, array_filters, constants;

  /// Returns false if a field is repeated or the statement is malformed.
  [[nodiscard]] bool read(Bytes statement, WriteKind kind) {
    const auto& names = form_of(kind).fields;
    const std::array all{&filter, &update, &upsert, &multi, &remove, &array_filters, &constants};
    bson::Elements elements(statement);
    while (const auto element = elements.next()) {
      const auto name = std::ranges::find(names, element->key);
      if (name == names.end() || name->empty()) continue;
      std::optional<bson::Element>& field = *all[static_cast<std::size_t>(name - names.begin())];
      if (field) return false;
      field = *element;
    }
    return !elements.malformed();
  }
};

Truth truth_of(const std::optional<bson::Element>& option) {
  return option ? truth_of(*option) : Truth::no;
}

bool has_operators(Bytes update) {
  bson::Elements elements(update);
  const auto first = elements.next();
  return first && first->key.starts_with('$');
}

bool is_absent(const std::optional<bson::Element>& field) {
  return !field || field->type == bson::Type::null || field->type == bson::Type::undefined;
}

}  // namespace

std::optional<UpsertStatement> UpsertStatement::read(Bytes statement, WriteKind kind) {
  const bool in_batch = !form_of(kind).identifier.empty();
  Fields fields;
  if (!fields.read(statement, kind)) return std::nullopt;
  const Truth upsert = truth_of(fields.upsert);
  const Truth multi = truth_of(fields.multi);
  const Truth remove = truth_of(fields.remove);
  if (upsert == Truth::refused || multi == Truth::refused || remove == Truth::refused) return {};
  UpsertStatement found;
  found.whole = statement;
  found.multi = multi != Truth::no;
  if (remove == Truth::yes) return found;
  // In findAndModify, the filter is optional, and there is no update where it removes.
  if (is_absent(fields.filter) ? in_batch : fields.filter->type != bson::Type::document) return {};
  if (!is_absent(fields.filter)) found.filter = fields.filter->value;
  if (is_absent(fields.update)) return std::nullopt;
  found.update = fields.update->value;
  found.is_pipeline = fields.update->type == bson::Type::array;
  if (fields.update->type != bson::Type::document && !found.is_pipeline) return std::nullopt;
  found.is_replacement = !found.is_pipeline && !has_operators(found.update);
  found.has_array_filters = !is_absent(fields.array_filters) || !is_absent(fields.constants);
  if (upsert == Truth::no) return found;
  // In an update, mongod takes nothing but a boolean (observed, 4.4.2 to 6.0.5).
  const bool is_clear = kind != WriteKind::update || fields.upsert->type == bson::Type::boolean;
  found.kind =
      upsert == Truth::yes && remove == Truth::no && is_clear ? Kind::upsert : Kind::unknown;
  return found;
}

UpsertStatement UpsertStatement::of(const UpsertParts& parts, Bytes message) {
  const auto at = [&](std::uint32_t offset) {
    return offset == 0 ? Bytes() : *bson::document_at(message.subspan(offset));
  };
  return {parts.kind,      parts.multi,      parts.is_pipeline, parts.is_replacement,
          at(parts.whole), at(parts.filter), at(parts.update)};
}

UpsertParts UpsertStatement::parts(Bytes message) const {
  const auto offset = [&](Bytes part) {
    return part.empty() ? 0 : static_cast<std::uint32_t>(part.data() - message.data());
  };
  return {kind, multi, is_pipeline, is_replacement, offset(whole), offset(filter), offset(update)};
}

bool has_upsert(const WriteCommand& command) {
  Statements statements(command);
  while (const auto statement = statements.next()) {
    const auto upsert = bson::find(*statement, "upsert");
    if (upsert && truth_of(*upsert) != Truth::no) return true;
  }
  return false;
}

namespace {

// mongod accepts 100 levels in a filter, and somewhat more in a document.
constexpr std::size_t kMostLevels = 150;

/// Walks a document to any depth. `see` is called with each element and the path of the fields
/// around it, which it may extend by the element's own name; it returns true to end the walk.
template <class See>
Names walk(Bytes document, See see) {
  struct Level {
    bson::Elements elements;
    std::size_t path;  // length of the path around its elements
    bool is_array;
  };
  std::vector<Level> open;  // no recursion, because the input decides how deep it goes
  open.push_back({bson::Elements(document), 0, false});
  std::string path;
  while (!open.empty()) {
    const auto element = open.back().elements.next();
    if (!element) {
      if (open.back().elements.malformed()) return Names::malformed;
      open.pop_back();
      continue;
    }
    path.resize(open.back().path);
    if (see(*element, open.back().is_array, path)) return Names::yes;
    const bool is_array = element->type == bson::Type::array;
    if (!is_array && element->type != bson::Type::document) continue;
    if (open.size() == kMostLevels) return Names::too_deep;
    open.push_back({bson::Elements(element->value), path.size(), is_array});
  }
  return Names::no;
}

/// Extends `path` by the element's name, unless that is an operator or the position in an array.
/// Returns true if it did.
bool enter(const bson::Element& element, bool in_array, std::string& path) {
  if (in_array || element.key.starts_with('$')) return false;
  if (!path.empty()) path += '.';
  path += element.key;
  return true;
}

/// True if this element of an expression reads the field.
bool reads(const bson::Element& element, std::string_view field) {
  if (element.type != bson::Type::string) return false;
  std::string_view text = element.text();
  if (!text.starts_with('$')) {
    const bool names_field = element.key == "$getField" || element.key == "field";
    return names_field && overlap(text, field);
  }
  for (const std::string_view root : {"$$ROOT.", "$$CURRENT."}) {
    if (text.starts_with(root)) return overlap(text.substr(root.size()), field);
  }
  return overlap(text.substr(1), field);
}

}  // namespace

bool overlap(std::string_view path, std::string_view other) {
  if (path.size() > other.size()) std::swap(path, other);
  if (!other.starts_with(path)) return false;
  return path.size() == other.size() || other[path.size()] == '.';
}

Names filter_names(Bytes filter, std::string_view field) {
  return walk(filter, [&](const bson::Element& element, bool in_array, std::string& path) {
    if (!enter(element, in_array, path)) return false;
    return overlap(element.key, field) || overlap(path, field);
  });
}

namespace {

/// A path of a filter's equality, or of another condition: then it counts as well.
class FilterPaths {
 public:
  /// Returns false if the path is there, or one within the other, or is none.
  [[nodiscard]] bool add(std::string_view path) {
    const bool has_empty_name = path.empty() || path.front() == '.' || path.back() == '.' ||
                                path.find("..") != std::string_view::npos;
    if (has_empty_name || path.starts_with("_id.") || around_.contains(path)) return false;
    for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
      if (paths_.contains(path.substr(0, dot))) return false;
      around_.insert(path.substr(0, dot));
    }
    return paths_.insert(path).second;
  }

 private:
  std::unordered_set<std::string_view> paths_;
  std::unordered_set<std::string_view> around_;
};

/// True if a condition such as {$gt: 1} has two equalities.
bool has_two_equalities(const bson::Element& condition) {
  if (condition.type != bson::Type::document) return false;
  std::size_t equalities = 0;
  for (const bson::Element& each : bson::Elements(condition.value)) {
    if (each.key == "$all" && each.type == bson::Type::array) {
      bson::Elements values(each.value);
      while (values.next()) ++equalities;
    } else if (each.key == "$eq" || each.key == "$in") {
      ++equalities;
    }
  }
  return equalities > 1;
}

/// Adds the conditions that hold in each case: of an $or, the only one.
void add_parts(const bson::Element& condition, std::vector<Bytes>& all) {
  if (condition.type != bson::Type::array) return;
  const std::size_t others = all.size();
  for (const bson::Element& part : bson::Elements(condition.value)) {
    if (part.type == bson::Type::document) all.push_back(part.value);
  }
  if (condition.key == "$or" && all.size() > others + 1) all.resize(others);
}

}  // namespace

FilterForm form_of(Bytes filter) {
  FilterPaths paths;
  FilterForm form = FilterForm::plain;
  std::vector<Bytes> all{filter};
  while (!all.empty()) {
    bson::Elements conditions(all.back());
    all.pop_back();
    while (const auto each = conditions.next()) {
      if (each->key == "$expr") return FilterForm::refused;
      if (each->key == "$and" || each->key == "$or") {
        add_parts(*each, all);
      } else if (!each->key.starts_with('$') &&
                 (!paths.add(each->key) || has_two_equalities(*each))) {
        form = FilterForm::repeats;
      }
    }
    if (conditions.malformed()) return FilterForm::repeats;
  }
  return form;
}

Names stage_names(Bytes specification, std::string_view field) {
  return walk(specification, [&](const bson::Element& element, bool in_array, std::string& path) {
    if (enter(element, in_array, path) && overlap(path, field)) return true;
    return reads(element, field);
  });
}

}  // namespace idproxy::rewrite
