#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/net/tls.hpp"
#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "process.hpp"
#include "reload.hpp"

namespace idproxy::app {

/// What a proxy that serves has to show.
struct Snapshot {
  bool draining = false;
  net::ServerStatistics net;
  id_store::StoreStatistics store;
  std::shared_ptr<const rewrite::RuleSet> rules;
  std::vector<std::size_t> not_ready;  ///< by rule: collections in which it gives no values
  ReloadStatistics reloads;
  bool last_reload_failed = false;
  std::vector<net::tls::Certificate> client_side;  ///< certificates for listen.tls
  std::vector<net::tls::Certificate> server_side;  ///< and for upstream.uri
};

/// The page /metrics. `snapshot` is null until there is something to show of it. All labels are
/// words of ours, from the configuration or addresses of our listeners, so that clients can add no
/// series.
[[nodiscard]] std::string exposition(const std::string& version, const ProcessStatistics& process,
                                     const log::Counts& log, const Snapshot* snapshot);

}  // namespace idproxy::app
