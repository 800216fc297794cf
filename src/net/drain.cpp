#include "net/drain.hpp"

#include <utility>

#include "idproxy/rewrite/reply.hpp"

namespace idproxy::net::drain {

Next next(const Progress& progress) {
  if (progress.handshaking || progress.busy || progress.unsent || progress.outstanding > 0) {
    return Next::wait;
  }
  if (progress.ended) return Next::close;
  if (progress.inside_message) return Next::wait;
  return progress.seen_empty ? Next::close : Next::look;
}

Late refuse(Bytes front, std::size_t length, std::int32_t id) {
  // The proxy does not wait for longer requests.
  constexpr std::size_t kLongest = std::size_t{1024} * 1024;
  if (length > kLongest) return {Late::Kind::end, {}};
  if (front.size() < length) return {Late::Kind::need_more, {}};
  Buffer reply;
  if (!rewrite::append_shutdown_reply(front, id, reply)) return {Late::Kind::end, {}};
  return {Late::Kind::refuse, std::move(reply)};
}

}  // namespace idproxy::net::drain
