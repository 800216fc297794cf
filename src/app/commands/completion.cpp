#include "app/commands/completion.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

struct Shell {
  std::string_view name;
  const char* script;
};
constexpr Shell kScripts[] = {
    {"bash", R"sh(# Completes the arguments of mongo-idproxy in bash.
_mongo_idproxy() {
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]/#\~/$HOME}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
  [[ ${COMPREPLY[0]-} != FILE ]] && return
  compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -F _mongo_idproxy mongo-idproxy
)sh"},
    {"zsh", R"sh(#compdef mongo-idproxy
# Completes the arguments of mongo-idproxy in zsh.
_mongo_idproxy() {
  local -a found=(${(f)"$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  [[ $found == FILE ]] && { _files; return }
  found=(${${found//:/\\:}//$'\t'/:})
  _describe argument found
}
_mongo_idproxy "$@"
)sh"},
    {"fish", R"sh(# Completes the arguments of mongo-idproxy in fish.
function __mongo_idproxy
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] __complete $words[2..] "$current" 2>/dev/null)
    if test "$found" = FILE
        __fish_complete_path "$current"
    else
        string join -- \n $found
    end
end
complete -c mongo-idproxy -f -a '(__mongo_idproxy)'
)sh"},
};

std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The command that the words name; the program itself if none.
const CLI::App* command_in(const CLI::App* program, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    for (const CLI::App* each : program->get_subcommands({})) {
      if (each->get_name() == word) return each;
    }
  }
  return program;
}

ExitCode print_completion(const std::string& shell) {
  if (shell.empty()) throw CLI::RequiredError("bash, zsh or fish");
  const auto* const script = std::ranges::find(kScripts, shell, &Shell::name);
  if (script != std::end(kScripts)) {
    std::cout << script->script;
    return ExitCode::ok;
  }
  constexpr std::string_view kNames[] = {"bash", "zsh", "fish"};
  return end_with(ExitCode::usage, "completion: must be one of bash, zsh, fish, is '" +
                                       shown(shell) + "'" + suggestion(shell, kNames));
}

}  // namespace

std::string completions(const CLI::App& program, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::vector<std::string> before(words.begin(), words.end() - 1);
  const CLI::App& command = *command_in(&program, before);
  const CLI::Option* last = before.empty() ? nullptr : command.get_option_no_throw(before.back());
  // A blank keeps CLI11 from saying what a flag needs or excludes.
  const std::string argument = last != nullptr ? last->get_option_text() : "";
  if (!argument.empty() && argument != " ") return argument == "FILE" ? "FILE\n" : "";
  std::string found;
  const auto offer = [&](const std::string& word, const std::string& text) {
    if (word.starts_with(words.back())) found += word + '\t' + in_one_line(text) + '\n';
  };
  for (const CLI::App* each : command.get_subcommands({})) {
    if (!each->get_group().empty()) offer(each->get_name(), each->get_description());
  }
  for (const std::string& name : names_of(command)) {
    offer(name, command.get_option_no_throw(name)->get_description());
  }
  return found;
}

const Command kCompletion{
    "completion",
    "Print a script for a shell",
    R"(Prints a script that completes commands and options. An installation has them
where the shells look for them.

Examples:   source <(mongo-idproxy completion bash)
            mongo-idproxy completion fish | source)",
    {{0, "printed"}, {77, ""}, {78, ""}},
    nullptr,
    [](CLI::App& options, std::string& /*config*/) -> Run {
      const auto shell = std::make_shared<std::string>();
      add_value(options, "shell", *shell, "bash|zsh|fish", "For which shell")->required();
      return [shell](const std::string& /*config*/) { return print_completion(*shell); };
    }};

}  // namespace idproxy::app::commands
