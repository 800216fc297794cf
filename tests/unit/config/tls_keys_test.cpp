#include "config/tls_keys.hpp"

#include <sys/stat.h>

#include "findings_of.hpp"
#include "support/certificates.hpp"

namespace idproxy::config {
namespace tls_keys_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// So far from the time at which the certificates were made.
class ShiftedClock : public Clock {
 public:
  explicit ShiftedClock(std::chrono::seconds shift) : shift_(shift) {}
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override { return {}; }
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch() + shift_;
  }

 private:
  std::chrono::seconds shift_;
};

class Tls : public testing::Test {
 protected:
  Tls() {
    add("own.pem", own_.file(), 0600);
    add("ca.pem", authority_.pem(), 0644);
  }

  std::string add(const std::string& name, const std::string& text, mode_t mode) {
    std::string path = files_.add(name, text);
    ::chmod(path.c_str(), mode);
    return path;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return files_.path(name); }

  /// With a rule, so that its lack is no finding; `findings` are those of it.
  Config read(const std::string& text, std::chrono::seconds shift = 0s) {
    const ShiftedClock clock(shift);
    const std::string rule = "\nrules: [{ns: a.b, field: c, strategy: objectid}]\n";
    Loaded loaded = parse(text + rule, {clock, system_random()});
    findings_ = texts_of(loaded.findings);
    return std::move(loaded.config);
  }
  /// The value of listen.tls, behind column 15.
  Config listen(const std::string& tls, std::chrono::seconds shift = 0s) {
    return read("listen: {tls: {" + tls + "}}", shift);
  }
  Config upstream(const std::string& options, std::chrono::seconds shift = 0s) {
    return read("upstream: {uri: 'mongodb://bob:secret@db.example.org/?" + options + "'}", shift);
  }
  /// "NAME: '/tmp/.../FILE'", to be read as YAML.
  std::string file(const std::string& key, const std::string& name) {
    return key + ": '" + path(name) + "'";
  }
  std::string own() { return "mode: require, " + file("certificate_key_file", "own.pem"); }

  test::TemporaryFiles files_;
  test::Authority authority_;
  test::Certified own_ = authority_.issue({.subject = "CN=proxy,O=Example", .names = {"h"}});
  std::vector<std::string> findings_;
};

TEST_F(Tls, TowardsClientsIsOffUnlessRequired) {
  EXPECT_EQ(read("").net.client_tls, nullptr);
  EXPECT_EQ(listen("mode: 'off'").net.client_tls, nullptr);
  EXPECT_THAT(findings_, IsEmpty());
  const Config required = listen(own());
  EXPECT_THAT(findings_, IsEmpty());
  ASSERT_NE(required.net.client_tls, nullptr);
  ASSERT_EQ(required.net.client_tls->certificates().size(), 1U);
  EXPECT_EQ(required.net.client_tls->certificates()[0].subject, "CN=proxy,O=Example");
  EXPECT_EQ(required.net.server_tls, nullptr);
  for (const char* word : {"none", "optional", "require"}) {
    const Config asking =
        listen(own() + ", " + file("ca_file", "ca.pem") + ", client_certificate: " + word);
    EXPECT_THAT(findings_, IsEmpty());
    ASSERT_NE(asking.net.client_tls, nullptr);
    EXPECT_EQ(asking.net.client_tls->certificates().size(), 2U);
  }
}

