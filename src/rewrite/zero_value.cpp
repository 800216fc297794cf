#include "idproxy/rewrite/zero_value.hpp"

#include <algorithm>
#include <string>

#include "idproxy/bson/builder.hpp"

namespace idproxy::rewrite {
namespace {

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

/// All that is_zero() says of, as elements of an array.
void append_zeros(Buffer& out) {
  using bson::Type;
  constexpr std::size_t kUuidSize = 16;
  // Not "": some collations take other texts for equal to an empty one. With no options.
  constexpr std::string_view kEmptyText("^\\z\0\0", 5);
  bson::append_head(out, Type::null, "0");
  bson::append_int32(out, "1", 0);  // matches numbers of each type
  bson::append_head(out, Type::regex, "2");
  out.append(as_bytes(kEmptyText));
  bson::append_head(out, Type::object_id, "3");
  std::ranges::fill_n(out.extend(12), 12, std::uint8_t{0});
  std::size_t place = 4;
  for (const std::uint8_t subtype : {std::uint8_t{4}, std::uint8_t{3}}) {
    bson::append_head(out, Type::binary, std::to_string(place++));
    std::uint8_t* const at = out.extend(4 + 1 + kUuidSize);
    store_i32(at, kUuidSize);
    at[4] = subtype;
    std::ranges::fill_n(at + 4 + 1, kUuidSize, std::uint8_t{0});
  }
}

}  // namespace

void append_missing(Assign assign, Buffer& out) {
  if (assign == Assign::missing) return bson::append_bool(out, "$exists", false);
  if (assign == Assign::missing_or_zero) {
    bson::append_inside(out, bson::Type::array, "$in", [&] { append_zeros(out); });
  } else {
    bson::append_head(out, bson::Type::null, "$eq");
  }
  // An array with a null is a value.
  bson::append_inside(out, bson::Type::document, "$not",
                      [&] { bson::append_string(out, "$type", "array"); });
}

bool is_zero_id(const bson::Element& value) {
  constexpr std::size_t kHead = 4 + 1;  // of binary data: length and subtype
  constexpr std::size_t kUuidSize = 16;
  if (value.type == bson::Type::object_id) return all_zero(value.value);
  if (value.type != bson::Type::binary || value.value.size() != kHead + kUuidSize) return false;
  const std::uint8_t subtype = value.value[kHead - 1];
  return (subtype == 3 || subtype == 4) && all_zero(value.value.subspan(kHead));
}

bool replaces(Assign assign, const bson::Element& value) {
  switch (assign) {
    case Assign::missing:
      return false;
    case Assign::missing_or_null:
    case Assign::driver:
      return value.type == bson::Type::null;
    case Assign::missing_or_zero:
      return is_zero(value);
    case Assign::always:
      return true;
  }
  return false;
}

bool leaves_zero(Assign assign, const bson::Element& value) {
  const bool fills_gaps = assign == Assign::missing || assign == Assign::missing_or_null;
  return fills_gaps && is_zero(value) && !replaces(assign, value);
}

}  // namespace idproxy::rewrite
