#pragma once

#include "byte_stream.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::net {

/// Bytes that a socket has not taken yet. Empty in the normal case, and then it holds no memory:
/// what is written goes to the kernel from where it lies, and only a rest is kept.
class OutQueue {
 public:
  enum class Status { done, blocked, failed };

  /// False as well while the stream has to be flushed of what it took.
  [[nodiscard]] bool empty() const { return bytes_.empty() && message_ == nullptr && !in_stream_; }

  /// Sends as much as the socket takes and keeps the rest.
  Status send(ByteStream& sink, Bytes bytes);
  /// Sends `message`, which patches `original`. Of what the socket does not take a small rest is
  /// copied; a large one is borrowed: then both must stay as they are until the queue is empty.
  /// Only on an empty queue.
  Status send(ByteStream& sink, const wire::PatchedMessage& message, Bytes original);
  /// Adds bytes behind what is there, without trying to send them.
  void add(Bytes bytes) { bytes_.append(bytes); }
  /// Sends as much of the rest as the socket takes.
  Status flush(ByteStream& sink);

 private:
  Status send_patched(ByteStream& sink, const wire::PatchedMessage& message, Bytes original);
  Status taken(const ByteStream& sink);

  const wire::PatchedMessage* message_ = nullptr;  // goes first
  Bytes original_;                                 // of message_
  Buffer bytes_;
  std::size_t sent_ = 0;    // of the patched message, then of bytes_
  bool in_stream_ = false;  // it has taken all, and not sent all
};

}  // namespace idproxy::net
