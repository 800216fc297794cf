#include "app/state/health.hpp"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/state/servers_log.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::state {
namespace {

// Lists name this many and count the others, to stay short: the listeners of the status line, and
// counters that run out, which can be as many as collections.
constexpr std::size_t kMostNamed = 3;

std::string line_of(const net::ServerStatistics::Listener& listener) {
  const char* state = !listener.up ? "down" : is_slow(listener) ? "slow" : "up";
  return "listener " + listener.listener + " -> " + listener.server + ": server " + state + ", " +
         (listener.release.empty() ? "" : listener.release + ", ") +
         count_of(listener.connections, "client");
}

/// True if the first insert into the rule's own collection reads all of it.
bool reads_all(const Snapshot& snapshot, std::size_t rule_index) {
  return std::ranges::any_of(snapshot.numbers, [&](const ids::RuleNumbers& each) {
    const auto* counter = std::get_if<ids::CounterNumbers>(&each.numbers);
    return counter != nullptr && each.rule_index == rule_index && counter->reads_all;
  });
}

std::string line_of(const Snapshot& snapshot, std::size_t rule_index) {
  const rewrite::Rule& rule = snapshot.rules->rules()[rule_index];
  const std::string line = "rule " + std::to_string(rule_index + rule.nones_before) + " (" +
                           rule.ns + ", " + rule.field + ", " + rule.strategy_name + "): ";
  if (!snapshot.reason_of(rule_index).text.empty()) return line + "not ready";
  if (const std::size_t not_ready = snapshot.not_ready_of(rule_index); not_ready > 0) {
    return line + "gives no values in " + count_of(not_ready, "collection") +
           "; why: db.adminCommand({idproxy: \"status\"})";
  }
  if (!reads_all(snapshot, rule_index)) return line + "ready";
  return line + "ready; the first insert reads the whole collection, unless an index begins with " +
         rule.field + " by then";
}

/// Below the line of the rule; empty: the servers limit it in nothing.
std::string limits_note(const Snapshot& snapshot, std::size_t rule_index) {
  return note_on_limits(snapshot.rules->rules()[rule_index], oldest_of(snapshot.net.listeners));
}

/// Of writes: their reasons may name collections that the configuration does not.
bool is_of_writes(const Finding& finding) {
  return finding.kind == finding::kWritesRefused || finding.kind == finding::kNumberHeld;
}

}  // namespace

admin::HttpResponse readyz(Phase phase, const std::optional<Snapshot>& snapshot,
                           std::chrono::sys_seconds now) {
  admin::HttpResponse response{.status = phase == Phase::serving ? 200U : 503U,
                               .body = std::string(name_of(phase)) + "\n"};
  if (!snapshot) return response;
  const auto add = [&](const std::string& line) { response.body += printable(line) + '\n'; };
  std::size_t run_out = 0;
  for (const Finding& each : findings_of(phase, *snapshot, now)) {
    const bool runs_out = each.kind == finding::kNumbersRunOut;
    if (is_of_writes(each) || (runs_out && ++run_out > kMostNamed)) continue;
    const std::size_t others =
        runs_out && run_out == kMostNamed ? snapshot->run_out.size() - kMostNamed : 0;
    add(std::string(name_of(each.kind.level)) + ": " + each.what.whole() +
        (others > 0 ? " (" + and_more(others) + ")" : ""));
  }
  for (const auto& listener : snapshot->net.listeners) add(line_of(listener));
  for (std::size_t i = 0; i < snapshot->rules->rules().size(); ++i) {
    add(line_of(*snapshot, i));
    if (const std::string limits = limits_note(*snapshot, i); !limits.empty()) add("  " + limits);
  }
  add(snapshot->store.up ? "id store: answers" : "id store: down");
  return response;
}

std::string status_line(Phase phase, const std::optional<Snapshot>& snapshot) {
  if (phase == Phase::starting || !snapshot) return std::string(name_of(phase));
  const net::ServerStatistics& net = snapshot->net;
  if (phase == Phase::draining) return "draining; " + count_of(net.connections_open, "client");
  std::vector<std::string> listeners;
  listeners.reserve(net.listeners.size());
  for (const auto& each : net.listeners) listeners.push_back(each.listener + " -> " + each.server);
  std::string line = "serving " + list_text(listeners, kMostNamed) + "; " +
                     count_of(net.connections_open, "client");
  if (!snapshot->run_out.empty()) line += "; numbers run out: see /readyz";
  return printable(snapshot->last_reload_failed ? line + "; the last reload failed" : line);
}

}  // namespace idproxy::app::state
