#pragma once

#include "rewrite/operation.hpp"

namespace idproxy::rewrite {

/// A findAndModify is its own only statement: it goes in one command, and the server knows it by
/// the txnNumber alone. Its reply is {lastErrorObject: {n, updatedExisting, upserted?: _id}, value,
/// retriedStmtId?, writeConcernError?, ok: 1, …}, and goes to the client as it is.
class FindAndModify final : public Operation {
 public:
  using Operation::Operation;
  /// True if this reply says that it has found no document.
  [[nodiscard]] static bool found_nothing(Bytes reply);

  [[nodiscard]] std::optional<std::size_t> emit(WritePart part, Workspace& workspace,
                                                wire::PatchedMessage& out) const override;
  /// `n` is there only if lastErrorObject is as it should be.
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
};

}  // namespace idproxy::rewrite
