#include "app/connected_check.hpp"

#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/join.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/process.hpp"
#include "app/readiness.hpp"
#include "app/reload.hpp"
#include "app/terminal.hpp"
#include "app/value_text.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/owned.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/server_hello.hpp"
#include "idproxy/id_store/store.hpp"

namespace idproxy::app {
namespace {

using id_store::ServerHello;

constexpr std::chrono::seconds kCheckTimeout{10};
constexpr std::chrono::seconds kCheckStopTimeout{2};
constexpr std::chrono::seconds kConnectWithin{3};
constexpr std::int32_t kConnectMs = 3000;

/// The servers of a connection string, as they describe themselves.
struct ServerCheck {
  struct Server {
    std::string address;
    std::string state;    ///< "primary", "standalone" …; empty: it does not answer
    std::string version;  ///< "MongoDB 6.0.5", or "MongoDB 6.0" if it says no more; or empty
  };
  std::vector<Server> servers;  ///< those of the string, and further members of their set
  std::string fault;            ///< what is wrong with them; empty: one can be used
};

/// The state in the words of the proxy's status; libmongoc's names are those of the drivers'
/// specification.
std::string state_of(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kStates{
      {{"RSPrimary", "primary"},
       {"RSSecondary", "secondary"},
       {"RSArbiter", "arbiter"},
       {"Standalone", "standalone"},
       {"Mongos", "mongos"}}};
  for (const auto& [name, state] : kStates) {
    if (type == name) return std::string(state);
  }
  return type == "Unknown" ? "" : "answers";
}

/// "a member of the replica set rs0"
std::string set_of(const ServerHello& server) {
  if (server.set_name.empty()) return "a member of no replica set";
  return "a member of the replica set " + named(server.set_name) + " (" +
         boost::algorithm::join(server.members, ",") + ")";
}

std::int32_t wire_version_of(const mongoc_server_description_t* server) {
  const bson_t* reply = mongoc_server_description_hello_response(server);
  const auto said = bson::find({bson_get_data(reply), reply->len}, "maxWireVersion");
  return said ? static_cast<std::int32_t>(said->as_integer().value_or(0)) : 0;
}

/// libmongoc lists only servers that answered; those of the string must be there too.
std::vector<ServerCheck::Server> servers_of(const mongoc_client_t* client) {
  std::vector<ServerCheck::Server> servers;
  std::size_t count = 0;
  mongoc_server_description_t** all = mongoc_client_get_server_descriptions(client, &count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* host = mongoc_server_description_host(all[i]);
    servers.push_back({static_cast<const char*>(host->host_and_port),
                       state_of(mongoc_server_description_type(all[i])),
                       server_release::name_of(wire_version_of(all[i]))});
  }
  mongoc_server_descriptions_destroy_all(all, count);
  const auto* host = mongoc_uri_get_hosts(mongoc_client_get_uri(client));
  for (; host != nullptr; host = host->next) {
    const std::string address = static_cast<const char*>(host->host_and_port);
    const bool is_listed =
        std::ranges::find(servers, address, &ServerCheck::Server::address) != servers.end();
    if (!is_listed) servers.push_back({address, "", ""});
  }
  return servers;
}

/// Adds what the servers said of themselves: libmongoc ignores those of another set than the string
/// names, as if they did not answer, and only buildInfo says versions exactly.
void add_hellos(const std::string& uri, const std::vector<ServerHello>& each, ServerCheck& check) {
  const std::string expected = id_store::replica_set_of(uri);
  std::string first;
  for (const ServerHello& server : each) {
    const std::string fault = id_store::set_name_fault(server, expected, "upstream.uri");
    if (first.empty()) first = fault;
    const auto row =
        std::ranges::find(check.servers, server.address, &ServerCheck::Server::address);
    if (row == check.servers.end()) continue;
    if (!fault.empty()) row->state = set_of(server);
    if (!server.version.empty()) row->version = "MongoDB " + server.version;
  }
  if (!first.empty()) check.fault = first;
}

bool answers(const ServerHello& server) {
  return server.fault.empty();
}

/// Sends hello to the servers of `uri`, which config has checked, without logging in. `each`: what
/// its servers said of themselves. Blocks for a few seconds at most.
ServerCheck ask_servers(const std::string& uri, const std::vector<ServerHello>& each) {
  mongoc_init();
  mongoc_log_set_handler(nullptr, nullptr);  // its messages may contain secrets
  const Owned<mongoc_uri_t, mongoc_uri_destroy> parsed(mongoc_uri_new(uri.c_str()));
  if (!parsed) std::abort();  // checked by config
  mongoc_uri_set_option_as_int32(parsed.get(), MONGOC_URI_CONNECTTIMEOUTMS, kConnectMs);
  mongoc_uri_set_option_as_int32(parsed.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, kConnectMs);
  bson_error_t error{};
  const Owned<mongoc_client_t, mongoc_client_destroy> client(
      mongoc_client_new_from_uri_with_error(parsed.get(), &error));
  ServerCheck check;
  if (client) {
    // Any member will do. Without a pool, libmongoc asks all servers once, in this thread.
    const Owned<mongoc_read_prefs_t, mongoc_read_prefs_destroy> any(
        mongoc_read_prefs_new(MONGOC_READ_NEAREST));
    const Owned<mongoc_server_description_t, mongoc_server_description_destroy> found(
        mongoc_client_select_server(client.get(), false, any.get(), &error));
    check.servers = servers_of(client.get());
    if (!found) check.fault = static_cast<const char*>(error.message);
  }
  add_hellos(uri, each, check);
  return check;
}

/// A table of any texts, whose columns are as wide as their longest cell.
class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      cells[i] = printable(cells[i]);
      widths_[i] = std::max(widths_[i], display_width(cells[i]));
    }
    rows_.push_back(std::move(cells));
  }
  /// A line below the last row, which no column bounds.
  void add_note(std::string_view text) { rows_.push_back({"", printable(text)}); }

  void print() const {
    for (const auto& cells : rows_) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        line += "  " + cells[i];
        const bool last = i + 1 == cells.size();
        if (!last) line.append(widths_[i] - display_width(cells[i]), ' ');
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
bool print_servers(const std::string& uri, const std::vector<ServerHello>& each,
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
  if (!check.fault.empty()) out << "  " << printable(check.fault) << '\n';
  if (store.uri_key == "upstream.uri") return check.fault.empty();
  const std::string fault =
      store_fault(each, id_store::ask_each(store.uri, kConnectWithin), store.uri_key);
  if (!fault.empty()) out << "  " << printable(fault) << '\n';
  return check.fault.empty() && fault.empty();
}

/// Returns how many rules are not ready. `wire_version`: of the oldest server.
std::size_t print_rules(const RulesInForce& rules, std::int32_t wire_version, std::ostream& out) {
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
    std::string sample = sample_of(rule, i, numbers);
    if (!sample.empty()) cells.push_back(std::move(sample));
    table.add(std::move(cells));
    if (const auto lacks = lack_index.find(i); lacks != lack_index.end()) {
      table.add_note(note_on_index(rule, lacks->second.commands));
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
std::size_t check_rules(config::Config config, std::int32_t wire_version, std::ostream& out) {
  id_store::Store store(config.id_store, process_sources().clock);
  RulesInForce rules = make_rules(std::move(config.rules), config.id_store.db, store);
  rules.watch->await_first_look(kCheckTimeout);
  const std::size_t not_ready = print_rules(rules, wire_version, out);
  if (const auto why = rules.watch->why_down()) {
    out << "\nThe id store (" << config.id_store.uri_key << ") " << printable(*why) << '\n';
  }
  if (store.stop(kCheckStopTimeout)) return not_ready;
  // A thread still waits for a server, and the store must not be destroyed.
  out.flush();
  std::_Exit(static_cast<int>(ExitCode::unavailable));
}

}  // namespace

std::string store_fault(const std::vector<ServerHello>& upstream,
                        const std::vector<ServerHello>& store, const std::string& uri_key) {
  const auto its = std::ranges::find_if(store, answers);
  if (its == store.end() || std::ranges::none_of(upstream, answers)) return {};
  const bool is_there = std::ranges::any_of(upstream, [&](const ServerHello& server) {
    return answers(server) && id_store::may_be_of_one_deployment(server, *its);
  });
  if (is_there) return {};
  const auto other = std::ranges::find_if(upstream, answers);
  return its->address + ", of " + uri_key + ", is " + set_of(*its) + ", and " + other->address +
         ", of upstream.uri, is " + set_of(*other) +
         ": the proxies must coordinate in the servers that have the documents. Name those in " +
         uri_key + ", or remove it";
}

ExitCode check_connected(config::Config config, const std::string& upstream_uri,
                         std::ostream& out) {
  const auto each = id_store::ask_each(upstream_uri, kConnectWithin);
  const bool is_there = print_servers(upstream_uri, each, config.id_store, out);
  const std::size_t count = config.rules.size();
  const std::size_t not_ready =
      count == 0 ? 0 : check_rules(only_looking(std::move(config)), oldest_of(each), out);
  if (not_ready > 0) {
    out << '\n'
        << not_ready << " of " << count << (count == 1 ? " rule" : " rules")
        << (not_ready == 1 ? " is" : " are") << " not ready\n";
  }
  return is_there && not_ready == 0 ? ExitCode::ok : ExitCode::unavailable;
}

}  // namespace idproxy::app
