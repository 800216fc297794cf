#pragma once

#include <cstddef>
#include <cstdint>

#include "idproxy/base/buffer.hpp"

namespace idproxy::net {

/// What a connection of a draining thread does: it closes as soon as nothing is under way, and what
/// was not forwarded yet is answered with ShutdownInProgress. Decisions only, without sockets.
namespace drain {

/// How far a connection is.
struct Progress {
  bool handshaking = false;       ///< with the client, for TLS
  bool busy = false;              ///< an exchange or a reply of the proxy's is under way
  bool unsent = false;            ///< bytes in either direction that their sink has not taken
  bool inside_message = false;    ///< of the client's, passed on in part or held in part
  bool ended = false;             ///< no later request is read
  bool looking = false;           ///< what the client has sent is being looked for
  bool seen_empty = false;        ///< looking has found nothing
  std::uint64_t outstanding = 0;  ///< requests that the server has not answered
};

enum class Next {
  wait,   ///< something is under way
  look,   ///< read what the client may have sent already
  close,  ///< nothing is left to do
};
[[nodiscard]] Next next(const Progress& progress);

/// What becomes of a request that came while draining.
struct Late {
  enum class Kind {
    refuse,     ///< `reply` answers it
    need_more,  ///< not all of it is there
    end,        ///< no answer: nothing is read any more, and the connection's end says the same
  };
  Kind kind;
  Buffer reply;
};
/// `front` is what is there of a message of `length` bytes. `id`: of the reply.
[[nodiscard]] Late refuse(Bytes front, std::size_t length, std::int32_t id);

}  // namespace drain
}  // namespace idproxy::net
