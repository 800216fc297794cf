#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/finding.hpp"
#include "idproxy/id_store/watch.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::state {

/// Why a rule gives no values in a collection to which none applies.
inline constexpr std::string_view kLeftAlone =
    "a view or a time-series collection: no rule applies to it";

/// Why each rule gives no values in the collection that it names, in file order; no text for rules
/// that are ready, and for those with wildcards, whose collections are checked with their first
/// insert. The texts name no collections except those in the configuration.
[[nodiscard]] std::vector<Reason> reasons_of(const rewrite::RuleSet& rules);

// `index`: among the rules.

/// "rule 0 (shop.orders, number)"
[[nodiscard]] std::string name_of_rule(const rewrite::Rule& rule, std::size_t index);
[[nodiscard]] Finding rule_not_ready(const rewrite::Rule& rule, std::size_t index, Reason reason);
/// In so many collections of the rule's wildcards.
[[nodiscard]] Finding rule_not_ready(const rewrite::Rule& rule, std::size_t index,
                                     std::size_t collections);

/// Returns the note for a rule that is ready although no unique index guards its field
/// (Watch::lack_index()), with the `commands` that make one.
[[nodiscard]] std::string note_on_index(const rewrite::Rule& rule, const Commands& commands);

/// Rules for the log: "0 (shop.orders, number), 2 (shop.bills, _id) and 7 more".
class RuleList {
 public:
  void add(std::size_t rule_index, const rewrite::Rule& rule);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> rules_;
};

struct RuleLists {
  std::string ready;
  std::string not_ready;
};
/// `reasons` as from reasons_of().
[[nodiscard]] RuleLists lists_of(const std::vector<rewrite::Rule>& rules,
                                 const std::vector<Reason>& reasons);

/// Logs once for each change which rules cannot get numbers from their counters: not_ready with the
/// reason, and ready_again. One thread.
class ReadinessLog {
 public:
  /// What is transient changes nothing.
  void update(const std::vector<rewrite::Rule>& rules, const std::vector<ids::NotReady>& all);

 private:
  using Key = std::pair<std::string, std::string>;  // ns, field
  std::map<Key, std::string> reported_;             // the reasons that the log has
};

/// Returns the features of a rule that a server of this maxWireVersion does not support, as parts
/// of a sentence; empty: it supports all, or the version is unknown (0). Source:
/// docs/server-behaviour.md#servers-before-60.
[[nodiscard]] std::vector<std::string_view> limits_of(const rewrite::Rule& rule,
                                                      std::int32_t wire_version);

/// Each of these features, with the rules that it concerns.
[[nodiscard]] std::vector<std::pair<std::string_view, RuleList>> rules_by_limit(
    const std::vector<rewrite::Rule>& rules, std::int32_t wire_version);

[[nodiscard]] Finding server_lacks(const std::string& server, std::int32_t wire_version,
                                   std::string_view limit, const std::string& rules);

/// Those of one rule in a line, "with MongoDB 4.4: …; …"; empty: nothing.
[[nodiscard]] std::string note_on_limits(const rewrite::Rule& rule, std::int32_t wire_version);

/// The least maxWireVersion of the servers; 0: none has said its own.
template <class Server>
[[nodiscard]] std::int32_t oldest_of(const std::vector<Server>& servers) {
  std::int32_t oldest = 0;
  for (const Server& each : servers) {
    if (each.wire_version > 0 && (oldest == 0 || each.wire_version < oldest)) {
      oldest = each.wire_version;
    }
  }
  return oldest;
}

/// Logs the release of each server when it changes (server_release), and for each limit of it which
/// rules that concerns (server_limit). One thread.
class ServerLimitsLog {
 public:
  void update(const std::vector<rewrite::Rule>& rules,
              const std::vector<net::ServerStatistics::Listener>& servers);

 private:
  std::map<std::string, std::string> reported_;  // releases by the servers' names
};

}  // namespace idproxy::app::state
