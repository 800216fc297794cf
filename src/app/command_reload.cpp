#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>

#include "app/config_file.hpp"
#include "app/status_client.hpp"
#include "app/terminal.hpp"
#include "idproxy/app/app.hpp"
#include "idproxy/base/input_file.hpp"

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReloadWithin = 10s;
constexpr std::chrono::milliseconds kLookEvery = 100ms;
constexpr std::chrono::milliseconds kAnswerWithin = 2s;
constexpr const char* kOtherWays =
    "use systemctl reload mongo-idproxy, or in its container kill -HUP 1\n";

ExitCode print_fault(ExitCode code, const std::string& text) {
  std::cerr << "mongo-idproxy: " << text << '\n';
  return code;
}

std::string process_file(const std::string& pid, const char* name) {
  return "/proc/" + pid + "/" + name;
}

/// True if the process is a program of this name, and not one that has the proxy's number in this
/// namespace of processes while the proxy itself is in another one.
bool is_proxy_here(pid_t pid) {
  const auto its = read_file(process_file(std::to_string(pid), "comm"));
  const auto own = read_file(process_file("self", "comm"));
  return its && own && *its == *own;
}

/// Whether this process may send the proxy signals, after it has seen that it is there.
ExitCode look_at_process(pid_t pid) {
  if (pid <= 0 || !is_proxy_here(pid)) {
    return print_fault(ExitCode::unavailable,
                       "the proxy's process, " + std::to_string(pid) +
                           ", cannot be seen from here; it may be in a container: " + kOtherWays);
  }
  if (::kill(pid, 0) == 0 || errno != EPERM) return ExitCode::ok;
  return print_fault(ExitCode::no_permission,
                     "process " + std::to_string(pid) +
                         " is another user's and takes no signal from this one: be root, or " +
                         kOtherWays);
}

/// The proxy's environment, by which it reads the variables of the file, in place of this one's, if
/// this process may see it.
void adopt_environment(pid_t pid) {
  const auto environment = read_file(process_file(std::to_string(pid), "environ"));
  if (!environment) return;
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string entry(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
}

/// As `check` does, but on standard error. The proxy's own file is the one that counts.
ExitCode check_file(const std::string& named, const std::string& of_proxy) {
  std::error_code error;
  const bool is_absolute = of_proxy.starts_with('/');
  if (!named.empty() && is_absolute && !std::filesystem::equivalent(named, of_proxy, error)) {
    return print_fault(ExitCode::usage, "the proxy reads " + printable(of_proxy) + ", not " +
                                            named + ": give --config " + printable(of_proxy));
  }
  auto opened = ConfigFile::open(is_absolute || named.empty() ? of_proxy : named);
  if (!opened) return opened.error();
  opened->look_at_mode();
  opened->print_findings(std::cerr);
  if (opened->loaded.ok()) return ExitCode::ok;
  return print_fault(ExitCode::config, "the configuration has errors; the proxy keeps its own");
}

/// 0: not known.
pid_t pid_of(const StatusDocument& document) {
  constexpr double kMost = 1 << 22;  // PID_MAX_LIMIT of Linux
  const double pid = document.view()["pid"].number().value_or(0);
  return pid >= 1 && pid <= kMost ? static_cast<pid_t>(pid) : 0;
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
    return print_fault(ExitCode::config, "the proxy keeps its configuration: " + text);
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
  return print_fault(ExitCode::unavailable,
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
    return print_fault(ExitCode::unavailable, "the proxy's process has ended");
  }
  return await_reload(*admin, reloads_of(*document));
}

}  // namespace idproxy::app
