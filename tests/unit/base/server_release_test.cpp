#include "idproxy/base/server_release.hpp"

#include <gtest/gtest.h>

namespace idproxy::server_release {
namespace server_release_test {

TEST(ServerRelease, HasASeries) {
  EXPECT_EQ(series_of("6.0.27"), "6.0");
  EXPECT_EQ(series_of("8.0.0-rc1"), "8.0");
  EXPECT_EQ(series_of("4.4"), "4.4");
  EXPECT_EQ(version_in("10.12.3-alpha-5-g0123abc"), "10.12.3-alpha-5-g0123abc");
}

// A25: what a server says of its version.
TEST(ServerRelease, IsAVersion) {
  for (const std::string& said :
       {std::string(), std::string("6"), std::string("6."), std::string(".0"), std::string("six.0"),
        std::string("6.x"), std::string("-6.0"), std::string("6.0\n"), std::string("6.0 "),
        std::string("6.0\x1b[31m"), std::string("6.0;id"), std::string("6.0\0x", 5),
        std::string("99999999999999999999.0"), std::string("6.99999999999999999999"),
        "6.0." + std::string(40, '1')}) {
    EXPECT_EQ(version_in(said), "") << said;
  }
}

}  // namespace server_release_test
}  // namespace idproxy::server_release