TEST_F(Tls, ReadsRevocationLists) {
  const test::Certified lost = authority_.issue({.subject = "CN=lost"});
  add("list.pem", authority_.revoke({&lost}), 0644);
  const std::string asking = own() + ", client_certificate: require, " + file("ca_file", "ca.pem");
  EXPECT_NE(listen(asking + ", " + file("crl_file", "list.pem")).net.client_tls, nullptr);
  EXPECT_THAT(findings_, testing::IsEmpty());
  EXPECT_EQ(listen(asking + ", " + file("crl_file", "ca.pem")).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(AllOf(HasSubstr("error: listen.tls.crl_file: cannot use"),
                                           HasSubstr("has no certificate revocation list"))));
  EXPECT_NE(listen(own() + ", " + file("crl_file", "list.pem")).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(HasSubstr("listen.tls.crl_file: has no effect with "
                                               "client_certificate: none")));
  const std::string uri = "tls=true&tlsCAFile=" + path("ca.pem") + "&tlsCRLFile=";
  EXPECT_NE(upstream(uri + path("list.pem")).net.server_tls, nullptr);
  EXPECT_THAT(findings_, testing::IsEmpty());
  EXPECT_EQ(upstream(uri + path("ca.pem")).net.server_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(AllOf(HasSubstr("of tlsCRLFile"),
                                           HasSubstr("has no certificate revocation list"))));
}

TEST_F(Tls, WarnsOfWhatHasNoEffectTowardsClients) {
  const std::string rest = file("certificate_key_file", "own.pem") + ",\n  " +
                           file("ca_file", "nowhere") + ",\n  client_certificate: require";
  EXPECT_EQ(listen("mode: off,\n  " + rest).net.client_tls, nullptr);
  EXPECT_THAT(findings_,
              ElementsAre("2:3: warning: listen.tls.certificate_key_file: has no effect with "
                          "mode: off",
                          "3:3: warning: listen.tls.ca_file: has no effect with mode: off",
                          "4:3: warning: listen.tls.client_certificate: has no effect with mode: "
                          "off"));
  // A mode that is none says nothing of them.
  EXPECT_EQ(listen("mode: on,\n  " + rest).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(HasSubstr("1:16: error: listen.tls.mode: must be one of")));
}

struct Case {
  const char* name;
  std::string text;  ///< of listen.tls, or options of upstream.uri
  std::string finding;
};

