#pragma once

#include <string>
#include <vector>

#include "app/doctor/check.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app::doctor {

/// What the servers said of themselves, without a login.
struct ServersSaid {
  std::vector<id_store::ServerHello> upstream;  ///< those of upstream.uri
  std::vector<id_store::ServerHello> store;     ///< those of the id store's own string, if any
};

/// The part of `mongo-idproxy doctor` about the servers. `file`: the configuration, for commands;
/// `upstream_uri`: its upstream.uri, or what that resolves to.
[[nodiscard]] DoctorCheck check_servers(const config::Config& config,
                                        const std::string& upstream_uri, const ServersSaid& said,
                                        const std::string& file);

[[nodiscard]] Finding server_name_unknown(std::string subject, std::string what);

}  // namespace idproxy::app::doctor
