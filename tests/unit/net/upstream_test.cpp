#include "net/upstream.hpp"

#include <gtest/gtest.h>

namespace idproxy::net {
namespace {

using rewrite::Logins;

class UpstreamTest : public ::testing::Test {
 protected:
  Upstream server{Route{.listen = {}, .upstream = {.host = "db1", .port = 27017, .unix_path = {}}}};
};

TEST_F(UpstreamTest, KeepsWhatItSaidOfLoginsWhenItSaysNothing) {
  EXPECT_EQ(server.logins, Logins::unknown);
  server.now_has(Logins::enforced);
  server.now_has(Logins::unknown);
  EXPECT_EQ(server.logins, Logins::enforced);
  server.now_has(Logins::not_enforced);
  EXPECT_EQ(server.logins, Logins::not_enforced);
}

/// A client can make it break a connection.
TEST_F(UpstreamTest, IsWhatItWasAfterABrokenConnection) {
  server.now_has(Logins::not_enforced);
  server.may_be_new();
  EXPECT_TRUE(server.may_be_another);
  EXPECT_EQ(server.logins, Logins::not_enforced);
}

}  // namespace
}  // namespace idproxy::net
