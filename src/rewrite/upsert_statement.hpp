#pragma once

#include <optional>

#include "idproxy/rewrite/batch_command.hpp"

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

/// True if a statement of this update or findAndModify says that it is an upsert, or might.
[[nodiscard]] bool has_upsert(const BatchCommand& command);

}  // namespace idproxy::rewrite
