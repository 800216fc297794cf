#pragma once

#include <cstdint>
#include <optional>

#include "idproxy/rewrite/batch_command.hpp"
#include "idproxy/rewrite/forward_reason.hpp"
#include "idproxy/rewrite/rules.hpp"

/// Upserts: in which of them a value can be assigned, and where. A value must get into the document
/// that the server inserts, and must not change a document that the filter matches. Decided from
/// the statement alone, as docs/server-behaviour.md#upserts describes.
namespace idproxy::rewrite {

/// A statement of update, {q, u, upsert, multi, …}, or a whole findAndModify, {query, update,
/// upsert, …}. Views into its message.
struct UpsertStatement {
  enum class Kind {
    plain,   ///< it inserts nothing
    upsert,  ///< it may insert a document
    /// mongod alone knows whether it is an upsert: `upsert` is of a type that the proxy cannot
    /// evaluate.
    unknown,
  };
  Kind kind = Kind::plain;
  Bytes whole;
  Bytes filter;          ///< empty if there is none
  bson::Element update;  ///< only for an upsert: a document or an array
  bool multi = false;

  [[nodiscard]] bool is_pipeline() const { return update.type == bson::Type::array; }
  /// Returns nothing if mongod will refuse the whole command because of this statement: a field is
  /// repeated, missing or of a wrong type, or the statement is malformed.
  [[nodiscard]] static std::optional<UpsertStatement> read(Bytes statement, WriteKind kind);
};

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

/// True if a statement of this update or findAndModify says that it is an upsert, or might.
[[nodiscard]] bool has_upsert(const BatchCommand& command);

}  // namespace idproxy::rewrite
