#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "app/apart.hpp"
#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/doctor/report.hpp"
#include "app/doctor/rules_check.hpp"
#include "app/doctor/servers_check.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/jobs/store_fault.hpp"
#include "app/json_view.hpp"
#include "app/state/readiness.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

struct CheckRequest {
  std::string file{};
  bool connects = false;  ///< asks the servers, too
  bool as_json = false;
};

namespace json = boost::json;
using doctor::RulesSaid;
using doctor::ServersSaid;
using id_store::ServerHello;
using jobs::answers;
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

/// The servers of the connection string, further members of their sets, and the store's servers.
ServersSaid ask_servers(const std::string& uri, const id_store::Options& store,
                        SteadyClock::time_point until) {
  ServersSaid said{id_store::ask_each_and_members(uri, kConnectWithin, kOthersWithin), {}};
  if (store.uri_key != "upstream.uri") {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()) - kLookAtLeast;
    said.store = id_store::ask_each(store.uri, std::clamp<std::chrono::milliseconds>(
                                                   left - 500ms, kStoreAtLeast, kOthersWithin));
  }
  return said;
}

/// The proxy would serve: one of several servers may be down, or without a primary.
bool are_well(const ServersSaid& said, const doctor::DoctorCheck& check) {
  return std::ranges::any_of(said.upstream, answers) &&
         std::ranges::none_of(check.findings, [](const Finding& each) {
           return each.kind == finding::kSetNameDiffers || each.kind == finding::kStoreElsewhere;
         });
}

/// One that has answered by another name, too.
bool is_listed_twice(const ServerHello& server, const std::vector<ServerHello>& all) {
  return answers(server) && std::ranges::any_of(all, [&](const ServerHello& other) {
           return other.me == server.address && other.address != server.address;
         });
}

json::object row_of(const ServerHello& server, bool is_of_set) {
  const bool is_there = answers(server);
  const char* absent = server.wants_tls   ? "wants TLS"
                       : server.is_silent ? "accepts connections, and does not answer"
                                          : "does not answer";
  const std::string version = !is_there ? ""
                              : server.version.empty()
                                  ? server_release::name_of(server.wire_version)
                                  : "MongoDB " + server.version;
  return {{"address", server.address},
          {"state", !is_there   ? absent
                    : is_of_set ? server.state
                                : jobs::set_of(server)},
          {"version", text_or_null(version)},
          {"fault", text_or_null(is_there ? "" : server.fault)}};
}

json::array servers_json(const ServersSaid& said, const std::string& uri) {
  const std::string expected = id_store::replica_set_of(uri);
  json::array rows;
  for (const ServerHello& server : said.upstream) {
    if (is_listed_twice(server, said.upstream)) continue;
    const std::string fault = id_store::set_name_fault(server, expected, "upstream.uri");
    rows.push_back(row_of(server, fault.empty()));
  }
  return rows;
}

std::string servers_text(const json::array& rows) {
  views::TextTable table(3);
  for (const json::value& row : rows) {
    const JsonView each(row);
    table.add({{each["address"].text()}, {each["state"].text()}, {each["version"].text()}});
  }
  return "\nServers\n" + table.text({});
}

json::array rules_json(const std::vector<rewrite::Rule>& rules, const RulesSaid& said,
                       std::int32_t wire_version) {
  json::array rows;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const rewrite::Rule& rule = rules[i];
    const doctor::RuleSaid& its = said.rules[i];
    const bool is_ready = its.reason.empty();
    json::array notes;
    for (const std::string& note : {its.note, state::note_on_limits(rule, wire_version)}) {
      if (is_ready && !note.empty()) notes.emplace_back(note);
    }
    rows.push_back({{"rule", i + rule.nones_before},
                    {"ns", rule.ns},
                    {"field", rule.field},
                    {"strategy", rule.strategy_name},
                    {"ready", is_ready},
                    {"reason", text_or_null(its.reason)},
                    {"checked_with_first_insert", is_ready && has_wildcards(rule.ns)},
                    {"sample", text_or_null(its.sample)},
                    {"notes", std::move(notes)}});
  }
  return rows;
}

std::string rules_text(const json::array& rows) {
  views::TextTable table(6);
  for (const json::value& row : rows) {
    const JsonView each(row);
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
  }
  return "\nRules\n" + table.text({});
}

/// "1 of 2 rules is not ready"; empty: all are.
std::string summary_of(const RulesSaid& said) {
  const auto count = std::ranges::count_if(
      said.rules, [](const doctor::RuleSaid& each) { return !each.reason.empty(); });
  if (count == 0) return {};
  return '\n' + std::to_string(count) + " of " + count_of(said.rules.size(), "rule") +
         (count == 1 ? " is" : " are") + " not ready\n";
}

/// No row of a rule says it.
bool is_further(const Finding& finding) {
  return finding.kind != finding::kRuleNotReady && finding.kind != finding::kIndexMissing;
}

