#pragma once

#include "idproxy/base/bytes.hpp"
#include "idproxy/wire/patched_message.hpp"
#include "net/stream.hpp"

namespace idproxy::net {

/// The bytes that a socket has not taken yet. Normally the kernel takes everything directly from
/// the caller's memory, and the queue is empty and holds no memory; only a rest is queued.
class OutQueue {
 public:
  enum class Status { done, blocked, failed };

  /// False, too, while the stream holds bytes that it took but has not sent.
  [[nodiscard]] bool empty() const { return bytes_.empty() && message_ == nullptr && !in_stream_; }

  /// Sends as much as the socket takes and queues a copy of the rest.
  Status send(Stream& sink, Bytes bytes);
  /// Sends `message`, which patches `original`; the queue must be empty. Queues what the socket
  /// does not take: a small rest as a copy, a large one by reference, in which case both arguments
  /// must stay valid and unchanged until the queue is empty.
  Status send(Stream& sink, const wire::PatchedMessage& message, Bytes original);
  /// Appends bytes to the queue without trying to send them.
  void add(Bytes bytes) { bytes_.append(bytes); }
  /// Sends as much of the queue as the socket takes.
  Status flush(Stream& sink);

 private:
  Status send_patched(Stream& sink, const wire::PatchedMessage& message, Bytes original);
  Status taken(const Stream& sink);

  const wire::PatchedMessage* message_ = nullptr;  // goes first
  Bytes original_;                                 // of message_
  Buffer bytes_;
  std::size_t sent_ = 0;    // of the patched message, then of bytes_
  bool in_stream_ = false;  // the stream took everything, but has not sent everything
};

}  // namespace idproxy::net
