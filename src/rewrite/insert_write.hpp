#pragma once

#include <string>
#include <vector>

#include "write_command.hpp"

namespace idproxy::rewrite {

/// An insert, whose statements are its documents.
class InsertWrite final : public WriteCommand {
 public:
  /// `insert` borrows `original`. `refused`: documents that were replaced by refused_document();
  /// they ascend by index.
  InsertWrite(Buffer original, InsertRequest insert, std::vector<RefusedDocument> refused);

  /// True if no document can make mongod refuse the whole command instead of only that document.
  /// Otherwise the first commands might store documents before a later one is refused.
  [[nodiscard]] static bool separable(const InsertCommand& command);

  [[nodiscard]] std::string_view ns() const override { return ns_; }
  [[nodiscard]] std::size_t fitting(const GivenValues& given,
                                    std::span<const std::int32_t> statements) const override;
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                          wire::PatchedMessage& out) const override;
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::size_t sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const override;
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override;
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override {
    return merge_.errors();
  }
  [[nodiscard]] bool retried(std::int32_t number) const override { return merge_.retried(number); }
  [[nodiscard]] bool has_reply() const override { return !merge_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override;

 private:
  InsertRequest insert_;
  std::vector<RefusedDocument> refused_;
  std::string ns_;
  ReplyMerge merge_;
};

}  // namespace idproxy::rewrite
