#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "fd.hpp"
#include "outgoing_message.hpp"

struct ssl_st;  // OpenSSL's SSL

namespace idproxy::bench {

/// One connection's TLS. Its end tells the peer so (close_notify).
struct EndSession {
  void operator()(ssl_st* session) const;
};
using Session = std::unique_ptr<ssl_st, EndSession>;

/// What became of a message that was to be sent.
enum class Sent {
  all,
  waits_for_room,  ///< the socket takes no more
  waits_for_peer,  ///< the handshake is not over
  failed           ///< the peer is gone
};

/// One connection, plain or with TLS; blocking or not, as its socket is. Reading and writing do
/// what is left of the handshake.
class Stream {
 public:
  Stream() = default;
  explicit Stream(Fd fd) : fd_(std::move(fd)) {}
  /// `session` uses `fd`.
  Stream(Fd fd, Session session) : fd_(std::move(fd)), session_(std::move(session)) {}

  const Fd& fd() const { return fd_; }

  /// True when the handshake is over; plain connections have none. Throws std::runtime_error when
  /// it fails.
  bool handshake();

  /// Bytes received into `buffer`, with TLS at most one record's; 0 when there are none for now,
  /// -1 when the peer has ended. Throws std::runtime_error when TLS is broken.
  std::ptrdiff_t receive(char* buffer, std::size_t size);

  /// True if receive() may have more without the socket becoming readable.
  bool pending() const;

  /// Sends as much of it as the socket takes. Throws std::runtime_error when TLS is broken.
  Sent send(OutgoingMessage& message);

  /// Version, cipher and group after the handshake: "TLSv1.3 TLS_AES_256_GCM_SHA384 x25519".
  std::string negotiated() const;

 private:
  Sent send_records(OutgoingMessage& message);
  int error_of(int result) const;

  Fd fd_;
  Session session_;  ///< none: plain. Ends before fd_, which it uses
};

}  // namespace idproxy::bench
