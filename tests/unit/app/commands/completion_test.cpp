#include "app/commands/completion.hpp"

#include <gtest/gtest.h>

#include <string>

namespace idproxy::app::commands {
namespace completion_test {

class Completion : public testing::Test {
 protected:
  Completion() {
    program_.add_option("-c,--config", value_, "The\nfile")->option_text("FILE");
    CLI::App* status = program_.add_subcommand("status", "It's all: [well]");
    status->add_option("--app", value_, "Only one's")->option_text("NAME");
    status->add_option("-c,--config", value_, "The file")->option_text("FILE");
    status->add_flag("--json", is_json_, "JSON")->option_text(" ");
    status->add_option("action", value_, "list or get")->option_text("");
    program_.add_subcommand("script", "For shells")->group("");
  }

  CLI::App program_;
  std::string value_;
  bool is_json_ = false;
};

TEST_F(Completion, NamesCommandsAndOptions) {
  EXPECT_EQ(completions(program_, {"s"}), "status\tIt's all: [well]\n");
  EXPECT_EQ(completions(program_, {"--c"}), "--config\tThe file\n");
  const std::string all = completions(program_, {""});
  for (const char* each : {"status\t", "-c\tThe file\n", "--config\t", "--help\t"}) {
    EXPECT_THAT(all, testing::HasSubstr(each));
  }
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("script")));
  EXPECT_EQ(completions(program_, {}), "");
}

TEST_F(Completion, NamesTheOptionsOfACommand) {
  EXPECT_EQ(completions(program_, {"-c", "f", "status", "--j"}), "--json\tJSON\n");
  EXPECT_EQ(completions(program_, {"status", "--json", "--a"}), "--app\tOnly one's\n");
  EXPECT_EQ(completions(program_, {"status", "st"}), "");
  EXPECT_EQ(completions(program_, {"status", "action", "--j"}), "--json\tJSON\n");
}

TEST_F(Completion, LeavesFilesToTheShellAndValuesToPeople) {
  EXPECT_EQ(completions(program_, {"--config", ""}), "FILE\n");
  EXPECT_EQ(completions(program_, {"status", "-c", "some"}), "FILE\n");
  EXPECT_EQ(completions(program_, {"status", "--app", ""}), "");
}

}  // namespace completion_test
}  // namespace idproxy::app::commands
