#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <iostream>
#include <thread>

#include "app/commands/command.hpp"
#include "app/commands/status_client.hpp"
#include "app/json_view.hpp"
#include "app/views/wait_reason.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"

namespace idproxy::app::commands {
namespace {

struct WaitRequest : AdminOptions {
  std::chrono::milliseconds most{30'000};
  bool as_json = false;
};

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskEvery = 250ms;
constexpr std::chrono::milliseconds kLeastTime = 100ms;  // for one answer, at the end of the wait

/// Why the proxy is not ready, or "".
std::string ask(const net::Endpoint& admin, SteadyClock::time_point until) {
  FetchLimits limits;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
  limits.time = std::clamp(left, kLeastTime, limits.time);
  const auto document = fetch_status(admin, "?rules=failing", limits);
  if (document) return views::why_not_ready(document->view());
  return "no answer at " + admin.text() + ": " + document.error().reason;
}

ExitCode wait(const WaitRequest& request) {
  const auto admin = find_admin(request);
  if (!admin) return admin.error();
  const auto begun = SteadyClock::now();
  const auto until = begun + request.most;
  const auto print_json = [&](const std::string& reason) {
    const std::chrono::duration<double> waited = SteadyClock::now() - begun;
    std::cout << json_line(boost::json::object{{"ready", reason.empty()},
                                               {"admin", admin->text()},
                                               {"reason", text_or_null(reason)},
                                               {"waited", waited.count()}});
  };
  std::string said;
  while (true) {
    const std::string reason = printable(ask(*admin, until));
    const bool is_over = reason.empty() || SteadyClock::now() + kAskEvery >= until;
    if (is_over && request.as_json) print_json(reason);
    if (reason.empty()) {
      if (!request.as_json) std::cout << "the proxy at " << admin->text() << " is ready\n";
      return ExitCode::ok;
    }
    if (is_over) {
      std::cerr << "mongo-idproxy: not ready after " << duration_text(request.most) << ": "
                << reason << '\n';
      return ExitCode::unavailable;
    }
    if (reason != said) std::cerr << "waiting: " << reason << '\n' << std::flush;
    said = reason;
    std::this_thread::sleep_for(kAskEvery);
  }
}

}  // namespace

const Command kWait{
    "wait",
    "Wait until the proxy is ready",
    R"(A proxy is ready once it serves, and each rule without wildcards gives values.
Standard error says what it waits for.

Examples:   mongo-idproxy wait && ./start-the-application
            mongo-idproxy wait --max 2m --admin 127.0.0.1:27216)",
    {{0, "it is ready"},
     {69, "it was not within --max"},
     {78, "the file does not say where to ask"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<WaitRequest>();
      const auto read = [request](const std::string& text) {
        const auto most = read_duration(text);
        if (most.reading != Reading::ok || most.value.count() < 0) {
          throw CLI::ValidationError("--max", "must be a duration such as 30s or 2m");
        }
        request->most = most.value;
      };
      options.add_option_function<std::string>("--max", read, "How long to wait; 30s if not given")
          ->option_text("DURATION");
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return at_proxy(options, request, wait);
    }};

}  // namespace idproxy::app::commands
