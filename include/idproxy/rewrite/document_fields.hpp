#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

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
