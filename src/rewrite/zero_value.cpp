#include "idproxy/rewrite/zero_value.hpp"

#include <algorithm>

namespace idproxy::rewrite {
namespace {

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

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
