#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {

/// The element at a dotted path; does not enter arrays.
[[nodiscard]] std::optional<bson::Element> find_path(Bytes document, std::string_view path);

/// The value of a counter's document (docs/strategies.md#the-stored-value).
struct StoredValue {
  enum class Kind {
    missing,
    integer,          ///< int32 or int64
    integral_double,  ///< as legacy shells write it; within ±2^53
    not_an_integer,   ///< a fraction, NaN, a double beyond 2^53, a string, null …
  };
  Kind kind = Kind::missing;
  std::int64_t number = 0;

  [[nodiscard]] bool is_number() const {
    return kind == Kind::integer || kind == Kind::integral_double;
  }
};

[[nodiscard]] StoredValue stored_value(Bytes document, std::string_view path);
/// Its number; nothing if it is none. Unlike bson::find_integer(), follows a path, and reads no
/// boolean.
[[nodiscard]] std::optional<std::int64_t> integer_at(Bytes document, std::string_view path);

/// A double can represent every integer up to here; beyond, adding 1 has no effect.
inline constexpr std::int64_t kMostInDouble = std::int64_t{1} << 53;

/// A number of any type, decimal128 included, rounded down to an integer and limited to the range
/// of int64; nothing for NaN and for other types.
[[nodiscard]] std::optional<std::int64_t> floor_of(const bson::Element& element);

}  // namespace idproxy::id_store
