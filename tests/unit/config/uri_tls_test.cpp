#include "findings_of.hpp"

#include "config/connection_string.hpp"

namespace idproxy::config {
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
  constexpr const char* kRevocation =
      " has no effect: the proxy does not ask authorities for revoked certificates";
  const Case kCases[] = {
      {"ocsp", "tlsDisableOCSPEndpointCheck=true",
       "1:1: warning: uri: tlsDisableOCSPEndpointCheck has no effect: the proxy does not ask"},
      {"revocation", "tlsDisableCertificateRevocationCheck=false", kRevocation},
      {"password", "tls=true&tlsCertificateKeyFilePassword=secret",
       "1:1: warning: uri: tlsCertificateKeyFilePassword has no effect: no tlsCertificateKeyFile"},
      {"off", "tls=false&tlsCAFile=/secret",
       "1:1: warning: uri: tlsCAFile has no effect: tls=false"},
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
