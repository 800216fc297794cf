#pragma once

#include <optional>
#include <string>

#include "idproxy/base/buffer.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/batch_command.hpp"

namespace idproxy::rewrite {

/// The members that must have a command's writes before the server answers it.
enum class AnswersAfter {
  majority,  ///< a majority has its writes, or what the client asks for, if that is more
  primary,   ///< only for a command that another one follows at once
};

/// Appends the elements {ordered: true, writeConcern: {w: "majority", j: true}}, which take the
/// place of the client's own. Only `writeConcern` for a findAndModify. Keeps the client's
/// j and wtimeout, and a `w` that names more than one member or a tag. Returns the durability of
/// the command's writes once it has been answered without a writeConcernError.
ids::Durability append_fields_in_turn(Bytes body, WriteKind kind, AnswersAfter after, Buffer& out);

/// Appends a document with the fields by which an insert asks whether the server has executed its
/// statements in an earlier attempt, {ordered: true, writeConcern: {w: 1}, collectionUUID: <none
/// that exists>}: it skips those, and answers the first of the others with
/// kCollectionUuidMismatch (observed, 6.0.5; docs/server-behaviour.md#retryable-writes).
void append_fields_of_question(RandomSource& random, Buffer& out);

/// Identifies the client's transaction that a command is a part of, by its lsid and txnNumber;
/// nothing if these are missing or malformed.
[[nodiscard]] std::optional<std::string> transaction_of(Bytes body);

}  // namespace idproxy::rewrite
