#include "app/state/problems.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/state/diagnosis.hpp"
#include "app/state/servers_log.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::state {
namespace {

using Level = Problem::Level;

constexpr const char* kServers = "troubleshooting.md#a-server-cannot-be-reached";
constexpr const char* kRefused = "troubleshooting.md#inserts-are-refused";
constexpr const char* kSlowPage = "troubleshooting.md#it-is-slow-or-takes-much-memory";
constexpr const char* kProxiesPage = "operations.md#several-proxies";
constexpr auto kExpiresSoon = std::chrono::days(14);

/// Collects them in the order of the page.
class Problems {
 public:
  Problems(const Snapshot& snapshot, std::chrono::sys_seconds now)
      : snapshot_(snapshot), now_(now) {}

  std::vector<Problem> find(Phase phase) {
    if (phase == Phase::draining) {
      add(Level::warning, "the proxy is stopping: it accepts no new clients",
          "wait, or start it again", "operations.md#stop");
    }
    for (const auto& each : snapshot_.net.listeners) server(each);
    primary();
    store();
    for (std::size_t i = 0; i < snapshot_.rules->rules().size(); ++i) rule(i);
    for (const Refusals::Refused& each : snapshot_.refused) refused(each);
    for (const auto& [rule, lacks] : snapshot_.unguarded) unguarded(rule, lacks);
    for (const RunOut::Warning& each : snapshot_.run_out) runs_out(each);
    limits();
    reload();
    proxies();
    certificates(snapshot_.client_side, "listen.tls");
    certificates(snapshot_.server_side, "upstream.uri");
    std::vector<Problem> sorted;
    for (const Level level : {Level::error, Level::warning}) {
      std::ranges::copy_if(found_, std::back_inserter(sorted),
                           [&](const Problem& each) { return each.level == level; });
    }
    return sorted;
  }

 private:
  void add(Level level, std::string text, std::string remedy, std::string page,
           std::string subject = {}, std::string_view id = {}) {
    found_.push_back(
        {level, std::move(text), std::move(remedy), std::move(page), std::move(subject), id});
  }

  void server(const net::ServerStatistics::Listener& server) {
    if (!server.up) {
      add(Level::error, "server " + server.server + " cannot be reached: " + server.fault,
          "see whether mongod runs there and a firewall lets this host in", kServers, server.server,
          diagnosis::kServerUnreachable.id);
    } else if (is_slow(server)) {
      add(Level::error,
          "server " + server.server + " " + slow_text(server) + ", and " +
              std::to_string(server.in_flight) +
              (server.in_flight == 1 ? " request waits" : " requests wait"),
          "see what it does: db.currentOp() there, its processor, its disks" + waits_for_others(),
          kSlowPage);
    } else if (server.fault == kNotInitiated) {
      add(Level::error, "server " + server.server + ": " + server.fault,
          "run rs.initiate() on one of the members, with all of them", "replica-sets.md#names",
          server.server);
    } else if (!server.fault.empty()) {
      add(Level::warning, "server " + server.server + ": " + server.fault, "correct upstream.uri",
          "replica-sets.md#names", server.server);
    }
  }

  /// What else a server may wait for, which is not its fault.
  [[nodiscard]] std::string waits_for_others() const {
    const bool has_gapless = std::ranges::any_of(
        snapshot_.rules->rules(),
        [](const rewrite::Rule& rule) { return rule.strategy->about().gapless.has_value(); });
    if (!has_gapless) return {};
    return "; a write with numbers without gaps waits there for the open transaction that holds "
           "its number, also through another proxy: "
           "db.adminCommand({currentOp: true, transaction: {$exists: true}})";
  }

  /// Of a replica set that says something.
  void primary() {
    const auto& servers = snapshot_.net.listeners;
    const bool is_set = std::ranges::any_of(servers, [](const auto& each) {
      return each.state == "SECONDARY" || each.state == "ARBITER";
    });
    const bool has_primary = std::ranges::any_of(servers, [](const auto& each) {
      return each.state == "PRIMARY" || each.state == "MONGOS";
    });
    if (!is_set || has_primary) return;
    add(Level::error, "no server says that it is the primary: nothing can be written",
        "see rs.status() for why there is no election", "replica-sets.md#failover");
  }

  void store() {
    if (snapshot_.store.up) return;
    const std::string& why = snapshot_.store.down_reason;
    add(Level::error, "the id store " + (why.empty() ? "does not answer" : why),
        "counters give out the numbers that they hold, and then none: see that id_store.uri leads "
        "to servers with a primary",
        "troubleshooting.md#the-store-is-down");
  }

  void rule(std::size_t i) {
    const rewrite::Rule& rule = snapshot_.rules->rules()[i];
    const std::string name = name_of_rule(i);
    const std::string reason = snapshot_.reason_of(i);
    const std::size_t not_ready = snapshot_.not_ready_of(i);
    if (!reason.empty()) {
      add(Level::error, name + " is not ready: " + reason,
          "inserts that need one get an error until that is mended", kRefused,
          rule_subject(rule.ns, rule.field), diagnosis::kRuleNotReady.id);
    } else if (not_ready > 0) {
      add(Level::error,
          name + " gives no values in " + std::to_string(not_ready) +
              (not_ready == 1 ? " collection" : " collections"),
          "db.adminCommand({idproxy: \"status\"}) names them, with the reasons", kRefused);
    }
  }

