#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// Completion of the command line in shells: their scripts ask this program.
namespace idproxy::app::commands {

/// What the last of `words`, which are typed behind the program's name, may become: one a line,
/// with its description behind a tab; or "FILE": the name of any file.
[[nodiscard]] std::string completions(const CLI::App& program,
                                      const std::vector<std::string>& words);

}  // namespace idproxy::app::commands
