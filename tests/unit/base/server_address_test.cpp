#include "idproxy/base/server_address.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idproxy {
namespace server_address_test {

TEST(ServerAddress, IsAHostAndAPort) {
  for (const std::string& text : std::vector<std::string>{
           "db2:27017", "DB_2.Example-1.com:1", "10.0.0.2:65535", "[::1]:27017",
           "[fe80::1%eth0]:27017", "bücher.example:1", "日本:1", std::string(255, 'h') + ":1"}) {
    EXPECT_TRUE(is_server_address(text)) << text;
  }
}

// A25: what servers that lie name as members.
TEST(ServerAddress, IsNothingElse) {
  for (const std::string& text : std::vector<std::string>{"",
                                                          "x",
                                                          ":",
                                                          "x:",
                                                          ":1",
                                                          "x:0",
                                                          "x:65536",
                                                          "x:99999",
                                                          "x:-1",
                                                          "x:0x",
                                                          "x:+1",
                                                          "x:01",
                                                          "x: 1",
                                                          "x:1 ",
                                                          "[::1",
                                                          "[::1]",
                                                          "[]:1",
                                                          "[:1",
                                                          "::1:27017",
                                                          "x]:1",
                                                          "a b:1",
                                                          "a\n:1",
                                                          "a;b:1",
                                                          "$(x):1",
                                                          "a/b:1",
                                                          "/tmp/x.sock:1",
                                                          "a@b:1",
                                                          "\x1b[31m:1",
                                                          "\xc3:1",
                                                          "x\u200b:1",
                                                          "\u3164:1",
                                                          "ü b:1",
                                                          std::string("x\0:1", 4),
                                                          std::string("x:1\0", 4),
                                                          std::string(256, 'h') + ":1",
                                                          "x:99999999999999999999"}) {
    EXPECT_FALSE(is_server_address(text)) << text;
  }
}

TEST(HostPort, IsSplitAtTheLastColon) {
  const auto split = [](std::string_view text) {
    const auto parts = split_host_port(text);
    return parts ? parts->host + (parts->bracketed ? " in brackets " : " ") +
                       std::to_string(parts->port)
                 : "none";
  };
  EXPECT_EQ(split("db1:27017"), "db1 27017");
  EXPECT_EQ(split("[::1]:0"), "::1 in brackets 0");
  EXPECT_EQ(split("::1:65535"), "::1 65535");
  EXPECT_EQ(split("[]:1"), " in brackets 1");
  for (const char* text : {"", "db1", "db1:", "db1:x", "db1:65536", "db1:-1", "[::1]"}) {
    EXPECT_EQ(split(text), "none") << text;
  }
}

}  // namespace server_address_test
}  // namespace idproxy
