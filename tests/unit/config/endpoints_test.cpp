#include "config/endpoints.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace endpoints_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Each as "LISTEN -> UPSTREAM".
std::vector<std::string> routes_of(const std::string& text) {
  const Loaded loaded = load(text + "\nrules: [{ns: a.b, field: c, strategy: objectid}]\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty()) << text;
  std::vector<std::string> routes;
  routes.reserve(loaded.config.net.routes.size());
  for (const net::Route& route : loaded.config.net.routes) {
    routes.push_back(route.listen.text() + " -> " + route.upstream.text());
  }
  return routes;
}

TEST(Endpoints, ShowThemselvesAsPeopleWriteThem) {
  EXPECT_EQ((net::Endpoint{"127.0.0.1", 27017, ""}.text()), "127.0.0.1:27017");
  EXPECT_EQ((net::Endpoint{"::1", 27017, ""}.text()), "[::1]:27017");
  EXPECT_EQ((net::Endpoint{"", 0, "/tmp/m.sock"}.text()), "unix:/tmp/m.sock");
}

TEST(Endpoints, GiveEachServerItsListener) {
  EXPECT_THAT(routes_of(""), ElementsAre("127.0.0.1:27117 -> 127.0.0.1:27017"));
  EXPECT_THAT(routes_of("upstream: {uri: 'mongodb://h2,h1:9/?replicaSet=rs'}"),
              ElementsAre("127.0.0.1:27117 -> h2:27017", "127.0.0.1:27118 -> h1:9"));
  EXPECT_THAT(routes_of("listen: {address: '::1', port: 5}\nupstream: {uri: 'mongodb://h'}"),
              ElementsAre("[::1]:5 -> h:27017"));
  EXPECT_THAT(routes_of("listen: {port: 0}\nupstream: {uri: 'mongodb://h1,h2'}"),
              ElementsAre("127.0.0.1:0 -> h1:27017", "127.0.0.1:0 -> h2:27017"));
  EXPECT_THAT(routes_of("listen: {port: 65534}\nupstream: {uri: 'mongodb://h1,h2'}"),
              ElementsAre("127.0.0.1:65534 -> h1:27017", "127.0.0.1:65535 -> h2:27017"));
  EXPECT_THAT(routes_of("listen: {address: 'unix:/run/p.sock'}"),
              ElementsAre("unix:/run/p.sock -> 127.0.0.1:27017"));
  EXPECT_THAT(routes_of("upstream: {uri: 'mongodb://%2Frun%2Fmongodb.sock'}"),
              ElementsAre("127.0.0.1:27117 -> unix:/run/mongodb.sock"));
  EXPECT_THAT(routes_of("upstream: {uri: 'mongodb://h/?directConnection=true'}"),
              ElementsAre("127.0.0.1:27117 -> h:27017"));
}

TEST(Endpoints, ArePinned) {
  const std::string uri = "\nupstream: {uri: 'mongodb://h0,H1,[::1]:5,h3'}";
  EXPECT_THAT(routes_of("listen: {members: {'H1:27017': 9, '[0:0::1]:5': 8, 'other:1': 7}}" + uri),
              ElementsAre("127.0.0.1:27117 -> h0:27017", "127.0.0.1:9 -> h1:27017",
                          "127.0.0.1:8 -> [::1]:5", "127.0.0.1:27120 -> h3:27017"));
  EXPECT_THAT(routes_of("listen: {port: 0, members: {'h1:27017': 9}}" + uri),
              ElementsAre("127.0.0.1:0 -> h0:27017", "127.0.0.1:9 -> h1:27017",
                          "127.0.0.1:0 -> [::1]:5", "127.0.0.1:0 -> h3:27017"));
  // The last one has no port of its own but the pinned one.
  EXPECT_THAT(routes_of("listen: {port: 65535, members: {'h1:27017': 9}}\n"
                        "upstream: {uri: 'mongodb://h0,h1'}"),
              ElementsAre("127.0.0.1:65535 -> h0:27017", "127.0.0.1:9 -> h1:27017"));
}

net::Options net_of(const std::string& text) {
  const Loaded loaded = load(text + "\nrules: [{ns: a.b, field: c, strategy: objectid}]\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty()) << text;
  return loaded.config.net;
}

TEST(Endpoints, SayWhatClientsAreTold) {
  const net::Options plain = net_of("");
  EXPECT_TRUE(plain.map_members);
  EXPECT_EQ(plain.advertise, "");
  EXPECT_EQ(plain.replica_set, "");
  EXPECT_TRUE(plain.pins.empty());
  const net::Options told = net_of(
      "listen: {address: 0.0.0.0, advertise: Proxy.example.org, members: {'DB9:1': 9, '[::1]:2': "
      "8}}\nupstream: {uri: 'mongodb://h/?replicaSet=rs0'}");
  EXPECT_EQ(told.advertise, "Proxy.example.org");
  EXPECT_EQ(told.replica_set, "rs0");
  EXPECT_THAT(told.pins, ElementsAre(testing::Pair("[::1]:2", 8), testing::Pair("db9:1", 9)));
  EXPECT_EQ(net_of("listen: {address: '::', advertise: '2001:db8::1'}").advertise, "2001:db8::1");
  EXPECT_FALSE(net_of("listen: {address: 0.0.0.0}\n"
                      "upstream: {uri: 'mongodb://h/?directConnection=true'}")
                   .map_members);
}

TEST(Endpoints, LeaveTheNextPortToFurtherMembers) {
  const std::string two = "\nupstream: {uri: 'mongodb://h1,h2'}";
  EXPECT_EQ(net_of("").next_port, 27118);
  EXPECT_EQ(net_of("listen: {members: {'h2:27017': 5}}" + two).next_port, 27119);
  EXPECT_EQ(net_of("listen: {port: 0}" + two).next_port, 0);
  EXPECT_EQ(net_of("listen: {port: 65534}" + two).next_port, 65535);
  EXPECT_EQ(net_of("listen: {address: 'unix:/run/p.sock'}").next_port, 0);
}

TEST(Endpoints, WarnOfWhatHasNoEffect) {
  const std::string more = "\n  advertise: h\n  members:\n    x:1: 2\n    y:1: 3\n";
  const auto unix_socket = load("listen:\n  address: unix:/run/p.sock" + more);
  EXPECT_THAT(texts_of(unix_socket.findings),
              ElementsAre(testing::_,
                          testing::StartsWith("3:3: warning: listen.advertise: has no "
                                              "effect: with a Unix socket"),
                          testing::StartsWith("5:5: warning: listen.members.x:1: has no effect"),
                          testing::StartsWith("6:5: warning: listen.members.y:1: has no effect")));
  EXPECT_EQ(unix_socket.config.net.advertise, "");
  EXPECT_TRUE(unix_socket.config.net.pins.empty());
  const auto direct = load("listen:\n  address: 127.0.0.1" + more +
                           "upstream: {uri: 'mongodb://y:1/?directConnection=true'}");
  EXPECT_THAT(texts_of(direct.findings),
              ElementsAre(testing::_,
                          testing::StartsWith("3:3: warning: listen.advertise: has no "
                                              "effect: with directConnection=true"),
                          testing::StartsWith("5:5: warning: listen.members.x:1: has no effect")));
  EXPECT_EQ(direct.config.net.routes.at(0).listen.port, 3);
  EXPECT_THAT(findings_without_rules("listen: {address: 'unix:/run/p'}"),
              ElementsAre("1:10: warning: listen.address: drivers accept a Unix socket's path only "
                          "if it ends in .sock"));
}

TEST(Endpoints, AUnixSocketServesTheFirstServerOnly) {
  const auto loaded =
      load("listen:\n  address: unix:/run/p.sock\nupstream: {uri: 'mongodb://h1,h2'}\n");
  EXPECT_TRUE(loaded.ok());
  ASSERT_EQ(loaded.config.net.routes.size(), 1U);
  EXPECT_EQ(loaded.config.net.routes[0].upstream.text(), "h1:27017");
  EXPECT_EQ(texts_of(loaded.findings).at(1),
            "2:3: warning: listen.address: a Unix socket serves the first server of upstream.uri "
            "only, h1:27017");
}

struct Case {
  const char* name;
  std::string text;
  const char* finding;
};

TEST(Endpoints, RefuseWhatCannotBeListenedOnOrReached) {
  const Case kCases[] = {
      {"name", "listen: {address: localhost}",
       "1:10: error: listen.address: must be an IP address (no host name, brackets or port) or "
       "unix:/path, is 'localhost'"},
      {"with_port", "listen: {address: '127.0.0.1:27017'}", "must be an IP address"},
      {"brackets", "listen: {address: '[::1]'}", "must be an IP address"},
      {"short_form", "listen: {address: '127.1'}", "must be an IP address"},
      {"empty", "listen: {address: ''}", "must be an IP address"},
      {"relative_socket", "listen: {address: 'unix:p.sock'}", "must begin with /"},
      {"long_socket", "listen: {address: 'unix:/" + std::string(102, 'x') + ".sock'}",
       "at most 107 bytes, has 108"},
      {"port_negative", "listen: {port: -1}",
       "1:10: error: listen.port: must be an integer 0 to 65535, is -1"},
      {"ports_run_out", "listen: {port: 65535}\nupstream: {uri: 'mongodb://h1,h2'}",
       "1:10: error: listen.port: must leave a port up to 65535 for each of the 2 servers of "
       "upstream.uri, is 65535"},
      {"any", "listen: {address: 0.0.0.0}",
       "1:10: error: listen.address: clients of a replica set are told this address and cannot "
       "connect to 0.0.0.0: set listen.advertise to the name or address by which they reach this "
       "host, or directConnection=true in upstream.uri"},
      {"any_v6", "listen: {address: '0::0'}", "cannot connect to 0::0"},
      {"advertise_any", "listen: {address: '::', advertise: '::'}",
       "1:25: error: listen.advertise: must be an address that clients can connect to, is '::'"},
      {"advertise_list", "listen: {advertise: 'a, b'}",
       "1:10: error: listen.advertise: must be a host name or an IP address, without brackets or "
       "port, is 'a, b'"},
      {"advertise_port", "listen: {advertise: 'h:1'}", "without brackets or port, is 'h:1'"},
      {"advertise_brackets", "listen: {advertise: '[::1]'}", "without brackets or port"},
      {"pin_in_the_way",
       "listen:\n  members:\n    'db9:1': 27118\nupstream: {uri: 'mongodb://h1,h2'}",
       "3:5: error: listen.members.db9:1: port 27118 is that of h2:27017 in upstream.uri: pin that "
       "server, too, or take another port"},
      {"pin_of_another_server_in_the_way",
       "listen: {members: {'h2:27017': 27117}}\nupstream: {uri: 'mongodb://h1,h2'}",
       "listen.members.h2:27017: port 27117 is that of h1:27017"},
      {"user", "upstream: {uri: 'mongodb://bob:secret@h'}\nid_store: {uri: 'mongodb://h'}",
       "1:12: warning: upstream.uri: user and password have no effect"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(findings_without_rules(c.text), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

struct SelfCase {
  const char* name;
  const char* listen;
  const char* uri;
  bool refused;
};

TEST(Endpoints, AreNeverTheirOwnServers) {
  constexpr SelfCase kCases[] = {
      {"same", "127.0.0.1", "mongodb://127.0.0.1:27117", true},
      {"name_of_loopback", "127.0.0.1", "mongodb://localhost:27117", true},
      {"other_loopback", "127.0.0.1", "mongodb://[::1]:27117", true},
      {"loopback_v6", "::1", "mongodb://LocalHost:27117", true},
      {"other_spelling", "2001:db8::1", "mongodb://[2001:0db8:0:0::1]:27117", true},
      {"any_and_loopback", "0.0.0.0', advertise: 'h", "mongodb://127.0.0.1:27117", true},
      {"any_v6_and_name", "::', advertise: 'h", "mongodb://localhost:27117", true},
      {"loopback_and_any", "127.0.0.1", "mongodb://0.0.0.0:27117", true},
      {"listener_of_another_server", "127.0.0.1", "mongodb://127.0.0.1:27118,h2", true},
      {"same_socket", "unix:/run/p.sock", "mongodb://%2Frun%2Fp.sock", true},
      {"advertised", "0.0.0.0', advertise: 'DB.example.org", "mongodb://db.example.org:27117",
       true},
      {"pinned", "127.0.0.1', members: {'h3:1': 5}, advertise: 'h", "mongodb://127.0.0.1:5", true},
      {"advertised_other_port", "0.0.0.0', advertise: 'h", "mongodb://h:27017", false},
      {"other_port", "127.0.0.1", "mongodb://127.0.0.1:27119", false},
      {"other_address", "127.0.0.1", "mongodb://127.0.0.2:27117", false},
      {"other_name", "127.0.0.1", "mongodb://db:27117", false},
      {"other_socket", "unix:/run/p.sock", "mongodb://%2Frun%2Fm.sock", false},
      {"socket_and_port", "unix:/run/p.sock", "mongodb://127.0.0.1:27117", false},
  };
  for (const SelfCase& c : kCases) {
    const auto found = findings_without_rules(std::string("listen: {address: '") + c.listen +
                                              "'}\nupstream:\n  uri: " + c.uri + "\n");
    if (c.refused) {
      EXPECT_THAT(
          found,
          ElementsAre(HasSubstr("3:3: error: upstream.uri: must not name this proxy itself: ")))
          << c.name;
    } else {
      EXPECT_THAT(found, IsEmpty()) << c.name;
    }
  }
}

TEST(Endpoints, ParseAddressesWithPorts) {
  EXPECT_EQ(parse_address_and_port("127.0.0.1:27216")->text(), "127.0.0.1:27216");
  EXPECT_EQ(parse_address_and_port("[::1]:0")->text(), "[::1]:0");
  for (const char* text :
       {"", "27216", ":27216", "localhost:27216", "::1:27216", "[::1]", "[127.0.0.1]:1",
        "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x"}) {
    EXPECT_FALSE(parse_address_and_port(text)) << text;
  }
}

}  // namespace endpoints_test

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
