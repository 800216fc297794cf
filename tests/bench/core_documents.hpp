#pragma once

#include <cstddef>
#include <string>

#include "support/messages.hpp"

namespace idproxy::bench {

/// A document of about `size` bytes: ten fields, of which one is a sub-document and one an array.
inline std::string document_of(std::size_t size, const std::string& more) {
  using namespace test;
  const std::string items =
      array_field("items", {doc(string_field("sku", "A-1047") + int_field("quantity", 2)),
                            doc(string_field("sku", "B-2210") + int_field("quantity", 1))});
  std::string fields =
      string_field("customer", "Ada Lovelace") + long_field("created", 1700000000000) +
      string_field("currency", "EUR") + double_field("total", 129.9) + bool_field("paid", true) +
      doc_field("address", string_field("street", "St James's Square 12") +
                               string_field("city", "London") + string_field("zip", "SW1Y 4LB")) +
      items + int_field("version", 3) + string_field("channel", "web");
  const std::size_t there = fields.size() + more.size() + 5 + 12;
  fields += string_field("note", std::string(size > there ? size - there : 1, 'x'));
  return doc(more + fields);
}

inline const std::string kDriversId = test::element(bson::Type::object_id, "_id", "abcdefghijkl");

}  // namespace idproxy::bench
