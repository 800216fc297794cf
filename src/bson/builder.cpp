#include "idproxy/bson/builder.hpp"

#include <bit>

namespace idproxy::bson {

void append_head(Buffer& out, Type type, std::string_view key) {
  *out.extend(1) = static_cast<std::uint8_t>(type);
  out.append(as_bytes(key));
  *out.extend(1) = 0;
}

void append_int32(Buffer& out, std::string_view key, std::int32_t value) {
  append_head(out, Type::int32, key);
  store_i32(out.extend(4), value);
}

void append_int64(Buffer& out, std::string_view key, std::int64_t value) {
  append_head(out, Type::int64, key);
  store_i64(out.extend(8), value);
}

void append_double(Buffer& out, std::string_view key, double value) {
  append_head(out, Type::number_double, key);
  store_i64(out.extend(8), std::bit_cast<std::int64_t>(value));
}

void append_bool(Buffer& out, std::string_view key, bool value) {
  append_head(out, Type::boolean, key);
  *out.extend(1) = value ? 1 : 0;
}

void append_string(Buffer& out, std::string_view key, std::string_view value) {
  append_head(out, Type::string, key);
  store_i32(out.extend(4), static_cast<std::int32_t>(value.size() + 1));
  out.append(as_bytes(value));
  *out.extend(1) = 0;
}

void append_copy(Buffer& out, const Element& element) {
  out.append({element.begin, element.end()});
}

void Scope::close() {
  *out_.extend(1) = 0;
  store_i32(out_.data() + start_, static_cast<std::int32_t>(out_.size() - start_));
}

}  // namespace idproxy::bson
