#pragma once

#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/statements.hpp"

namespace idproxy::rewrite {

/// A statement of update, {q, u, upsert, multi, …}, an update of bulkWrite, {update, filter,
/// updateMods, upsert, multi, …}, or a whole findAndModify, {query, update, upsert, …}. Views into
/// its message.
struct UpsertStatement {
  using Kind = UpsertParts::Kind;
  Kind kind = Kind::plain;
  bool multi = false;
  bool is_pipeline = false;
  bool is_replacement = false;
  Bytes whole;
  Bytes filter;  ///< empty if there is none
  Bytes update;  ///< a document or an array; empty if there is none
  /// True if it has arrayFilters or constants. Only as read().
  bool has_array_filters = false;
  bool is_encrypted = false;  ///< its command has fields that the driver encrypts

  /// Returns nothing if mongod will refuse the whole command because of this statement: a field is
  /// repeated, missing or of a wrong type, or the statement is malformed.
  [[nodiscard]] static std::optional<UpsertStatement> read(Bytes statement, WriteKind kind);
  /// The same statement again, in this message or a copy of it.
  [[nodiscard]] static UpsertStatement of(const UpsertParts& parts, Bytes message);
  /// What of() needs. `message`: the one that the statement is in.
  [[nodiscard]] UpsertParts parts(Bytes message) const;
};

/// True if a statement of this update or findAndModify says that it is an upsert, or might.
[[nodiscard]] bool has_upsert(const WriteCommand& command);

/// True if one of the dotted paths is the other, or contains it: "a" and "a.b", but not "a" and
/// "ab".
[[nodiscard]] bool overlap(std::string_view path, std::string_view other);

/// Whether a document names a field.
enum class Names { no, yes, malformed, too_deep };

/// Whether a filter names `field`, a document around it or something below it, at any depth: also
/// within $and, $or, $nor and $elemMatch, and in documents that are values. Each key counts both
/// with the path around it and alone.
[[nodiscard]] Names filter_names(Bytes filter, std::string_view field);

/// Whether the server can make a document from the equalities of an upsert's filter: a pipeline
/// begins with it, a replacement takes its _id alone.
enum class FilterForm {
  plain,
  repeats,  ///< it may name a field twice, or one within another: error 54 of a pipeline (observed)
  refused,  ///< $expr, which no upsert may have
};
[[nodiscard]] FilterForm form_of(Bytes filter);

/// Whether the specification of a $set or $addFields stage does so: by a key, with the path around
/// it, or in an expression that reads the field ("$field", "$$ROOT.field", {$getField: "field"}).
[[nodiscard]] Names stage_names(Bytes specification, std::string_view field);

}  // namespace idproxy::rewrite
