#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/messages.hpp"

namespace idproxy::rewrite {

/// Whether clients may log in with a certificate (MONGODB-X509). If the proxy ends TLS, the server
/// sees the proxy's certificate instead of the client's, and would log the client in as the proxy
/// (observed, 6.0.5).
enum class X509 { allowed, refused };

namespace decision {

/// Forward the message's bytes as they arrive.
struct Relay {
  bool changes_user = false;  ///< it cannot be read, and may be a part of a login, or a logout
  /// The server may hold its reply back until there is data: a getMore on a tailable cursor.
  bool may_wait = false;
  /// For an insert into a time-series collection, the rules that do not apply to it. Valid until
  /// the namespaces are asked again.
  std::span<const Forwarded> past{};
};
/// Decide again once `bytes` of the message have been received.
struct NeedMore {
  std::size_t bytes;
  bool is_write = false;  ///< a write command with rules, needed whole
};
/// Close the connection.
struct Close {};

}  // namespace decision

/// The decision about a client's message. A Request is passed to an Exchange.
using Decision = std::variant<decision::Relay, decision::NeedMore, decision::Close, Request>;

/// Decides by the first bytes if they are enough, and parses a message in which the proxy takes
/// part once it is whole. `front` is the part of the message that has been received, from its
/// header on; the caller has checked `header.message_length`. A message that mongod will refuse is
/// relayed, so that the client gets mongod's own error. Of an OP_COMPRESSED, the caller passes the
/// message inside.
[[nodiscard]] Decision classify(const wire::MsgHeader& header, Bytes front, Namespaces& namespaces,
                                X509 x509);

/// True for the commands that must not be compressed (driver specifications, "Wire Compression in
/// Drivers"), since they contain new passwords, whose length would show. Hello and logins, which
/// must not either, are none of them: drivers and servers do compress them. Of an OP_MSG whose
/// command is in `front`, which is as for classify().
[[nodiscard]] bool stays_plain(const wire::MsgHeader& header, Bytes front);

/// A statement of a transaction, or what ends it.
struct TransactionStep {
  Bytes session;  ///< lsid.id; borrows from the message
  bool ends;
  bool begins;
};
/// What a client's message says of a transaction. Of an OP_MSG whose first section is its body, as
/// all drivers send it, and if that has arrived; nothing for others. `front`: as for classify().
[[nodiscard]] std::optional<TransactionStep> transaction_step(const wire::MsgHeader& header,
                                                              Bytes front);

}  // namespace idproxy::rewrite