  [[nodiscard]] std::string name_of_rule(std::size_t i) const {
    const rewrite::Rule& rule = snapshot_.rules->rules()[i];
    return "rule " + std::to_string(i + rule.nones_before) + " (" + rule.ns + ", " + rule.field +
           ")";
  }

  /// Of a rule that is not ready, that is said.
  void refused(const Refusals::Refused& refused) {
    const std::size_t i = refused.rule_index;
    if (i >= snapshot_.rules->rules().size()) return;  // of those before a reload
    const bool is_said = !snapshot_.reason_of(i).empty() || snapshot_.not_ready_of(i) > 0;
    if (refused.holder == nullptr && is_said) return;
    const rewrite::Rule& rule = snapshot_.rules->rules()[i];
    const std::string where = has_wildcards(rule.ns) ? " in " + refused.ns : "";
    add(Level::error, name_of_rule(i) + where + ": " + refused.text(),
        refused.holder == nullptr
            ? "writes_refused in the log has the reasons"
            : "end that transaction, or have its application keep transactions short: the server "
              "ends it after transactionLifetimeLimitSeconds (60 by default)",
        refused.holder == nullptr ? kRefused : "strategies.md#gapless",
        rule_subject(refused.ns, rule.field));
  }

  void unguarded(std::size_t i, const id_store::MissingIndex& lacks) {
    const rewrite::Rule& rule = snapshot_.rules->rules()[i];
    if (!snapshot_.reason_of(i).empty()) return;  // for this reason, or a graver one
    const std::size_t others = lacks.collections - 1;
    std::string where = has_wildcards(rule.ns) ? " in " + lacks.ns : "";
    if (others > 0) where += " and " + std::to_string(others) + " more";
    add(Level::warning, name_of_rule(i) + ": " + id_store::kNoUniqueIndex + where + lacks.why_not,
        "make one: " + lacks.commands.text(), "duplicates.md#the-unique-index",
        rule_subject(lacks.ns, rule.field), diagnosis::kIndexMissing.id);
  }

  void runs_out(const RunOut::Warning& warning) {
    const rewrite::Rule& rule = snapshot_.rules->rules()[warning.rule_index];
    const bool names = !has_wildcards(rule.ns);
    add(Level::warning,
        name_of_rule(warning.rule_index) + ": " + warning.text() +
            (names ? "" : " in one of its collections"),
        std::string(warning.way_out()), kRefused, rule_subject(rule.ns, rule.field),
        diagnosis::kNumbersRunOut.id);
  }

  void limits() {
    const net::ServerStatistics& net = snapshot_.net;
    if (net.connections_open * 10 >= net.connections_limit * 9 && net.connections_limit > 0) {
      add(Level::warning,
          std::to_string(net.connections_open) + " of " + std::to_string(net.connections_limit) +
              " clients are connected",
          "use smaller pools, or raise listen.max_connections", "operations.md#limits");
    }
    if (net.buffered_waiting > 0) {
      add(Level::warning,
          std::to_string(net.buffered_waiting) +
              " clients wait until there is memory for their "
              "messages",
          "raise limits.buffered_messages, or send smaller batches", "operations.md#limits");
    }
  }

  void reload() {
    if (!snapshot_.last_reload_failed) return;
    add(Level::warning, "the last reload failed: the configuration from before is in force",
        "mongo-idproxy --config FILE --check-config shows every mistake", "operations.md#reload");
  }

  void proxies() {
    const auto& [rules, versions] = snapshot_.differences;
    if (!rules.empty()) {
      add(Level::warning,
          in_words(rules) + (rules.size() == 1 ? " has" : " have") + " other rules than this proxy",
          "give all proxies of this id store the same rules, and reload them", kProxiesPage, {},
          diagnosis::kProxiesDisagree.id);
    }
    if (!versions.empty()) {
      add(Level::warning,
          in_words(versions) + (versions.size() == 1 ? " has" : " have") +
              " another version than this proxy",
          "install the same version on all hosts", kProxiesPage, {},
          diagnosis::kProxyVersionsDiffer.id);
    }
  }

  void certificates(const std::vector<net::tls::Certificate>& all, const std::string& key) {
    for (const net::tls::Certificate& each : all) {
      if (each.not_after - now_ > kExpiresSoon) continue;
      const bool has = each.not_after <= now_;
      add(has ? Level::error : Level::warning,
          "the certificate " + each.subject + " of " + key +
              (has ? " has expired"
                   : " expires in " +
                         seconds_text(std::chrono::nanoseconds(each.not_after - now_))),
          "renew " + each.file + " and reload", "tls-and-logins.md#renewing-certificates",
          each.file, (has ? diagnosis::kCertificateExpired : diagnosis::kCertificateExpires).id);
    }
  }

  const Snapshot& snapshot_;
  const std::chrono::sys_seconds now_;
  std::vector<Problem> found_;
};

}  // namespace

std::vector<Problem> problems_of(Phase phase, const Snapshot& snapshot,
                                 std::chrono::sys_seconds now) {
  return Problems(snapshot, now).find(phase);
}

}  // namespace idproxy::app::state
