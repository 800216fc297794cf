#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/state/proxy_differences.hpp"
#include "app/state/refusals.hpp"
#include "app/state/reload_statistics.hpp"
#include "app/state/run_out.hpp"
#include "idproxy/id_store/known_proxy.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/id_store/watch.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/net/tls.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::state {

/// The state of the process. A load balancer may send clients here only while it is `serving`.
enum class Phase { starting, serving, draining };
/// "starting", "ready" or "draining".
[[nodiscard]] constexpr std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 3> kNames{"starting", "ready", "draining"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// The state of a serving proxy, for the pages.
struct Snapshot {
  bool draining = false;
  net::ServerStatistics net;
  id_store::StoreStatistics store;
  std::shared_ptr<const rewrite::RuleSet> rules;
  std::vector<std::size_t> not_ready;  ///< per rule: the number of collections without values
  std::vector<Reason> reasons;         ///< per rule: as reasons_of() (readiness.hpp)
  /// By rule: where values can be stored twice, though the rule demands no index.
  std::map<std::size_t, id_store::MissingIndex> unguarded;
  std::vector<ids::RuleNumbers> numbers;                 ///< of all collections of the rules
  std::vector<Refusals::Refused> refused;                ///< writes of the last minute
  std::vector<RunOut::Warning> run_out;                  ///< which of them run out
  std::vector<std::optional<RunOut::Outlook>> outlooks;  ///< per rule: when its numbers end
  std::vector<id_store::KnownProxy> proxies;             ///< of the id store, this one included
  ProxyDifferences::Found differences;                   ///< which of them differ from this one
  ReloadStatistics reloads;
  bool last_reload_failed = false;
  std::vector<net::tls::Certificate> client_side;  ///< certificates of listen.tls
  std::vector<net::tls::Certificate> server_side;  ///< certificates of upstream.uri

  /// Why a rule gives no values anywhere; without text: it does, or nothing is known yet.
  [[nodiscard]] Reason reason_of(std::size_t rule) const {
    return rule < reasons.size() ? reasons[rule] : Reason{};
  }
  [[nodiscard]] std::size_t not_ready_of(std::size_t rule) const {
    return rule < not_ready.size() ? not_ready[rule] : 0;
  }
  /// It gives no values, anywhere or in some collections.
  [[nodiscard]] bool fails(std::size_t rule) const {
    return !reason_of(rule).text.empty() || not_ready_of(rule) > 0;
  }
  /// Null: a unique index guards its values, or must.
  [[nodiscard]] const id_store::MissingIndex* unguarded_of(std::size_t rule) const {
    const auto found = unguarded.find(rule);
    return found == unguarded.end() ? nullptr : &found->second;
  }
  /// Null: its numbers do not end, or nothing is known yet.
  [[nodiscard]] const RunOut::Outlook* outlook_of(std::size_t rule) const {
    return rule < outlooks.size() && outlooks[rule] ? &*outlooks[rule] : nullptr;
  }
};

}  // namespace idproxy::app::state
