#pragma once

#include <CLI/CLI.hpp>
#include <boost/system/result.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/jobs/jobs.hpp"
#include "idproxy/app/command_line.hpp"

/// What the commands of the program have in common. Each has a file of its own.
namespace idproxy::app::commands {

/// Carries out a command. `config`: what --config names; empty: it was not given. Throws
/// CLI::ParseError if something is missing: with required() CLI11 would report that instead of an
/// unknown option.
using Run = std::function<ExitCode(const std::string& config)>;

/// What an exit code means.
struct Exit {
  int code;
  const char* text;  ///< empty: the command has no such code
};

/// A command, which an object defines in its own file; run.cpp lists them.
struct Command {
  const char* name;
  const char* text;         ///< one line
  const char* about;        ///< more, and examples
  std::vector<Exit> exits;  ///< those that are not the same for all commands
  const char* signals;      ///< what they do, if anything special
  /// Adds the options, and returns what to do once they are parsed. `config`: for add_config().
  Run (*add)(CLI::App& options, std::string& config);
};

extern const Command kStatus, kWait, kReload, kCheck, kConfig, kDoctor, kBackfill, kVerify,
    kCounters, kIds, kCompletion;

/// The configuration: what --config names, else /etc/mongo-idproxy/mongo-idproxy.yaml, else that of
/// the prefix where this is installed. If there is none, prints that and returns the exit code.
[[nodiscard]] boost::system::result<std::string, ExitCode> config_file(const std::string& named);

/// Adds an option with a value; `argument` stands for the value in the help.
template <class Value>
CLI::Option* add_value(CLI::App& options, const char* name, Value& value, const char* argument,
                       const char* text) {
  return options.add_option(name, value, text)->option_text(argument);
}

/// Adds --config.
void add_config(CLI::App& options, std::string& config);
/// Adds --ns and --field. Borrows `rule`.
void add_rule(CLI::App& options, jobs::RuleOptions& rule, const char* field_text);
/// Throws CLI::RequiredError if they are not both given.
void require(const jobs::RuleOptions& rule);

/// Runs the request with its configuration, once require() has seen it, where the request has one.
template <class Request>
Run on_file(const std::shared_ptr<Request>& request, ExitCode (*run)(const Request&)) {
  return [=](const std::string& config) {
    if constexpr (requires { require(*request); }) require(*request);
    auto file = config_file(config);
    if (!file) return file.error();
    request->file = *std::move(file);
    return run(*request);
  };
}

/// Adds --admin, and runs the request with that, or else with its configuration.
template <class Request>
Run at_proxy(CLI::App& options, const std::shared_ptr<Request>& request,
             ExitCode (*run)(const Request&)) {
  add_value(options, "--admin", request->admin, "HOST:PORT",
            "Where the proxy answers, in place of\nadmin.listen in the configuration");
  return [=](const std::string& config) {
    if (request->admin.empty()) return on_file(request, run)(config);
    request->file = config;
    return run(*request);
  };
}

/// As they are typed: "-c", "--config"; none of what only has a place.
[[nodiscard]] std::vector<std::string> names_of(const CLI::App& options);

}  // namespace idproxy::app::commands
