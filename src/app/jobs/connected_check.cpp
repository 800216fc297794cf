#include "app/jobs/connected_check.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <cstdint>
#include <utility>

#include "app/jobs/rule_session.hpp"
#include "app/jobs/store_fault.hpp"
#include "app/jobs/value_text.hpp"
#include "app/json_view.hpp"
#include "app/state/readiness.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/closed_schema.hpp"
#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::ServerHello;

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Servers, their members and the store's servers take these times and half a second more each.
constexpr auto kConnectWithin = 2500ms;
constexpr auto kOthersWithin = 1500ms;
constexpr auto kStoreAtLeast = 250ms;
constexpr auto kLookAtLeast = 1000ms;
constexpr auto kStoreStopWithin = 400ms;

/// What the servers of the connection string, further members of their sets and the store's servers
/// say.
struct ServersChecked {
  struct Server {
    std::string address;
    std::string state;    ///< "primary", "does not answer", or which set it is a member of
    std::string version;  ///< "MongoDB 6.0.5", or "MongoDB 6.0" if it says no more; or empty
    std::string fault;    ///< why it does not answer
  };
  std::vector<Server> servers;
  std::vector<std::string> faults;  ///< empty: one can be used, and the store is there
  std::int32_t oldest = 0;          ///< the wire version of the oldest that answers
  bool in_time = true;
};

struct RuleChecked {
  std::size_t index;
  std::string ns, field, strategy;
  std::string reason;  ///< why it is not ready; empty: it is, as far as is known
  bool with_first_insert = false;
  std::string sample{};
  std::vector<std::string> notes{};
};

struct RulesChecked {
  std::vector<RuleChecked> rules;
  std::string store_fault;
  [[nodiscard]] std::size_t not_ready() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(rules, [](const RuleChecked& each) { return !each.reason.empty(); }));
  }
};

ServersChecked::Server row_of(const ServerHello& server, const std::string& set_fault) {
  if (!answers(server)) {
    const char* state = server.wants_tls   ? "wants TLS"
                        : server.is_silent ? "accepts connections, and does not answer"
                                           : "does not answer";
    return {server.address, state, "", server.fault};
  }
  return {server.address, set_fault.empty() ? server.state : set_of(server),
          server.version.empty() ? server_release::name_of(server.wire_version)
                                 : "MongoDB " + server.version,
          ""};
}

/// One that has answered by another name, too.
bool is_listed_twice(const ServerHello& server, const std::vector<ServerHello>& all) {
  return answers(server) && std::ranges::any_of(all, [&](const ServerHello& other) {
           return other.me == server.address && other.address != server.address;
         });
}

std::chrono::milliseconds left_until(SteadyClock::time_point until) {
  return std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
}

ServersChecked ask_servers(const std::string& uri, const id_store::Options& store,
                           SteadyClock::time_point until) {
  const auto each = id_store::ask_each_and_members(uri, kConnectWithin, kOthersWithin);
  const std::string expected = id_store::replica_set_of(uri);
  ServersChecked checked;
  std::string set_fault;
  for (const ServerHello& server : each) {
    const std::string fault = id_store::set_name_fault(server, expected, "upstream.uri");
    if (set_fault.empty()) set_fault = fault;
    if (!is_listed_twice(server, each)) checked.servers.push_back(row_of(server, fault));
    checked.in_time = checked.in_time && server.in_time;
  }
  if (!set_fault.empty()) checked.faults.push_back(set_fault);
  if (std::ranges::none_of(each, answers)) checked.faults.emplace_back("no server answers");
  checked.oldest = state::oldest_of(each);
  if (store.uri_key == "upstream.uri") return checked;
  const auto left = left_until(until) - kLookAtLeast - 500ms;
  const auto its = id_store::ask_each(
      store.uri, std::clamp<std::chrono::milliseconds>(left, kStoreAtLeast, kOthersWithin));
  for (const ServerHello& server : its) checked.in_time = checked.in_time && server.in_time;
  std::string fault = store_fault(each, its, store.uri_key);
  if (!fault.empty()) checked.faults.push_back(std::move(fault));
  return checked;
}

void print(const ServersChecked& checked, std::ostream& out) {
  out << "\nServers\n";
  views::TextTable table(3);
  for (const auto& [address, state, version, fault] : checked.servers) {
    table.add({{address}, {state}, {version}});
    if (!fault.empty()) table.add_note(fault, views::Tone::plain);
  }
  out << table.text({});
  for (const std::string& each : checked.faults) out << "  " << printable(each) << '\n';
}

/// Why each rule is not ready; also, if that is all, for what its collection's validator refuses.
std::vector<std::string> all_reasons(const RuleSession& session, const id_store::Options& store) {
  std::vector<std::string> reasons;
  for (const Reason& each : state::reasons_of(session.set())) reasons.push_back(each.whole());
  if (session.watch().why_down()) return reasons;
  const id_store::mongo::Pool pool(store.uri, store.wtimeout, store.uri_key);
  id_store::mongo::Client client = pool.client();
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const rewrite::Rule& rule = session.rule(i);
    if (!reasons[i].empty() || has_wildcards(rule.ns)) continue;
    reasons[i] =
        id_store::closed_schema_fault(client, id_store::split_namespace(rule.ns), rule.field);
  }
  return reasons;
}

