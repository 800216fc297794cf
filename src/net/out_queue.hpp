#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <memory>
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
  [[nodiscard]] bool empty() const { return rest_ == nullptr; }

  /// Sends as much as the socket takes and queues a copy of the rest.
  Status send(auto& sink, Bytes bytes) {
    const ssize_t n = empty() ? sink.write(bytes) : 0;
    if (n < 0) return Status::failed;
    if (static_cast<std::size_t>(n) == bytes.size() && empty()) return taken(sink);
    add(bytes.subspan(static_cast<std::size_t>(n)));
    return Status::blocked;
  }
  /// Sends `message`, which patches `original`; the queue must be empty. Queues what the socket
  /// does not take: a small rest as a copy, a large one by reference, in which case both arguments
  /// must stay valid and unchanged until the queue is empty.
  Status send(auto& sink, const wire::PatchedMessage& message, Bytes original) {
    std::size_t sent = 0;
    const Status status = send_patched(sink, message, original, sent);
    if (status == Status::done) return taken(sink);
    if (status == Status::failed) return status;
    if (message.size() - sent > kCopiedRest) {
      rest() = {.message = &message, .original = original, .sent = sent};
    } else {
      message.copy(original, sent, rest().bytes);
    }
    return status;
  }
  /// Appends bytes to the queue without trying to send them.
  void add(Bytes bytes) { rest().bytes.append(bytes); }
  /// Sends as much of the queue as the socket takes.
  Status flush(auto& sink) {
    const Stream::Sent flushed = sink.flush();
    if (flushed == Stream::Sent::failed) return Status::failed;
    if (flushed == Stream::Sent::blocked) return Status::blocked;
    Rest& left = rest();
    if (left.message != nullptr) {
      const Status status = send_patched(sink, *left.message, left.original, left.sent);
      if (status != Status::done) return status;
      left.message = nullptr;
      left.sent = 0;
    }
    if (!left.bytes.empty()) {
      const ssize_t n = sink.write(left.bytes.view().subspan(left.sent));
      if (n < 0) return Status::failed;
      left.sent += static_cast<std::size_t>(n);
      if (left.sent < left.bytes.size()) return Status::blocked;
    }
    rest_.reset();
    return taken(sink);
  }

 private:
  // Larger rests are queued by reference instead of being copied.
  static constexpr std::size_t kCopiedRest = std::size_t{256} * 1024;
  // As many as sendmsg() takes: each call wakes the peer, whose acknowledgements cost time, too.
  static constexpr std::size_t kSlices = IOV_MAX;

  struct Rest {
    const wire::PatchedMessage* message = nullptr;  // goes first
    Bytes original{};                               // of message
    Buffer bytes{};
    std::size_t sent = 0;  // of the message, then of bytes
  };

  Rest& rest() {
    if (rest_ == nullptr) rest_ = std::make_unique<Rest>();
    return *rest_;
  }

  /// Advances `sent`.
  static Status send_patched(auto& sink, const wire::PatchedMessage& message, Bytes original,
                             std::size_t& sent) {
    std::array<iovec, kSlices> slices;
    while (sent < message.size()) {
      const std::size_t count = message.gather(original, sent, slices);
      const std::span<const iovec> gathered(slices.data(), count);
      std::size_t size = 0;
      for (const iovec& slice : gathered) size += slice.iov_len;
      const ssize_t n = sink.write(gathered);
      if (n < 0) return Status::failed;
      sent += static_cast<std::size_t>(n);
      if (static_cast<std::size_t>(n) < size) return Status::blocked;
    }
    return Status::done;
  }

  /// The sink took all that it was given.
  Status taken(const auto& sink) {
    if (!sink.unsent()) return Status::done;
    rest();
    return Status::blocked;
  }

  std::unique_ptr<Rest> rest_;  // null: empty; with nothing in it: the stream has not sent all
};

}  // namespace idproxy::net
