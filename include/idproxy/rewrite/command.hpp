#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// The command in a whole OP_MSG or OP_QUERY. Borrows the message.
struct Command {
  std::string_view name;         // the key of its first element
  std::vector<Bytes> documents;  // the command, last, after the document that wraps it, if any
  bool has_checksum = false;

  [[nodiscard]] Bytes document() const { return documents.back(); }
  /// Returns nothing if there is no command or the message is malformed.
  [[nodiscard]] static std::optional<Command> find(Bytes message);
};

/// True for "$query" and "query": the fields in which an OP_QUERY may wrap its command.
[[nodiscard]] bool is_query_wrapper(std::string_view key);

/// True for "hello", "isMaster" and "ismaster", the names of this command in mongod.
[[nodiscard]] bool is_hello(std::string_view command);

}  // namespace idproxy::rewrite
