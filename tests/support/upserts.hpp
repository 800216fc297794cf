#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/messages.hpp"

/// Building blocks for updates and findAndModifies into shop.orders, with upserts.
namespace idproxy::test {

inline std::string update_fields() {
  return string_field("update", "orders") + string_field("$db", "shop");
}
/// An update with its statements in a sequence. `options`: more fields of the body.
inline std::string update_sequence(const std::string& options,
                                   const std::vector<std::string>& statements,
                                   std::uint32_t flags = 0) {
  return op_msg(body(doc(update_fields() + options)) + sequence("updates", statements), flags);
}
inline std::string update_array(const std::string& options,
                                const std::vector<std::string>& statements,
                                std::uint32_t flags = 0) {
  return op_msg(body(doc(string_field("update", "orders") + array_field("updates", statements) +
                         string_field("$db", "shop") + options)),
                flags);
}
/// Fields of a statement: {q: {k: <k>}, u: {<update>}, upsert: true}.
inline std::string upsert_fields(std::int32_t k, std::string_view update) {
  return doc_field("q", int_field("k", k)) + doc_field("u", update) + bool_field("upsert", true);
}
/// An upsert that sets x, with values (elements) or without.
inline std::string upsert(std::int32_t k, std::string_view values = {}) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  return doc(upsert_fields(k, doc_field("$set", int_field("x", 1)) + on_insert));
}
inline std::string multi_upsert(std::int32_t k, std::string_view values = {}) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  return doc(upsert_fields(k, doc_field("$set", int_field("x", 1)) + on_insert) +
             bool_field("multi", true));
}
/// An update that inserts nothing.
inline std::string plain_update(std::int32_t k) {
  return doc(doc_field("q", int_field("k", k)) +
             doc_field("u", doc_field("$set", int_field("x", 1))));
}
/// A findAndModify that sets x. `options`: more fields of the body.
inline std::string find_and_modify(const std::string& options, std::string_view values = {},
                                   std::uint32_t flags = 0) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  return op_msg(
      body(doc(string_field("findAndModify", "orders") + doc_field("query", int_field("k", 1)) +
               doc_field("update", doc_field("$set", int_field("x", 1)) + on_insert) +
               bool_field("upsert", true) + options + string_field("$db", "shop"))),
      flags);
}

/// An array of elements, which get the keys "0", "1", ….
inline std::string array_of(std::string_view key, const std::vector<std::string>& elements) {
  std::string all;
  int i = 0;
  for (const std::string& each : elements) {
    all += std::string(1, each[0]) + std::to_string(i++) + each.substr(1);
  }
  return element(bson::Type::array, key, doc(all));
}
/// An element for array_of(), which gives it its key.
inline std::string item(std::string_view elements) {
  return doc_field("", elements);
}

// Replies, with fields in mongod's order.

inline std::string modified(std::int32_t documents) {
  return int_field("nModified", documents);
}
inline std::string upserted(const std::vector<std::pair<std::int32_t, std::int64_t>>& entries) {
  std::vector<std::string> documents;
  for (const auto& [index, id] : entries) {
    documents.push_back(doc(int_field("index", index) + long_field("_id", id)));
  }
  return array_field("upserted", documents);
}
/// Of a findAndModify that inserted a document with this _id.
inline std::string inserted_by_modify(std::int64_t id) {
  return doc_field("lastErrorObject", int_field("n", 1) + bool_field("updatedExisting", false) +
                                          long_field("upserted", id)) +
         element(bson::Type::null, "value", "");
}
/// Of a findAndModify that found a document.
inline std::string found_by_modify() {
  return doc_field("lastErrorObject", int_field("n", 1) + bool_field("updatedExisting", true)) +
         doc_field("value", int_field("k", 1));
}

}  // namespace idproxy::test
