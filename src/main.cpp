#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/system/system_error.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "idproxy/app/commands/run.hpp"
#include "idproxy/app/serve/serve.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/threads/threads.hpp"

namespace {

using idproxy::Asked;
using idproxy::Command;
using idproxy::app::CheckWith;
using idproxy::app::ExitCode;

constexpr const char* kUsage =
    "Usage: mongo-idproxy [--config FILE] [--check-config [--connect]]\n"
    "       mongo-idproxy COMMAND [OPTIONS]\n";

constexpr const char* kFooter =
    "Without a command it serves: applications point their connection string at the\n"
    "proxy; inserts get their ids from the rules of the configuration, everything\n"
    "else is relayed unchanged. The configuration is by default that in\n"
    "/etc/mongo-idproxy, or where this is installed. Help: mongo-idproxy COMMAND -h\n"
    "\n"
    "Examples:   mongo-idproxy check --connect --config proxy.yaml\n"
    "            mongo-idproxy --config proxy.yaml\n"
    "\n"
    "Exit codes: 0 done, 64 command line, 69 cannot listen, 70 internal error,\n"
    "            69 with --connect: a server does not answer, or a rule is not ready,\n"
    "            77 file unreadable or port not permitted, 78 configuration\n"
    "Signals:    SIGTERM and SIGINT stop the proxy once requests under way are\n"
    "            answered, a second one and SIGQUIT stop it at once; SIGHUP reloads\n"
    "            the configuration\n";

/// Shows what a command line needs, for which CLI11 shows only "[OPTIONS]".
class Help : public CLI::Formatter {
 public:
  explicit Help(std::string usage) : usage_(std::move(usage)) {}
  [[nodiscard]] std::string make_usage(const CLI::App*, std::string) const override {
    return usage_;
  }

 private:
  const std::string usage_;
};

/// SIGHUP that a process sends means proxies (pkill -HUP mongo-idproxy); a terminal's that it is
/// gone.
void hang_up(int signal, siginfo_t* sent, void* /*context*/) {
  if (sent->si_code != SI_KERNEL) return;
  (void)std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

/// For commands. nohup's is kept.
void outlive_reloads() {
  struct sigaction action{};
  if (::sigaction(SIGHUP, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_sigaction = hang_up;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  (void)::sigaction(SIGHUP, &action, nullptr);
}

/// The program's own options, and each command with its own. Borrows `asked`.
class CommandLine {
 public:
  explicit CommandLine(Asked& asked) : asked_(asked) {
    app_.formatter(std::make_shared<Help>(kUsage));
    app_.footer(kFooter);
    app_.failure_message([this](const CLI::App*, const CLI::Error& error) {
      return "mongo-idproxy: " + message_of(error) + "; see --help\n";
    });
    app_.set_version_flag("-V,--version", idproxy::app::version_text);
    add_own_options();
    app_.require_subcommand(0, 1);
    for (const Command& command : idproxy::commands()) add(command);
    all_.back().options->group("");  // hidden
  }

  /// Throws CLI::ParseError.
  ExitCode run(int argc, char** argv) {
    app_.parse(argc, argv);
    const auto found =
        std::ranges::find_if(all_, [](const Parsed& each) { return each.options->parsed(); });
    const bool has_command = found != all_.end();
    if (has_command && check_config_) throw CLI::ExcludesError("--check-config", "a command");
    const bool needs_config = !has_command || found->command->complete(asked_);
    if (needs_config && asked_.config.empty()) {
      auto file = idproxy::app::commands::default_config_file();
      if (!file) return file.error();
      asked_.config = *std::move(file);
    }
    if (has_command || check_config_) outlive_reloads();
    if (has_command) return found->command->run(asked_, syntax());
    asked_.check.file = asked_.config;
    if (check_config_) return idproxy::app::commands::check_config(asked_.check);
    return idproxy::app::serve::serve(asked_.config, std::string(idproxy::app::version()));
  }

  /// Prints the help, the version or the error.
  [[nodiscard]] ExitCode end(const CLI::ParseError& error) const {
    return app_.exit(error) == 0 ? ExitCode::ok : ExitCode::usage;
  }

 private:
  struct Parsed {
    const Command* command;
    CLI::App* options;
  };

  void add_own_options() {
    add_config(app_, asked_);
    CLI::Option* check = app_.add_flag("--check-config", check_config_,
                                       "Check the configuration, print all errors and\n"
                                       "warnings, and exit");
    app_.add_flag_callback(
            "--connect", [this] { asked_.check.with = CheckWith::servers; },
            "With --check-config: also ask the servers\nwhether each rule is ready")
        ->needs(check)
        ->option_text(" ");
  }

  void add(const Command& command) {
    CLI::App* options = app_.add_subcommand(command.name, command.text);
    options->formatter(std::make_shared<Help>(command.usage));
    options->footer(command.footer);
    command.add_options(*options, asked_);
    all_.push_back({&command, options});
  }

  [[nodiscard]] std::vector<idproxy::app::CommandSyntax> syntax() const {
    std::vector<idproxy::app::CommandSyntax> syntax{idproxy::syntax_of(app_)};
    for (const auto& [command, options] : all_) {
      if (!options->get_group().empty()) syntax.push_back(idproxy::syntax_of(*options));
    }
    return syntax;
  }

  /// With what was probably meant by an argument that nobody knows.
  [[nodiscard]] std::string message_of(const CLI::Error& error) const {
    const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::vector<std::string> unknown = app_.remaining(true);
    if (!is_unknown || unknown.empty()) return error.what();
    const std::string& first = unknown.front();
    const auto parsed = app_.get_subcommands();
    const CLI::App& options = parsed.empty() ? app_ : *parsed.front();
    std::vector<std::string> words;
    if (first.starts_with('-')) {
      for (const auto& option : idproxy::syntax_of(options).options) {
        words.insert(words.end(), option.names.begin(), option.names.end());
      }
    } else if (parsed.empty()) {
      for (const auto& [command, of_command] : all_) words.emplace_back(command->name);
    }
    const std::string what = first.starts_with('-') ? "unknown option "
                             : parsed.empty()       ? "unknown command "
                                                    : "unexpected argument ";
    const std::string name = first.substr(0, first.find('='));
    return what + idproxy::shown(name) +
           idproxy::suggestion(name, std::vector<std::string_view>(words.begin(), words.end()));
  }

  CLI::App app_{"mongo-idproxy: a MongoDB proxy that gives inserted documents their ids"};
  Asked& asked_;
  bool check_config_ = false;
  std::vector<Parsed> all_;
};

ExitCode run(int argc, char** argv) {
  Asked asked;
  CommandLine line(asked);
  try {
    return line.run(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.end(error);
  }
}

/// Says what has ended the process: the system has refused a thread, or what must not happen.
int ended_by(bool is_thread, const std::exception& error) {
  std::cerr << "mongo-idproxy: "
            << (is_thread ? idproxy::threads::kRefused
                          : std::string("internal error: ") + error.what())
            << '\n';
  return static_cast<int>(is_thread ? ExitCode::unavailable : ExitCode::internal);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::system_error& error) {
    return ended_by(error.code() == std::errc::resource_unavailable_try_again, error);
  } catch (const boost::system::system_error& error) {
    return ended_by(error.code() == boost::system::errc::resource_unavailable_try_again, error);
  } catch (const std::exception& error) {
    return ended_by(false, error);
  }
}
