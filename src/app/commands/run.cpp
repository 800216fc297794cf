#include "idproxy/app/commands/run.hpp"

#include <csignal>
#include <iostream>
#include <optional>
#include <string_view>

#include "app/commands/command.hpp"
#include "app/commands/completion.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

/// In the order of the help.
constexpr const Command* kCommands[] = {&kStatus, &kWait,     &kReload, &kCheck,    &kConfig,
                                        &kDoctor, &kBackfill, &kVerify, &kCounters, &kIds};

constexpr const char* kUsage =
    R"(Usage: mongo-idproxy [--config FILE] [--check-config [--connect]]
       mongo-idproxy COMMAND [OPTIONS])";

constexpr const char* kFooter =
    R"(Without a command it serves: applications point their connection string at the
proxy; inserts get their ids from the rules of the configuration, everything
else is relayed unchanged. The configuration is by default that in
/etc/mongo-idproxy, or where this is installed. Help: mongo-idproxy COMMAND -h

Examples:   mongo-idproxy check --connect --config proxy.yaml
            mongo-idproxy --config proxy.yaml

Exit codes: 0 done, 64 command line, 69 cannot listen, 70 internal error,
            69 with --connect: a server does not answer, or a rule is not ready,
            77 file unreadable or port not permitted, 78 configuration
Signals:    SIGTERM and SIGINT stop the proxy once requests under way are
            answered, a second one and SIGQUIT stop it at once; SIGHUP reloads
            the configuration)";

/// Shows what a command line needs, for which CLI11 shows only "[OPTIONS]".
struct Help : CLI::Formatter {
  explicit Help(const char* its) : usage(its) {}
  [[nodiscard]] std::string make_usage(const CLI::App*, std::string) const override {
    return std::string(usage) + '\n';
  }
  const char* usage;
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

/// The program's own options, and each command with its own.
class CommandLine {
 public:
  CommandLine() {
    app_.formatter(std::make_shared<Help>(kUsage));
    app_.footer(std::string(kFooter) + '\n');
    app_.failure_message([this](const CLI::App*, const CLI::Error& error) {
      return "mongo-idproxy: " + message_of(error) + "; see --help\n";
    });
    app_.set_version_flag("-V,--version", version_text);
    add_own_options();
    app_.require_subcommand(0, 1);
    app_.parse_complete_callback([this] {  // before those of the command
      if (checks_ && !app_.get_subcommands().empty()) {
        throw CLI::ExcludesError("--check-config", "a command");
      }
    });
    for (const Command* command : kCommands) add(*command);
    add(kCompletion)->group("");  // hidden
  }

  /// Throws CLI::ParseError.
  ExitCode run(int argc, char** argv, Serve serve) {
    if (argc > 1 && std::string_view(argv[1]) == "__complete") {
      std::cout << completions(app_, {argv + 2, argv + argc});
      return ExitCode::ok;
    }
    app_.parse(argc, argv);
    if (code_) return *code_;
    if (checks_) {
      outlive_reloads();
      CLI::App check;
      const Run run = kCheck.add(check, config_);
      check.parse(connects_ ? "--connect" : "");
      return run(config_);
    }
    const auto file = config_file(config_);
    return file ? serve(*file) : file.error();
  }

  /// Prints the help, the version or the error.
  [[nodiscard]] ExitCode end(const CLI::ParseError& error) const {
    return app_.exit(error) == 0 ? ExitCode::ok : ExitCode::usage;
  }

 private:
  void add_own_options() {
    add_config(app_, config_);
    CLI::Option* check = app_.add_flag("--check-config", checks_,
                                       "Check the configuration, print all errors and\n"
                                       "warnings, and exit");
    app_.add_flag("--connect", connects_,
                  "With --check-config: also ask the servers\nwhether each rule is ready")
        ->needs(check)
        ->option_text(" ");
  }

  CLI::App* add(const Command& command) {
    CLI::App* options = app_.add_subcommand(command.name, command.text);
    options->formatter(std::make_shared<Help>(command.usage));
    options->footer(std::string(command.footer) + '\n');
    options->final_callback([this, run = command.add(*options, config_)] {
      outlive_reloads();
      code_ = run(config_);
    });
    return options;
  }

  /// With what was probably meant by an argument that nobody knows.
  [[nodiscard]] std::string message_of(const CLI::Error& error) const {
    const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::vector<std::string> unknown = app_.remaining(true);
    if (!is_unknown || unknown.empty()) return error.what();
    const std::string& first = unknown.front();
    const auto parsed = app_.get_subcommands();
    const bool is_option = first.starts_with('-');
    std::vector<std::string> words;
    if (is_option) {
      words = names_of(parsed.empty() ? app_ : *parsed.front());
    } else if (parsed.empty()) {
      for (const CLI::App* each : app_.get_subcommands({})) words.push_back(each->get_name());
    }
    const std::string what = is_option        ? "unknown option "
                             : parsed.empty() ? "unknown command "
                                              : "unexpected argument ";
    const std::string name = first.substr(0, first.find('='));
    return what + shown(name) +
           suggestion(name, std::vector<std::string_view>(words.begin(), words.end()));
  }

  CLI::App app_{"mongo-idproxy: a MongoDB proxy that gives inserted documents their ids"};
  std::string config_;
  bool checks_ = false;
  bool connects_ = false;
  std::optional<ExitCode> code_;  // of a command
};

}  // namespace

ExitCode run(int argc, char** argv, Serve serve) {
  CommandLine line;
  try {
    return line.run(argc, argv, serve);
  } catch (const CLI::ParseError& error) {
    return line.end(error);
  }
}

}  // namespace idproxy::app::commands
