#pragma once

#include <string>

#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {

/// A findAndModify with an upsert: one statement, whose errors are errors of the whole command.
///
///   reply ::= {lastErrorObject: {n, updatedExisting, upserted?: _id}, value, retriedStmtId?: int,
///              writeConcernError?, ok: 1, …}
class FindAndModifyWrite final : public WriteCommand {
 public:
  /// `write` borrows `original`.
  FindAndModifyWrite(Buffer original, WriteRequest write);

  [[nodiscard]] std::string_view ns() const override { return ns_; }
  [[nodiscard]] std::size_t fitting(const GivenValues& /*given*/,
                                    std::span<const std::int32_t> /*statements*/) const override {
    return 1;
  }
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                          wire::PatchedMessage& out) const override;
  /// In the result, `upserted` has the statement if it inserted a document, and `n` is there only
  /// if lastErrorObject is as it should be.
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& /*reply*/,
                                     std::span<const std::int32_t> /*sent*/) const override {
    return false;
  }
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override;
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override { return none_; }
  [[nodiscard]] bool inserted(std::int32_t /*statement*/) const override { return inserted_; }
  [[nodiscard]] bool retried(std::int32_t /*number*/) const override { return retried_; }
  [[nodiscard]] bool has_reply() const override { return !reply_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override;

 private:
  WriteRequest write_;
  std::string ns_;
  std::map<std::int32_t, Buffer> none_;
  bool inserted_ = false;
  bool retried_ = false;
  Buffer reply_;
};

}  // namespace idproxy::rewrite
