#include "idproxy/config/config.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace config_test {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kNoRules = "warning: rules: is empty: everything is relayed unchanged";

TEST(Config, AnEmptyFileIsTheDefaults) {
  const Loaded loaded = load("");
  EXPECT_TRUE(loaded.ok());
  EXPECT_THAT(texts_of(loaded.findings), ElementsAre(kNoRules));
  const Config& config = loaded.config;
  ASSERT_EQ(config.net.routes.size(), 1U);
  EXPECT_EQ(config.net.routes[0].listen.text(), "127.0.0.1:27117");
  EXPECT_EQ(config.net.routes[0].upstream.text(), "127.0.0.1:27017");
  EXPECT_EQ(config.net.max_connections, 10000U);
  EXPECT_EQ(config.net.connect_timeout, 5s);
  EXPECT_FALSE(config.net.proxy_protocol);
  EXPECT_GE(config.net.threads, 1U);
  EXPECT_EQ(config.log.level, log::Level::info);
  EXPECT_EQ(config.log.format, log::Format::automatic);
  EXPECT_EQ(config.id_store.db, "idproxy");
  EXPECT_EQ(config.id_store.uri, "mongodb://127.0.0.1:27017");
  EXPECT_EQ(config.id_store.wtimeout, 5s);
  EXPECT_TRUE(config.rules.empty());
}

TEST(Config, ReadsWhatHasAnEffect) {
  const Loaded loaded = load(
      "listen: {address: 10.0.0.1, port: 5000, max_connections: 7}\n"
      "upstream: {uri: 'mongodb://s2', connect_timeout: 250ms, proxy_protocol: v2}\n"
      "log: {level: debug, format: json}\n"
      "threads: 3\n"
      "id_store: {db: ids, uri: 'mongodb://bob:x@s1,s2/?tls=true', wtimeout: 1500ms}\n"
      "rules: [{ns: a.b, field: c, strategy: objectid}]\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  const Config& config = loaded.config;
  EXPECT_EQ(config.net.routes.at(0).listen.text(), "10.0.0.1:5000");
  EXPECT_EQ(config.net.max_connections, 7U);
  EXPECT_EQ(config.net.connect_timeout, 250ms);
  EXPECT_TRUE(config.net.proxy_protocol);
  EXPECT_EQ(config.net.threads, 3U);
  EXPECT_EQ(config.log.level, log::Level::debug);
  EXPECT_EQ(config.log.format, log::Format::json);
  EXPECT_EQ(config.id_store.db, "ids");
  EXPECT_EQ(config.id_store.uri, "mongodb://bob:x@s1,s2/?tls=true");
  EXPECT_EQ(config.id_store.wtimeout, 1500ms);
  EXPECT_EQ(config.rules.size(), 1U);
}

/// Every key with its default, and three rules, as users are promised them.
constexpr const char* kPromised = R"(
listen:
  address: 127.0.0.1            # IP address or unix:/path (then only the first server is served)
  port: 27117                   # first port; the other servers behind the URI take the next ones
  advertise: null               # host name written into hello replies; default: the address
  members: {}                   # pins a server to a port: {"db2.internal:27017": 27121}
  max_connections: 10000        # in all
  tls: {mode: off, certificate_key_file: null, ca_file: null, client_certificate: none}
upstream:
  uri: mongodb://127.0.0.1:27017    # standard connection string
  connect_timeout: 5s
id_store: {uri: null, uri_file: null, db: idproxy, write_concern: majority, wtimeout: 5s}
admin: {listen: "127.0.0.1:27216", hosts: []}   # null: none; in use: exit 69
limits: {buffered_messages: 256MiB, first_byte: 10s, tls_handshake: 10s, message: 30s, drain: 25s}
log: {level: info, format: auto}    # auto: text on a terminal, JSON lines elsewhere
threads: auto                       # one per four cores, at least one
rules:
  - ns: shop.orders
    field: _id
    strategy: counter
    start: 1000
  - ns: "shop.*"
    field: _id
    strategy: uuid
    version: 7
  - ns: bank.accounts
    field: account_number       # any field, dotted paths too
    strategy: random-digits
    digits: 12
)";

TEST(Config, TakesWhatIsPromised) {
  const std::string driver_ids = "assign: most drivers send an _id of their own";
  EXPECT_THAT(findings_of(kPromised), ElementsAre(HasSubstr("warning: rules[0]." + driver_ids),
                                                  HasSubstr("warning: rules[1]." + driver_ids)));
}

