#include "idproxy/net/options.hpp"

#include <gtest/gtest.h>

namespace idproxy::net {
namespace options_test {

TEST(Endpoint, HasOneKeyForAllSpellings) {
  EXPECT_EQ((Endpoint{"DB1.Internal", 27017, {}}.key()), "db1.internal:27017");
  EXPECT_EQ((Endpoint{"10.0.0.1", 1, {}}.key()), "10.0.0.1:1");
  for (const char* host : {"::1", "0:0:0:0:0:0:0:1", "0000::0001"}) {
    EXPECT_EQ((Endpoint{host, 27017, {}}.key()), "[::1]:27017");
  }
  EXPECT_EQ((Endpoint{"2001:DB8::A", 1, {}}.key()), "[2001:db8::a]:1");
  EXPECT_EQ((Endpoint{"fe80::1%eth0", 1, {}}.key()), "[fe80::1%eth0]:1");
  EXPECT_EQ((Endpoint{"", 0, "/run/x.sock"}.key()), "unix:/run/x.sock");
}

}  // namespace options_test
}  // namespace idproxy::net
