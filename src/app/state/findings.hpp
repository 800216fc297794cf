#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/state/snapshot.hpp"
#include "idproxy/base/finding.hpp"

namespace idproxy::app::state {

/// Everything that is wrong with a proxy that runs, the worst first.
[[nodiscard]] std::vector<Finding> findings_of(Phase phase, const Snapshot& snapshot,
                                               std::chrono::sys_seconds now);

// What others tell of, too.

[[nodiscard]] Finding set_not_initiated(const std::string& server);
/// `set`: its name, if it is known.
[[nodiscard]] Finding primary_missing(const std::string& set);
/// With directConnection=true, where there are rules.
[[nodiscard]] Finding primary_not_named(const std::string& set);
/// `index`: among the rules.
[[nodiscard]] Finding index_missing(const rewrite::Rule& rule, std::size_t index,
                                    const id_store::MissingIndex& lacks);
[[nodiscard]] Finding numbers_run_out(const rewrite::Rule& rule, const RunOut::Warning& warning);
[[nodiscard]] Finding numbers_run_out(std::string subject, std::string what, std::string way_out);
[[nodiscard]] Finding reload_failed(const ReloadStatistics& reloads);
/// Nothing: it is valid, and for longer than `soon`. `key`: of the configuration.
[[nodiscard]] std::optional<Finding> date_of_certificate(const net::tls::Certificate& certificate,
                                                         const std::string& key,
                                                         std::chrono::sys_seconds now,
                                                         std::chrono::seconds soon);

}  // namespace idproxy::app::state
