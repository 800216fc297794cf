#pragma once

#include <memory>
#include <span>

#include "idproxy/net/client_statistics.hpp"
#include "net/io_thread.hpp"

namespace idproxy::net {

/// As Server::clients().
[[nodiscard]] ClientList list_clients(std::span<const std::unique_ptr<IoThread>> threads,
                                      const ClientQuery& query);

}  // namespace idproxy::net
