#include "app/state/health.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <variant>

#include "app/state/readiness.hpp"
#include "app/state/servers_log.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::state {
namespace {

// The status line names this many listeners and counts the others, to stay short.
constexpr std::size_t kMostListeners = 3;

std::string count_of(std::uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string line_of(const net::ServerStatistics::Listener& listener) {
  std::string line = "listener " + listener.listener + " -> " + listener.server +
                     (!listener.up        ? ": server down"
                      : is_slow(listener) ? ": server " + slow_text(listener)
                                          : ": server up");
  if (!listener.release.empty()) line += ", " + listener.release;
  if (listener.fault.empty()) {
    line += ", ";
  } else {
    line += (listener.up ? ", but " : ": ") + listener.fault + "; ";
  }
  return line + count_of(listener.connections, "client");
}

/// True if the first insert into the rule's own collection reads all of it.
bool reads_all(const Snapshot& snapshot, std::size_t rule_index) {
  return std::ranges::any_of(snapshot.numbers, [&](const ids::RuleNumbers& each) {
    const auto* counter = std::get_if<ids::CounterNumbers>(&each.numbers);
    return counter != nullptr && each.rule_index == rule_index && counter->reads_all;
  });
}

/// "; no unique index …"; empty: one guards the values. Names no collection.
std::string unguarded_in(const Snapshot& snapshot, std::size_t rule_index) {
  const id_store::MissingIndex* lacks = snapshot.unguarded_of(rule_index);
  if (lacks == nullptr) return "";
  const bool is_one = !has_wildcards(snapshot.rules->rules()[rule_index].ns);
  return std::string("; ") + id_store::kNoUniqueIndex +
         (is_one ? "" : " in " + count_of(lacks->collections, "collection"));
}

/// "; 37 numbers are left up to max"; empty: enough are. Names no collection.
std::string run_out_in(const Snapshot& snapshot, std::size_t rule_index) {
  const RunOut::Warning* first = nullptr;
  for (const RunOut::Warning& each : snapshot.run_out) {
    const bool is_worse = first == nullptr || each.left < first->left;
    if (each.rule_index == rule_index && is_worse) first = &each;
  }
  return first == nullptr ? "" : "; " + first->text();
}

std::string line_of(const Snapshot& snapshot, std::size_t rule_index) {
  const rewrite::Rule& rule = snapshot.rules->rules()[rule_index];
  std::string line = "rule " + std::to_string(rule_index + rule.nones_before) + " (" + rule.ns +
                     ", " + rule.field + ", " + rule.strategy_name + "): ";
  const std::size_t not_ready = snapshot.not_ready_of(rule_index);
  const std::string reason = snapshot.reason_of(rule_index).whole();
  if (!reason.empty()) return line + "not ready: " + reason;
  const std::string more = unguarded_in(snapshot, rule_index) + run_out_in(snapshot, rule_index);
  if (not_ready == 0 && reads_all(snapshot, rule_index)) {
    return line +
           "ready; the first insert reads the whole collection, unless an index begins with " +
           rule.field + " by then" + more;
  }
  if (not_ready == 0) return line + "ready" + more;
  return line + "gives no values in " + count_of(not_ready, "collection") +
         "; why: db.adminCommand({idproxy: \"status\"})" + more;
}

/// Below the line of the rule; empty: the servers limit it in nothing.
std::string limits_note(const Snapshot& snapshot, std::size_t rule_index) {
  return note_on_limits(snapshot.rules->rules()[rule_index], oldest_of(snapshot.net.listeners));
}

std::string line_of(const id_store::StoreStatistics& store) {
  if (store.up) return "id store: answers";
  const std::string& why = store.down_reason;
  return "id store: " + (why.empty() ? "does not answer" : why);
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 3> kNames{"starting", "ready", "draining"};
  return kNames[static_cast<std::size_t>(phase)];
}

admin::HttpResponse readyz(Phase phase, const std::optional<Snapshot>& snapshot) {
  admin::HttpResponse response{.status = phase == Phase::serving ? 200U : 503U,
                               .body = std::string(name_of(phase)) + "\n"};
  if (!snapshot) return response;
  const auto add = [&](const std::string& line) { response.body += printable(line) + '\n'; };
  for (const auto& listener : snapshot->net.listeners) add(line_of(listener));
  for (std::size_t i = 0; i < snapshot->rules->rules().size(); ++i) {
    add(line_of(*snapshot, i));
    if (const std::string limits = limits_note(*snapshot, i); !limits.empty()) add("  " + limits);
  }
  add(line_of(snapshot->store));
  return response;
}

std::string status_line(Phase phase, const std::optional<Snapshot>& snapshot) {
  if (phase == Phase::starting || !snapshot) return std::string(name_of(phase));
  const net::ServerStatistics& net = snapshot->net;
  if (phase == Phase::draining) return "draining; " + count_of(net.connections_open, "client");
  std::vector<std::string> listeners;
  listeners.reserve(net.listeners.size());
  for (const auto& each : net.listeners) listeners.push_back(each.listener + " -> " + each.server);
  std::string line = "serving " + list_text(listeners, kMostListeners) + "; " +
                     count_of(net.connections_open, "client");
  if (!snapshot->run_out.empty()) line += "; numbers run out: see /readyz";
  return printable(snapshot->last_reload_failed ? line + "; the last reload failed" : line);
}

}  // namespace idproxy::app::state
