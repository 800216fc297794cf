#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <span>

#include "idproxy/base/bytes.hpp"
#include "idproxy/wire/patched_message.hpp"
#include "net/stream.hpp"

namespace idproxy::net {

/// The bytes that a socket has not taken yet. Normally the kernel takes everything directly from
/// the caller's memory, and the queue is empty and holds no memory; only a rest is queued. Its sink
/// is a Stream, or what a test plays one with.
class OutQueue {
 public:
  enum class Status { done, blocked, failed };

  /// False, too, while the stream holds bytes that it took but has not sent.
  [[nodiscard]] bool empty() const { return bytes_.empty() && message_ == nullptr && !in_stream_; }

  /// Sends as much as the socket takes and queues a copy of the rest.
  Status send(auto& sink, Bytes bytes) {
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
  /// Sends `message`, which patches `original`; the queue must be empty. Queues what the socket
  /// does not take: a small rest as a copy, a large one by reference, in which case both arguments
  /// must stay valid and unchanged until the queue is empty.
  Status send(auto& sink, const wire::PatchedMessage& message, Bytes original) {
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
  /// Appends bytes to the queue without trying to send them.
  void add(Bytes bytes) { bytes_.append(bytes); }
  /// Sends as much of the queue as the socket takes.
  Status flush(auto& sink) {
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

 private:
  // Larger rests are queued by reference instead of being copied.
  static constexpr std::size_t kCopiedRest = std::size_t{256} * 1024;
  // As many as sendmsg() takes: each call wakes the peer, whose acknowledgements cost time, too.
  static constexpr std::size_t kSlices = IOV_MAX;

  /// Advances sent_.
  Status send_patched(auto& sink, const wire::PatchedMessage& message, Bytes original) {
    std::array<iovec, kSlices> slices;
    while (sent_ < message.size()) {
      const std::size_t count = message.gather(original, sent_, slices);
      const std::span<const iovec> gathered(slices.data(), count);
      std::size_t size = 0;
      for (const iovec& slice : gathered) size += slice.iov_len;
      const ssize_t n = sink.write(gathered);
      if (n < 0) return Status::failed;
      sent_ += static_cast<std::size_t>(n);
      if (static_cast<std::size_t>(n) < size) return Status::blocked;
    }
    return Status::done;
  }

  /// The sink took all that it was given.
  Status taken(const auto& sink) {
    in_stream_ = sink.unsent();
    return in_stream_ ? Status::blocked : Status::done;
  }

  const wire::PatchedMessage* message_ = nullptr;  // goes first
  Bytes original_;                                 // of message_
  Buffer bytes_;
  std::size_t sent_ = 0;    // of the patched message, then of bytes_
  bool in_stream_ = false;  // the stream took everything, but has not sent everything
};

}  // namespace idproxy::net
