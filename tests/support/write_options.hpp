#pragma once

#include <optional>
#include <utility>

#include "idproxy/rewrite/statements.hpp"

namespace idproxy::test {

/// The options of a write with this body; nothing as for WriteCommand::options, or if it is
/// malformed.
inline std::optional<rewrite::WriteOptions> options_in(Bytes body) {
  rewrite::FieldsOnce once;
  rewrite::WriteOptions options;
  bson::Elements fields(body);
  for (const bson::Element& field : fields) {
    if (!options.take(field, once)) return std::nullopt;
  }
  return fields.malformed() ? std::nullopt : std::optional(std::move(options));
}

}  // namespace idproxy::test
