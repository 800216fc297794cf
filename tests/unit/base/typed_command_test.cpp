#include "idproxy/base/typed_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idproxy {
namespace typed_command_test {

TEST(TypedCommand, QuotesForAShell) {
  EXPECT_EQ(in_shell("/etc/a-b.yaml"), "/etc/a-b.yaml");
  EXPECT_EQ(in_shell("shop.*"), "'shop.*'");
  EXPECT_EQ(in_shell(""), "''");
  EXPECT_EQ(in_shell("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(in_shell("~/a"), "'~/a'");
  EXPECT_EQ(in_shell("日本"), "'日本'");
}

TEST(TypedCommand, IsALine) {
  const Commands commands =
      Commands().shell({"sudoedit", "a b"}).mongosh("db.x()", {"shop", "orders"});
  ASSERT_EQ(commands.all().size(), 2U);
  EXPECT_EQ(commands.all()[0].line(), "sudoedit 'a b'");
  EXPECT_EQ(commands.text(), "sudoedit 'a b' or db.x()");
}

TEST(TypedCommand, IsLeftOutIfItCouldNotBeSeenAsItIs) {
  for (const char* word : {"a\nb", "\x1b[31m", "\xe2\x80\xae", "\xff"}) {
    EXPECT_TRUE(Commands().shell({"cat", word}).empty());
    EXPECT_TRUE(Commands().mongosh("db.x()", {"shop", word}).empty());
  }
  EXPECT_TRUE(Commands().shell({"cat", std::string(5000, 'x')}).empty());
  for (const char* name : {"a\"b", "a'b", "a`b", "a\\b", ""}) {
    EXPECT_TRUE(Commands().mongosh("db.x()", {name}).empty()) << name;
  }
}

TEST(TypedCommand, WordsThatLookLikeOptionsAreNone) {
  EXPECT_EQ(as_path("a.yaml"), "a.yaml");
  EXPECT_EQ(as_path("-x"), "./-x");
  EXPECT_THAT(with_option({"x"}, "--ns", "a.b"), testing::ElementsAre("x", "--ns", "a.b"));
  EXPECT_THAT(with_option({"x"}, "--ns", "-a.b"), testing::ElementsAre("x", "--ns=-a.b"));
}

TEST(TypedCommand, KnowsHosts) {
  for (const char* host : {"db1", "db-1.example.com", "10.0.0.1", "::1", "fe80::1", "a_b"}) {
    EXPECT_TRUE(is_host_name(host)) << host;
  }
  for (const char* host : {"", "-x", "-oProxyCommand=x", "a b", "a;b", "user@a", "a/b", "a:b", "é",
                           "a%eth0", "$(x)", "`x`", "a\n"}) {
    EXPECT_FALSE(is_host_name(host)) << host;
  }
  EXPECT_FALSE(is_host_name(std::string(64, 'x')));
}

TEST(Reason, IsWholeWithItsCommands) {
  EXPECT_EQ((Reason{"no index", "; make it with ", Commands().mongosh("db.x()")}.whole()),
            "no index; make it with db.x()");
  EXPECT_EQ((Reason{"no index", "; make it with ", Commands().mongosh("db.x()", {"'"})}.whole()),
            "no index");
}

}  // namespace typed_command_test
}  // namespace idproxy
