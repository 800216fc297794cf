#pragma once

#include <string>
#include <vector>

#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {

/// A write command with an array of statements: insert or update.
class BatchWrite : public WriteCommand {
 public:
  [[nodiscard]] std::string_view ns() const override { return ns_; }
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override;
  void add_stored(std::int64_t count) override { merge_.add_stored(count); }
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override;
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override {
    return merge_.errors();
  }
  void refuse(RefusedDocument&& document) override;
  [[nodiscard]] bool retried(std::int32_t number) const override { return merge_.retried(number); }
  [[nodiscard]] bool has_reply() const override { return !merge_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override;

 protected:
  /// `write` borrows `original`. `refused`: documents that were replaced by refused_document();
  /// they ascend by index.
  BatchWrite(Buffer original, WriteRequest write, std::vector<RefusedDocument> refused);

  [[nodiscard]] const WriteRequest& write() const { return write_; }
  [[nodiscard]] const std::vector<RefusedDocument>& refused() const { return refused_; }
  [[nodiscard]] const ReplyMerge& merged() const { return merge_; }

 private:
  WriteRequest write_;
  std::vector<RefusedDocument> refused_;
  std::string ns_;
  ReplyMerge merge_;
};

}  // namespace idproxy::rewrite
