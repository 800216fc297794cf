#include "idproxy/app/commands/run.hpp"

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "app/commands/command.hpp"
#include "app/commands/completion.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

/// In the order of the help.
constexpr const Command* kCommands[] = {&kStatus, &kWait,     &kReload, &kCheck,    &kConfig,
                                        &kDoctor, &kBackfill, &kVerify, &kCounters, &kIds};

constexpr const char* kAbout =
    R"(Without a command it serves: applications point their connection string at the
proxy; inserts get their ids from the rules of the configuration, everything
else is relayed unchanged. The configuration is by default that in
/etc/mongo-idproxy, or where this is installed. Help: mongo-idproxy COMMAND -h

Examples:   mongo-idproxy check --connect --config proxy.yaml
            mongo-idproxy --config proxy.yaml)";

constexpr const char* kSignals =
    "SIGTERM and SIGINT stop the proxy once requests under way are answered, a second one and "
    "SIGQUIT stop it at once; SIGHUP reloads the configuration";

const std::vector<Exit> kExits{
    {0, "done"},
    {69, "cannot listen; with --connect: no server answers, or a rule is not ready"},
    {77, "file unreadable or port not permitted"}};

/// What they mean unless a command says otherwise.
constexpr Exit kUsualExits[] = {
    {64, "command line"}, {70, "internal error"}, {77, "file unreadable"}, {78, "configuration"}};

constexpr std::size_t kWidth = 80;
constexpr const char* kNoBreak = "\u00a0";

/// "--app NAME", and "[--app NAME]" for what may be left out; what needs it, within.
std::string shown_in_usage(const CLI::App& options, const CLI::Option& option) {
  std::string text = option.get_option_text();
  if (option.get_positional()) {
    if (text.empty()) text = option.get_name();
  } else {
    const auto& names = option.get_lnames();
    text = (names.empty() ? "-" + option.get_snames().front() : "--" + names.front()) +
           (text.empty() || text == " " ? "" : " " + text);
  }
  for (const CLI::Option* each : option.get_excludes()) text += " | --" + each->get_lnames()[0];
  for (const CLI::Option* each : options.get_options()) {
    const bool needs_it = std::ranges::any_of(
        each->get_needs(), [&](const CLI::Option* other) { return other == &option; });
    if (needs_it) text += " " + shown_in_usage(options, *each);
  }
  return option.get_required() ? text : "[" + text + "]";
}

/// Its options as they are typed, those that must be given first. CLI11 would show "[OPTIONS]".
std::vector<std::string> parts_of_usage(const CLI::App& options) {
  std::vector<std::string> required;
  std::vector<std::string> others;
  std::set<const CLI::Option*> shown{options.get_help_ptr(), options.get_version_ptr()};
  for (const CLI::Option* each : options.get_options()) {
    if (!each->get_needs().empty() || !shown.insert(each).second) continue;
    const std::set<CLI::Option*> others_than_it = each->get_excludes();
    shown.insert(others_than_it.begin(), others_than_it.end());
    (each->get_required() ? required : others).push_back(shown_in_usage(options, *each));
  }
  required.insert(required.end(), others.begin(), others.end());
  return required;
}

std::string usage_of(const CLI::App& options) {
  const CLI::App* program = options.get_parent();
  std::string text = "Usage: mongo-idproxy";
  if (program != nullptr) text += " " + options.get_name();
  const std::size_t indent = text.size();
  std::size_t column = indent;
  for (const std::string& part : parts_of_usage(options)) {
    if (column + 1 + part.size() > kWidth) {
      text += '\n' + std::string(indent, ' ');
      column = indent;
    }
    text += ' ' + part;
    column += 1 + part.size();
  }
  return program != nullptr ? text : text + "\n       mongo-idproxy COMMAND [OPTIONS]";
}

std::string exits_text(const std::vector<Exit>& own) {
  std::map<int, std::string> all;
  for (const Exit& each : own) all.emplace(each.code, each.text);
  for (const Exit& each : kUsualExits) all.emplace(each.code, each.text);
  std::string text;
  for (const auto& [code, meaning] : all) {
    if (meaning.empty()) continue;
    text += (text.empty() ? "" : "; ") + std::to_string(code) + kNoBreak + meaning;
  }
  return text;
}

/// The part behind the options.
std::string footer_of(const char* about, const std::vector<Exit>& exits, const char* signals) {
  constexpr std::size_t kIndent = 12;
  const views::Terminal page{.columns = kWidth};
  std::string text = std::string(about) + "\n\n";
  text += page.wrapped("Exit codes: ", exits_text(exits), kIndent);
  boost::algorithm::replace_all(text, kNoBreak, " ");
  if (signals != nullptr) text += page.wrapped("Signals:    ", signals, kIndent);
  text.pop_back();  // CLI11 ends the last line
  return text;
}

/// Has its help be of its own options. CLI11 would report one that is missing in place of one that
/// is unknown, so that commands look themselves.
void describe(CLI::App& options, const char* about, const std::vector<Exit>& exits,
              const char* signals) {
  struct Help : CLI::Formatter {
    explicit Help(std::string its) : usage(std::move(its)) {}
    [[nodiscard]] std::string make_usage(const CLI::App*, std::string) const override {
      return usage + '\n';
    }
    std::string usage;
  };
  options.formatter(std::make_shared<Help>(usage_of(options)));
  // Once it is shown: what measures it has the C library load a locale.
  options.footer([=, &exits] { return footer_of(about, exits, signals); });
  for (CLI::Option* each : options.get_options({})) each->required(false);
}

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
    app_.failure_message([this](const CLI::App*, const CLI::Error& error) {
      return "mongo-idproxy: " + message_of(error) + "; see --help\n";
    });
    app_.set_version_flag("-V,--version", version_text);
    add_own_options();
    describe(app_, kAbout, kExits, kSignals);
    app_.require_subcommand(0, 1);
    app_.parse_complete_callback([this] {  // before those of the command
      if (checks_ && !app_.get_subcommands().empty()) {
        throw CLI::ExcludesError("--check-config", "a command");
      }
    });
    for (const Command* command : kCommands) add(*command);
    add(kCompletion)->group("");  // hidden
  }

  /// Returns nothing if the proxy is to serve; config() says with what. Throws CLI::ParseError.
  std::optional<ExitCode> run(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "__complete") {
      std::cout << completions(app_, {argv + 2, argv + argc});
      return ExitCode::ok;
    }
    app_.parse(argc, argv);
    if (!checks_) return code_;
    outlive_reloads();
    CLI::App check;
    const Run run = kCheck.add(check, config_);
    check.parse(connects_ ? "--connect" : "");
    return run(config_);
  }

  [[nodiscard]] const std::string& config() const { return config_; }

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
    Run run = command.add(*options, config_);
    describe(*options, command.about, command.exits, command.signals);
    options->final_callback([this, run = std::move(run)] {
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
  std::string config;
  {
    CommandLine line;  // takes memory, which the proxy has for other things
    try {
      if (const auto code = line.run(argc, argv)) return *code;
    } catch (const CLI::ParseError& error) {
      return line.end(error);
    }
    config = line.config();
  }
  const auto file = config_file(config);
  return file ? serve(*file) : file.error();
}

}  // namespace idproxy::app::commands
