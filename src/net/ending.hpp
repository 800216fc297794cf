#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"

/// Decides how a connection ends: while its thread is draining, or if its server cannot be reached.
/// No sockets.
namespace idproxy::net {

/// A draining connection closes as soon as nothing is under way.
namespace drain {

/// The state of a connection.
struct Progress {
  bool handshaking = false;       ///< TLS handshake with the client
  bool busy = false;              ///< an exchange or a reply of the proxy's own is under way
  bool unsent = false;            ///< a sink has not taken all bytes of its direction
  bool inside_message = false;    ///< part of a client's message was passed on or is held
  bool ended = false;             ///< reads no more requests
  bool seen_empty = false;        ///< the last read found nothing
  std::uint64_t outstanding = 0;  ///< requests that the server has not answered
};

enum class Next {
  wait,   ///< until what is under way has ended
  read,   ///< read what the client may have sent already
  close,  ///< nothing is left to do
};
[[nodiscard]] Next next(const Progress& progress);

}  // namespace drain

/// What a client gets for a request that is not forwarded.
struct Refusal {
  enum class Kind {
    need_more,  ///< decide again once `bytes` of the request have been received
    reply,      ///< send `reply`
    close,      ///< the end of the connection is the answer
  };
  Kind kind;
  std::size_t bytes = 0;
  Buffer reply{};
};

/// The proxy does not wait for longer requests while it drains.
inline constexpr std::size_t kLongestLate = std::size_t{1024} * 1024;

/// Of a request that arrived while draining: ShutdownInProgress. `front` is the received part of a
/// message of `length` bytes; `id` is the reply's requestID.
[[nodiscard]] Refusal refuse_late(Bytes front, std::size_t length, std::int32_t id);

/// Of the first request of a client whose server cannot be reached: HostUnreachable with `errmsg`.
/// `front` is what the client has sent so far; it need not be well-formed. Hello, unacknowledged
/// and large requests get no reply.
[[nodiscard]] Refusal refuse_unreachable(Bytes front, const std::string& errmsg, std::int32_t id);

/// "mongo-idproxy: cannot reach db1:27017: Connection refused"
[[nodiscard]] std::string unreachable_text(std::string_view server, std::string_view reason);

}  // namespace idproxy::net
