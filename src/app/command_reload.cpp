#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "app/admin_process.hpp"
#include "app/config_file.hpp"
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

/// As in /status.json: by the clock that all processes of a host share, and nobody sets.
double this_moment() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

/// `named`: by the command line; empty: no file. The proxy's own is the one that counts.
ExitCode look_at_file(const std::string& named, const StatusDocument& document) {
  const std::string its = document.view()["configuration"]["file"].text();
  std::error_code error;
  if (named.empty() || !its.starts_with('/') || std::filesystem::equivalent(named, its, error)) {
    return ExitCode::ok;
  }
  return end_with(ExitCode::usage, "the proxy reads " + its + ", not " + named +
                                       ": give --config " + printable(its));
}

/// How many reloads the proxy has tried.
double reloads_of(const StatusDocument& document) {
  const JsonView reloads = document.view()["configuration"]["reloads"];
  return reloads["succeeded"].number().value_or(0) + reloads["failed"].number().value_or(0);
}

/// A reload that ended after the `before` so far, and began after the signal. Of an earlier one
/// that somebody else has asked for, nobody knows which file it read. Older proxies do not say when
/// it began.
struct OurReload {
  double before;
  double signalled;

  [[nodiscard]] bool is_in(const StatusDocument& document) const {
    const JsonView last = document.view()["configuration"]["last_reload"];
    return reloads_of(document) != before &&
           last["begun"].number().value_or(signalled) >= signalled;
  }
};

ExitCode print_outcome(const StatusDocument& document) {
  const JsonView last = document.view()["configuration"]["last_reload"];
  for (const JsonView& each : last["findings"].items()) {
    std::cerr << printable(each.text()) << '\n';
  }
  const std::string text = last["text"].text();
  if (last["applied"].is_false()) {
    return end_with(ExitCode::config, "the proxy keeps its configuration: " + text);
  }
  std::cout << "reloaded: " << (text.empty() ? "nothing has changed" : printable(text)) << '\n';
  return ExitCode::ok;
}

ExitCode await_reload(const net::Endpoint& admin, const OurReload& ours) {
  const auto until = SteadyClock::now() + kReloadWithin;
  FetchLimits limits;
  limits.time = kAnswerWithin;
  std::optional<FetchFailure> failure;
  while (SteadyClock::now() < until) {
    std::this_thread::sleep_for(kLookEvery);
    const auto document = fetch_status(admin, {}, limits);
    if (document && ours.is_in(*document)) return print_outcome(*document);
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
  const auto process = ProxyProcess::find(pid_of(*document), document->from);
  if (!process) return end_with(process.error().code, process.error().why);
  const ExitCode code = look_at_file(request.proxy.file, *document);
  if (code != ExitCode::ok) return code;
  const OurReload ours{reloads_of(*document), this_moment()};
  const auto sent = process->signal_reload();
  if (!sent) return end_with(sent.error().code, sent.error().why);
  return await_reload(*admin, ours);
}

}  // namespace idproxy::app
