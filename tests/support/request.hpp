#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/exchange.hpp"

namespace idproxy::test {

/// The request in a whole message; nothing if the proxy relays or refuses the message.
inline std::optional<rewrite::Request> request_in(Bytes message, rewrite::Namespaces& namespaces,
                                                  rewrite::X509 x509) {
  auto decision = rewrite::classify(wire::read_header(message), message, namespaces, x509);
  auto* request = std::get_if<rewrite::Request>(&decision);
  if (request == nullptr) return std::nullopt;
  return std::move(*request);
}

/// Gives a whole message to the exchange, or returns Relay if it is not a request. Parameters as
/// for Exchange::request().
inline rewrite::Action begin(rewrite::Exchange& exchange, Bytes message, Buffer* owner,
                             rewrite::Namespaces& namespaces, const rewrite::Context& context,
                             rewrite::Workspace& workspace) {
  auto request = request_in(message, namespaces, context.x509);
  if (!request) return rewrite::action::Relay{};
  return exchange.request(std::move(*request), message, owner, context, workspace);
}

}  // namespace idproxy::test
