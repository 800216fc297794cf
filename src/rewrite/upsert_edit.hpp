#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"
#include "rewrite/upsert_statement.hpp"

namespace idproxy::rewrite {

/// The change that puts values into an upsert:
///
///   {q, u: {$set: {x: 1}}}                      u: {$set: {x: 1}, $setOnInsert: {number: 7}}
///   {q, u: {$setOnInsert: {y: 1}}}              u: {$setOnInsert: {y: 1, number: 7}}
///   {q, u: {$setOnInsert: {number: null}}}      u: {$setOnInsert: {number: 7}}, as `assign` says
///   {q, u: [{$set: {x: 1}}]}                    u: [{$set: {number: {$cond: [
///                                                      {$eq: [{$type: "$_id"}, "missing"]},
///                                                      {$literal: 7}, "$number"]}}},
///                                                   {$set: {x: 1}}]
///
///   a findAndModify of {idproxy: "assign"}:
///   {query, update: {$set: {}}}                 update: {$set: {number: 7}}
///
/// One that would take a stored value away is written anew (rewrite/keep_edit.hpp).
///
/// In a pipeline, which knows no $setOnInsert, a document without `_id` is one that is being
/// inserted (observed, 6.0.5). Each value has a stage of its own, `_id` the last. A dotted field is
/// set within its outermost document, which the stage leaves as it is in a document that matches: a
/// dotted name would change arrays there, and documents that lack the field.
class UpsertEdit {
 public:
  /// Whether an upsert is one still.
  enum class As { upsert, update };

  /// Of the statement with this index; no change if it gets and keeps no values. Borrows its bytes.
  /// As::update: only of a replacement that keeps some.
  UpsertEdit(const WriteRequest& write, const GivenValues& given, std::int32_t statement,
             As as = As::upsert);

  /// As the client sent it.
  [[nodiscard]] const UpsertStatement& statement() const { return statement_; }
  /// By how many bytes the statement grows.
  [[nodiscard]] std::int64_t growth() const {
    return static_cast<std::int64_t>(added_.size()) - static_cast<std::int64_t>(removed_);
  }
  /// Appends `part` of the message, which contains the whole change, as it is after the change.
  /// `message`: the message that `out` patches.
  void write(Bytes message, Bytes part, wire::PatchedMessage& out) const;

 private:
  void write_keeping(const WriteRequest& write, const GivenValues& given, std::int32_t statement,
                     As as);
  void write_without_losses(const WriteRequest& write, const GivenValues& given,
                            std::int32_t statement);

  UpsertStatement statement_;
  /// Documents around the change, outermost first.
  std::array<const std::uint8_t*, 3> around_{};
  std::size_t depth_ = 0;
  const std::uint8_t* at_ = nullptr;
  std::size_t removed_ = 0;
  Buffer added_;
};

}  // namespace idproxy::rewrite
