#include "app/commands/completion.hpp"

#include <fmt/format.h>

#include <boost/algorithm/string/join.hpp>
#include <iostream>
#include <set>
#include <string_view>

#include "idproxy/app/commands/run.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

using boost::algorithm::join;

constexpr std::string_view kFile = "FILE";
constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

/// Of all commands but the program itself.
std::vector<std::string> names_of(const std::vector<CommandSyntax>& commands) {
  std::vector<std::string> names;
  for (const CommandSyntax& command : commands) {
    if (!command.name.empty()) names.push_back(command.name);
  }
  return names;
}

std::string option_names(const CommandSyntax& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return join(names, " ");
}

/// "--rate|--sort", a pattern for `case`: all options with such an argument.
std::string with_argument(const std::vector<CommandSyntax>& commands,
                          bool (*is_such)(std::string_view)) {
  std::set<std::string> found;
  for (const CommandSyntax& command : commands) {
    for (const auto& option : command.options) {
      if (option.argument.empty() || !is_such(option.argument)) continue;
      found.insert(option.names.begin(), option.names.end());
    }
  }
  return join(found, "|");
}

bool is_file(std::string_view argument) {
  return argument == kFile;
}
bool is_other(std::string_view argument) {
  return argument != kFile;
}

/// In single quotes, as all three shells read it: with `escape` for a quote in it.
std::string quoted(std::string_view text, std::string_view escape) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "'";
}

/// A text in the brackets of zsh's _arguments and behind the colon of its _describe.
std::string for_zsh(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// "{-c,--config}'[The YAML configuration]:FILE:_files'".
std::string zsh_option(const CommandSyntax::Option& option) {
  std::string names = join(option.names, ",");
  if (option.names.size() > 1) names = "{" + names + "}";
  std::string what = "[" + for_zsh(option.text) + "]";
  if (!option.argument.empty()) {
    what += ":" + for_zsh(option.argument) + ":" + (is_file(option.argument) ? "_files" : " ");
  }
  return names + quoted(what, "'\\''");
}

/// The options of _arguments, one a line.
std::string zsh_options(const CommandSyntax& command) {
  std::string lines;
  for (const auto& option : command.options) lines += " \\\n        " + zsh_option(option);
  return lines;
}

std::string fish_option(const CommandSyntax& command, const CommandSyntax::Option& option) {
  std::string line = "complete -c mongo-idproxy -n ";
  line += command.name.empty() ? "__fish_use_subcommand"
                               : "'__fish_seen_subcommand_from " + command.name + "'";
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.argument.empty()) line += is_file(option.argument) ? " -r -F" : " -x";
  return line + " -d " + quoted(option.text, "\\'") + '\n';
}

}  // namespace

std::string bash_completion(const std::vector<CommandSyntax>& commands) {
  std::string cases;
  for (const CommandSyntax& command : commands) {
    const std::string words = command.name.empty()
                                  ? join(names_of(commands), " ") + " " + option_names(command)
                                  : option_names(command);
    cases += fmt::format("    {}) words='{}' ;;\n",
                         command.name.empty() ? std::string("''") : command.name, words);
  }
  return fmt::format(R"(# Completes the arguments of mongo-idproxy in bash.
_mongo_idproxy() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command='' words='' i
  COMPREPLY=()
  case $previous in
    {}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    {}) return ;;
  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case $command in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _mongo_idproxy mongo-idproxy
)",
                     with_argument(commands, is_file), with_argument(commands, is_other),
                     join(names_of(commands), "|"), cases);
}

std::string zsh_completion(const std::vector<CommandSyntax>& commands) {
  std::string described;
  std::string cases;
  for (const CommandSyntax& command : commands) {
    if (command.name.empty()) continue;
    described += "    " + quoted(command.name + ":" + for_zsh(command.text), "'\\''") + '\n';
    cases +=
        fmt::format("    {})\n      _arguments{}\n      ;;\n", command.name, zsh_options(command));
  }
  const std::string own = commands.empty() ? "" : zsh_options(commands.front());
  return fmt::format(R"(#compdef mongo-idproxy
# Completes the arguments of mongo-idproxy in zsh.
_mongo_idproxy() {{
  local -a commands
  local state line
  commands=(
{})
  _arguments -C{} \
        '1: :->command' '*:: :->arguments'
  if [[ $state == command ]]; then
    _describe command commands
    return
  fi
  case $line[1] in
{}  esac
}}
_mongo_idproxy "$@"
)",
                     described, own, cases);
}

std::string fish_completion(const std::vector<CommandSyntax>& commands) {
  std::string text =
      "# Completes the arguments of mongo-idproxy in fish.\ncomplete -c mongo-idproxy -f\n";
  for (const CommandSyntax& command : commands) {
    if (!command.name.empty()) {
      text += "complete -c mongo-idproxy -n __fish_use_subcommand -a " + command.name + " -d " +
              quoted(command.text, "\\'") + '\n';
    }
    for (const auto& option : command.options) text += fish_option(command, option);
  }
  return text;
}

ExitCode print_completion(const std::string& shell, const std::vector<CommandSyntax>& commands) {
  if (shell == "bash") {
    std::cout << bash_completion(commands);
  } else if (shell == "zsh") {
    std::cout << zsh_completion(commands);
  } else if (shell == "fish") {
    std::cout << fish_completion(commands);
  } else {
    std::cerr << "mongo-idproxy: completion: must be one of bash, zsh, fish, is '" << shown(shell)
              << "'" << suggestion(shell, kShells) << '\n';
    return ExitCode::usage;
  }
  return ExitCode::ok;
}

}  // namespace idproxy::app::commands
