#pragma once

#include <optional>
#include <utility>

#include "idproxy/rewrite/statements.hpp"

namespace idproxy::test {

/// The options of a write with this body; nothing as for WriteCommand::options, or if it is
/// malformed.
inline std::optional<rewrite::WriteOptions> options_in(Bytes body) {
  rewrite::WriteFields fields;
  rewrite::WriteOptions options;
  const bool is_read = fields.read(body) && options.read(fields);
  return is_read ? std::optional(std::move(options)) : std::nullopt;
}

}  // namespace idproxy::test
