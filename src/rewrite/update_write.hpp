#pragma once

#include <vector>

#include "rewrite/batch_write.hpp"

namespace idproxy::rewrite {

/// An update with upserts.
class UpdateWrite final : public BatchWrite {
 public:
  /// `update` borrows `original`.
  UpdateWrite(Buffer original, WriteRequest update);

  [[nodiscard]] std::size_t fitting(const GivenValues& given,
                                    std::span<const std::int32_t> statements) const override;
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                          wire::PatchedMessage& out) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& /*reply*/,
                                     std::span<const std::int32_t> /*sent*/) const override {
    return false;
  }
  [[nodiscard]] bool inserted(std::int32_t statement) const override {
    return merged().upserted(statement);
  }

 private:
  std::vector<bool> upserts_;  // by statement
  std::vector<bool> multi_;    // by statement
};

}  // namespace idproxy::rewrite
