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

namespace uri_tls_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  std::optional<ConnectionString> uri;
  std::vector<std::string> found;
};

Read read(const std::string& uri) {
  Mapping m("uri: x");
  auto parsed = parse_connection_string(uri, "uri", m.reader);
  return {std::move(parsed), m.found()};
}

TEST(UriTls, IsReadFromItsOptions) {
  const Read files = read(
      "mongodb://h/?tlsCAFile=%2Fca%20s.pem&TLSCertificateKeyFile=/own.pem&"
      "tlsCertificateKeyFilePassword=a%40b");
  EXPECT_THAT(files.found, IsEmpty());
  EXPECT_TRUE(files.uri->tls);
  EXPECT_EQ(files.uri->tls_options,
            (net::tls::ClientOptions{"/ca s.pem", "/own.pem", "a@b", false, false}));
  const auto listed = read(
      "mongodb://h/?tls=true&tlscrlfile=/c%20r.pem&"
      "tlsDisableCertificateRevocationCheck=true");
  ASSERT_TRUE(listed.uri);
  EXPECT_EQ(listed.uri->tls_options.crl_file, "/c r.pem");
  EXPECT_TRUE(listed.uri->tls_options.ignore_staple);
  EXPECT_THAT(listed.found, testing::IsEmpty());
  EXPECT_EQ(read("mongodb://h/?tls=true").uri->tls_options, net::tls::ClientOptions());
  EXPECT_EQ(read("mongodb://h").uri->tls_options, net::tls::ClientOptions());
  const Read old = read(
      "mongodb://h/?sslCertificateAuthorityFile=/ca&sslClientCertificateKeyFile=/own&"
      "sslClientCertificateKeyPassword=x");
  EXPECT_THAT(old.found, IsEmpty());
  EXPECT_EQ(old.uri->tls_options, (net::tls::ClientOptions{"/ca", "/own", "x", false, false}));
}

struct Switch {
  const char* name;
  const char* uri;
  bool tls;
};

TEST(UriTls, IsOnAsDriversHaveIt) {
  constexpr Switch kCases[] = {
      {"none", "mongodb://h", false},
      {"tls", "mongodb://h/?tls=true", true},
      {"ssl", "mongodb://h/?ssl=true", true},
      {"both_names", "mongodb://h/?ssl=true&tls=true", true},
      {"off", "mongodb://h/?tls=false", false},
      {"srv", "mongodb+srv://h.x.org", true},
      {"srv_off", "mongodb+srv://h.x.org/?tls=false", false},
      {"ca_file", "mongodb://h/?tlsCAFile=/x", true},
      {"own_file", "mongodb://h/?tlsCertificateKeyFile=/x", true},
      {"insecure", "mongodb://h/?tlsInsecure=true", true},
      {"secure", "mongodb://h/?tlsInsecure=false", true},
      {"certificates", "mongodb://h/?tlsAllowInvalidCertificates=false", true},
      {"names", "mongodb://h/?tlsAllowInvalidHostnames=false", true},
      {"ocsp", "mongodb://h/?tlsDisableOCSPEndpointCheck=true", true},
      {"revocation", "mongodb://h/?tlsDisableCertificateRevocationCheck=true", true},
      {"off_with_file", "mongodb://h/?tls=false&tlsCAFile=/x", false},
      {"user_by_certificate", "mongodb://h/?authMechanism=MONGODB-X509", false},
  };
  for (const Switch& c : kCases) {
    const auto uri = read(c.uri).uri;
    ASSERT_TRUE(uri) << c.name;
    EXPECT_EQ(uri->tls, c.tls) << c.name;
  }
}

struct Unsafe {
  const char* name;
  const char* options;
  bool certificates;
  bool hostnames;
  const char* warning;
};

TEST(UriTls, WarnsOfWhatIsNotChecked) {
  constexpr const char* kCertificates =
      "1:1: warning: uri: server certificates are not verified: anybody on the path to the servers "
      "can read and change all traffic";
  constexpr const char* kNames =
      "1:1: warning: uri: names in server certificates are not verified: anybody with a "
      "certificate of the same authorities can pose as a server";
  constexpr Unsafe kCases[] = {
      {"insecure", "tlsInsecure=true", true, true, kCertificates},
      {"certificates", "tlsAllowInvalidCertificates=true", true, false, kCertificates},
      {"names", "tlsAllowInvalidHostnames=true", false, true, kNames},
      {"both", "tlsAllowInvalidHostnames=true&tlsAllowInvalidCertificates=true", true, true,
       kCertificates},
      {"old_name", "sslAllowInvalidHostnames=true", false, true, kNames},
      {"case", "TLSINSECURE=true", true, true, kCertificates},
  };
  for (const Unsafe& c : kCases) {
    const Read found = read(std::string("mongodb://h/?") + c.options);
    ASSERT_TRUE(found.uri) << c.name;
    EXPECT_EQ(found.uri->tls_options.allow_invalid_certificates, c.certificates) << c.name;
    EXPECT_EQ(found.uri->tls_options.allow_invalid_hostnames, c.hostnames) << c.name;
    EXPECT_THAT(found.found, ElementsAre(c.warning)) << c.name;
  }
  EXPECT_THAT(read("mongodb://h/?tlsAllowInvalidHostnames=false").found, IsEmpty());
}

