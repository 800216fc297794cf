#pragma once

#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::bson {

/// Appends the head of an element: type, key, NUL. The caller appends the value's bytes.
void append_head(Buffer& out, Type type, std::string_view key);
void append_int32(Buffer& out, std::string_view key, std::int32_t value);
void append_int64(Buffer& out, std::string_view key, std::int64_t value);
void append_double(Buffer& out, std::string_view key, double value);
void append_bool(Buffer& out, std::string_view key, bool value);
void append_string(Buffer& out, std::string_view key, std::string_view value);
/// Appends a copy of an element of another document.
void append_copy(Buffer& out, const Element& element);

/// Writes the length and the final 00 of a document or array around what is appended in between.
///
///   Scope document(out);  // for an embedded one, call append_head() first
///   append_int32(out, "n", 1);
///   document.close();
class Scope {
 public:
  explicit Scope(Buffer& out) : out_(out), start_(out.size()) { out.extend(4); }
  void close();

 private:
  Buffer& out_;
  std::size_t start_;
};

/// Appends an embedded document or an array around the elements that `content` appends.
template <class Content>
void append_inside(Buffer& out, Type type, std::string_view key, Content content) {
  append_head(out, type, key);
  Scope scope(out);
  content();
  scope.close();
}

}  // namespace idproxy::bson
