#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idproxy/bson/elements.hpp"
#include "idproxy/bson/field_finder.hpp"

namespace idproxy::test {

/// What a FieldFinder finds in a document, or what Elements finds: for each name the position of
/// its type byte, with "!" if there are several, or "-". "malformed" if the document is. `finder`,
/// which looks for these names, may have seen other documents.
inline std::string found_by_finder(Bytes document, std::span<const std::string_view> names,
                                   bson::FieldFinder& finder) {
  bson::FieldFinder::Places places{};
  bson::FieldFinder::Found found;
  if (!finder.find(document, bson::FieldFinder::Until::the_end, found, places)) return "malformed";
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool there = (found.there >> i & 1) != 0;
    text += there ? std::to_string(places[i].begin - document.data()) : "-";
    text += (found.twice >> i & 1) != 0 ? "! " : " ";
  }
  return text;
}

inline std::string found_by_walk(Bytes document, std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    std::optional<std::ptrdiff_t> first;
    bool twice = false;
    bson::Elements elements(document);
    while (const auto element = elements.next()) {
      if (element->key != name) continue;
      twice = first.has_value();
      if (!first) first = element->begin - document.data();
    }
    if (elements.malformed()) return "malformed";
    text += first ? std::to_string(*first) : "-";
    text += twice ? "! " : " ";
  }
  return text;
}

}  // namespace idproxy::test
