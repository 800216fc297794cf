#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// The command inside a whole OP_MSG or OP_QUERY, which it borrows.
struct Command {
  std::string_view name;         // of its first element
  std::vector<Bytes> documents;  // the last one is the command itself, before it what is around it
  bool has_checksum = false;

  [[nodiscard]] Bytes document() const { return documents.back(); }
  /// Nothing if there is none, or the message is malformed.
  [[nodiscard]] static std::optional<Command> find(Bytes message);
};

/// "$query" or "query": what an OP_QUERY may have around its command.
[[nodiscard]] bool is_query_wrapper(std::string_view key);

/// "hello", "isMaster" or "ismaster": the names that mongod knows it by.
[[nodiscard]] bool is_hello(std::string_view command);

}  // namespace idproxy::rewrite
