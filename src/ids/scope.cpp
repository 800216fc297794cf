#include "idproxy/ids/scope.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "ids/hex.hpp"

namespace idproxy::ids {
namespace {

using bson::Type;

std::optional<std::int64_t> integer_of(double number) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (!(number >= -kEnd && number < kEnd) || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// IEEE 754 decimal128 in the encoding that BSON uses (binary integer decimal), little-endian:
///
///   low 64 bits of the coefficient; then sign (1 bit), exponent + 6176 (14), coefficient (49)
///
/// Infinity and NaN have 11 as the first two bits of the exponent, and so have other forms that
/// mean 0; those are no integers here.
std::optional<std::int64_t> integer_of_decimal(const std::uint8_t* bytes) {
  const auto low = static_cast<std::uint64_t>(load_i64(bytes));
  const auto high = static_cast<std::uint64_t>(load_i64(bytes + 8));
  constexpr std::uint64_t kCoefficient = (std::uint64_t{1} << 49U) - 1;
  if ((high >> 61U & 3U) == 3U) return std::nullopt;
  Int128 number = static_cast<Int128>(high & kCoefficient) << 64U | static_cast<Int128>(low);
  auto exponent = static_cast<int>(high >> 49U & 0x3fffU) - 6176;
  if (number == 0) return 0;
  for (; exponent < 0; ++exponent) {
    if (number % 10 != 0) return std::nullopt;
    number /= 10;
  }
  constexpr Int128 kEnd = Int128{std::numeric_limits<std::int64_t>::max()} + 1;
  for (; exponent > 0; --exponent) {
    if (number > kEnd) return std::nullopt;
    number *= 10;
  }
  if (high >> 63U != 0) number = -number;
  if (number < -kEnd || number >= kEnd) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string too_long() {
  return "is longer than " + std::to_string(kMostInScope) + " bytes";
}

}  // namespace

std::optional<std::int64_t> integer_of(const bson::Element& value) {
  switch (value.type) {
    case Type::int32:
      return load_i32(value.value.data());
    case Type::int64:
      return load_i64(value.value.data());
    case Type::number_double:
      return integer_of(std::bit_cast<double>(load_i64(value.value.data())));
    case Type::decimal128:
      return integer_of_decimal(value.value.data());
    default:
      return std::nullopt;
  }
}

std::string append_scope(Buffer& out, std::string_view name, const bson::Element& value) {
  if (const auto integer = integer_of(value)) {
    bson::append_int64(out, name, *integer);
    return {};
  }
  switch (value.type) {
    case Type::string:
      if (value.text().size() > kMostInScope) return too_long();
      break;
    case Type::binary:
      if (value.value.size() > 4 + 1 + kMostInScope) return too_long();  // length and subtype
      break;
    case Type::boolean:
    case Type::null:
    case Type::object_id:
    case Type::date:
      break;
    case Type::number_double:
    case Type::decimal128:
      return "is not an integer";
    case Type::array:
      return "is an array";
    default:
      return "has an unsuitable type";
  }
  bson::append_head(out, value.type, name);
  out.append(value.value);
  return {};
}

std::string reference_value(std::string_view scope) {
  constexpr std::uint8_t kUuidSubtype = 4;
  constexpr std::size_t kHead = 4 + 1;  // length and subtype
  constexpr std::size_t kUuidSize = 16;
  Buffer out;
  bson::Scope document(out);
  for (const bson::Element& element : bson::Elements(as_bytes(scope))) {
    const Bytes value = element.value;
    const bool is_uuid = element.type == Type::binary && value.size() == kHead + kUuidSize &&
                         value[kHead - 1] == kUuidSubtype;
    if (!is_uuid) {
      bson::append_copy(out, element);
      continue;
    }
    std::array<std::uint8_t, kUuidTextSize> text{};
    write_uuid_text(value.subspan(kHead), text.data());
    bson::append_string(out, element.key, as_text(text));
  }
  document.close();
  return std::string(as_text(out.view()));
}

std::optional<std::string> as_scope(Bytes document) {
  Buffer out;
  bson::Scope scope(out);
  for (const bson::Element& element : bson::Elements(document)) {
    if (!append_scope(out, element.key, element).empty()) return std::nullopt;
  }
  scope.close();
  return std::string(as_text(out.view()));
}

std::optional<std::string> text_in_template(const bson::Element& value) {
  if (const auto integer = integer_of(value)) return std::to_string(*integer);
  if (value.type != Type::string || value.text().size() > kMostInScope) return std::nullopt;
  return std::string(value.text());
}

}  // namespace idproxy::ids
