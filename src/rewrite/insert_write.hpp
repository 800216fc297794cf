#pragma once

#include <vector>

#include "rewrite/batch_write.hpp"

namespace idproxy::rewrite {

/// An insert, whose statements are its documents.
class InsertWrite final : public BatchWrite {
 public:
  /// As BatchWrite.
  InsertWrite(Buffer original, WriteRequest insert, std::vector<RefusedDocument> refused);

  /// True if no document can make mongod refuse the whole command instead of only that document.
  /// Otherwise the first commands might store documents before a later one is refused.
  [[nodiscard]] static bool separable(const BatchCommand& command);

  [[nodiscard]] std::size_t fitting(const GivenValues& given,
                                    std::span<const std::int32_t> statements) const override;
  [[nodiscard]] std::vector<ids::TypedValue> ids(const Plan& plan,
                                                 const GivenValues& given) const override;
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                          wire::PatchedMessage& out) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool inserted(std::int32_t /*statement*/) const override { return true; }
};

}  // namespace idproxy::rewrite
