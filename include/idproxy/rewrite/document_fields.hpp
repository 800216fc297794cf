#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "idproxy/bson/field_finder.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/scope.hpp"

namespace idproxy::rewrite {

[[nodiscard]] inline ids::TypedValue typed(bson::Type type, Bytes value) {
  return {type, std::string(as_text(value))};
}

/// Returns the value at a dotted path of a document. Nothing if a document on the path is
/// malformed.
[[nodiscard]] std::optional<ids::FieldValue> field_at(Bytes document, std::string_view path);

/// The array of documents in a reply with a cursor, as find and listIndexes give it; nothing if
/// there is none.
[[nodiscard]] std::optional<Bytes> first_batch(Bytes reply);

/// Some fields of documents, which mostly have the same ones as the document before: see
/// bson::FieldFinder. Not thread-safe.
class KnownFields {
 public:
  explicit KnownFields(std::span<const std::string_view> names) : finder_(names) {}

  /// False if the document is malformed. It must outlive what is asked about it.
  [[nodiscard]] bool read(Bytes document) {
    return finder_.find(document, bson::FieldFinder::Until::the_end, found_, places_);
  }
  /// The first field with the name at this index; null: there is none.
  [[nodiscard]] const bson::Element* operator[](std::size_t name) const {
    return (found_.there >> name & 1U) != 0 ? &places_[name] : nullptr;
  }
  /// True if there is another one, or of one of the names up to `last`.
  [[nodiscard]] bool is_twice(std::size_t name) const { return is_twice(name, name); }
  [[nodiscard]] bool is_twice(std::size_t name, std::size_t last) const {
    return found_.twice << (31 - last) >> (31 - last + name) != 0;
  }

 private:
  bson::FieldFinder finder_;
  bson::FieldFinder::Found found_;
  bson::FieldFinder::Places places_{};
};

/// The fields that a reader knows, each of which may occur once.
class FieldsOnce {
 public:
  /// False if it has occurred before. `name`: outlives this.
  [[nodiscard]] bool operator()(std::string_view name) {
    if (has(name)) return false;
    names_[count_++] = name;
    return true;
  }
  [[nodiscard]] bool has(std::string_view name) const {
    const std::span read(names_.data(), count_);
    return std::ranges::find(read, name) != read.end();
  }

 private:
  std::array<std::string_view, 16> names_;
  std::size_t count_ = 0;
};

}  // namespace idproxy::rewrite
