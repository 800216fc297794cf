#include "out_queue.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace idproxy::net {
namespace {

// Larger rests stay where they are instead of being copied.
constexpr std::size_t kCopiedRest = std::size_t{256} * 1024;
constexpr std::size_t kSlices = 64;

/// Bytes taken by the socket; -1 with errno for an error other than "not now".
ssize_t send_some(int fd, Bytes bytes) {
  const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

ssize_t send_some(int fd, std::span<iovec> slices) {
  msghdr header{};
  header.msg_iov = slices.data();
  header.msg_iovlen = slices.size();
  const ssize_t n = ::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

std::size_t bytes_in(std::span<const iovec> slices) {
  std::size_t size = 0;
  for (const iovec& slice : slices) size += slice.iov_len;
  return size;
}

}  // namespace

OutQueue::Status OutQueue::send(int fd, Bytes bytes) {
  if (!empty()) {
    add(bytes);
    return Status::blocked;
  }
  const ssize_t n = send_some(fd, bytes);
  if (n < 0) return Status::failed;
  if (static_cast<std::size_t>(n) == bytes.size()) return Status::done;
  bytes_.append(bytes.subspan(static_cast<std::size_t>(n)));
  return Status::blocked;
}

OutQueue::Status OutQueue::send(int fd, const wire::PatchedMessage& message, Bytes original) {
  sent_ = 0;
  const Status status = send_patched(fd, message, original);
  if (status == Status::blocked && message.size() - sent_ > kCopiedRest) {
    message_ = &message;
    original_ = original;
    return status;
  }
  if (status == Status::blocked) message.copy(original, sent_, bytes_);
  sent_ = 0;
  return status;
}

/// Advances sent_.
OutQueue::Status OutQueue::send_patched(int fd, const wire::PatchedMessage& message,
                                        Bytes original) {
  std::array<iovec, kSlices> slices;
  while (sent_ < message.size()) {
    const std::size_t count = message.gather(original, sent_, slices);
    const std::span<iovec> gathered(slices.data(), count);
    const ssize_t n = send_some(fd, gathered);
    if (n < 0) return Status::failed;
    sent_ += static_cast<std::size_t>(n);
    if (static_cast<std::size_t>(n) < bytes_in(gathered)) return Status::blocked;
  }
  return Status::done;
}

OutQueue::Status OutQueue::flush(int fd) {
  if (message_ != nullptr) {
    const Status status = send_patched(fd, *message_, original_);
    if (status != Status::done) return status;
    message_ = nullptr;
    sent_ = 0;
  }
  while (sent_ < bytes_.size()) {
    const ssize_t n = send_some(fd, bytes_.view().subspan(sent_));
    if (n < 0) return Status::failed;
    if (n == 0) return Status::blocked;
    sent_ += static_cast<std::size_t>(n);
  }
  bytes_ = Buffer();
  sent_ = 0;
  return Status::done;
}

}  // namespace idproxy::net
