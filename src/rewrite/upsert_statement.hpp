#pragma once

#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/statements.hpp"

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

/// True if one of the dotted paths is the other, or contains it: "a" and "a.b", but not "a" and
/// "ab".
[[nodiscard]] bool overlap(std::string_view path, std::string_view other);

/// Whether a document names a field.
enum class Names { no, yes, malformed, too_deep };

/// Whether a filter names `field`, a document around it or something below it, at any depth: also
/// within $and, $or, $nor and $elemMatch, and in documents that are values. Each key counts both
/// with the path around it and alone.
[[nodiscard]] Names filter_names(Bytes filter, std::string_view field);

/// Whether the specification of a $set or $addFields stage does so: by a key, with the path around
/// it, or in an expression that reads the field ("$field", "$$ROOT.field", {$getField: "field"}).
[[nodiscard]] Names stage_names(Bytes specification, std::string_view field);

}  // namespace idproxy::rewrite