json::array findings_json(const ConfigFile& opened, const std::string& file) {
  json::array all;
  for (const auto* findings : {&opened.loaded.findings, &opened.loaded.notes}) {
    for (const FileFinding& each : *findings) {
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
    for (const FileFinding& note : loaded.notes)
      out_ << printable(note.text(request_.file)) << '\n';
    json_["ok"] = loaded.ok();
    if (!loaded.ok()) return end(ExitCode::config);
    out_ << printable(request_.file) << ": ok, " << count_of(loaded.config.rules.size(), "rule")
         << '\n';
    if (!request_.connects) return end(ExitCode::ok);
    const auto until = SteadyClock::now() + kCheckWithin;
    const auto upstream_uri = opened_.find_servers(out_, kLookUpWithin);
    return upstream_uri ? connect(*upstream_uri, until) : end(upstream_uri.error());
  }

 private:
  /// Asks the servers what a start with this configuration would meet. Uses up no number of a
  /// counter, ends the process soon after `until`.
  [[nodiscard]] ExitCode connect(const std::string& uri, SteadyClock::time_point until) {
    const config::Config& config = opened_.loaded.config;
    const ServersSaid servers = ask_servers(uri, config.id_store, until);
    const auto check = doctor::check_servers(config, uri, servers, request_.file);
    json::array rows = servers_json(servers, uri);
    out_ << servers_text(rows);
    json_["servers"] = std::move(rows);
    out_ << doctor::findings_text(check.findings, {});
    note(check.findings, check.name);
    bool is_well = are_well(servers, check);
    std::optional<RulesSaid> rules;
    if (!config.rules.empty()) {
      rules = ask_rules(config, until);
      if (rules) tell_rules(*rules, state::oldest_of(servers.upstream));
      is_well = is_well && rules && summary_of(*rules).empty();
    }
    // To end the session of a server that hangs would take as long as its command.
    jobs::leave(end(is_well ? ExitCode::ok : ExitCode::unavailable));
  }

  /// Nothing, which has been told: they have not answered in time.
  std::optional<RulesSaid> ask_rules(const config::Config& config, SteadyClock::time_point until) {
    auto answer = ask_apart<RulesSaid>([config, file = request_.file, until] {
      return doctor::check_rules(config, file, {until, kStoreStopWithin, false});
    });
    if (answer.wait_until(until + kStoreStopWithin) == std::future_status::ready) {
      return answer.get();
    }
    const std::vector<Finding> late{doctor::no_answer_in_time("rules")};
    out_ << "\nRules\n" << doctor::findings_text(late, {});
    note(late, "rules");
    return std::nullopt;
  }

  void tell_rules(const RulesSaid& said, std::int32_t oldest) {
    json::array rows = rules_json(opened_.loaded.config.rules, said, oldest);
    out_ << rules_text(rows);
    json_["rules"] = std::move(rows);
    std::vector<Finding> findings = said.check.findings;
    if (!said.why_down.empty()) {
      Finding found = store_down({});
      found.subject = "id_store";
      found.what.text = said.why_down;
      found.remedy = {};  // nothing gives out numbers here
      findings.push_back(std::move(found));
    }
    note(findings, said.check.name);
    std::erase_if(findings, std::not_fn(is_further));
    out_ << doctor::findings_text(findings, {});
    out_ << summary_of(said);
  }

  void note(const std::vector<Finding>& findings, const std::string& check) {
    for (const Finding& each : findings) {
      found_.push_back(doctor::finding_json(each, check));
    }
  }

  [[nodiscard]] ExitCode end(ExitCode code) {
    json::array findings = findings_json(opened_, request_.file);
    std::ranges::copy(found_, std::back_inserter(findings));
    json_["findings"] = std::move(findings);
    if (request_.as_json) std::cout << json_line(json_);
    return code;
  }

  const CheckRequest& request_;
  ConfigFile& opened_;
  std::ostringstream unseen_;
  std::ostream& out_;
  json::object json_;
  json::array found_;  // with the servers
};

ExitCode check_config(const CheckRequest& request) {
  auto opened = ConfigFile::open(request.file);
  return opened ? Check(request, *opened).run() : opened.error();
}

}  // namespace

const Command kCheck{
    "check",
    "Check the configuration",
    R"(The same as --check-config. It prints all errors and warnings with their lines,
opens no listener and writes nothing. --connect takes ten seconds at most.

Examples:   mongo-idproxy check
            mongo-idproxy check --connect --config proxy.yaml)",
    {{0, "no error"}, {69, "with --connect: no server answers, or a rule is not ready"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<CheckRequest>();
      options.add_flag("--connect", request->connects,
                       "Also ask the servers whether each rule is ready");
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return on_file(request, check_config);
    }};

}  // namespace idproxy::app::commands
