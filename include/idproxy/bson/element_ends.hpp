#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/type.hpp"

/// Where the parts of an element end. Inline, for the loops over every byte that passes.
namespace idproxy::bson {

/// The NUL of the key at `key`; `end` if there is none before it. Eight bytes at a time: a byte at
/// a time, the processor guesses the end of nearly every key wrong.
inline const std::uint8_t* end_of_key(const std::uint8_t* key, const std::uint8_t* end) {
  constexpr std::ptrdiff_t kWord = 8;
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  for (; end - key >= kWord; key += kWord) {
    const auto word = static_cast<std::uint64_t>(load_i64(key));
    // Bits 7, 15, … of the bytes 00. Above the first one there may be others.
    const std::uint64_t nuls = (word - kOnes) & ~word & kHighs;
    if (nuls != 0) return key + std::countr_zero(nuls) / kWord;
  }
  return std::find(key, end, 0);
}

/// Size of a value of variable size; `rest` reaches to the end of the enclosing document.
inline std::optional<std::int64_t> variable_size(Type type, Bytes rest) {
  const auto size = static_cast<std::int64_t>(rest.size());
  if (type == Type::regex) {
    const auto* pattern_end = std::memchr(rest.data(), 0, rest.size());
    if (pattern_end == nullptr) return std::nullopt;
    const auto after = static_cast<const std::uint8_t*>(pattern_end) + 1 - rest.data();
    const auto* options_end =
        std::memchr(rest.data() + after, 0, rest.size() - static_cast<std::size_t>(after));
    if (options_end == nullptr) return std::nullopt;
    return static_cast<const std::uint8_t*>(options_end) + 1 - rest.data();
  }
  if (size < 4) return std::nullopt;
  const std::int64_t length = load_i32(rest.data());
  const auto ends_with_nul = [&](std::int64_t total) {
    return total <= size && rest[static_cast<std::size_t>(total) - 1] == 0;
  };
  switch (type) {
    case Type::string:
    case Type::symbol:
    case Type::code:
      if (length < 1 || !ends_with_nul(4 + length)) return std::nullopt;
      return 4 + length;
    case Type::db_pointer:
      if (length < 1 || !ends_with_nul(4 + length)) return std::nullopt;
      return 4 + length + 12;
    case Type::document:
    case Type::array:
      if (length < 5 || !ends_with_nul(length)) return std::nullopt;
      return length;
    case Type::code_with_scope:  // int32 total, string, document: at least 4 + 5 + 5
      if (length < 14 || !ends_with_nul(length)) return std::nullopt;
      return length;
    case Type::binary:
      if (length < 0) return std::nullopt;
      return 4 + 1 + length;
    default:
      return std::nullopt;
  }
}

inline constexpr std::int16_t kVariable = -1;
inline constexpr std::int16_t kUnknown = -2;

/// Size of a value by its type byte.
inline constexpr std::array<std::int16_t, 256> kFixedSizes = [] {
  std::array<std::int16_t, 256> sizes{};
  sizes.fill(kUnknown);
  const auto set = [&](Type type, std::int16_t size) {
    sizes[static_cast<std::uint8_t>(type)] = size;
  };
  for (const Type type : {Type::undefined, Type::null, Type::min_key, Type::max_key}) set(type, 0);
  set(Type::boolean, 1);
  set(Type::int32, 4);
  for (const Type type : {Type::number_double, Type::date, Type::timestamp, Type::int64}) {
    set(type, 8);
  }
  set(Type::object_id, 12);
  set(Type::decimal128, 16);
  for (const Type type : {Type::string, Type::document, Type::array, Type::binary, Type::regex,
                          Type::db_pointer, Type::code, Type::symbol, Type::code_with_scope}) {
    set(type, kVariable);
  }
  return sizes;
}();

/// A value of variable size that is `front` bytes and as many more as the int32 at its beginning
/// says, at least `least`.
struct CountedValue {
  std::uint8_t front;
  std::uint8_t least;
  bool ends_with_nul;
};

/// Nothing for types that are fixed or rare.
inline std::optional<CountedValue> counted_value(Type type) {
  switch (type) {
    case Type::string:
      return CountedValue{4, 1, true};
    case Type::document:
    case Type::array:
      return CountedValue{0, 5, true};
    case Type::binary:
      return CountedValue{4 + 1, 0, false};
    default:
      return std::nullopt;
  }
}

/// As end_of_value(), but null for types that are rare, too.
inline const std::uint8_t* end_of_frequent_value(Type type, const std::uint8_t* at,
                                                 const std::uint8_t* end) {
  const std::int64_t rest = end - at;
  const std::int64_t fixed = kFixedSizes[static_cast<std::uint8_t>(type)];
  if (fixed >= 0) return fixed <= rest ? at + fixed : nullptr;
  if (rest < 4) return nullptr;
  const std::int64_t length = load_i32(at);
  if (type == Type::string) {
    return length >= 1 && length <= rest - 4 && at[3 + length] == 0 ? at + 4 + length : nullptr;
  }
  if (type == Type::document || type == Type::array) {
    return length >= 5 && length <= rest && at[length - 1] == 0 ? at + length : nullptr;
  }
  return nullptr;
}

/// The end of a value of this type that begins at `at`; null if the type is unknown, or the value
/// exceeds the enclosing document, whose elements end at `end`.
inline const std::uint8_t* end_of_value(Type type, const std::uint8_t* at,
                                        const std::uint8_t* end) {
  if (const auto* const found = end_of_frequent_value(type, at, end)) return found;
  if (kFixedSizes[static_cast<std::uint8_t>(type)] != kVariable) return nullptr;
  const auto size = variable_size(type, {at, end});
  return size && *size <= end - at ? at + *size : nullptr;
}

}  // namespace idproxy::bson
