#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "app/commands/admin_process.hpp"
#include "app/commands/command.hpp"
#include "app/commands/status_client.hpp"
#include "app/config_file.hpp"
#include "app/json_view.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::app::commands {
namespace {

struct ReloadRequest : AdminOptions {
  bool as_json = false;
};

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReloadWithin = 10s;
constexpr std::chrono::milliseconds kLookEvery = 100ms;
constexpr std::chrono::milliseconds kAnswerWithin = 2s;

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

/// The number of the last one; 0: none.
double number_of(const StatusDocument& document) {
  return document.view()["configuration"]["last_reload"]["number"].number().value_or(0);
}

/// When it began, by the host's clock and as it says it.
double started(const StatusDocument& document) {
  return document.view()["started"].number().value_or(0);
}

/// Whether the same process says so. A proxy that has been started meanwhile counts anew.
bool is_same_process(const StatusDocument& one, const StatusDocument& other) {
  return pid_of(one) == pid_of(other) && started(one) == started(other);
}

ExitCode print_outcome(const StatusDocument& document, bool as_json) {
  const JsonView last = document.view()["configuration"]["last_reload"];
  const std::string text = last["text"].text();
  const bool is_refused = last["applied"].is_false();
  boost::json::array findings;
  for (const JsonView& each : last["findings"].items()) {
    std::cerr << printable(each.text()) << '\n';
    findings.emplace_back(each.text());
  }
  if (as_json) {
    std::cout << json_line(boost::json::object{{"reloaded", !is_refused},
                                               {is_refused ? "reason" : "changed", text},
                                               {"findings", std::move(findings)}});
  }
  if (is_refused) return end_with(ExitCode::config, "the proxy keeps its configuration: " + text);
  if (as_json) return ExitCode::ok;
  std::cout << "reloaded: " << (text.empty() ? "nothing has changed" : printable(text)) << '\n';
  return ExitCode::ok;
}

/// Of the first reload that begins after `before`, whoever asked for it: it has read the file that
/// we mean. The one that was under way then may have read another, and is followed by one more.
ExitCode await_reload(const net::Endpoint& admin, const StatusDocument& before, bool as_json) {
  const auto until = SteadyClock::now() + kReloadWithin;
  FetchLimits limits;
  limits.time = kAnswerWithin;
  std::optional<FetchFailure> failure;
  const bool is_under_way = before.view()["configuration"]["reloads"]["under_way"].is_true();
  const double awaited = number_of(before) + (is_under_way ? 2 : 1);
  while (SteadyClock::now() < until) {
    std::this_thread::sleep_for(kLookEvery);
    const auto document = fetch_status(admin, {}, limits);
    if (document && !is_same_process(before, *document)) {
      return end_with(ExitCode::unavailable,
                      "the proxy has been started again meanwhile: it has read its file then");
    }
    if (document && number_of(*document) >= awaited) return print_outcome(*document, as_json);
    failure = document ? std::nullopt : std::optional(document.error());
  }
  if (failure) return print_no_answer(admin, *failure);
  return end_with(ExitCode::unavailable,
                  "the proxy got the signal and has not reloaded within 10 s; its log may say "
                  "why: journalctl -u mongo-idproxy -n 20");
}

ExitCode print_refusal(const NotSignalled& refusal) {
  return end_with(refusal.code, refusal.why + ", so that it gets no signal: " + refusal.instead);
}

ExitCode reload(const ReloadRequest& request) {
  const auto admin = find_admin(request);
  if (!admin) return admin.error();
  const auto document = fetch_status(*admin);
  if (!document) {
    const ExitCode code = print_no_answer(*admin, document.error());
    std::cerr << "If admin.listen has changed since its start, give the old one: --admin\n";
    return code;
  }
  const auto process = ProxyProcess::find(pid_of(*document), document->from);
  if (!process) return print_refusal(process.error());
  const ExitCode code = look_at_file(request.file, *document);
  if (code != ExitCode::ok) return code;
  const auto sent = process->signal_reload();
  if (!sent) return print_refusal(sent.error());
  return await_reload(*admin, *document, request.as_json);
}

}  // namespace

const Command kReload{
    "reload",
    "Have the proxy read its configuration again",
    R"(It sends the proxy SIGHUP, waits up to 10 s, and prints what has changed, or the
mistakes in the file. Variables in the file are those of the proxy.

Examples:   sudo mongo-idproxy reload
            mongo-idproxy reload --config proxy.yaml && echo done)",
    {{0, "reloaded"},
     {69, "the proxy does not answer, or its process is not to be seen from here"},
     {77, "it is another user's, or file unreadable"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<ReloadRequest>();
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return at_proxy(options, request, reload);
    }};

}  // namespace idproxy::app::commands