RulesChecked checked_of(const RuleSession& session, const std::vector<std::string>& reasons,
                        std::int32_t wire_version) {
  RulesChecked checked;
  const auto numbers = session.watch().numbers(1);
  const auto lack_index = session.watch().lack_index();
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const rewrite::Rule& rule = session.rule(i);
    RuleChecked& row = checked.rules.emplace_back(
        RuleChecked{i + rule.nones_before, rule.ns, rule.field, rule.strategy_name, reasons[i]});
    if (!row.reason.empty()) continue;
    row.with_first_insert = has_wildcards(rule.ns);
    row.sample = sample_of(rule, i, numbers);
    if (const auto lacks = lack_index.find(i); lacks != lack_index.end()) {
      row.notes.push_back(state::note_on_index(rule, lacks->second.commands));
    }
    if (std::string note = state::note_on_limits(rule, wire_version); !note.empty()) {
      row.notes.push_back(std::move(note));
    }
  }
  return checked;
}

void print(const RulesChecked& checked, std::ostream& out) {
  out << "\nRules\n";
  views::TextTable table(6);
  for (const RuleChecked& each : checked.rules) {
    const char* state = !each.reason.empty() ? "NOT READY"
                        : each.with_first_insert
                            ? "checked with the first insert into each collection"
                            : "ready";
    table.add({{std::to_string(each.index)},
               {each.ns},
               {each.field},
               {each.strategy},
               {state},
               {each.sample}});
    if (!each.reason.empty()) table.add_note(each.reason, views::Tone::plain);
    for (const std::string& note : each.notes) table.add_note(note, views::Tone::plain);
  }
  out << table.text({});
  if (!checked.store_fault.empty()) out << '\n' << printable(checked.store_fault) << '\n';
  const std::size_t not_ready = checked.not_ready();
  if (not_ready == 0) return;
  out << '\n'
      << not_ready << " of " << checked.rules.size()
      << (checked.rules.size() == 1 ? " rule" : " rules") << (not_ready == 1 ? " is" : " are")
      << " not ready\n";
}

void add_to(boost::json::object& out, const ServersChecked& checked) {
  boost::json::array servers;
  for (const auto& [address, state, version, fault] : checked.servers) {
    servers.push_back({{"address", address},
                       {"state", state},
                       {"version", text_or_null(version)},
                       {"fault", text_or_null(fault)}});
  }
  out["servers"] = std::move(servers);
  out["servers_wrong"] = boost::json::value_from(checked.faults);
}

void add_to(boost::json::object& out, const RulesChecked& checked) {
  boost::json::array rules;
  for (const RuleChecked& each : checked.rules) {
    rules.push_back({{"rule", each.index},
                     {"ns", each.ns},
                     {"field", each.field},
                     {"strategy", each.strategy},
                     {"ready", each.reason.empty()},
                     {"reason", text_or_null(each.reason)},
                     {"checked_with_first_insert", each.with_first_insert},
                     {"sample", text_or_null(each.sample)},
                     {"notes", boost::json::value_from(each.notes)}});
  }
  out["rules"] = std::move(rules);
  out["store_wrong"] = text_or_null(checked.store_fault);
}

}  // namespace

ExitCode check_connected(config::Config config, const std::string& upstream_uri,
                         std::chrono::steady_clock::time_point until, std::ostream& out,
                         boost::json::object* json) {
  const ServersChecked servers = ask_servers(upstream_uri, config.id_store, until);
  if (json != nullptr) add_to(*json, servers);
  if (json == nullptr) print(servers, out);
  const bool all_well = servers.faults.empty();
  const auto end = [&](std::size_t not_ready) {
    const ExitCode code = all_well && not_ready == 0 ? ExitCode::ok : ExitCode::unavailable;
    if (json != nullptr) out << json_line(*json);
    return code;
  };
  if (config.rules.empty()) {
    const ExitCode code = end(0);
    if (!servers.in_time) leave(code);
    return code;
  }
  const id_store::Options store = config.id_store;
  RuleSession session(state::only_looking(std::move(config)));
  session.await_first_look(std::max<std::chrono::milliseconds>(left_until(until), kLookAtLeast));
  RulesChecked checked = checked_of(session, all_reasons(session, store), servers.oldest);
  checked.store_fault = session.why_down();
  if (!checked.store_fault.empty()) checked.store_fault.front() = 'T';
  if (json != nullptr) add_to(*json, checked);
  if (json == nullptr) print(checked, out);
  const ExitCode code = end(checked.not_ready());
  if (!servers.in_time || !all_well) leave(code);
  return session.end(code, kStoreStopWithin);
}

}  // namespace idproxy::app::jobs
