#pragma once

#include <functional>
#include <optional>
#include <span>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "rewrite/upsert_statement.hpp"

/// Writes updates so that stored values stay.
namespace idproxy::rewrite {

/// Appends the elements of the pipeline that does what the replacement R does, but leaves the
/// values of these rules:
///
///   {$replaceWith: {$mergeObjects: [{_id: "$_id"}, {$literal: R}, {number: "$number"}]}}
///
/// A document that it inserts, in which a field of `given` is missing, gets that value:
///
///   {number: {$cond: [{$eq: [{$type: "$number"}, "missing"]}, {$literal: 7}, "$number"]}}
///
/// `_id` stands first: else the oplog's entry would remove it (observed, 5.0.4, 6.0.5). A dotted
/// field is set within R's own documents, and not in a document where its path leads into an array.
void append_keeping_stages(const UpsertStatement& statement, const Plan& plan,
                           std::span<const Kept> kept, std::span<const Given> given,
                           std::span<const ids::Values> values, Buffer& out);

/// Appends the elements of $setOnInsert. `own`: the client's.
using OnInsert = std::function<void(std::optional<Bytes> own)>;

/// Appends the elements of an update by operators without those that these rules leave out
/// (`keep: always`). `on_insert`: null: the statement is no upsert, and where nothing is left of
/// it, it becomes one that changes nothing.
void append_without_losses(Bytes update, const Plan& plan, std::span<const Kept> kept,
                           const OnInsert& on_insert, Buffer& out);

/// Appends the stages of a pipeline, as elements of its array from `count` on, without what these
/// rules leave out of $set and $addFields.
void append_stages_without_losses(Bytes update, const Plan& plan, std::span<const Kept> kept,
                                  std::size_t count, Buffer& out);

}  // namespace idproxy::rewrite
