#pragma once

#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"

/// What reading and patching a reply to hello have in common.
namespace idproxy::rewrite {

/// The document of a reply. Borrows from the message.
struct HelloDocument {
  Bytes document;
  bool has_checksum = false;  ///< of the message: its last 4 bytes
};

/// Of an OP_MSG without document sequences, or an OP_REPLY with one document; nothing of any other
/// message, or if it is malformed.
[[nodiscard]] std::optional<HelloDocument> find_hello_document(Bytes message);

/// Whether a field names members of the set: none, an array of them, or one string.
enum class NamesMembers { none, list, one };
[[nodiscard]] NamesMembers names_members(std::string_view key);

}  // namespace idproxy::rewrite
