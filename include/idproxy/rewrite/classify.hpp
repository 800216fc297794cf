#pragma once

#include <string_view>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/msg_header.hpp"

namespace idproxy::rewrite {

/// What becomes of logging in by a client certificate (MONGODB-X509). Where the proxy ends TLS, the
/// server sees the proxy's certificate instead of the client's, and would log the client in as the
/// proxy (observed, 6.0.5).
enum class X509 { passes, refused };

/// What becomes of a client's message, told from its first bytes.
struct Decision {
  enum class Kind {
    relay,      ///< its bytes go on as they come
    need_more,  ///< undecided until `bytes` of it are there
    collect,    ///< an Exchange wants it whole
    close,      ///< the connection ends
  };
  Kind kind;
  std::size_t bytes = 0;
  bool is_insert = false;  ///< of `collect`; else it is small, or else of no use
};

/// `front` is what is there of the message, from its header on; `header.message_length` has been
/// checked. A message that mongod will refuse anyway is relayed, so that the error is mongod's own.
[[nodiscard]] Decision classify(const wire::MsgHeader& header, Bytes front, Namespaces& namespaces,
                                X509 x509);

/// True if mongod answers the message. `front` as for classify(), once that has decided.
[[nodiscard]] bool expects_reply(const wire::MsgHeader& header, Bytes front);

/// True for an OP_QUERY whose answer may be any number of OP_REPLYs without a further request (flag
/// Exhaust; servers before 5.1).
[[nodiscard]] bool is_legacy_exhaust(const wire::MsgHeader& header, Bytes front);

/// "$query" or "query": what an OP_QUERY may have around its command.
[[nodiscard]] bool is_query_wrapper(std::string_view key);

/// "hello", "isMaster" or "ismaster": the names that mongod knows it by.
[[nodiscard]] bool is_hello(std::string_view command);

}  // namespace idproxy::rewrite
