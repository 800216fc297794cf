#include "rewrite/upsert_paths.hpp"

#include <string>
#include <utility>
#include <vector>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {
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

Names stage_names(Bytes specification, std::string_view field) {
  return walk(specification, [&](const bson::Element& element, bool in_array, std::string& path) {
    if (enter(element, in_array, path) && overlap(path, field)) return true;
    return reads(element, field);
  });
}

}  // namespace idproxy::rewrite
