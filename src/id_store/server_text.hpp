#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idproxy/id_store/mongo.hpp"

/// The texts of servers' errors, for the log and for people.
namespace idproxy::id_store {

/// Returns the text of an error without values of documents, which must not be in the log. The code
/// decides: the texts of many codes are only about the command and the server, and are kept; others
/// are cut off at the first quote, bracket or digit, where a value may begin. One line of at most
/// 300 bytes of UTF-8.
[[nodiscard]] std::string server_text(std::int32_t code, std::string_view message);

/// "error 238 NotImplemented: support for field "fields" is not implemented yet"
[[nodiscard]] std::string error_text(const mongo::Reply& reply);

}  // namespace idproxy::id_store
