#pragma once

#include <string>

#include "id_store/mongo.hpp"
#include "id_store/outcome.hpp"

/// What a failed command of the id store means for the one that needs numbers.
namespace idproxy::id_store {

/// Why no server was reached, in the words of libmongoc or the server, for the log; empty if one
/// executed or refused the command.
[[nodiscard]] std::string why_unreached(const mongo::Reply& reply, const mongo::Login& login);

/// The reply to a job after a failed command on the database `db`. Its reason names no server.
[[nodiscard]] ids::CounterReply after_error(const mongo::Client& client, const mongo::Reply& reply,
                                            const std::string& db);

}  // namespace idproxy::id_store
