#include "config/connection_string.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace connection_string_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> hosts_of(const std::string& uri) {
  Mapping m("uri: x");
  const auto parsed = parse_connection_string(uri, "uri", m.reader);
  EXPECT_THAT(m.found(), IsEmpty()) << uri;
  std::vector<std::string> hosts;
  if (!parsed) return hosts;
  for (const net::Endpoint& host : parsed->hosts) hosts.push_back(host.text());
  return hosts;
}

TEST(ConnectionString, KeepsTheOrderOfItsHosts) {
  EXPECT_THAT(hosts_of("mongodb://h"), ElementsAre("h:27017"));
  EXPECT_THAT(hosts_of("mongodb://h3:3,h1:1,h2/?replicaSet=rs"),
              ElementsAre("h3:3", "h1:1", "h2:27017"));
  EXPECT_THAT(hosts_of("mongodb://[::1]:5,[2001:db8::2]"),
              ElementsAre("[::1]:5", "[2001:db8::2]:27017"));
  EXPECT_THAT(hosts_of("mongodb://%2Ftmp%2FX.sock,h"), ElementsAre("unix:/tmp/X.sock", "h:27017"));
  EXPECT_THAT(hosts_of("mongodb://bob:p%40ss@h/db?authSource=x"), ElementsAre("h:27017"));
}

TEST(ConnectionString, WarnsOfRepeatedHosts) {
  Mapping m("uri: x");
  const auto parsed =
      parse_connection_string("mongodb://h:1,i,H:1,i:27017,h:2,[::1],[::1]:27017", "uri", m.reader);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->hosts.size(), 4U);
  const std::string what =
      " more than once, which has no effect: should one of them be another server?";
  EXPECT_THAT(m.found(), ElementsAre("1:1: warning: uri: names [::1]:27017" + what,
                                     "1:1: warning: uri: names h:1" + what,
                                     "1:1: warning: uri: names i:27017" + what));
}

TEST(ConnectionString, ReadsWhatMattersHere) {
  Mapping m("uri: x");
  const auto read = [&m](const char* uri) {
    return parse_connection_string(uri, "uri", m.reader).value();
  };
  EXPECT_TRUE(read("mongodb://h/?tls=true").tls);
  EXPECT_TRUE(read("mongodb://h/?ssl=true").tls);
  EXPECT_TRUE(read("mongodb://h/?tlsCAFile=/x").tls);
  EXPECT_FALSE(read("mongodb://h/?tls=false").tls);
  EXPECT_TRUE(read("mongodb://h/?directConnection=true").direct);
  EXPECT_TRUE(read("mongodb+srv://db.example.org").srv);
  EXPECT_TRUE(read("mongodb+srv://db.example.org").tls);
  EXPECT_FALSE(read("mongodb+srv://db.example.org/?tls=false").tls);
  EXPECT_EQ(read("mongodb://h/?replicaSet=rs0").replica_set, "rs0");
  EXPECT_EQ(read("mongodb://h").replica_set, "");
  EXPECT_TRUE(read("mongodb://bob@h").has_user);
  EXPECT_FALSE(read("mongodb://h").has_user);
}

TEST(ConnectionString, WarnsOfUnknownOptions) {
  Mapping m("uri: x");
  (void)parse_connection_string("mongodb://h/?replicaset=rs&retryWrite=true&foo=bar", "uri",
                                m.reader);
  EXPECT_THAT(
      m.found(),
      ElementsAre("1:1: warning: uri: unknown option 'retryWrite', did you mean 'retryWrites'?",
                  "1:1: warning: uri: unknown option 'foo'"));
}

struct Case {
  const char* name;
  const char* uri;
  const char* finding;
};

TEST(ConnectionString, RefusesWithoutShowingSecrets) {
  constexpr const char* kEscape = "user and password must be written as";
  constexpr Case kCases[] = {
      {"no_scheme", "127.0.0.1:27017", "begins with mongodb://"},
      {"other_scheme", "http://bob:secret@h", "begins with mongodb://"},
      {"empty", "", "begins with mongodb://"},
      {"no_host", "mongodb://", "Invalid host string"},
      {"no_host_but_port", "mongodb://:1", "Invalid host string"},
      {"host_missing_in_list", "mongodb://h,,i", "Invalid host string"},
      {"port_too_high", "mongodb://h:99999", "Invalid host string"},
      {"port_zero", "mongodb://h:0", "Invalid host string"},
      {"blank", "mongodb://h1, h2", "must not contain blanks"},
      {"newline", "mongodb://h1\n", "must not contain blanks"},
      {"at_in_password", "mongodb://bob:s@secret@h", kEscape},
      {"slash_in_password", "mongodb://bob:s/secret@h", kEscape},
      {"colon_in_password", "mongodb://bob:s:secret@h", kEscape},
      {"percent_in_password", "mongodb://bob:%zzsecret@h", "not a valid connection string"},
      {"question_mark_in_password", "mongodb://bob:s?secret@h", kEscape},
      {"options_without_slash", "mongodb://h?w=1", "must have a / before its options"},
      {"bad_value", "mongodb://h/?w=1&CONNECTTIMEOUTMS=secret",
       "not a valid connection string: its option connectTimeoutMS must be an integer"},
      {"bad_tls", "mongodb://h/?appName=tls&tls=secret",
       "not a valid connection string: its option tls must be true or false"},
      {"bad_ssl", "mongodb://h/?ssl=s%65cret", "its option ssl must be true or false"},
      {"bad_word", "mongodb://h/?readPreference=secret",
       "its option readPreference has an invalid value"},
      {"bad_level", "mongodb://h/?zlibCompressionLevel=99",
       "its option zlibCompressionLevel has an invalid value"},
      {"bad_value_and_user", "mongodb://bob:secret@h/?tls=bob:secret",
       "its option tls must be true or false"},
      {"name_that_is_none", "mongodb://h/?secret=secret&authMechanism=secret",
       "not a valid connection string"},
      {"option_without_value", "mongodb://h/?foo", "contains no \"=\" sign"},
      {"direct_to_srv", "mongodb+srv://h.x.org/?directConnection=true", "directConnection"},
      {"direct_to_two", "mongodb://h,i/?directConnection=true", "directConnection"},
  };
  for (const Case& c : kCases) {
    Mapping m("uri: x");
    EXPECT_FALSE(parse_connection_string(c.uri, "uri", m.reader)) << c.name;
    const auto found = m.found();
    ASSERT_EQ(found.size(), 1U) << c.name;
    EXPECT_THAT(found[0], HasSubstr(c.finding)) << c.name;
    EXPECT_THAT(found[0], testing::Not(HasSubstr("secret"))) << c.name;
  }
}

TEST(ConnectionString, PrintsNothing) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Mapping m("uri: x");
  (void)parse_connection_string("mongodb://h/?foo=bar&w=1&w=2&slaveOk=x", "uri", m.reader);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace connection_string_test
}  // namespace idproxy::config