TEST_F(Tls, RefusesTowardsClients) {
  add("open.pem", own_.file(), 0644);
  add("certificate.pem", own_.pem(), 0600);
  add("key.pem", own_.key_pem(), 0600);
  add("locked.pem", own_.pem() + own_.key_pem("secret"), 0600);
  add("mixed.pem", own_.pem() + authority_.own().key_pem(), 0600);
  add("text.pem", "nothing", 0600);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string key = "1:31: error: listen.tls.certificate_key_file: ";
  const std::string ca = "2:1: error: listen.tls.ca_file: ";
  const auto required = [&](const std::string& name) {
    return "mode: require, " + file("certificate_key_file", name);
  };
  const auto asking = [&](const std::string& name) {
    return own() + ", client_certificate: require,\n" + file("ca_file", name);
  };
  const Case kCases[] = {
      {"no_file", "mode: require",
       "1:10: error: listen.tls.certificate_key_file: must name a PEM file with the certificate "
       "and its key: mode is require"},
      {"null", "mode: require, certificate_key_file: null", key + "must name a PEM file"},
      {"empty", "mode: require, certificate_key_file: ''",
       key + "must not be empty; null stands for none"},
      {"nowhere", required("nowhere"),
       key + "cannot use '" + path("nowhere") + "': No such file or directory"},
      {"open_to_all", required("open.pem"),
       key + "cannot use '" + path("open.pem") +
           "': is open to every user of this host: change that with chmod o-rwx"},
      {"pipe", required("pipe"), key + "cannot use '" + path("pipe") + "': is not a regular file"},
      {"directory", required(""), "is not a regular file"},
      {"no_key", required("certificate.pem"),
       key + "cannot use '" + path("certificate.pem") + "': has no private key"},
      {"no_certificate", required("key.pem"), "': has no certificate"},
      {"encrypted", required("locked.pem"),
       "': has an encrypted private key, but no password is set"},
      {"key_of_another", required("mixed.pem"), "': has a private key that does not belong to"},
      {"text", required("text.pem"), key + "cannot use '" + path("text.pem") + "': "},
      {"no_ca", own() + ", client_certificate: optional",
       "1:10: error: listen.tls.ca_file: must name a PEM file with the authorities that sign "
       "clients' certificates: client_certificate is not none"},
      {"ca_unused", own() + ",\n" + file("ca_file", "nowhere"), ca + "cannot use '"},
      {"ca_nowhere", asking("nowhere"), ca + "cannot use '" + path("nowhere") + "': No such file"},
      {"ca_text", asking("text.pem"), ca + "cannot use '" + path("text.pem") + "': "},
      {"ca_pipe", asking("pipe"), ca + "cannot use '" + path("pipe") + "': is not a regular file"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(listen(c.text).net.client_tls, nullptr) << c.name;
    EXPECT_THAT(findings_, ElementsAre(HasSubstr(c.finding))) << c.name;
  }
  EXPECT_EQ(listen(required("nowhere") + ", client_certificate: optional").net.client_tls, nullptr);
  EXPECT_EQ(findings_.size(), 2U);  // both at once
  (void)listen(own() + ", ca_fil: x");
  EXPECT_THAT(findings_, ElementsAre(HasSubstr("listen.tls: unknown key 'ca_fil', did you mean "
                                               "'ca_file'?")));
  (void)listen(own() + ", client_certificate: requir");
  EXPECT_THAT(findings_, ElementsAre(HasSubstr("listen.tls.client_certificate: must be one of "
                                               "none, optional or require, is text 'requir', did "
                                               "you mean 'require'?")));
}

TEST_F(Tls, WarnsOfDates) {
  constexpr std::chrono::hours kDay{24};
  const std::string key =
      "1:31: warning: listen.tls.certificate_key_file: certificate "
      "'CN=proxy,O=Example' in " +
      path("own.pem");
  EXPECT_NE(listen(own(), 91 * kDay).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(HasSubstr(key + " expired on ")));
  EXPECT_NE(listen(own(), -kDay).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(HasSubstr(key + " is not valid before ")));
  EXPECT_NE(listen(own(), 80 * kDay).net.client_tls, nullptr);
  EXPECT_THAT(findings_, ElementsAre(HasSubstr(key + " expires on ")));
  EXPECT_NE(upstream("tlsCertificateKeyFile=" + path("own.pem"), 91 * kDay).net.server_tls,
            nullptr);
  EXPECT_THAT(findings_,
              ElementsAre(HasSubstr("1:12: warning: upstream.uri: certificate 'CN=proxy,O=Example' "
                                    "in " +
                                    path("own.pem") + " expired on ")));
}

TEST_F(Tls, TowardsServersIsAsTheUriSays) {
  add("locked.pem", own_.pem() + own_.key_pem("p@ss"), 0600);
  EXPECT_EQ(upstream("w=1").net.server_tls, nullptr);
  EXPECT_NE(upstream("tls=true").net.server_tls, nullptr);
  EXPECT_THAT(findings_, IsEmpty());
  const Config config =
      upstream("tlsCAFile=" + path("ca.pem") + "&tlsCertificateKeyFile=" + path("locked.pem") +
               "&tlsCertificateKeyFilePassword=p%40ss");
  EXPECT_THAT(findings_, IsEmpty());
  ASSERT_NE(config.net.server_tls, nullptr);
  const auto& certificates = config.net.server_tls->certificates();
  ASSERT_EQ(certificates.size(), 2U);
  EXPECT_EQ(certificates[0].file, path("locked.pem"));
  EXPECT_EQ(certificates[1].file, path("ca.pem"));
  EXPECT_EQ(config.net.client_tls, nullptr);
  EXPECT_NE(read("upstream: {uri: 'mongodb+srv://db.example.org'}").net.server_tls, nullptr);
  EXPECT_EQ(read("upstream: {uri: 'mongodb+srv://db.example.org/?tls=false'}").net.server_tls,
            nullptr);
  EXPECT_THAT(findings_, IsEmpty());
}

TEST_F(Tls, RefusesTowardsServersWithoutShowingSecrets) {
  add("open.pem", own_.file(), 0644);
  add("certificate.pem", own_.pem(), 0600);
  add("locked.pem", own_.pem() + own_.key_pem("secret"), 0600);
  add("text.pem", "nothing", 0600);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto fault_of = [&](const char* name, const std::string& option) {
    return "1:12: error: upstream.uri: cannot use '" + path(name) + "' of " + option + ": ";
  };
  const auto key = [&](const char* name) { return fault_of(name, "tlsCertificateKeyFile"); };
  const auto ca = [&](const char* name) { return fault_of(name, "tlsCAFile"); };
  const auto own = [&](const char* name) { return "tlsCertificateKeyFile=" + path(name); };
  const auto trusted = [&](const char* name) { return "tlsCAFile=" + path(name); };
  const Case kCases[] = {
      {"nowhere", own("nowhere.pem"), key("nowhere.pem") + "No such file or directory"},
      {"open_to_all", own("open.pem"), key("open.pem") + "is open to every user of this host"},
      {"pipe", own("pipe"), key("pipe") + "is not a regular file"},
      {"no_key", own("certificate.pem"), key("certificate.pem") + "has no private key"},
      {"no_password", own("locked.pem"),
       key("locked.pem") + "has an encrypted private key, but no password is set"},
      {"wrong_password", own("locked.pem") + "&tlsCertificateKeyFilePassword=no%20secret",
       key("locked.pem") + "has a private key that the password does not decrypt"},
      {"ca_nowhere", trusted("nowhere.pem"), ca("nowhere.pem") + "No such file or directory"},
      {"ca_pipe", trusted("pipe"), ca("pipe") + "is not a regular file"},
      {"ca_text", trusted("text.pem"), ca("text.pem")},
      {"end_of_a_password", "tlsCAFile=secret@h/x",
       "1:12: error: upstream.uri: cannot use the file of tlsCAFile: No such file or directory"},
      {"srv", "tls=secret", "upstream.uri: is not a valid connection string: its option tls"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(upstream(c.text).net.server_tls, nullptr) << c.name;
    EXPECT_THAT(findings_, ElementsAre(HasSubstr(c.finding))) << c.name;
    EXPECT_THAT(findings_, ElementsAre(Not(HasSubstr("secret")))) << c.name;
  }
  (void)upstream(own("nowhere") + "&" + trusted("nowhere"));
  EXPECT_EQ(findings_.size(), 2U);  // both at once
}

TEST_F(Tls, IsTheStoresOwnInItsOwnUri) {
  const auto store = [&](const std::string& upstream, const std::string& own) {
    const Config config = read("upstream: {uri: 'mongodb://h/?" + upstream + "'}\n" +
                               "id_store: {uri: 'mongodb://bob@h/?" + own + "'}");
    EXPECT_EQ(config.net.server_tls != nullptr, upstream != "tls=false");
    return config.id_store.uri;
  };
  const std::string options = "authMechanism=MONGODB-X509&tls=true&tlsCAFile=" + path("ca.pem");
  EXPECT_EQ(read("upstream: {uri: 'mongodb://h/?" + options + "'}").id_store.uri,
            "mongodb://h/?" + options);
  EXPECT_EQ(store("tls=false", options + "&tlsCertificateKeyFile=" + path("own.pem")),
            "mongodb://bob@h/?" + options + "&tlsCertificateKeyFile=" + path("own.pem"));
  EXPECT_THAT(findings_, IsEmpty());
  (void)store("tls=false", "tlsCertificateKeyFile=" + path("nowhere"));
  EXPECT_THAT(findings_, ElementsAre("2:12: error: id_store.uri: cannot use '" + path("nowhere") +
                                     "' of tlsCertificateKeyFile: No such file or directory"));
  (void)store("tls=true", "w=1");
  EXPECT_THAT(
      findings_,
      ElementsAre(
          "2:12: warning: id_store.uri: does not use TLS, but upstream.uri does: without tls "
          "options of its own, the store's password and numbers are sent in the clear"));
  (void)store("tls=true", "tls=false");
  EXPECT_EQ(findings_.size(), 1U);
}

/// systemd's LoadCredential=.
TEST_F(Tls, TakesCredentials) {
  add("own.pem", own_.file(), 0400);
  add("uri", "mongodb://bob:secret@h/?tlsCAFile=" + path("ca.pem") + "\n", 0400);
  ::setenv("CREDENTIALS_DIRECTORY", path("").c_str(), 1);
  const std::string directory = "${CREDENTIALS_DIRECTORY}";
  const Config config =
      read("listen: {tls: {mode: require, certificate_key_file: '" + directory + "/own.pem'}}\n" +
           "upstream: {uri: 'mongodb://h/?tlsCAFile=" + directory + "/ca.pem'}\n" +
           "id_store: {uri_file: '" + directory + "/uri'}");
  EXPECT_THAT(findings_, IsEmpty());
  EXPECT_NE(config.net.client_tls, nullptr);
  EXPECT_NE(config.net.server_tls, nullptr);
  EXPECT_THAT(config.id_store.uri, HasSubstr("mongodb://bob:secret@h/"));
  (void)listen("mode: require, certificate_key_file: '" + directory + "/nowhere'");
  EXPECT_THAT(findings_, ElementsAre("1:31: error: listen.tls.certificate_key_file: cannot use "
                                     "'${CREDENTIALS_DIRECTORY}/nowhere' (" +
                                     path("") + "/nowhere): No such file or directory"));
  ::unsetenv("CREDENTIALS_DIRECTORY");
  (void)listen("mode: require, certificate_key_file: '" + directory + "/own.pem'");
  EXPECT_THAT(findings_,
              ElementsAre(HasSubstr("environment variable "
                                    "'CREDENTIALS_DIRECTORY' is not defined: systemd defines "
                                    "it for a service with LoadCredential=")));
}

TEST_F(Tls, OfClientsNeedsARestartToBeSwitchedOnlyNotToBeRenewed) {
  const Config plain = read("");
  const Config with = listen(own());
  EXPECT_THAT(needs_restart(plain, with), ElementsAre("listen.tls.mode"));
  EXPECT_THAT(needs_restart(with, plain), ElementsAre("listen.tls.mode"));
  add("other.pem", authority_.issue({.subject = "CN=other", .names = {}}).file(), 0600);
  const Config renewed =
      listen("mode: require, client_certificate: require, " + file("ca_file", "ca.pem") + ", " +
             file("certificate_key_file", "other.pem"));
  EXPECT_THAT(needs_restart(with, renewed), IsEmpty());
  EXPECT_EQ(renewed.net.client_tls->certificates()[0].subject, "CN=other");
}

TEST_F(Tls, TowardsServersIsReadAnewFromTheSameUri) {
  const std::string uri = "tlsCertificateKeyFile=" + path("own.pem");
  const Config before = upstream(uri);
  add("own.pem", authority_.issue({.subject = "CN=other", .names = {}}).file(), 0600);
  const Config after = upstream(uri);
  EXPECT_THAT(needs_restart(before, after), IsEmpty());
  EXPECT_EQ(before.net.server_tls->certificates()[0].subject, "CN=proxy,O=Example");
  EXPECT_EQ(after.net.server_tls->certificates()[0].subject, "CN=other");
  EXPECT_THAT(needs_restart(before, upstream(uri + "&tlsCAFile=" + path("ca.pem"))),
              ElementsAre("upstream.uri"));
}

}  // namespace tls_keys_test
}  // namespace idproxy::config
