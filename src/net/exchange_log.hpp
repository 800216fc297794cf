#pragma once

#include <cstdint>

#include "idproxy/rewrite/exchange.hpp"

namespace idproxy::net {

/// Logs what the operator should know about an exchange that has decided about its request: values
/// that were not assigned, and why.
void log_request(const rewrite::Exchange& exchange, const Clock& clock);
/// Logs a command that stores documents to which the rules are not applied.
void log_past(const rewrite::Forwarded& past, const Clock& clock);
/// Whose exchange is over.
struct Ended {
  std::uint64_t connection;                  ///< its id in the log
  const rewrite::ClientDescription* client;  ///< null: it has said nothing
  bool logged_in;
  const Clock& clock;
};
/// Logs what an exchange that is over could not do.
void log_end(const rewrite::Exchange& exchange, const Ended& by);

}  // namespace idproxy::net
