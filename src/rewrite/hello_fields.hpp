#pragma once

#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"

/// Functions shared by reading and patching a reply to hello.
namespace idproxy::rewrite {

/// The document of a reply to hello. Borrows from the message.
struct HelloDocument {
  Bytes document;
  bool has_checksum = false;  ///< the message ends with a checksum, 4 bytes
};

/// Finds the document in an OP_MSG without document sequences or in an OP_REPLY with one document.
/// Returns nothing for any other message, or if it is malformed.
[[nodiscard]] std::optional<HelloDocument> find_hello_document(Bytes message);

/// How a field names members of the set: not at all, in an array, or in one string.
enum class NamesMembers { none, list, one };
[[nodiscard]] NamesMembers names_members(std::string_view key);

}  // namespace idproxy::rewrite
