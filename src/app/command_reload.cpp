#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "app/config_file.hpp"
#include "app/process.hpp"
#include "app/status_client.hpp"
#include "app/terminal.hpp"
#include "idproxy/app/app.hpp"

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReloadWithin = 10s;
constexpr std::chrono::milliseconds kLookEvery = 100ms;
constexpr std::chrono::milliseconds kAnswerWithin = 2s;
constexpr const char* kOtherWays =
    "use systemctl reload mongo-idproxy, or in its container mongo-idproxy reload";

/// Whether this process may send the proxy signals, after it has seen that it is there.
ExitCode look_at_process(pid_t pid) {
  if (pid <= 0 || !is_proxy_here(pid)) {
    return end_with(ExitCode::unavailable,
                    "the proxy's process, " + std::to_string(pid) +
                        ", cannot be seen from here; it may be in a container: " + kOtherWays);
  }
  if (::kill(pid, 0) == 0 || errno != EPERM) return ExitCode::ok;
  return end_with(ExitCode::no_permission,
                  "process " + std::to_string(pid) +
                      " is another user's and takes no signal from this one: be root, or " +
                      kOtherWays);
}

/// As `check` does, but on standard error. The proxy's own file is the one that counts.
ExitCode check_file(const std::string& named, const std::string& of_proxy) {
  std::error_code error;
  const bool is_absolute = of_proxy.starts_with('/');
  if (!named.empty() && is_absolute && !std::filesystem::equivalent(named, of_proxy, error)) {
    return end_with(ExitCode::usage, "the proxy reads " + printable(of_proxy) + ", not " + named +
                                         ": give --config " + printable(of_proxy));
  }
  auto opened = ConfigFile::open(is_absolute || named.empty() ? of_proxy : named);
  if (!opened) return opened.error();
  opened->look_at_mode();
  opened->print_findings(std::cerr);
  if (opened->loaded.ok()) return ExitCode::ok;
  return end_with(ExitCode::config, "the configuration has errors; the proxy keeps its own");
}

/// How many reloads the proxy has tried.
double reloads_of(const StatusDocument& document) {
  const JsonView reloads = document.view()["configuration"]["reloads"];
  return reloads["succeeded"].number().value_or(0) + reloads["failed"].number().value_or(0);
}

ExitCode print_outcome(const StatusDocument& document) {
  const JsonView last = document.view()["configuration"]["last_reload"];
  const std::string text = printable(last["text"].text());
  if (last["applied"].is_false()) {
    return end_with(ExitCode::config, "the proxy keeps its configuration: " + text);
  }
  std::cout << "reloaded: " << (text.empty() ? "nothing has changed" : text) << '\n';
  return ExitCode::ok;
}

/// Waits for one more reload than the `before` so far.
ExitCode await_reload(const net::Endpoint& admin, double before) {
  const auto until = SteadyClock::now() + kReloadWithin;
  FetchLimits limits;
  limits.time = kAnswerWithin;
  std::optional<FetchFailure> failure;
  while (SteadyClock::now() < until) {
    std::this_thread::sleep_for(kLookEvery);
    const auto document = fetch_status(admin, {}, limits);
    if (document && reloads_of(*document) != before) return print_outcome(*document);
    failure = document ? std::nullopt : std::optional(document.error());
  }
  if (failure) return print_no_answer(admin, *failure);
  return end_with(ExitCode::unavailable,
                  "the proxy got the signal and has not reloaded within 10 s; its log may say "
                  "why: journalctl -u mongo-idproxy -n 20");
}

}  // namespace

ExitCode reload(const ReloadRequest& request) {
  const auto admin = find_admin(request.proxy);
  if (!admin) return admin.error();
  const auto document = fetch_status(*admin);
  if (!document) {
    const ExitCode code = print_no_answer(*admin, document.error());
    std::cerr << "If admin.listen has changed since its start, give the old one: --admin\n";
    return code;
  }
  const pid_t pid = pid_of(*document);
  if (const ExitCode code = look_at_process(pid); code != ExitCode::ok) return code;
  adopt_environment(pid);
  const std::string file = document->view()["configuration"]["file"].text();
  if (const ExitCode code = check_file(request.proxy.file, file); code != ExitCode::ok) return code;
  if (::kill(pid, SIGHUP) != 0) {
    return end_with(ExitCode::unavailable, "the proxy's process has ended");
  }
  return await_reload(*admin, reloads_of(*document));
}

}  // namespace idproxy::app
