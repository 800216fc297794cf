#pragma once

#include <memory>

#include "idproxy/base/buffer.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::net {

/// Bytes that a socket has not taken yet. Empty in the normal case, and then it holds no memory:
/// what is written goes to the kernel from where it lies, and only a rest is kept.
class OutQueue {
 public:
  enum class Status { done, blocked, failed };

  [[nodiscard]] bool empty() const { return bytes_.empty() && patch_ == nullptr; }

  /// Sends as much as the socket takes and keeps the rest.
  Status send(int fd, Bytes bytes);
  /// Sends `message`, which patches `original`. What the socket does not take is kept: a small rest
  /// as a copy; of a large one `message` and, if it is the buffer around `original`, `owner` are
  /// taken over. Only on an empty queue.
  Status send(int fd, wire::PatchedMessage& message, Bytes original, Buffer* owner);
  /// Adds bytes behind what is there, without trying to send them.
  void add(Bytes bytes) { bytes_.append(bytes); }
  /// Sends as much of the rest as the socket takes.
  Status flush(int fd);

 private:
  /// A large patched message and the buffer that it patches.
  struct Patch {
    wire::PatchedMessage message;
    Buffer buffer;
    std::size_t original_at;
    std::size_t original_size;
  };
  Status send_patched(int fd, const wire::PatchedMessage& message, Bytes original);

  std::unique_ptr<Patch> patch_;  // goes first
  Buffer bytes_;
  std::size_t sent_ = 0;  // of the patched message, then of bytes_
};

}  // namespace idproxy::net