std::string shipped() {
  return content_of(IDPROXY_SOURCE_DIR "/config/mongo-idproxy.yaml");
}

TEST(Config, TheShippedFileIsTheDefaults) {
  const Loaded loaded = load(shipped());
  EXPECT_TRUE(loaded.ok());
  EXPECT_THAT(texts_of(loaded.findings), ElementsAre(HasSubstr(kNoRules)));
  const Config defaults = load("").config;
  EXPECT_EQ(loaded.config.net.routes.at(0).listen.text(), defaults.net.routes.at(0).listen.text());
  EXPECT_EQ(loaded.config.net.max_connections, defaults.net.max_connections);
  EXPECT_EQ(loaded.config.net.connect_timeout, defaults.net.connect_timeout);
  EXPECT_EQ(loaded.config.net.threads, defaults.net.threads);
  EXPECT_EQ(loaded.config.net.limits, defaults.net.limits);
  EXPECT_EQ(loaded.config.admin->text(), defaults.admin->text());
  EXPECT_THAT(needs_restart(loaded.config, defaults), IsEmpty());
  EXPECT_EQ(loaded.config.id_store.uri, defaults.id_store.uri);
  EXPECT_EQ(loaded.config.id_store.db, defaults.id_store.db);
  EXPECT_EQ(loaded.config.id_store.wtimeout, defaults.id_store.wtimeout);
}

/// The shipped file as its comment says: the "#" in front of the examples taken off.
std::string shipped_with_examples() {
  std::istringstream lines(shipped());
  std::string text;
  bool in_examples = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# To use these examples")) {
      in_examples = true;
      text += "rules:\n";
    } else if (in_examples && line.starts_with("#  ")) {
      text += line.substr(1) + "\n";
    } else if (line != "rules: []") {
      text += line + "\n";
    }
  }
  return text;
}

TEST(Config, TheExamplesInTheShippedFileAreValid) {
  const Loaded loaded = load(shipped_with_examples());
  EXPECT_THAT(texts_of(loaded.findings),
              ElementsAre(HasSubstr("warning: rules[0].assign: drivers report")));
  EXPECT_EQ(loaded.config.rules.size(), 5U);
}

struct Case {
  const char* name;
  const char* text;
  const char* finding;
};

