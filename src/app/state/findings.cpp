#include "app/state/findings.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/state/readiness.hpp"
#include "app/state/servers_log.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::state {
namespace {

using Listener = net::ServerStatistics::Listener;

std::string days_text(std::chrono::seconds time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  return days.count() < 2 ? seconds_text(time) : std::to_string(days.count()) + " days";
}

Commands members_as_seen() {
  return Commands().mongosh(
      "rs.status().members.map(m => [m.name, m.stateStr, m.lastHeartbeatMessage])");
}

/// Collects them in the order of the page.
class FindingsNow {
 public:
  FindingsNow(const Snapshot& snapshot, std::chrono::sys_seconds now)
      : snapshot_(snapshot), rules_(snapshot.rules->rules()), now_(now) {}

  std::vector<Finding> find(Phase phase) {
    if (phase == Phase::draining) {
      add(finding::kProxyStopping, {}, "the proxy is stopping: it accepts no new clients",
          "wait, or start it again");
    }
    for (const Listener& each : snapshot_.net.listeners) server(each);
    primary();
    if (!snapshot_.store.up) add(store_down(snapshot_.store.down_reason));
    for (std::size_t i = 0; i < rules_.size(); ++i) rule(i);
    for (const Refusals::Refused& each : snapshot_.refused) refused(each);
    for (const auto& [i, lacks] : snapshot_.unguarded) {
      // Else for this reason, or a graver one.
      if (snapshot_.reason_of(i).text.empty()) add(index_missing(rules_[i], i, lacks));
    }
    for (const RunOut::Warning& each : snapshot_.run_out) {
      add(numbers_run_out(rules_[each.rule_index], each));
    }
    limits();
    if (snapshot_.last_reload_failed) add(reload_failed(snapshot_.reloads));
    const ProxyDifferences::Found& differ = snapshot_.differences;
    if (!differ.rules.empty()) add(proxies_disagree(differ.rules));
    if (!differ.versions.empty()) add(proxy_versions_differ(differ.versions));
    certificates(snapshot_.client_side, "listen.tls");
    certificates(snapshot_.server_side, "upstream.uri");
    std::vector<Finding> sorted;
    for (const FindingLevel level : {FindingLevel::error, FindingLevel::warning}) {
      std::ranges::copy_if(found_, std::back_inserter(sorted),
                           [&](const Finding& each) { return each.kind.level == level; });
    }
    return sorted;
  }

 private:
  void add(Finding finding) { found_.push_back(std::move(finding)); }
  void add(const FindingKind& kind, std::string subject, std::string text, std::string remedy) {
    add({kind, std::move(subject), {std::move(text)}, {std::move(remedy)}});
  }

  void server(const Listener& server) {
    if (!server.up) {
      add(server_unreachable(server.server, server.fault));
    } else if (is_slow(server)) {
      add(server_slow(server, rules_));
    } else if (server.fault == kNotInitiated) {
      add(set_not_initiated(server.server));
    } else if (!server.fault.empty()) {
      add(set_name_differs(server.server, server.fault));
    }
  }

  /// Of a replica set that says something.
  void primary() {
    const auto is_any = [&](std::string_view state, std::string_view other) {
      return std::ranges::any_of(snapshot_.net.listeners, [&](const Listener& each) {
        return each.state == state || each.state == other;
      });
    };
    const bool is_set = is_any("SECONDARY", "ARBITER");
    if (!is_set || is_any("PRIMARY", "MONGOS")) return;
    if (!snapshot_.net.is_direct) {
      add(primary_missing({}));
    } else if (!rules_.empty()) {
      add(primary_not_named({}));
    }
  }

  void rule(std::size_t i) {
    const rewrite::Rule& rule = rules_[i];
    const std::size_t not_ready = snapshot_.not_ready_of(i);
    if (Reason reason = snapshot_.reason_of(i); !reason.text.empty()) {
      add(rule_not_ready(rule, i, std::move(reason)));
    } else if (not_ready > 0) {
      add(rule_not_ready(rule, i, not_ready));
    }
  }

  /// Of a rule that is not ready, that is said.
  void refused(const Refusals::Refused& refused) {
    const std::size_t i = refused.rule_index;
    if (i >= rules_.size()) return;  // of those before a reload
    if (refused.holder != nullptr || !snapshot_.fails(i)) add(writes_refused(rules_[i], refused));
  }