struct Case {
  const char* name;
  const char* options;
  const char* finding;
};

TEST(UriTls, WarnsOfWhatHasNoEffect) {
  const Case kCases[] = {
      {"ocsp", "tlsDisableOCSPEndpointCheck=true",
       "1:1: warning: uri: tlsDisableOCSPEndpointCheck has no effect: the proxy does not ask"},
      {"password", "tls=true&tlsCertificateKeyFilePassword=secret",
       "1:1: warning: uri: tlsCertificateKeyFilePassword has no effect: no tlsCertificateKeyFile"},
      {"off", "tls=false&tlsCAFile=/secret",
       "1:1: warning: uri: tlsCAFile has no effect: tls=false"},
      {"off_lists", "tls=false&tlsCRLFile=/secret",
       "1:1: warning: uri: tlsCRLFile has no effect: the string does not say tls=true"},
      {"off_unsafe", "tls=false&tlsInsecure=true", "tlsInsecure has no effect: tls=false"},
  };
  for (const Case& c : kCases) {
    const Read found = read(std::string("mongodb://h/?") + c.options);
    EXPECT_TRUE(found.uri) << c.name;
    EXPECT_THAT(found.found, ElementsAre(HasSubstr(c.finding))) << c.name;
    EXPECT_THAT(found.found, ElementsAre(testing::Not(HasSubstr("secret")))) << c.name;
  }
}

TEST(UriTls, RefusesWhatContradictsItself) {
  constexpr Case kCases[] = {
      {"tls_and_ssl", "tls=true&ssl=false",
       "1:1: error: uri: tls and ssl are two names of one option, and have different values"},
      {"twice", "tls=true&tls=false", "1:1: error: uri: has the option 'tls' twice"},
      {"twice_the_same", "tlsCAFile=/secret&tlscafile=/secret", "has the option 'tlscafile' twice"},
      {"insecure_certificates", "tlsInsecure=true&tlsAllowInvalidCertificates=true",
       "1:1: error: uri: tlsInsecure and tlsAllowInvalidCertificates must not be set together"},
      {"insecure_names", "tlsinsecure=false&tlsallowinvalidhostnames=false",
       "tlsInsecure and tlsAllowInvalidHostnames must not be set together"},
      {"insecure_ocsp", "tlsInsecure=true&tlsDisableOCSPEndpointCheck=true",
       "tlsInsecure and tlsDisableOCSPEndpointCheck must not"},
      {"insecure_revocation", "tlsInsecure=true&tlsDisableCertificateRevocationCheck=true",
       "tlsInsecure and tlsDisableCertificateRevocationCheck must not"},
      {"certificates_ocsp", "tlsAllowInvalidCertificates=true&tlsDisableOCSPEndpointCheck=true",
       "tlsAllowInvalidCertificates and tlsDisableOCSPEndpointCheck must not"},
      {"ocsp_revocation",
       "tlsDisableCertificateRevocationCheck=true&tlsDisableOCSPEndpointCheck=true",
       "tlsDisableCertificateRevocationCheck and tlsDisableOCSPEndpointCheck must not"},
      {"no_ca_file", "tlsCAFile=", "1:1: error: uri: tlsCAFile names no file"},
      {"no_own_file", "tlscertificatekeyfile=&tlsCAFile=/secret",
       "tlsCertificateKeyFile names no file"},
      {"no_boolean", "tlsInsecure=secret", "is not a valid connection string"},
      {"old_and_new_name", "tlsCAFile=/secret&sslCertificateAuthorityFile=/secret2",
       "is not a valid connection string"},
  };
  for (const Case& c : kCases) {
    const Read found = read(std::string("mongodb://bob:secret@h/?") + c.options);
    EXPECT_FALSE(found.uri) << c.name;
    EXPECT_THAT(found.found, ElementsAre(HasSubstr(c.finding))) << c.name;
    EXPECT_THAT(found.found, ElementsAre(testing::Not(HasSubstr("secret")))) << c.name;
  }
}

TEST(UriTls, KnowsWhatWasMeant) {
  EXPECT_THAT(read("mongodb://h/?tlsCaFiles=/x").found,
              ElementsAre("1:1: warning: uri: unknown option 'tlsCaFiles', did you mean "
                          "'tlsCAFile'?"));
}

}  // namespace uri_tls_test

}  // namespace idproxy::config
