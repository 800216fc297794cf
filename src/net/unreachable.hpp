#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "idproxy/base/buffer.hpp"

namespace idproxy::net {

/// Decides what a client learns if its server cannot be reached. No sockets.
namespace unreachable {

/// "mongo-idproxy: cannot reach db1:27017: Connection refused"
[[nodiscard]] std::string message(std::string_view server, std::string_view reason);

/// The decision about a client's first request.
struct Answer {
  enum class Kind {
    need_more,  ///< decide again once `bytes` of the request have been received
    reply,      ///< send `reply`, HostUnreachable, then close
    close,      ///< the end of the connection is the answer
  };
  Kind kind;
  std::size_t bytes = 0;
  Buffer reply{};
};
/// `front` is what the client has sent so far; it need not be well-formed. `errmsg` is the reply's,
/// `id` its requestID. Hello, unacknowledged and large requests get no reply.
[[nodiscard]] Answer answer(Bytes front, const std::string& errmsg, std::int32_t id);

}  // namespace unreachable
}  // namespace idproxy::net
