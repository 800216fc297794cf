#pragma once

#include <string>
#include <vector>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::commands {

/// Scripts by which a shell completes commands and options. The first of `commands` is the program
/// itself. A value is completed only if its argument is a FILE.
[[nodiscard]] std::string bash_completion(const std::vector<CommandSyntax>& commands);
[[nodiscard]] std::string zsh_completion(const std::vector<CommandSyntax>& commands);
[[nodiscard]] std::string fish_completion(const std::vector<CommandSyntax>& commands);

}  // namespace idproxy::app::commands
