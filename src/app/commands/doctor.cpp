#include <unistd.h>

#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/apart.hpp"
#include "app/commands/admin_process.hpp"
#include "app/commands/command.hpp"
#include "app/commands/status_client.hpp"
#include "app/config_file.hpp"
#include "app/doctor/certificates_check.hpp"
#include "app/doctor/host_check.hpp"
#include "app/doctor/proxies_check.hpp"
#include "app/doctor/report.hpp"
#include "app/doctor/rules_check.hpp"
#include "app/doctor/servers_check.hpp"
#include "app/doctor/store_check.hpp"
#include "app/state/rules_in_force.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::commands {
namespace {

struct DoctorRequest {
  std::string file{};
  bool as_json = false;
};

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

// Of all questions to servers, which are asked at the same time.
constexpr std::chrono::seconds kAllWithin = 16s;
constexpr std::chrono::seconds kHelloWithin = 3s;
constexpr std::chrono::milliseconds kProxyWithin = 3s;
constexpr std::chrono::milliseconds kStopWithin = 2s;

std::chrono::sys_seconds this_second() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// The proxy of this host.
struct RunningProxy {
  std::optional<StatusDocument> status{};
  std::string fault{};     ///< why there is no status
  std::string stranger{};  ///< what has answered there instead; empty: nothing
};

RunningProxy ask_proxy(const std::string& file, const config::Config& config) {
  if (!config.admin || config.admin->port == 0) return {{}, "admin.listen names no port to ask at"};
  const auto admin = find_admin({.file = file});
  if (!admin) return {{}, "admin.listen cannot be used"};
  FetchLimits limits;
  limits.time = kProxyWithin;
  auto status = fetch_status(*admin, "?rules=all", limits);
  if (status && ::geteuid() == 0) {  // others may not see whose process it is
    const auto process = ProxyProcess::find(pid_of(*status), status->from);
    if (!process) return {{}, process.error().why, admin->text()};
  }
  if (status) return {*std::move(status), {}};
  return {{}, "none answers at " + admin->text() + ": " + status.error().reason};
}

/// The examination of one configuration.
class Doctor {
 public:
  Doctor(ConfigFile& opened, const std::string& file, const RunningProxy& proxy)
      : opened_(opened), report_{file, {}}, proxy_(proxy) {}

  void run() {
    std::optional<std::string> upstream_uri;
    doctor::DoctorCheck configuration{"configuration"};
    if (opened_.loaded.ok()) upstream_uri = find_servers(configuration);
    opened_.look_at_mode();  // of what is in force: find_servers() may read the text again
    const bool is_usable = opened_.loaded.ok();  // also with the servers that were found
    add(merged(doctor::check_configuration(report_.file, opened_), std::move(configuration)));
    if (!is_usable && (proxy_.status || !proxy_.stranger.empty())) add_proxy();
    if (!is_usable) return;
    add(doctor::check_certificates(report_.file, config(), this_second()));
    add(doctor::check_ports(config(), proxy_view()));
    add(doctor::check_descriptors(config(), proxy_view()));
    if (upstream_uri) ask_servers(*upstream_uri);
    add_proxy();
  }

  [[nodiscard]] const doctor::DoctorReport& report() const { return report_; }

 private:
  [[nodiscard]] const config::Config& config() const { return opened_.loaded.config; }

  void add(doctor::DoctorCheck check) { report_.checks.push_back(std::move(check)); }

  static doctor::DoctorCheck merged(doctor::DoctorCheck check, doctor::DoctorCheck more) {
    for (Finding& each : more.findings) check.findings.push_back(std::move(each));
    return check;
  }

  std::optional<std::string> find_servers(doctor::DoctorCheck& check) {
    auto uri = opened_.look_up_servers(kHelloWithin);
    if (uri) return *std::move(uri);
    std::string text = uri.error();
    if (text.ends_with('.')) text.pop_back();
    const std::string host = srv_host();
    Commands commands;
    if (is_host_name(host)) {
      commands.shell({"resolvectl", "query", "--type=SRV", "_mongodb._tcp." + host});
    }
    check.add(doctor::server_name_unknown("upstream.uri", std::move(text)), commands);
    return std::nullopt;
  }

  /// "cluster.example.com" of "mongodb+srv://user:password@cluster.example.com/?…"
  [[nodiscard]] std::string srv_host() const {
    std::string host = config().srv_uri.substr(std::string("mongodb+srv://").size());
    host = host.substr(0, host.find('/'));
    return host.substr(host.rfind('@') + 1);
  }

  [[nodiscard]] JsonView proxy_view() const {
    return proxy_.status ? proxy_.status->view() : JsonView();
  }

