#pragma once

#include <cstddef>
#include <cstdint>

#include "idproxy/base/buffer.hpp"

namespace idproxy::net {

/// Decides what a connection does while its thread is draining: it closes as soon as nothing is
/// under way, and answers requests that were not forwarded with ShutdownInProgress. No sockets.
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
  look,   ///< read what the client may have sent already
  close,  ///< nothing is left to do
};
[[nodiscard]] Next next(const Progress& progress);

/// The decision about a request that arrived while draining.
struct Late {
  enum class Kind {
    refuse,     ///< answer it with `reply`
    need_more,  ///< part of the request is missing
    end,        ///< read no more requests; the end of the connection is the answer
  };
  Kind kind;
  Buffer reply;
};
/// `front` is the received part of a message of `length` bytes; `id` is the reply's requestID.
[[nodiscard]] Late refuse(Bytes front, std::size_t length, std::int32_t id);

}  // namespace drain
}  // namespace idproxy::net
