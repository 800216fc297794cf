#include "idproxy/id_store/stored_value.hpp"

#include <bson/bson.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace idproxy::id_store {
namespace {

double double_at(const std::uint8_t* at) {
  return std::bit_cast<double>(load_i64(at));
}

/// x86's long double has all 64 bits of an int64.
std::optional<std::int64_t> floor_of(long double value) {
  if (std::isnan(value)) return std::nullopt;
  constexpr auto kLowest = static_cast<long double>(std::numeric_limits<std::int64_t>::min());
  if (value < kLowest) return std::numeric_limits<std::int64_t>::min();
  if (value >= -kLowest) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::floor(value));
}

long double decimal_at(const std::uint8_t* at) {
  bson_decimal128_t decimal;
  decimal.low = static_cast<std::uint64_t>(load_i64(at));
  decimal.high = static_cast<std::uint64_t>(load_i64(at + 8));
  std::array<char, BSON_DECIMAL128_STRING> text{};
  bson_decimal128_to_string(&decimal, text.data());
  return std::strtold(text.data(), nullptr);
}

}  // namespace

std::optional<bson::Element> find_path(Bytes document, std::string_view path) {
  const std::size_t dot = path.find('.');
  const auto found = bson::find(document, path.substr(0, dot));
  if (!found || dot == std::string_view::npos) return found;
  if (found->type != bson::Type::document) return std::nullopt;
  return find_path(found->value, path.substr(dot + 1));
}

StoredValue stored_value(Bytes document, std::string_view path) {
  const auto element = find_path(document, path);
  if (!element) return {};
  const auto number = element->as_integer();
  if (!number || element->type == bson::Type::boolean) return {StoredValue::Kind::not_an_integer};
  const bool is_double = element->type == bson::Type::number_double;
  return {is_double ? StoredValue::Kind::integral_double : StoredValue::Kind::integer, *number};
}

std::optional<std::int64_t> floor_of(const bson::Element& element) {
  switch (element.type) {
    case bson::Type::int32:
      return load_i32(element.value.data());
    case bson::Type::int64:
      return load_i64(element.value.data());
    case bson::Type::number_double:
      return floor_of(static_cast<long double>(double_at(element.value.data())));
    case bson::Type::decimal128:
      return floor_of(decimal_at(element.value.data()));
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> integer_at(Bytes document, std::string_view path) {
  const StoredValue value = stored_value(document, path);
  return value.is_number() ? std::optional(value.number) : std::nullopt;
}

}  // namespace idproxy::id_store
