#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "work.hpp"

namespace idproxy::bench {

/// A prebuilt message on its way out: the header is a copy with its own ids, the rest is borrowed
/// and must outlive the sending. Idle when default constructed.
class OutgoingMessage {
 public:
  OutgoingMessage() = default;
  OutgoingMessage(std::string_view message, std::int32_t request_id, std::int32_t response_to)
      : rest_(message.substr(kHeaderBytes)), sent_(0) {
    std::memcpy(header_.data(), message.data(), kHeaderBytes);
    std::memcpy(header_.data() + sizeof request_id, &request_id, sizeof request_id);
    std::memcpy(header_.data() + 2 * sizeof request_id, &response_to, sizeof response_to);
  }

  bool done() const { return sent_ == kHeaderBytes + rest_.size(); }

  /// The next bytes, in one piece: as many of them as `copy` has room for, and copied there if they
  /// are not in one piece anyway.
  std::string_view unsent(std::span<char> copy) const {
    if (sent_ >= kHeaderBytes) return rest_.substr(sent_ - kHeaderBytes, copy.size());
    const std::size_t of_header = kHeaderBytes - sent_;
    std::memcpy(copy.data(), header_.data() + sent_, of_header);
    const std::size_t of_rest = rest_.copy(copy.data() + of_header, copy.size() - of_header);
    return {copy.data(), of_header + of_rest};
  }

  /// That many of them have been sent.
  void advance(std::size_t sent) { sent_ += sent; }

  /// Sends what the socket takes in one call; false when the peer is gone.
  bool send(int fd) {
    std::array<iovec, 2> parts{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = fill(parts);
    const std::ptrdiff_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    advance(static_cast<std::size_t>(sent));
    return true;
  }

 private:
  std::size_t fill(std::array<iovec, 2>& parts) {
    if (sent_ < kHeaderBytes) {
      parts[0] = {header_.data() + sent_, kHeaderBytes - sent_};
      parts[1] = {const_cast<char*>(rest_.data()), rest_.size()};
      return 2;
    }
    const std::string_view left = rest_.substr(sent_ - kHeaderBytes);
    parts[0] = {const_cast<char*>(left.data()), left.size()};
    return 1;
  }

  std::array<char, kHeaderBytes> header_{};
  std::string_view rest_;
  std::size_t sent_ = kHeaderBytes;  ///< all of an empty message
};

}  // namespace idproxy::bench
