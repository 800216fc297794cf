#pragma once

#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/outcome.hpp"

/// What to tell the operator about the store's user, with the command to type.
namespace idproxy::id_store::advice {

/// The server permits no writes in the database of counters.
[[nodiscard]] ids::Error needs_read_write(const mongo::Login& login, const std::string& db);
/// The server permits no reads of `ns`, a rule's collections.
[[nodiscard]] ids::Error needs_read(const mongo::Login& login, const Namespace& ns);
/// What to do after a refused login, for the log.
[[nodiscard]] std::string check_login(const mongo::Login& login);

}  // namespace idproxy::id_store::advice
