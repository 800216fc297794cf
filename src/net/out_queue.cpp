#include "net/out_queue.hpp"

#include <array>
#include <climits>

namespace idproxy::net {
namespace {

// Larger rests are queued by reference instead of being copied.
constexpr std::size_t kCopiedRest = std::size_t{256} * 1024;
// As many as sendmsg() takes: each call wakes the peer, whose acknowledgements cost time, too.
constexpr std::size_t kSlices = IOV_MAX;

std::size_t bytes_in(std::span<const iovec> slices) {
  std::size_t size = 0;
  for (const iovec& slice : slices) size += slice.iov_len;
  return size;
}

}  // namespace

OutQueue::Status OutQueue::send(Stream& sink, Bytes bytes) {
  if (!empty()) {
    add(bytes);
    return Status::blocked;
  }
  const ssize_t n = sink.write(bytes);
  if (n < 0) return Status::failed;
  if (static_cast<std::size_t>(n) == bytes.size()) return taken(sink);
  bytes_.append(bytes.subspan(static_cast<std::size_t>(n)));
  return Status::blocked;
}

OutQueue::Status OutQueue::send(Stream& sink, const wire::PatchedMessage& message, Bytes original) {
  sent_ = 0;
  const Status status = send_patched(sink, message, original);
  if (status == Status::blocked && message.size() - sent_ > kCopiedRest) {
    message_ = &message;
    original_ = original;
    return status;
  }
  if (status == Status::blocked) message.copy(original, sent_, bytes_);
  sent_ = 0;
  return status == Status::done ? taken(sink) : status;
}

/// Advances sent_.
OutQueue::Status OutQueue::send_patched(Stream& sink, const wire::PatchedMessage& message,
                                        Bytes original) {
  std::array<iovec, kSlices> slices;
  while (sent_ < message.size()) {
    const std::size_t count = message.gather(original, sent_, slices);
    const std::span<const iovec> gathered(slices.data(), count);
    const ssize_t n = sink.write(gathered);
    if (n < 0) return Status::failed;
    sent_ += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < bytes_in(gathered)) return Status::blocked;
  }
  return Status::done;
}

/// The sink took all that it was given.
OutQueue::Status OutQueue::taken(const Stream& sink) {
  in_stream_ = sink.unsent();
  return in_stream_ ? Status::blocked : Status::done;
}

OutQueue::Status OutQueue::flush(Stream& sink) {
  const Stream::Sent flushed = sink.flush();
  if (flushed == Stream::Sent::failed) return Status::failed;
  if (flushed == Stream::Sent::blocked) return Status::blocked;
  in_stream_ = false;
  if (message_ != nullptr) {
    const Status status = send_patched(sink, *message_, original_);
    if (status != Status::done) return status;
    message_ = nullptr;
    sent_ = 0;
  }
  if (!bytes_.empty()) {
    const ssize_t n = sink.write(bytes_.view().subspan(sent_));
    if (n < 0) return Status::failed;
    sent_ += static_cast<std::size_t>(n);
    if (sent_ < bytes_.size()) return Status::blocked;
    bytes_ = Buffer();
  }
  sent_ = 0;
  return taken(sink);
}

}  // namespace idproxy::net
