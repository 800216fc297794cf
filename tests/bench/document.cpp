#include "document.hpp"

namespace idproxy::bench {

Document& Document::begin(char type, std::string_view name) {
  elements_.push_back(type);
  elements_.append(name).push_back('\0');
  return *this;
}

Document& Document::text(std::string_view name, std::string_view value) {
  begin('\x02', name);
  append_raw(elements_, static_cast<std::int32_t>(value.size() + 1));
  elements_.append(value).push_back('\0');
  return *this;
}

Document& Document::int32(std::string_view name, std::int32_t value) {
  begin('\x10', name);
  append_raw(elements_, value);
  return *this;
}

Document& Document::int64(std::string_view name, std::int64_t value) {
  begin('\x12', name);
  append_raw(elements_, value);
  return *this;
}

Document& Document::real(std::string_view name, double value) {
  begin('\x01', name);
  append_raw(elements_, value);
  return *this;
}

Document& Document::boolean(std::string_view name, bool value) {
  begin('\x08', name);
  elements_.push_back(value ? '\1' : '\0');
  return *this;
}

Document& Document::date(std::string_view name, std::int64_t milliseconds) {
  begin('\x09', name);
  append_raw(elements_, milliseconds);
  return *this;
}

Document& Document::timestamp(std::string_view name, std::uint64_t value) {
  begin('\x11', name);
  append_raw(elements_, value);
  return *this;
}

Document& Document::binary(std::string_view name, std::uint8_t subtype, std::string_view value) {
  begin('\x05', name);
  append_raw(elements_, static_cast<std::int32_t>(value.size()));
  append_raw(elements_, subtype);
  elements_.append(value);
  return *this;
}

Document& Document::object_id(std::string_view name, std::string_view twelve_bytes) {
  begin('\x07', name);
  elements_.append(twelve_bytes);
  return *this;
}

Document& Document::object(std::string_view name, const Document& value) {
  begin('\x03', name);
  elements_.append(value.bytes());
  return *this;
}

Document& Document::array(std::string_view name, const Document& value) {
  begin('\x04', name);
  elements_.append(value.bytes());
  return *this;
}

Document& Document::raw_array(std::string_view name, std::string_view elements) {
  begin('\x04', name);
  append_raw(elements_, static_cast<std::int32_t>(sizeof(std::int32_t) + elements.size() + 1));
  elements_.append(elements).push_back('\0');
  return *this;
}

std::string Document::bytes() const {
  std::string out;
  append_raw(out, static_cast<std::int32_t>(sizeof(std::int32_t) + elements_.size() + 1));
  out.append(elements_).push_back('\0');
  return out;
}

}  // namespace idproxy::bench
