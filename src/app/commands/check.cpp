#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <utility>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/jobs/store_fault.hpp"
#include "app/jobs/value_text.hpp"
#include "app/json_view.hpp"
#include "app/state/readiness.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/id_store/closed_schema.hpp"
#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app::commands {
namespace {

struct CheckRequest {
  std::string file{};
  bool connects = false;  ///< asks the servers, too
  bool as_json = false;
};

namespace json = boost::json;
using id_store::ServerHello;
using jobs::answers;
using jobs::RuleSession;
using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A check of servers ends within ten seconds, whatever does not answer.
constexpr auto kCheckWithin = 9500ms;
constexpr auto kLookUpWithin = 2500ms;
// Servers, their members and the store's servers take these times and half a second more each.
constexpr auto kConnectWithin = 2500ms;
constexpr auto kOthersWithin = 1500ms;
constexpr auto kStoreAtLeast = 250ms;
constexpr auto kLookAtLeast = 1000ms;
constexpr auto kStoreStopWithin = 400ms;

/// What has been found, as it is printed as JSON.
struct Checked {
  json::object said{};
  bool is_well = true;
};

struct ServersChecked : Checked {
  std::int32_t oldest = 0;  ///< the wire version of the oldest that answers
  bool in_time = true;
};

json::object row_of(const ServerHello& server, const std::string& set_fault) {
  const bool is_there = answers(server);
  const char* absent = server.wants_tls   ? "wants TLS"
                       : server.is_silent ? "accepts connections, and does not answer"
                                          : "does not answer";
  const std::string version = !is_there ? ""
                              : server.version.empty()
                                  ? server_release::name_of(server.wire_version)
                                  : "MongoDB " + server.version;
  return {{"address", server.address},
          {"state", !is_there           ? absent
                    : set_fault.empty() ? server.state
                                        : jobs::set_of(server)},
          {"version", text_or_null(version)},
          {"fault", text_or_null(is_there ? "" : server.fault)}};
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

/// What the servers of the connection string, further members of their sets and the store's servers
/// say.
ServersChecked ask_servers(const std::string& uri, const id_store::Options& store,
                           SteadyClock::time_point until) {
  const auto each = id_store::ask_each_and_members(uri, kConnectWithin, kOthersWithin);
  const std::string expected = id_store::replica_set_of(uri);
  ServersChecked checked;
  checked.oldest = state::oldest_of(each);
  json::array rows;
  std::string set_fault;
  for (const ServerHello& server : each) {
    const std::string fault = id_store::set_name_fault(server, expected, "upstream.uri");
    if (set_fault.empty()) set_fault = fault;
    if (!is_listed_twice(server, each)) rows.push_back(row_of(server, fault));
    checked.in_time = checked.in_time && server.in_time;
  }
  json::array faults;
  if (!set_fault.empty()) faults.emplace_back(set_fault);
  if (std::ranges::none_of(each, answers)) faults.emplace_back("no server answers");
  if (store.uri_key != "upstream.uri") {
    const auto left = left_until(until) - kLookAtLeast - 500ms;
    const auto its = id_store::ask_each(
        store.uri, std::clamp<std::chrono::milliseconds>(left, kStoreAtLeast, kOthersWithin));
    for (const ServerHello& server : its) checked.in_time = checked.in_time && server.in_time;
    const std::string fault = jobs::store_fault(each, its, store.uri_key);
    if (!fault.empty()) faults.emplace_back(fault);
  }
  checked.is_well = faults.empty();
  checked.said = {{"servers", std::move(rows)}, {"servers_wrong", std::move(faults)}};
  return checked;
}

void print_servers(JsonView said, std::ostream& out) {
  out << "\nServers\n";
  views::TextTable table(3);
  for (const JsonView& each : said["servers"].items()) {
    table.add({{each["address"].text()}, {each["state"].text()}, {each["version"].text()}});
    if (const std::string fault = each["fault"].text(); !fault.empty()) {
      table.add_note(fault, views::Tone::plain);
    }
  }
  out << table.text({});
  for (const JsonView& each : said["servers_wrong"].items()) {
    out << "  " << printable(each.text()) << '\n';
  }
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

Checked check_rules(const RuleSession& session, const id_store::Options& store,
                    std::int32_t wire_version) {
  Checked checked;
  json::array rows;
  const std::vector<std::string> reasons = all_reasons(session, store);
  const auto numbers = session.watch().numbers(1);
  const auto lack_index = session.watch().lack_index();
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const rewrite::Rule& rule = session.rule(i);
    const bool is_ready = reasons[i].empty();
    json::array notes;
    if (const auto lacks = lack_index.find(i); is_ready && lacks != lack_index.end()) {
      notes.emplace_back(state::note_on_index(rule, lacks->second.commands));
    }
    if (const std::string note = state::note_on_limits(rule, wire_version);
        is_ready && !note.empty()) {
      notes.emplace_back(note);
    }
    rows.push_back({{"rule", i + rule.nones_before},
                    {"ns", rule.ns},
                    {"field", rule.field},
                    {"strategy", rule.strategy_name},
                    {"ready", is_ready},
                    {"reason", text_or_null(reasons[i])},
                    {"checked_with_first_insert", is_ready && has_wildcards(rule.ns)},
                    {"sample", text_or_null(is_ready ? jobs::sample_of(rule, i, numbers) : "")},
                    {"notes", std::move(notes)}});
    checked.is_well = checked.is_well && is_ready;
  }
  std::string fault = session.why_down();
  if (!fault.empty()) fault.front() = 'T';
  checked.said = {{"rules", std::move(rows)}, {"store_wrong", text_or_null(fault)}};
  return checked;
}

void print_rules(JsonView said, std::ostream& out) {
  out << "\nRules\n";
  views::TextTable table(6);
  const std::vector<JsonView> rules = said["rules"].items();
  std::size_t not_ready = 0;
  for (const JsonView& each : rules) {
    const bool is_ready = each["ready"].is_true();
    const char* state = !is_ready ? "NOT READY"
                        : each["checked_with_first_insert"].is_true()
                            ? "checked with the first insert into each collection"
                            : "ready";
    table.add({{std::to_string(static_cast<std::size_t>(each["rule"].number().value_or(0)))},
               {each["ns"].text()},
               {each["field"].text()},
               {each["strategy"].text()},
               {state},
               {each["sample"].text()}});
    if (!is_ready) table.add_note(each["reason"].text(), views::Tone::plain);
    for (const JsonView& note : each["notes"].items()) {
      table.add_note(note.text(), views::Tone::plain);
    }
    not_ready += is_ready ? 0 : 1;
  }
  out << table.text({});
  const std::string fault = said["store_wrong"].text();
  if (!fault.empty()) out << '\n' << printable(fault) << '\n';
  if (not_ready == 0) return;
  out << '\n'
      << not_ready << " of " << rules.size() << (rules.size() == 1 ? " rule" : " rules")
      << (not_ready == 1 ? " is" : " are") << " not ready\n";
}

json::array findings_json(const ConfigFile& opened, const std::string& file) {
  json::array all;
  for (const auto* findings : {&opened.loaded.findings, &opened.loaded.notes}) {
    for (const Finding& each : *findings) {
      all.push_back({{"level", each.level()},
                     {"line", each.place.line},
                     {"column", each.place.column},
                     {"text", each.text(file)}});
    }
  }
  return all;
}

/// A check of one file. Prints what it finds as it goes, or all of it as JSON at the end.
class Check {
 public:
  Check(const CheckRequest& request, ConfigFile& opened)
      : request_(request),
        opened_(opened),
        out_(request.as_json ? static_cast<std::ostream&>(unseen_) : std::cout),
        json_{{"file", request.file}} {}

  [[nodiscard]] ExitCode run() {
    const config::Loaded& loaded = opened_.loaded;
    opened_.look_at_mode();
    opened_.print_findings(out_);
    for (const Finding& note : loaded.notes) out_ << printable(note.text(request_.file)) << '\n';
    json_["ok"] = loaded.ok();
    if (!loaded.ok()) return end(ExitCode::config);
    const std::size_t count = loaded.config.rules.size();
    out_ << printable(request_.file) << ": ok, " << count << (count == 1 ? " rule\n" : " rules\n");
    if (!request_.connects) return end(ExitCode::ok);
    const auto until = SteadyClock::now() + kCheckWithin;
    const auto upstream_uri = opened_.find_servers(out_, kLookUpWithin);
    return upstream_uri ? connect(*upstream_uri, until) : end(upstream_uri.error());
  }

 private:
  /// Asks the servers what a start with this configuration would meet. Uses up no number of a
  /// counter, ends soon after `until`, and may end the process if a server hangs.
  [[nodiscard]] ExitCode connect(const std::string& upstream_uri, SteadyClock::time_point until) {
    config::Config& config = opened_.loaded.config;
    json_["findings"] = findings_json(opened_, request_.file);
    ServersChecked servers = ask_servers(upstream_uri, config.id_store, until);
    tell(std::move(servers.said), print_servers);
    if (config.rules.empty()) {
      const ExitCode code = end(servers.is_well ? ExitCode::ok : ExitCode::unavailable);
      if (!servers.in_time) jobs::leave(code);
      return code;
    }
    const id_store::Options store = config.id_store;
    RuleSession session(state::only_looking(std::move(config)));
    session.await_first_look(std::max<std::chrono::milliseconds>(left_until(until), kLookAtLeast));
    Checked rules = check_rules(session, store, servers.oldest);
    tell(std::move(rules.said), print_rules);
    const bool is_well = servers.is_well && rules.is_well;
    const ExitCode code = end(is_well ? ExitCode::ok : ExitCode::unavailable);
    if (!servers.in_time || !servers.is_well) jobs::leave(code);
    return session.end(code, kStoreStopWithin);
  }

  void tell(json::object said, void (*print)(JsonView, std::ostream&)) {
    for (const auto& [key, value] : said) json_.insert_or_assign(key, value);
    print(JsonView(json::value(std::move(said))), out_);
  }

  [[nodiscard]] ExitCode end(ExitCode code) {
    json_["findings"] = findings_json(opened_, request_.file);
    if (request_.as_json) std::cout << json_line(json_);
    return code;
  }

  const CheckRequest& request_;
  ConfigFile& opened_;
  std::ostringstream unseen_;
  std::ostream& out_;
  json::object json_;
};

ExitCode check_config(const CheckRequest& request) {
  auto opened = ConfigFile::open(request.file);
  return opened ? Check(request, *opened).run() : opened.error();
}

}  // namespace

const Command kCheck{
    "check", "Check the configuration",
    "Usage: mongo-idproxy check [--connect] [--json] [--config FILE]",
    R"(The same as --check-config. It prints all errors and warnings with their lines,
opens no listener and writes nothing. --connect takes ten seconds at most.

Examples:   mongo-idproxy check
            mongo-idproxy check --connect --config proxy.yaml

Exit codes: 0 no error, 64 command line, 70 internal error, 77 file unreadable,
            78 configuration; with --connect 69: a server does not answer, or a
            rule is not ready)",
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<CheckRequest>();
      options.add_flag("--connect", request->connects,
                       "Also ask the servers whether each rule is ready");
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return on_file(request, check_config);
    }};

}  // namespace idproxy::app::commands