  void limits() {
    const net::ServerStatistics& net = snapshot_.net;
    if (net.connections_open * 10 >= net.connections_limit * 9 && net.connections_limit > 0) {
      add(finding::kClientsAtLimit, {},
          std::to_string(net.connections_open) + " of " + std::to_string(net.connections_limit) +
              " clients are connected",
          "use smaller pools, or raise listen.max_connections");
    }
    if (net.buffered_waiting > 0) {
      add(finding::kMemoryAtLimit, {},
          std::to_string(net.buffered_waiting) +
              " clients wait until there is memory for their messages",
          "raise limits.buffered_messages, or send smaller batches");
    }
  }

  void certificates(const std::vector<net::tls::Certificate>& all, const char* key) {
    for (const net::tls::Certificate& each : all) {
      if (auto found = date_of_certificate(each, key, now_, net::tls::kExpiresSoon)) {
        add(*std::move(found));
      }
    }
  }

  const Snapshot& snapshot_;
  const std::vector<rewrite::Rule>& rules_;
  const std::chrono::sys_seconds now_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> findings_of(Phase phase, const Snapshot& snapshot,
                                 std::chrono::sys_seconds now) {
  return FindingsNow(snapshot, now).find(phase);
}

Finding set_not_initiated(const std::string& server) {
  return {finding::kSetNotInitiated,
          server,
          {"server " + server + ": " + std::string(kNotInitiated)},
          {"initiate it on one of the members, with all of them", ": ",
           Commands().mongosh("rs.initiate()")}};
}

Finding primary_missing(const std::string& set) {
  return {finding::kPrimaryMissing,
          set,
          {"no server says that it is the primary: nothing can be written"},
          {"see why there is no election", ": ", members_as_seen()}};
}

Finding primary_not_named(const std::string& set) {
  return {
      finding::kPrimaryMissing,
      set,
      {"upstream.uri has directConnection=true and names no primary, and rules give values only "
       "to what a primary stores"},
      {"name the primary, or all members without directConnection=true; if there is no primary, "
       "see why",
       ": ", members_as_seen()}};
}

Finding index_missing(const rewrite::Rule& rule, std::size_t index,
                      const id_store::MissingIndex& lacks) {
  const bool is_one = !has_wildcards(rule.ns);
  const std::size_t others = lacks.collections - 1;
  return {
      finding::kIndexMissing,
      rule_subject(lacks.ns, rule.field),
      {name_of_rule(rule, index) + ": " + id_store::kNoUniqueIndex +
       (is_one ? "" : " in " + count_of(lacks.collections, "collection")) + lacks.why_not},
      {"make one" + (is_one ? "" : " in " + lacks.ns) + (others > 0 ? ' ' + and_more(others) : ""),
       ": ", lacks.commands}};
}

Finding numbers_run_out(const rewrite::Rule& rule, const RunOut::Warning& warning) {
  return numbers_run_out(rule_subject(rule.ns, rule.field),
                         name_of_rule(rule, warning.rule_index) + ": " + warning.text() +
                             (has_wildcards(rule.ns) ? " in one of its collections" : ""),
                         std::string(warning.way_out()));
}

Finding numbers_run_out(std::string subject, std::string what, std::string way_out) {
  return {finding::kNumbersRunOut, std::move(subject), {std::move(what)}, {std::move(way_out)}};
}

/// Not all that a reload refuses is seen by a check: it knows no running process.
Finding reload_failed(const ReloadStatistics& reloads) {
  return {
      finding::kReloadFailed,
      {},
      {"the last reload failed, and the configuration from before is in force: " +
       reloads.last_text},
      {"mend that, and reload", ": ",
       Commands().shell({"sudo", "mongo-idproxy", "reload", "--config", as_path(reloads.file)})}};
}

std::optional<Finding> date_of_certificate(const net::tls::Certificate& certificate,
                                           const std::string& key, std::chrono::sys_seconds now,
                                           std::chrono::seconds soon) {
  const std::string name = "the certificate " + certificate.subject + " of " + key;
  const auto found = [&](const FindingKind& kind, const std::string& what, std::string remedy) {
    return Finding{kind, certificate.file, {name + what}, {std::move(remedy)}};
  };
  const std::string renew = "renew " + certificate.file + " and reload";
  if (certificate.not_before > now) {
    return found(finding::kCertificateNotYetValid,
                 " is valid only in " + days_text(certificate.not_before - now),
                 "correct this host's clock, or issue it again");
  }
  if (certificate.not_after <= now) {
    return found(finding::kCertificateExpired, " has expired", renew);
  }
  if (certificate.not_after - now > soon) return std::nullopt;
  return found(finding::kCertificateExpires,
               " expires in " + days_text(certificate.not_after - now), renew);
}

}  // namespace idproxy::app::state
