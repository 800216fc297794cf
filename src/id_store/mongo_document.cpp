#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store::mongo {
namespace {

/// A text and its size for libbson, without a terminating NUL.
struct Text {
  explicit Text(std::string_view text) : at(text.data()), size(static_cast<int>(text.size())) {}
  const char* at;
  int size;
};

}  // namespace

Document& Document::add(std::string_view key, std::string_view text) {
  const Text name(key);
  const Text shown(text);
  bson_append_utf8(get(), name.at, name.size, shown.at, shown.size);
  return *this;
}

Document& Document::add(std::string_view key, std::int32_t value) {
  const Text name(key);
  bson_append_int32(get(), name.at, name.size, value);
  return *this;
}

Document& Document::add(std::string_view key, std::int64_t value) {
  const Text name(key);
  bson_append_int64(get(), name.at, name.size, value);
  return *this;
}

Document& Document::add(std::string_view key, double value) {
  const Text name(key);
  bson_append_double(get(), name.at, name.size, value);
  return *this;
}

Document& Document::add_bool(std::string_view key, bool value) {
  const Text name(key);
  bson_append_bool(get(), name.at, name.size, value);
  return *this;
}

Document& Document::add(std::string_view key, const Document& value) {
  const Text name(key);
  bson_append_document(get(), name.at, name.size, value.get());
  return *this;
}

Document& Document::add(std::string_view key, const Array& value) {
  const Text name(key);
  bson_append_array(get(), name.at, name.size, value.document().get());
  return *this;
}

Document& Document::append(const Document& other) {
  bson_concat(get(), other.get());
  return *this;
}

}  // namespace idproxy::id_store::mongo
