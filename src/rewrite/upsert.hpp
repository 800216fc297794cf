#pragma once

#include <cstdint>

#include "idproxy/rewrite/forward_reason.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "rewrite/upsert_statement.hpp"

/// Upserts: in which of them a value can be assigned, and where. A value must get into the document
/// that the server inserts, and must not change a document that the filter matches. Decided from
/// the statement alone, as docs/server-behaviour.md#upserts describes.
namespace idproxy::rewrite {

/// Whether an upsert gets a value for a field.
struct UpsertVerdict {
  enum class Kind {
    not_needed,  ///< it inserts nothing, or the client sends a value of its own
    assign,      ///< add the value, as edit_of() does
    forward,     ///< leave the statement alone, for `reason`
    malformed,   ///< mongod will refuse the command
  };
  Kind kind{};
  ForwardReason reason{};

  bool operator==(const UpsertVerdict&) const = default;
};

[[nodiscard]] UpsertVerdict judge(const UpsertStatement& statement, const Assignment& assignment);

}  // namespace idproxy::rewrite
