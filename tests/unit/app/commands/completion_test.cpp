#include "app/commands/completion.hpp"

#include <gtest/gtest.h>

namespace idproxy::app::commands {
namespace completion_test {

using testing::HasSubstr;
using testing::Not;

std::vector<CommandSyntax> commands() {
  return {{"", "the program", {{{"-c", "--config"}, "FILE", "The file"}, {{"--help"}, "", "Help"}}},
          {"status",
           "It's all: [well]",
           {{{"--app"}, "NAME", "Only one's"}, {{"--json"}, "", "JSON"}}}};
}

TEST(Completion, OfBash) {
  const std::string script = bash_completion(commands());
  EXPECT_THAT(script, HasSubstr("    --config|-c) compopt -o filenames"));
  EXPECT_THAT(script, HasSubstr("    --app) return ;;\n"));
  EXPECT_THAT(script, HasSubstr("      status) command="));
  EXPECT_THAT(script, HasSubstr("    '') words='status -c --config --help' ;;\n"));
  EXPECT_THAT(script, HasSubstr("    status) words='--app --json' ;;\n"));
  EXPECT_THAT(script, HasSubstr("complete -F _mongo_idproxy mongo-idproxy\n"));
}

TEST(Completion, OfZsh) {
  const std::string script = zsh_completion(commands());
  EXPECT_THAT(script, HasSubstr("#compdef mongo-idproxy\n"));
  EXPECT_THAT(script, HasSubstr("    'status:It'\\''s all\\: \\[well\\]'\n"));
  EXPECT_THAT(script, HasSubstr("{-c,--config}'[The file]:FILE:_files'"));
  EXPECT_THAT(script, HasSubstr("--app'[Only one'\\''s]:NAME: '"));
  EXPECT_THAT(script, HasSubstr("--json'[JSON]'"));
}

TEST(Completion, OfFish) {
  const std::string script = fish_completion(commands());
  EXPECT_THAT(script, HasSubstr("-n __fish_use_subcommand -a status -d 'It\\'s all: [well]'\n"));
  EXPECT_THAT(script, HasSubstr("-n __fish_use_subcommand -s c -l config -r -F -d 'The file'\n"));
  EXPECT_THAT(script,
              HasSubstr("-n '__fish_seen_subcommand_from status' -l app -x -d 'Only one\\'s'\n"));
  EXPECT_THAT(script, Not(HasSubstr("-a  ")));
}

}  // namespace completion_test
}  // namespace idproxy::app::commands
