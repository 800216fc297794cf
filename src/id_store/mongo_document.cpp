#include <memory>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store::mongo {
namespace {

int size_of(std::string_view text) {
  return static_cast<int>(text.size());
}

}  // namespace

// libbson gets the size of each text.
// NOLINTBEGIN(bugprone-suspicious-stringview-data-usage)

Document& Document::add(std::string_view key, std::string_view text) {
  bson_append_utf8(get(), key.data(), size_of(key), text.data(), size_of(text));
  return *this;
}

Document& Document::add(std::string_view key, std::int32_t value) {
  bson_append_int32(get(), key.data(), size_of(key), value);
  return *this;
}

Document& Document::add(std::string_view key, std::int64_t value) {
  bson_append_int64(get(), key.data(), size_of(key), value);
  return *this;
}

Document& Document::add(std::string_view key, double value) {
  bson_append_double(get(), key.data(), size_of(key), value);
  return *this;
}

Document& Document::add_bool(std::string_view key, bool value) {
  bson_append_bool(get(), key.data(), size_of(key), value);
  return *this;
}

Document& Document::add(std::string_view key, const Document& value) {
  bson_append_document(get(), key.data(), size_of(key), value.get());
  return *this;
}

Document& Document::add(std::string_view key, const Array& value) {
  bson_append_array(get(), key.data(), size_of(key), value.document().get());
  return *this;
}

// NOLINTEND(bugprone-suspicious-stringview-data-usage)

Document& Document::add(std::string_view key, bson::Type type, Bytes value) {
  Buffer bytes;
  bson::Scope whole(bytes);
  bson::append_head(bytes, type, key);
  bytes.append(value);
  whole.close();
  return append(Document(bytes.view()));
}

Document& Document::append(const Document& other) {
  bson_concat(get(), other.get());
  return *this;
}

Document simple_collation() {
  return {"locale", "simple"};
}

std::string json_of(Bytes document) {
  bson_t view;
  if (!bson_init_static(&view, document.data(), document.size())) return "{}";
  const std::unique_ptr<char, void (*)(void*)> json(bson_as_relaxed_extended_json(&view, nullptr),
                                                    bson_free);
  return json ? json.get() : "{}";
}

std::string value_in_mongosh(Bytes document) {
  std::string plain = json_of(document);
  bson_t view;
  if (!bson_init_static(&view, document.data(), document.size())) return plain;
  const std::unique_ptr<char, void (*)(void*)> exact(
      bson_as_canonical_extended_json(&view, nullptr), bson_free);
  const bool is_plain = plain.find("\"$") == std::string::npos &&
                        std::string_view(exact.get()).find("$numberLong") == std::string::npos;
  return is_plain ? plain : "EJSON.parse(" + in_quotes(exact.get()) + ", {relaxed: false})";
}

}  // namespace idproxy::id_store::mongo
