#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/messages.hpp"

/// mongod's replies to inserts, with fields in its order (docs/server-behaviour.md#duplicate-keys).
/// `fields` are elements of the body, joined with +.
namespace idproxy::test {

inline std::string n(std::int32_t stored) {
  return int_field("n", stored);
}
inline std::string ok(double value = 1) {
  return double_field("ok", value);
}
inline std::string reply_message(std::string_view fields, std::int32_t response_to = 7,
                                 std::uint32_t flags = 0) {
  return op_msg(body(doc(fields)), flags, response_to);
}

/// An entry of writeErrors.
inline std::string write_error(std::int32_t index, std::int32_t code, std::string_view more = {}) {
  return doc(int_field("index", index) + int_field("code", code) + std::string(more));
}
/// The fields of an 11000 besides its code, for a violated index with these ascending keys.
inline std::string duplicate_fields(const std::vector<std::string>& keys,
                                    std::string_view ns = "shop.orders") {
  std::string pattern;
  std::string values;
  for (const auto& key : keys) {
    pattern += int_field(key, 1);
    values += string_field(key, "taken");
  }
  return string_field("errmsg", "E11000 duplicate key error collection: " + std::string(ns) +
                                    " index: i dup key: { k: \"taken\" }") +
         doc_field("keyPattern", pattern) + doc_field("keyValue", values);
}
inline std::string duplicate(std::int32_t index, const std::vector<std::string>& keys = {"_id"}) {
  return write_error(index, 11000, duplicate_fields(keys));
}
inline std::string write_errors(const std::vector<std::string>& entries) {
  return array_field("writeErrors", entries);
}
/// The fields of the reply to a command that failed as a whole.
inline std::string failure(std::int32_t code, std::string_view errmsg,
                           const std::vector<std::string>& labels = {}) {
  return ok(0) + string_field("errmsg", errmsg) + int_field("code", code) +
         (labels.empty() ? "" : texts_field("errorLabels", labels));
}

}  // namespace idproxy::test
