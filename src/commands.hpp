#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/app/command_line.hpp"

/// The commands of the program: their options, their help, and what they do.
namespace idproxy {

/// What a command line asks for. The options of each command fill in their part.
struct Asked {
  std::string config;  ///< --config, of the program and of each command; empty: not given
  app::CheckRequest check;
  app::DoctorRequest doctor;
  app::BackfillRequest backfill;
  app::VerifyRequest verify;
  app::StatusRequest status;
  app::WaitRequest wait;
  app::ReloadRequest reload;
  app::ConfigRequest show_config;
  std::string admin;  ///< --admin
  std::string shell;
  app::CountersRequest counters;
  std::string counters_action;
  std::optional<std::int64_t> counter_value;
  app::IdsRequest ids;
};

struct Command {
  const char* name;
  const char* text;    ///< one line
  const char* usage;   ///< CLI11 would show "[OPTIONS]"
  const char* footer;  ///< of its help
  void (*add_options)(CLI::App& options, Asked& asked);
  /// Throws CLI::RequiredError if something is missing; with required() CLI11 would report that
  /// instead of an unknown option. True: run() needs asked.config, given or not.
  bool (*complete)(const Asked& asked);
  app::ExitCode (*run)(Asked& asked, const std::vector<app::CommandSyntax>& all);
};

/// In the order of the help; the last one is not in it.
[[nodiscard]] std::span<const Command> commands();

/// Adds an option with a value; `argument` stands for the value in the help.
template <class Value>
CLI::Option* add_value(CLI::App& options, const char* name, Value& value, const char* argument,
                       const char* text) {
  return options.add_option(name, value, text)->option_text(argument);
}

/// Adds --config.
CLI::Option* add_config(CLI::App& options, Asked& asked);

/// How `options` looks to a shell.
[[nodiscard]] app::CommandSyntax syntax_of(const CLI::App& options);

}  // namespace idproxy
