#pragma once

#include <cstddef>
#include <variant>

#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/msg_header.hpp"

namespace idproxy::rewrite {

/// What becomes of logging in by a client certificate (MONGODB-X509). Where the proxy ends TLS, the
/// server sees the proxy's certificate instead of the client's, and would log the client in as the
/// proxy (observed, 6.0.5).
enum class X509 { passes, refused };

namespace decision {

/// The message's bytes go on as they come.
struct Relay {};
/// Nothing can be decided until `bytes` of the message are there.
struct NeedMore {
  std::size_t bytes;
  bool is_insert = false;  ///< one that rules apply to, needed whole; other messages are small
};
/// The connection ends.
struct Close {};

}  // namespace decision

/// What becomes of a client's message; a Request goes to an Exchange.
using Decision = std::variant<decision::Relay, decision::NeedMore, decision::Close, Request>;

/// Decides by the first bytes where they are enough, and understands a message in which the proxy
/// takes part once it is whole. `front` is what is there of it, from its header on;
/// `header.message_length` has been checked. A message that mongod will refuse anyway is relayed,
/// so that the error is mongod's own.
[[nodiscard]] Decision classify(const wire::MsgHeader& header, Bytes front, Namespaces& namespaces,
                                X509 x509);

}  // namespace idproxy::rewrite
