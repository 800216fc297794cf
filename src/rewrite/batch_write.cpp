#include "rewrite/batch_write.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {

BatchWrite::BatchWrite(Buffer original, WriteRequest write, std::vector<RefusedDocument> refused)
    : WriteCommand(std::move(original), write.message),
      write_(std::move(write)),
      refused_(std::move(refused)),
      ns_(write_.ns()) {}

std::optional<WriteReply> BatchWrite::read(Bytes body, std::size_t sent) const {
  return WriteReply::read(body, sent);
}

void BatchWrite::add(const wire::OpMsgView& message, const WriteReply& reply,
                     std::span<const std::int32_t> sent) {
  merge_.add(message, reply, sent);
}

void BatchWrite::refuse(RefusedDocument&& document) {
  const auto at = std::ranges::lower_bound(refused_, document.index, {}, &RefusedDocument::index);
  refused_.insert(at, std::move(document));
}

void BatchWrite::append_reply(std::span<const Assigned> assigned, Buffer& out) const {
  merge_.append(message().header().request_id, refused_, assigned, out);
}

}  // namespace idproxy::rewrite
