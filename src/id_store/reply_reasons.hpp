#pragma once

#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/outcome.hpp"

/// The meaning of the id store's failed commands for requests for numbers.
namespace idproxy::id_store {

/// Returns why the store did not reach a server, as the rest of a sentence that begins with "the id
/// store": "does not answer: No suitable servers …", "refuses the proxy's login: …". For the log
/// and the operator. Empty if a server executed or refused the command.
[[nodiscard]] std::string why_unreached(const mongo::Reply& reply, const mongo::Login& login);

/// The same without advice on the login.
[[nodiscard]] std::string why_unreached(const mongo::Reply& reply);

inline constexpr const char* kLoginRefused = "the id store refuses the proxy's login";

/// The same as a whole sentence for clients, without the names of servers.
[[nodiscard]] std::string unreached(const mongo::Reply& reply);

/// The reply to a job after a failed command on the database `db`. Its reason names no server.
/// `exhausted` if repeating does not help: the user lacks the privilege, or the server cannot do
/// it.
[[nodiscard]] ids::Error after_error(const mongo::Client& client, const mongo::Reply& reply,
                                     const std::string& db);
/// The same after a failed read of a rule's collection.
[[nodiscard]] ids::Error after_read_error(const mongo::Client& client, const mongo::Reply& reply,
                                          const Namespace& ns);

}  // namespace idproxy::id_store
