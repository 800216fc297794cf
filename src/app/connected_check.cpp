#include "app/connected_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "app/readiness.hpp"
#include "app/reload.hpp"
#include "app/sample_values.hpp"
#include "app/server_check.hpp"
#include "app/server_limits.hpp"
#include "idproxy/id_store/server_hello.hpp"
#include "idproxy/id_store/store.hpp"

namespace idproxy::app {
namespace {

constexpr std::chrono::seconds kCheckTimeout{10};
constexpr std::chrono::seconds kCheckStopTimeout{2};
constexpr std::chrono::seconds kConnectWithin{3};

/// A table whose columns are as wide as their longest cell.
class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths_[i] = std::max(widths_[i], cells[i].size());
    }
    rows_.push_back(std::move(cells));
  }
  /// A line below the last row, which no column bounds.
  void add_note(std::string text) { rows_.push_back({"", std::move(text)}); }

  void print() const {
    for (const auto& cells : rows_) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        line += "  " + cells[i];
        const bool last = i + 1 == cells.size();
        if (!last) line.append(widths_[i] - cells[i].size(), ' ');
      }
      out_ << line << '\n';
    }
  }

 private:
  std::ostream& out_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

/// False if something is wrong with them, or with where the id store is. `each`: what the servers
/// of `uri` say of themselves.
bool print_servers(const std::string& uri, const std::vector<id_store::ServerHello>& each,
                   const id_store::Options& store, std::ostream& out) {
  const ServerCheck check = ask_servers(uri, each);
  out << "\nServers\n";
  Table table(out);
  for (const auto& [address, state, version] : check.servers) {
    std::vector<std::string> cells{address, state.empty() ? "does not answer" : state};
    if (!version.empty()) cells.push_back(version);
    table.add(std::move(cells));
  }
  table.print();
  if (!check.fault.empty()) out << "  " << check.fault << '\n';
  if (store.uri_key == "upstream.uri") return check.fault.empty();
  const std::string fault =
      store_fault(each, id_store::ask_each(store.uri, kConnectWithin), store.uri_key);
  if (!fault.empty()) out << "  " << fault << '\n';
  return check.fault.empty() && fault.empty();
}

/// Returns how many rules are not ready. `wire_version`: of the oldest server.
std::size_t print_rules(const RulesInForce& rules, std::int32_t wire_version, const Clock& clock,
                        std::ostream& out) {
  const std::vector<rewrite::Rule>& all = rules.set->rules();
  const auto reasons = reasons_of(*rules.set);
  const auto numbers = rules.watch->numbers(1);
  const auto lack_index = rules.watch->lack_index();
  std::size_t not_ready = 0;
  Table table(out);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const rewrite::Rule& rule = all[i];
    std::vector<std::string> cells{std::to_string(i), rule.ns, rule.field, rule.strategy_name};
    if (!reasons[i].empty()) {
      ++not_ready;
      cells.emplace_back("NOT READY");
      table.add(std::move(cells));
      table.add_note(reasons[i]);
      continue;
    }
    cells.emplace_back(has_wildcards(rule.ns) ? "checked with the first insert into each collection"
                                              : "ready");
    if (const std::string sample = sample_of(rule, i, numbers, clock); !sample.empty()) {
      cells.push_back(sample);
    }
    table.add(std::move(cells));
    if (const auto lacks = lack_index.find(i); lacks != lack_index.end()) {
      table.add_note(note_on_index(rule, lacks->second));
    }
    if (std::string note = note_on_limits(rule, wire_version); !note.empty()) {
      table.add_note(std::move(note));
    }
  }
  out << "\nRules\n";
  table.print();
  return not_ready;
}

/// Asks the id store. Returns how many rules are not ready.
std::size_t check_rules(config::Config& config, std::int32_t wire_version, const Clock& clock,
                        std::ostream& out) {
  // A check makes no index, and reads no whole collection.
  for (rewrite::Rule& rule : config.rules) {
    if (rule.unique_index == ids::UniqueIndex::create) rule.unique_index = ids::UniqueIndex::offer;
  }
  config.id_store.scans = false;
  id_store::Store store(config.id_store, clock);
  RulesInForce rules = make_rules(std::move(config.rules), config.id_store.db, store);
  rules.watch->await_first_look(kCheckTimeout);
  const std::size_t not_ready = print_rules(rules, wire_version, clock, out);
  if (const auto why = rules.watch->why_down()) {
    out << "\nThe id store (" << config.id_store.uri_key << ") " << *why << '\n';
  }
  if (store.stop(kCheckStopTimeout)) return not_ready;
  // A thread still waits for a server, and the store must not be destroyed.
  out.flush();
  std::_Exit(static_cast<int>(ExitCode::unavailable));
}

}  // namespace

ExitCode check_connected(config::Config config, const std::string& upstream_uri, const Clock& clock,
                         std::ostream& out) {
  const auto each = id_store::ask_each(upstream_uri, kConnectWithin);
  const bool is_there = print_servers(upstream_uri, each, config.id_store, out);
  const std::size_t count = config.rules.size();
  const std::size_t not_ready = count == 0 ? 0 : check_rules(config, oldest_of(each), clock, out);
  if (not_ready > 0) {
    out << '\n'
        << not_ready << " of " << count << (count == 1 ? " rule" : " rules")
        << (not_ready == 1 ? " is" : " are") << " not ready\n";
  }
  return is_there && not_ready == 0 ? ExitCode::ok : ExitCode::unavailable;
}

}  // namespace idproxy::app
