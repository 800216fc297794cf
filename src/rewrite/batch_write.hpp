#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {

/// A write command with an array of statements: insert or update.
class BatchWrite : public WriteCommand {
 public:
  /// `refused`: documents that were replaced by refused_document(); they ascend by index.
  BatchWrite(const WriteRequest& write, std::vector<RefusedDocument> refused)
      : WriteCommand(write), refused_(std::move(refused)) {}

  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override {
    return WriteReply::read(body, sent);
  }
  void add_stored(std::int64_t count) override { merge_.add_stored(count); }
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override {
    merge_.add(message, reply, sent);
  }
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override {
    return merge_.errors();
  }
  void refuse(RefusedDocument&& document) override {
    const auto at = std::ranges::lower_bound(refused_, document.index, {}, &RefusedDocument::index);
    refused_.insert(at, std::move(document));
  }
  [[nodiscard]] bool retried(std::int32_t number) const override { return merge_.retried(number); }
  [[nodiscard]] bool has_reply() const override { return !merge_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override {
    merge_.append(message().header().request_id, refused_, assigned, out);
  }

 protected:
  [[nodiscard]] const std::vector<RefusedDocument>& refused() const { return refused_; }
  [[nodiscard]] const ReplyMerge& merged() const { return merge_; }

 private:
  std::vector<RefusedDocument> refused_;
  ReplyMerge merge_;
};

}  // namespace idproxy::rewrite
