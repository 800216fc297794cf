#include "config/endpoints.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace {

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
  EXPECT_THAT(routes_of("listen: {address: '::', port: 5}\nupstream: {uri: 'mongodb://h'}"),
              ElementsAre("[::]:5 -> h:27017"));
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
      {"long_socket", "listen: {address: 'unix:/" + std::string(107, 'x') + "'}",
       "at most 107 bytes, has 108"},
      {"port_negative", "listen: {port: -1}",
       "1:10: error: listen.port: must be an integer 0 to 65535, is -1"},
      {"ports_run_out", "listen: {port: 65535}\nupstream: {uri: 'mongodb://h1,h2'}",
       "1:10: error: listen.port: must leave a port up to 65535 for each of the 2 servers of "
       "upstream.uri, is 65535"},
      {"srv", "upstream: {uri: 'mongodb+srv://db.example.org'}",
       "1:12: error: upstream.uri: mongodb+srv is not in this release"},
      {"tls", "upstream: {uri: 'mongodb://h/?tls=true'}",
       "1:12: error: upstream.uri: TLS towards the server is not in this release"},
      {"ssl", "upstream: {uri: 'mongodb://h/?ssl=true'}", "TLS towards the server is not in"},
      {"user", "upstream: {uri: 'mongodb://bob:secret@h'}\nid_store: {uri: 'mongodb://h'}",
       "1:12: warning: upstream.uri: user and password are not used"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(findings_without_rules(c.text), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

struct SelfCase {
  const char* name;
  const char* address;
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
      {"any_and_loopback", "0.0.0.0", "mongodb://127.0.0.1:27117", true},
      {"any_v6_and_name", "::", "mongodb://localhost:27117", true},
      {"loopback_and_any", "127.0.0.1", "mongodb://0.0.0.0:27117", true},
      {"listener_of_another_server", "127.0.0.1", "mongodb://127.0.0.1:27118,h2", true},
      {"same_socket", "unix:/run/p.sock", "mongodb://%2Frun%2Fp.sock", true},
      {"other_port", "127.0.0.1", "mongodb://127.0.0.1:27119", false},
      {"other_address", "127.0.0.1", "mongodb://127.0.0.2:27117", false},
      {"other_name", "127.0.0.1", "mongodb://db:27117", false},
      {"other_socket", "unix:/run/p.sock", "mongodb://%2Frun%2Fm.sock", false},
      {"socket_and_port", "unix:/run/p.sock", "mongodb://127.0.0.1:27117", false},
  };
  for (const SelfCase& c : kCases) {
    const auto found = findings_without_rules(std::string("listen: {address: '") + c.address +
                                              "'}\nupstream:\n  uri: " + c.uri + "\n");
    if (c.refused) {
      EXPECT_THAT(found,
                  ElementsAre(HasSubstr("3:3: error: upstream.uri: would connect to itself: ")))
          << c.name;
    } else {
      EXPECT_THAT(found, IsEmpty()) << c.name;
    }
  }
}

TEST(Endpoints, ParseAddressesWithPorts) {
  EXPECT_EQ(parse_address_and_port("127.0.0.1:9216")->text(), "127.0.0.1:9216");
  EXPECT_EQ(parse_address_and_port("[::1]:0")->text(), "[::1]:0");
  for (const char* text :
       {"", "9216", ":9216", "localhost:9216", "::1:9216", "[::1]", "[127.0.0.1]:1",
        "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x"}) {
    EXPECT_FALSE(parse_address_and_port(text)) << text;
  }
}

}  // namespace
}  // namespace idproxy::config