TEST(Config, ReportsEachKeyThatIsWrongOrHasNoEffect) {
  constexpr Case kCases[] = {
      {"section", "lisen: {}", "1:1: error: unknown key 'lisen', did you mean 'listen'?"},
      {"unknown_section", "metrics: {}",
       "1:1: error: unknown key 'metrics'; known here: admin, id_store, limits, listen, log, "
       "reload, rules, threads, upstream"},
      {"case_matters", "Listen: {}", "1:1: error: unknown key 'Listen', did you mean 'listen'?"},
      {"section_is_list", "limits: [1]",
       "1:1: error: limits: must be a mapping of keys to values, is a list"},
      {"section_is_null", "admin: null",
       "1:1: error: admin: must be a mapping of keys to values, is null"},
      {"max_connections", "listen: {max_connections: 0}",
       "1:10: error: listen.max_connections: must be an integer 1 to 1000000, is 0"},
      {"tls_mode", "listen: {tls: {mode: 'of'}}",
       "1:16: error: listen.tls.mode: must be one of off or require, is text 'of', did you mean "
       "'off'?"},
      {"connect_timeout", "upstream: {connect_timeout: 5}",
       "1:12: error: upstream.connect_timeout: must be a duration of 1ms to 10m with its unit (ms, "
       "s, m or h), is 5"},
      {"store_is_pinned_listener",
       "id_store: {uri: 'mongodb://localhost:5'}\nlisten: {members: {'h:1': 5}}",
       "1:12: error: id_store.uri: must not name this proxy itself: localhost:5 is one of its "
       "listeners"},
      {"store_uri_srv", "id_store: {uri: 'mongodb+srv://bob:x@h.example.org'}",
       "1:12: error: id_store.uri: mongodb+srv is not in this release"},
      {"store_uri_bad", "id_store: {uri: h}",
       "1:12: error: id_store.uri: must be a connection string that begins with mongodb://"},
      {"store_is_listener", "id_store: {uri: 'mongodb://localhost:27117'}",
       "1:12: error: id_store.uri: must not name this proxy itself: localhost:27117 is one of its "
       "listeners"},
      {"store_db", "id_store: {db: a.b}",
       "1:12: error: id_store.db: 'a.b' is not a valid database name: it must"},
      {"store_db_of_server", "id_store: {db: admin}",
       "1:12: error: id_store.db: must not be 'admin', which belongs to the server"},
      {"write_concern", "id_store: {wtimeout: 5s, write_concern: 2}",
       "1:26: error: id_store.write_concern: must be majority: a failover can roll back what fewer "
       "servers have, and the proxy would give out the same ids again"},
      {"wtimeout", "id_store: {wtimeout: 0s}",
       "1:12: error: id_store.wtimeout: must be a duration of 1ms to 1h, is 0s"},
      {"admin_at_a_listener", "listen: {port: 27216}\nadmin: {listen: '127.0.0.1:27216'}",
       "2:9: error: admin.listen: port 27216 is that of the listener for 127.0.0.1:27017"},
      {"pinned_to_admin", "listen: {members: {'127.0.0.1:27017': 27216}}",
       "listen.members.127.0.0.1:27017: port 27216 is that of admin.listen"},
      {"listener_at_admin", "upstream: {uri: 'mongodb://a,b'}\nlisten: {port: 27215}",
       "2:10: error: listen.port: port 27216, for b:27017, is that of admin.listen"},
      {"admin_bad", "admin: {listen: 27216}",
       "1:9: error: admin.listen: must be an IP address and a "
       "port, as in 127.0.0.1:27216 or [::1]:27216, or null, "
       "is '27216'"},
      {"buffered", "limits: {buffered_messages: 65535KiB}",
       "1:10: error: limits.buffered_messages: must be a size of 64MiB to 1024GiB, so that the "
       "largest message, 48000000 bytes, fits with the values added to it, is 65535KiB"},
      {"buffered_unit", "limits: {buffered_messages: 256}",
       "1:10: error: limits.buffered_messages: must be a size of 64MiB to 1024GiB with its unit "
       "(B, "
       "KiB, MiB or GiB), is 256"},
      {"buffered_name", "limits: {buffered_message: 1GiB}",
       "1:10: error: limits: unknown key 'buffered_message', did you mean 'buffered_messages'?"},
      {"first_byte", "limits: {first_byte: 99ms}",
       "1:10: error: limits.first_byte: must be a duration of 100ms to 1h, is 99ms"},
      {"tls_handshake", "limits: {tls_handshake: 0s}",
       "1:10: error: limits.tls_handshake: must be a duration of 100ms to 1h, is 0s"},
      {"message", "limits: {message: 61m}",
       "1:10: error: limits.message: must be a duration of 100ms to 1h, is 61m"},
      {"drain", "limits: {drain: 25}",
       "1:10: error: limits.drain: must be a duration of 0ms to 1h with its unit (ms, s, m or h), "
       "is 25"},
      {"log_level", "log: {level: inf}",
       "1:7: error: log.level: must be one of info, debug, warn, warning or error, is text 'inf', "
       "did you mean 'info'?"},
      {"log_format", "log: {format: logfmt}",
       "1:7: error: log.format: must be one of auto, text or json, is text 'logfmt'"},
      {"threads", "threads: 257",
       "1:1: error: threads: must be auto or an integer 1 to 256, is 257"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(findings_without_rules(c.text), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

TEST(Config, KnowsWarningsByBothNames) {
  for (const char* level : {"warn", "warning"}) {
    const Loaded loaded = load("log: {level: " + std::string(level) + "}\nrules: []\n");
    EXPECT_EQ(loaded.config.log.level, log::Level::warning);
  }
}

TEST(Config, ReadsLimits) {
  const net::Limits defaults = load("").config.net.limits;
  EXPECT_EQ(defaults, net::Limits());
  EXPECT_EQ(defaults.buffered_messages, 256U << 20);
  const Loaded loaded = load(
      "limits: {buffered_messages: 64MiB, first_byte: 100ms, tls_handshake: 1h, message: 1m, "
      "drain: "
      "0ms}\nrules: [{ns: a.b, field: c, strategy: objectid}]\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  EXPECT_EQ(loaded.config.net.limits, (net::Limits{64U << 20, 100ms, 1h, 1min, 0ms}));
}

TEST(Config, ReadsWhereTheAdminEndpointIs) {
  const auto admin = [](const std::string& text) { return load(text).config.admin; };
  EXPECT_EQ(admin("")->text(), "127.0.0.1:27216");
  EXPECT_EQ(admin("admin: {}")->text(), "127.0.0.1:27216");
  EXPECT_EQ(admin("admin: {listen: '[::1]:0'}")->text(), "[::1]:0");
  EXPECT_EQ(admin("admin: {listen: 10.0.0.1:27216}")->text(), "10.0.0.1:27216");
  EXPECT_FALSE(admin("admin: {listen: null}"));
}

TEST(Config, WarnsOfAnAdminEndpointThatOtherHostsCanReach) {
  for (const char* address :
       {"0.0.0.0:27216", "[::]:1", "10.0.0.1:27216", "[fe80::1]:5", "128.0.0.1:0"}) {
    EXPECT_THAT(findings_without_rules(std::string("log: {}\nadmin: {listen: '") + address + "'}"),
                ElementsAre(AllOf(
                    StartsWith("2:9: warning: admin.listen: everybody who can reach " +
                               std::string(address) + " can read, without a login, "),
                    HasSubstr("addresses, applications and users"), HasSubstr("reverse proxy"))));
  }
  for (const char* address :
       {"127.0.0.1:27216", "127.9.9.9:0", "[::1]:27216", "[0:0:0:0:0:0:0:1]:1"}) {
    EXPECT_THAT(findings_without_rules(std::string("admin: {listen: '") + address + "'}"),
                IsEmpty())
        << address;
  }
}

TEST(Config, ReadsByWhichNamesTheAdminEndpointMayBeAsked) {
  const auto hosts = [](const std::string& text) { return load(text).config.admin_hosts; };
  EXPECT_THAT(hosts(""), IsEmpty());
  EXPECT_THAT(hosts("admin: {hosts: []}"), IsEmpty());
  EXPECT_THAT(hosts("admin: {hosts: [app1, App1.example.org, 10.0.0.5, '::1']}"),
              ElementsAre("app1", "App1.example.org", "10.0.0.5", "::1"));
  for (const char* host : {"app1:9216", "[::1]", "http://app1", "*.example.org", "", "a b"}) {
    EXPECT_THAT(findings_without_rules(std::string("admin: {hosts: ['app2', '") + host + "']}"),
                ElementsAre(HasSubstr("1:9: error: admin.hosts: must be a list of host names")))
        << host;
  }
}

TEST(Config, TheAdminEndpointMayHaveThePortOfAListenerElsewhere) {
  for (const char* text :
       {"listen: {port: 27216, address: 127.0.0.2}", "listen: {port: 27216}\nadmin: {listen: null}",
        "listen: {port: 0}\nadmin: {listen: '127.0.0.1:0'}",
        "listen: {port: 27216, address: 'unix:/run/p.sock'}"}) {
    EXPECT_THAT(findings_without_rules(text), IsEmpty()) << text;
  }
}

TEST(Config, TheStoreUsesTheUpstreamStringUnlessItHasItsOwn) {
  const Loaded shared = load("upstream: {uri: 'mongodb://bob:x@h1,h2/?replicaSet=r'}");
  EXPECT_THAT(texts_of(shared.findings), ElementsAre(kNoRules));
  EXPECT_EQ(shared.config.id_store.uri, "mongodb://bob:x@h1,h2/?replicaSet=r");
  const Loaded own = load("upstream: {uri: 'mongodb://bob:x@h1'}\nid_store: {uri: 'mongodb://s'}");
  EXPECT_THAT(texts_of(own.findings),
              ElementsAre(kNoRules,
                          HasSubstr("1:12: warning: upstream.uri: user and password have no "
                                    "effect: clients authenticate themselves"),
                          HasSubstr("2:12: warning: id_store.uri: names none of the servers of "
                                    "upstream.uri: the store must be in the same replica set")));
  EXPECT_EQ(own.config.id_store.uri, "mongodb://s");
  EXPECT_THAT(findings_without_rules("upstream: {uri: 'mongodb://h/?replicaSet=r'}\n"
                                     "id_store: {uri: 'mongodb://s/?replicaSet=r'}"),
              IsEmpty());
  EXPECT_THAT(findings_without_rules("upstream: {uri: 'mongodb+srv://db.x.org/?tls=false'}\n"
                                     "id_store: {uri: 'mongodb://s'}"),
              IsEmpty());
}

TEST(Config, ReadsWhatUniqueIndexARuleWants) {
  const Loaded loaded = load(
      "rules:\n- {ns: a.b, field: x, strategy: uuid}\n"
      "- {ns: a.b, field: y, strategy: uuid, unique_index: require}\n"
      "- {ns: a.b, field: z, strategy: random-digits, unique_index: create, max_fill: 0.5}\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  ASSERT_EQ(loaded.config.rules.size(), 3U);
  EXPECT_EQ(loaded.config.rules[0].unique_index, ids::UniqueIndex::warn);
  EXPECT_EQ(loaded.config.rules[1].unique_index, ids::UniqueIndex::require);
  EXPECT_EQ(loaded.config.rules[2].unique_index, ids::UniqueIndex::create);
}

TEST(Config, AcceptsNullWhereItMeansNone) {
  EXPECT_THAT(findings_without_rules("admin: {listen: null}\nid_store: {uri: ~, uri_file: null}\n"
                                     "listen: {advertise: null, tls: {mode: \"off\", ca_file: ~}}"),
              IsEmpty());
}

TEST(Config, ChecksPinnedMembers) {
  EXPECT_THAT(
      findings_without_rules("listen:\n  members:\n    db1: 1\n    'db2:1': 70000\n"
                             "    'db3:1': 5\n    'db4:1': 5\n    'db5:1': 27216\n"),
      ElementsAre("3:5: error: listen.members.db1: must name a server as host:port, IPv6 as "
                  "[::1]:27017",
                  "4:5: error: listen.members.db2:1: must be an integer 1 to 65535, is 70000",
                  "6:5: error: listen.members.db4:1: port 5 is pinned twice",
                  "7:5: error: listen.members.db5:1: port 27216 is that of admin.listen"));
  EXPECT_THAT(findings_without_rules("listen: {members: {'db:1': 27216}}\nadmin: {listen: null}\n"),
              IsEmpty());
  EXPECT_THAT(findings_without_rules("listen: {members: {'db:1': 27216}, address: 10.0.0.1}\n"),
              IsEmpty());
  EXPECT_THAT(findings_without_rules("listen: {members: {'db:1': 27216}, address: '::', "
                                     "advertise: h}\n"),
              ElementsAre(HasSubstr("port 27216 is that of admin.listen")));
}

TEST(Config, MustBeAMapping) {
  EXPECT_THAT(findings_of("- a\n"),
              ElementsAre("1:1: error: the file must be a mapping of keys to values"));
  EXPECT_THAT(findings_of("hello\n"),
              ElementsAre("1:1: error: the file must be a mapping of keys to values"));
}

TEST(Config, ReportsAllFaultsInOneGoInOrderOfTheirLines) {
  EXPECT_THAT(
      findings_of("rules:\n"
                  "  - ns: shop\n"
                  "    field: x\n"
                  "    strategy: random-digits\n"
                  "    digits: [12]\n"
                  "    digits: 12\n"
                  "threads: 0\n"
                  "log: {level: \"${IDPROXY_NOWHERE}\", levle: info}\n"
                  "limits: {drain: 5}\n"
                  "listen:\n"
                  "  port: &p 1\n"
                  "  address: *p\n"
                  "  max_connections: -1\n"),
      ElementsAre(HasSubstr("2:5: error: rules[0].ns: must name a database"),
                  HasSubstr("5:5: error: rules[0].digits: must be an integer, is a list"),
                  HasSubstr("6:5: error: repeated key 'digits', first in line 5"),
                  HasSubstr("7:1: error: threads: must be auto"),
                  HasSubstr("8:14: error: environment variable 'IDPROXY_NOWHERE' is not defined"),
                  HasSubstr("8:36: error: log: unknown key 'levle', did you mean 'level'?"),
                  HasSubstr("9:10: error: limits.drain: must be a duration"),
                  HasSubstr("11:9: error: anchors are not allowed"),
                  HasSubstr("12:12: error: aliases are not allowed"),
                  HasSubstr("13:3: error: listen.max_connections: must be an integer")));
}

TEST(FileFinding, HasTheKey) {
  const Loaded loaded = load(
      "admin:\n  hosts: ['a:1']\n  host: b\nlisten:\n  port: x\nadmins: {}\n"
      "rules: [{ns: a.b, field: c, strategy: objectid, output: no}]\n");
  std::vector<std::string> keys;
  for (const FileFinding& each : loaded.findings) keys.push_back(each.key);
  EXPECT_THAT(keys, ElementsAre("admin.hosts", "admin", "listen.port", "", "rules[0].output"));
}

TEST(FileFinding, IsFormattedAsCompilersDo) {
  EXPECT_EQ(
      (FileFinding{FileFinding::Severity::error, {3, 5}, "threads: is wrong"}.text("/etc/x.yaml")),
      "/etc/x.yaml:3:5: error: threads: is wrong");
  EXPECT_EQ(
      (FileFinding{FileFinding::Severity::warning, {}, "rules: there are none"}.text("x.yaml")),
      "x.yaml: warning: rules: there are none");
}

}  // namespace config_test
}  // namespace idproxy::config
