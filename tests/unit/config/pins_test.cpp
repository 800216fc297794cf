#include "config/pins.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace pins_test {

using testing::ElementsAre;
using testing::IsEmpty;

net::Endpoint server(const std::string& host, std::uint16_t port) {
  return {host, port, ""};
}

TEST(Pins, BelongToServersByNameOrAddress) {
  Mapping m("{'DB2.Internal:27017': 1, '[0:0::1]:2': 3, '10.0.0.1:4': 5}");
  const auto pins = read_pins(m.reader);
  EXPECT_THAT(m.found(), IsEmpty());
  ASSERT_EQ(pins.size(), 3U);
  EXPECT_EQ(pins[0].key, "DB2.Internal:27017");
  EXPECT_EQ(pins[0].server.text(), "db2.internal:27017");
  EXPECT_EQ(pin_of(server("db2.internal", 27017), pins), &pins[0]);
  EXPECT_EQ(pin_of(server("::1", 2), pins), &pins[1]);
  EXPECT_EQ(pin_of(server("10.0.0.1", 4), pins), &pins[2]);
  EXPECT_EQ(pin_of(server("10.0.0.1", 5), pins), nullptr);
  EXPECT_EQ(pin_of(server("db2", 27017), pins), nullptr);
  EXPECT_EQ(pin_of({"", 0, "/run/m.sock"}, pins), nullptr);
}

TEST(Pins, MustNameServers) {
  for (const char* key :
       {"db1", "db1:", ":1", "db1:0", "db1:65536", "db1:x", "a b:1", "a/b:1", "bob@db1:1", "a,b:1",
        "::1:1", "[::1]", "[db1]:1", "[127.0.0.1]:1", "[::g]:1", "db1:1:1"}) {
    Mapping m("'" + std::string(key) + "': 5");
    EXPECT_THAT(read_pins(m.reader), IsEmpty()) << key;
    EXPECT_THAT(m.found(), ElementsAre("1:1: error: " + std::string(key) +
                                       ": must name a server as host:port, IPv6 as [::1]:27017"));
  }
}

TEST(Pins, DifferFromEachOther) {
  Mapping m("db1:1: 5\ndb2:1: 5\nDB1:1: 6\n'[::1]:1': 7\n'[0::1]:1': 8\n");
  (void)read_pins(m.reader);
  EXPECT_THAT(m.found(), ElementsAre("2:1: error: db2:1: port 5 is pinned twice",
                                     "3:1: error: DB1:1: is the same server as db1:1",
                                     "5:1: error: [0::1]:1: is the same server as [::1]:1"));
}

}  // namespace pins_test
}  // namespace idproxy::config
