#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/doctor/check.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/known_proxy.hpp"

/// The parts of `mongo-idproxy doctor` that log in to the servers as the id store does.
namespace idproxy::app::doctor {

/// What a login to the id store shows.
struct StoreSaid {
  DoctorCheck user;                                            ///< of the store, and what it may do
  std::optional<std::vector<id_store::KnownProxy>> proxies{};  ///< nothing: it does not tell
};

/// Waits for the servers. Only reads.
[[nodiscard]] StoreSaid check_store(const config::Config& config);
/// The counters of the rules, as they are stored; the same way. `file`: the configuration, for
/// commands.
[[nodiscard]] DoctorCheck check_counters(const config::Config& config, const std::string& file);

/// A privilege of a user, as connectionStatus lists it.
struct Privilege {
  std::string db{};          ///< empty: of any database
  std::string collection{};  ///< empty: of any collection
  std::vector<std::string> actions{};
};

/// What the store's user must be allowed to do.
struct NeededPrivileges {
  std::string db{};          ///< empty: in every database
  std::string collection{};  ///< empty: in every collection
  std::vector<std::string> actions{};
  bool by_role = false;  ///< readWrite on the database is the way to have it
};

/// All needs of the rules: docs/tls-and-logins.md#the-stores-user.
[[nodiscard]] std::vector<NeededPrivileges> needs_of(const std::vector<rewrite::Rule>& rules,
                                                     const std::string& store_db);

/// The actions of `need` that none of the privileges permits, in their order.
[[nodiscard]] std::vector<std::string> lacking(const NeededPrivileges& need,
                                               const std::vector<Privilege>& privileges);

}  // namespace idproxy::app::doctor
