#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "app/commands/command.hpp"
#include "app/commands/status_client.hpp"
#include "app/jobs/stop_signals.hpp"
#include "app/json_view.hpp"
#include "app/views/status_lists.hpp"
#include "app/views/status_text.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

/// What to show of a running proxy; without any of the tables a summary.
struct StatusRequest : AdminOptions {
  bool clients = false;
  bool servers = false;
  bool rules = false;
  std::string application{};  ///< only its clients; empty: all
  bool as_json = false;
  bool goes_on = false;  ///< each second
};

constexpr std::size_t kHeadersEvery = 20;  // lines
constexpr timespec kOneSecond{1, 0};

// Escape sequences of terminals.
constexpr std::string_view kClear = "\x1b[2J\x1b[?7l";  // lines that are too long are cut off
constexpr std::string_view kToTop = "\x1b[H";
constexpr std::string_view kToEndOfLine = "\x1b[K\n";
constexpr std::string_view kToEndOfScreen = "\x1b[J";
constexpr std::string_view kLeave = "\x1b[?7h";

bool has_tables(const StatusRequest& request) {
  return request.clients || request.servers || request.rules;
}

std::string query_of(const StatusRequest& request) {
  std::string query = request.rules ? "?rules=all" : "";
  if (request.application.empty()) return query;
  query += query.empty() ? "?" : "&";
  return query + "clients=app:" + percent_encoded(request.application);
}

std::string text_of(const StatusRequest& request, const StatusDocument& document,
                    const views::Terminal& terminal) {
  const JsonView status = document.view();
  if (request.as_json) return json_line(document.value);
  if (!has_tables(request)) return views::summary_text(status, terminal);
  std::string text;
  const auto add = [&text](const std::string& table) {
    text += (text.empty() ? "" : "\n") + table;
  };
  if (request.servers) add(views::servers_text(status, terminal, views::Detail::full));
  if (request.rules) add(views::rules_text(status, terminal, views::Detail::full));
  if (request.clients) add(views::clients_text(status, terminal, request.application));
  return text;
}

/// The lines of `text` over what the terminal shows, as many as it has room for.
std::string over_screen(std::string_view text, const views::Terminal& terminal) {
  std::string drawn(kToTop);
  for (std::size_t row = 1; row < terminal.rows && !text.empty(); ++row) {
    drawn.append(take_part(text, "\n")).append(kToEndOfLine);
  }
  return drawn.append(kToEndOfScreen);
}

/// Asks each second and shows the answers, until a signal comes or standard output is closed.
class StatusWatch {
 public:
  StatusWatch(const StatusRequest& request, net::Endpoint admin)
      : request_(request), admin_(std::move(admin)) {}

  ExitCode run(const StatusDocument& first) {
    const sigset_t signals = jobs::stop_signal_set();
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    (void)std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error
    const bool is_screen = redraws(views::Terminal::at(STDOUT_FILENO));
    if (is_screen) std::cout << kClear;
    show(first);
    while (std::cout.flush() && ::sigtimedwait(&signals, nullptr, &kOneSecond) < 0) {
      if (auto document = fetch_status(admin_, query_of(request_))) {
        fault_.clear();
        show(*document);
      } else {
        show_fault(document.error().reason);
      }
    }
    if (is_screen) std::cout << kLeave << std::flush;
    return ExitCode::ok;
  }

 private:
  [[nodiscard]] bool redraws(const views::Terminal& terminal) const {
    return terminal.rows > 0 && !request_.as_json;
  }

  void show(const StatusDocument& document) {
    const views::Terminal terminal =
        views::Terminal::at(STDOUT_FILENO);  // its size may have changed
    const bool is_line = !has_tables(request_) && !request_.as_json;
    if (redraws(terminal)) {
      std::cout << over_screen(text_of(request_, document, terminal), terminal);
    } else if (is_line) {
      if (lines_++ % kHeadersEvery == 0) std::cout << views::watch_headers();
      std::cout << views::watch_line(document.view());
    } else {
      std::cout << text_of(request_, document, terminal);
      if (has_tables(request_)) std::cout << '\n';
    }
  }

  /// Once for each reason: the proxy may be restarting.
  void show_fault(const std::string& reason) {
    if (reason == fault_) return;
    fault_ = reason;
    std::cerr << "no answer from the proxy at " << admin_.text() << ": " << printable(reason)
              << '\n'
              << std::flush;
  }

  const StatusRequest& request_;
  const net::Endpoint admin_;
  std::size_t lines_ = 0;
  std::string fault_;  // "": it has answered
};

ExitCode status(const StatusRequest& request) {
  const auto admin = find_admin(request);
  if (!admin) return admin.error();
  const auto document = fetch_status(*admin, query_of(request));
  if (!document) return print_no_answer(*admin, document.error());
  if (request.goes_on) return StatusWatch(request, *admin).run(*document);
  std::cout << text_of(request, *document, views::Terminal::at(STDOUT_FILENO)) << std::flush;
  return views::has_errors(document->view()) ? ExitCode::findings : ExitCode::ok;
}

}  // namespace

const Command kStatus{
    "status",
    "Show servers, rules, clients and what is wrong",
    R"(Without --servers, --rules and --clients it prints a summary, with what is wrong
first. With --watch, where standard output is no terminal, a summary is one line
a second, with figures of that second.

Examples:   mongo-idproxy status --watch
            mongo-idproxy status --clients --app shop --admin 127.0.0.1:27216)",
    {{0, "nothing is wrong, or --watch"},
     {1, "an error is among what is wrong"},
     {69, "the proxy does not answer"},
     {78, "the file does not say where to ask"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<StatusRequest>();
      options.add_flag("--servers", request->servers, "All figures of the servers");
      options.add_flag("--rules", request->rules, "All figures of the rules");
      CLI::Option* clients =
          options.add_flag("--clients", request->clients, "The clients, the busiest first");
      add_value(options, "--app", request->application, "NAME",
                "With --clients: only those of this application")
          ->needs(clients);
      options.add_flag("--watch", request->goes_on, "Go on, each second, until SIGINT");
      options.add_flag("--json", request->as_json, "Print /status.json as it is");
      add_config(options, config);
      return at_proxy(options, request, status);
    }};

}  // namespace idproxy::app::commands