  void ask_servers(const std::string& upstream_uri) {
    const auto until = SteadyClock::now() + kAllWithin;
    // The threads may outlive this object.
    const auto shared = std::make_shared<const config::Config>(config());
    const std::string file = report_.file;
    auto servers = ask_apart<doctor::ServersSaid>([shared, upstream_uri] {
      auto store = ask_apart<std::vector<id_store::ServerHello>>([shared] {
        const bool is_own = shared->written.store_uri.has_value();
        return is_own ? id_store::ask_each(shared->id_store.uri, kHelloWithin)
                      : std::vector<id_store::ServerHello>();
      });
      doctor::ServersSaid said{id_store::ask_each(upstream_uri, kHelloWithin), {}};
      said.store = store.get();
      return said;
    });
    auto store = ask_apart<doctor::StoreSaid>([shared] { return doctor::check_store(*shared); });
    auto counters = ask_apart<doctor::DoctorCheck>(
        [shared, file] { return doctor::check_counters(*shared, file); });
    auto rules = ask_apart<doctor::RulesSaid>([shared, file, until] {
      return doctor::check_rules(*shared, file, {until - kStopWithin - 1s, kStopWithin, true});
    });
    if (auto said = await("servers", servers, until)) {
      add(doctor::check_servers(config(), upstream_uri, *said, file));
    }
    auto stored = await("user", store, until);
    if (stored) add(std::move(stored->user));
    if (auto said = await("rules", rules, until)) {
      add(std::move(said->check));
      session_ = std::move(said->session);
    }
    if (auto said = await("counters", counters, until)) add(*std::move(said));
    if (!stored || !stored->proxies) return;
    add(doctor::check_proxies(*stored->proxies, proxy_view(), examined(), version()));
  }

  template <class Said>
  std::optional<Said> await(const char* name, std::future<Said>& answer,
                            SteadyClock::time_point until) {
    if (answer.wait_until(until) == std::future_status::ready) return answer.get();
    doctor::DoctorCheck check{name};
    check.what = "no answer";
    check.add(doctor::no_answer_in_time(name), doctor::check_connect(report_.file));
    add(std::move(check));
    return std::nullopt;
  }

  [[nodiscard]] doctor::ExaminedFile examined() const {
    doctor::ExaminedFile file{report_.file, {}};
    for (const auto& [name, state] : opened_.loaded.files) file.named.push_back(name);
    if (!opened_.loaded.ok()) return file;
    const rewrite::RuleSet rules(config().rules, config().id_store.db);
    file.rules_hash = state::rules_hash(rules);
    for (const rewrite::Rule& each : config().rules) file.namespaces.push_back(each.ns);
    file.deserted = doctor::deserted_places(config());
    return file;
  }

  void add_proxy() {
    if (!proxy_.status) {
      doctor::DoctorCheck check{"proxy"};
      check.what = proxy_.fault;
      check.skipped = proxy_.stranger.empty();
      if (!check.skipped) add_stranger(check);
      return add(std::move(check));
    }
    std::vector<const doctor::DoctorCheck*> others;
    others.reserve(report_.checks.size());
    for (const doctor::DoctorCheck& each : report_.checks) others.push_back(&each);
    add(doctor::check_proxy(proxy_view(), examined(), others));
  }

  /// Root takes nothing from a process that may be anybody's.
  void add_stranger(doctor::DoctorCheck& check) const {
    const std::string port = std::to_string(config().admin->port);
    check.add(finding::kProxyUnknown, proxy_.stranger,
              "what answers there is not known to be the proxy, and nothing of what it says is "
              "used: " +
                  proxy_.fault,
              Commands().shell({"sudo", "ss", "-ltnp", "sport = :" + port}));
  }

  ConfigFile& opened_;
  doctor::DoctorReport report_;
  const RunningProxy& proxy_;
  std::unique_ptr<jobs::RuleSession> session_;
};

/// No mapping of keys: nothing of it could be read.
bool is_no_configuration(const config::Loaded& loaded) {
  return !loaded.ok() && !loaded.is_mapping;
}

ExitCode examine(const DoctorRequest& request) {
  auto opened = ConfigFile::open(request.file);
  if (!opened) return opened.error();
  if (is_no_configuration(opened->loaded)) {
    opened->print_findings(std::cerr);
    return ExitCode::config;
  }
  const views::Terminal terminal = views::Terminal::at(STDOUT_FILENO);
  const RunningProxy proxy = ask_proxy(request.file, opened->loaded.config);
  Doctor examination(*opened, request.file, proxy);
  examination.run();
  const doctor::DoctorReport& report = examination.report();
  if (request.as_json) {
    std::cout << json_line(doctor::doctor_json(report));
  } else {
    std::cout << doctor::doctor_text(report, terminal);
  }
  jobs::leave(doctor::has_faults(report) ? ExitCode::findings : ExitCode::ok);
}

}  // namespace

const Command kDoctor{"doctor",
                      "Find what is wrong, with the commands that mend it",
                      R"(Looks at the file, its secrets and certificates, this host's ports and
descriptors, the servers, the store's user, rules, indexes, counters, and the
proxies that run. Each finding has a name that docs/troubleshooting.md explains,
and the commands to type. It only reads, and ends within 30 seconds.

Examples:   sudo mongo-idproxy doctor
            mongo-idproxy doctor --json --config proxy.yaml)",
                      {{0, "nothing is wrong, but for notes"},
                       {1, "errors or warnings"},
                       {78, "the file is no configuration"}},
                      nullptr,
                      [](CLI::App& options, std::string& config) -> Run {
                        const auto request = std::make_shared<DoctorRequest>();
                        options.add_flag("--json", request->as_json, "Print the findings as JSON");
                        add_config(options, config);
                        return on_file(request, examine);
                      }};

}  // namespace idproxy::app::commands
