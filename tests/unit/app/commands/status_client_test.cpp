#include "app/commands/status_client.hpp"

#include <gtest/gtest.h>

namespace idproxy::app::commands {
namespace status_client_test {

std::string address_of(const char* text) {
  const auto endpoint = read_admin_option(text);
  return endpoint ? endpoint->text() : "";
}

TEST(AdminOption, IsAHostAndAPort) {
  EXPECT_EQ(address_of("127.0.0.1:27216"), "127.0.0.1:27216");
  EXPECT_EQ(address_of("db.example.org:1"), "db.example.org:1");
  EXPECT_EQ(address_of("[::1]:65535"), "[::1]:65535");
}

TEST(AdminOption, OfAllAddressesIsLoopback) {
  EXPECT_EQ(address_of("0.0.0.0:27216"), "127.0.0.1:27216");
  EXPECT_EQ(address_of("[::]:27216"), "[::1]:27216");
}

TEST(AdminOption, IsNothingElse) {
  for (const char* text : {"", ":", "x", "x:", ":1", "x:0", "x:65536", "x:-1", "x: 1", "x:1x",
                           "::1:5", "[]:1", "127.0.0.1"}) {
    EXPECT_EQ(address_of(text), "") << text;
  }
}

TEST(FetchStatus, SaysWhyThereIsNoAnswer) {
  // Port 1 is reserved, and nothing listens there.
  const auto document = fetch_status({"127.0.0.1", 1, {}});
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().reason, "connect: Connection refused");
}

}  // namespace status_client_test
}  // namespace idproxy::app::commands
