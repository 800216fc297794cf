#include "net/tls_session.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/tls_certificate.hpp"
#include "support/certificates.hpp"

namespace idproxy::net::tls {
namespace tls_context_test {

using namespace std::chrono_literals;
using test::Authority;
using test::Certified;
using test::TemporaryFiles;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TlsContext : public ::testing::Test {
 protected:
  /// Why the file cannot be our certificate_key_file, on either side; "" if it can.
  std::string own_fault(const std::string& text, const std::string& password = {}) {
    return own_fault_of(files_.add("own.pem", text), password);
  }
  std::string own_fault_of(const std::string& file, const std::string& password = {}) {
    const auto client = Context::for_servers({"", file, password});
    EXPECT_TRUE(client || client.error().file == Fault::File::certificate_key);
    const std::string fault = client ? "" : client.error().reason;
    const auto server = Context::for_clients({file, ""});
    EXPECT_TRUE(!password.empty() || (server ? "" : server.error().reason) == fault);
    return fault;
  }
  std::string ca_fault(const std::string& text) { return ca_fault_of(files_.add("ca.pem", text)); }
  std::string ca_fault_of(const std::string& file) {
    const auto client = Context::for_servers({file, "", ""});
    EXPECT_TRUE(client || client.error().file == Fault::File::ca);
    const auto server =
        Context::for_clients({files_.add("good.pem", one_.file()), file, ClientCertificate::none});
    const std::string fault = client ? "" : client.error().reason;
    EXPECT_EQ(server ? "" : server.error().reason, fault) << "read also where it is not needed";
    return fault;
  }
  std::shared_ptr<const Context> valid(std::chrono::seconds from_now,
                                       std::chrono::seconds until_now) {
    own_ = std::make_unique<Certified>(
        ca_.issue({.subject = "CN=proxy", .from_now = from_now, .until_now = until_now}));
    return *Context::for_clients({files_.add("own.pem", own_->file()), ""});
  }

  TemporaryFiles files_;
  Authority ca_;
  Certified one_ = ca_.issue({.subject = "CN=proxy,O=Proxies"});
  std::unique_ptr<Certified> own_;
};

TEST_F(TlsContext, TakesACertificateAndItsKeyInAnyOrderAndForm) {
  EXPECT_EQ(own_fault(one_.pem() + one_.key_pem()), "");
  EXPECT_EQ(own_fault(one_.key_pem() + one_.pem()), "");
  EXPECT_EQ(own_fault(one_.pem() + one_.old_key_pem()), "");
  EXPECT_EQ(own_fault(one_.pem() + ca_.pem() + one_.key_pem()), "");
  EXPECT_EQ(own_fault("what it is\n" + one_.pem() + "\nits key:\n" + one_.key_pem() + "end"), "");
}

TEST_F(TlsContext, RefusesFilesThatCannotBeRead) {
  EXPECT_EQ(own_fault_of(files_.path("none")), "cannot be read: No such file or directory");
  EXPECT_EQ(own_fault_of(files_.path(".")), "cannot be read: is not a regular file");
  EXPECT_EQ(ca_fault_of(files_.path("none")), "cannot be read: No such file or directory");
}

TEST_F(TlsContext, RefusesFilesWithoutWhatIsNeeded) {
  EXPECT_EQ(own_fault(""), "has no certificate");
  EXPECT_EQ(own_fault("certificate"), "has no certificate");
  EXPECT_EQ(own_fault(one_.key_pem()), "has no certificate");
  EXPECT_EQ(own_fault(one_.pem()), "has no private key");
  EXPECT_EQ(ca_fault(""), "has no certificate");
  EXPECT_EQ(ca_fault(one_.key_pem()), "has no certificate");
  EXPECT_EQ(ca_fault(ca_.revoke({})), "has no certificate");
}

TEST_F(TlsContext, RefusesAKeyOfAnotherCertificate) {
  const Certified other = ca_.issue({.subject = "CN=other"});
  const std::string fault =
      "has a private key that does not belong to its first certificate 'CN=proxy,O=Proxies'";
  EXPECT_EQ(own_fault(one_.pem() + other.key_pem()), fault);
  EXPECT_EQ(own_fault(one_.pem() + other.pem() + other.key_pem()), fault);
}

TEST_F(TlsContext, RefusesGarbage) {
  std::string broken = one_.pem();
  broken[broken.size() / 2] = '!';
  EXPECT_THAT(own_fault(broken + one_.key_pem()), StartsWith("cannot be read as PEM: "));
  EXPECT_THAT(ca_fault(broken), StartsWith("cannot be read as PEM: "));
  EXPECT_EQ(own_fault(one_.pem() + one_.key_pem().substr(0, 100)),
            "cannot be read as PEM: bad end line");
  const std::string begin = one_.pem() + "-----BEGIN ";
  EXPECT_THAT(own_fault(begin + "PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
              StartsWith("cannot be read as PEM: "));
  EXPECT_THAT(
      own_fault(begin + "ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
      StartsWith("has a private key that cannot be read: "));
}

/// No file in a file system is whole at every moment: nothing of it is a crash.
TEST_F(TlsContext, RefusesFilesThatAreCutAnywhere) {
  const std::string whole = one_.file();
  for (std::size_t cut = 0; cut + 1 < whole.size(); cut += 7) {
    EXPECT_NE(own_fault(whole.substr(0, cut)), "") << cut;
  }
}

TEST_F(TlsContext, TakesAPasswordOnlyTowardsServers) {
  for (const std::string& key : {one_.key_pem("secret"), one_.old_key_pem("secret")}) {
    EXPECT_EQ(own_fault(one_.pem() + key, "secret"), "");
    EXPECT_EQ(own_fault(one_.pem() + key, "wrong"),
              "has a private key that the password does not decrypt");
    EXPECT_EQ(own_fault(one_.pem() + key), "has an encrypted private key, but no password is set");
    const auto server = Context::for_clients({files_.path("own.pem"), ""});
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().reason, "has an encrypted private key, but no password is set");
  }
  EXPECT_EQ(own_fault(one_.file(), "needless"), "");
}

TEST_F(TlsContext, RefusesAPasswordOfAnyLengthThatIsWrong) {
  const std::string file = one_.pem() + one_.key_pem("secret");
  EXPECT_EQ(own_fault(file, std::string(100'000, 'x')),
            "has a private key that the password does not decrypt");
}

TEST_F(TlsContext, RefusesWhatOpensslFindsTooWeak) {
  const Certified weak({.subject = "CN=weak", .rsa_bits = 512}, nullptr);
  EXPECT_EQ(own_fault(weak.file()), "has an unusable certificate 'CN=weak': ee key too small");
}

TEST_F(TlsContext, NeedsACaFileWhereClientsAreChecked) {
  const std::string own = files_.add("own.pem", one_.file());
  for (const auto mode : {ClientCertificate::optional, ClientCertificate::require}) {
    const auto made = Context::for_clients({own, "", mode});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().file, Fault::File::ca);
    EXPECT_EQ(made.error().reason, "is missing: client certificates are verified with it");
    EXPECT_TRUE(Context::for_clients({own, files_.add("ca.pem", ca_.pem()), mode}));
  }
}

TEST_F(TlsContext, ListsItsCertificates) {
  const Authority middle("CN=Middle", ca_);
  const Authority other("CN=Other");
  const Certified own = middle.issue({.subject = "CN=own"});
  const std::string own_file = files_.add("own.pem", own.key_pem() + own.pem() + middle.pem());
  const std::string ca_file = files_.add("ca.pem", ca_.pem() + other.pem() + ca_.revoke({}));
  const auto made = Context::for_clients({own_file, ca_file, ClientCertificate::optional});
  ASSERT_TRUE(made);
  std::vector<std::string> listed;
  for (const Certificate& one : (*made)->certificates()) {
    listed.push_back(one.subject + " in " + one.file);
  }
  EXPECT_THAT(listed, ElementsAre("CN=own in " + own_file, "CN=Middle in " + own_file,
                                  "CN=Test CA,O=Tests in " + ca_file, "CN=Other in " + ca_file));
  EXPECT_EQ((*made)->certificates().front().not_before, not_before(own.x509()));
  EXPECT_EQ((*made)->certificates().front().not_after, not_after(own.x509()));
}

TEST_F(TlsContext, ListsNothingWithoutFiles) {
  const auto made = Context::for_servers({});
  ASSERT_TRUE(made);
  EXPECT_THAT((*made)->certificates(), IsEmpty());
  EXPECT_THAT((*made)->warnings(std::chrono::sys_seconds(0s)), IsEmpty());
}

TEST_F(TlsContext, WarnsOfItsOwnCertificate) {
  const auto context = valid(-1h, 90 * 24h);
  const auto begin = not_before(own_->x509());
  const auto end = not_after(own_->x509());
  const std::string name = "certificate 'CN=proxy' in " + files_.path("own.pem");
  EXPECT_THAT(context->warnings(begin), IsEmpty());
  EXPECT_THAT(context->warnings(end - 14 * 24h - 1s), IsEmpty());
  const std::string expires = name + " expires on " + time_text(end);
  EXPECT_THAT(context->warnings(end - 14 * 24h), ElementsAre(expires));
  EXPECT_THAT(context->warnings(end), ElementsAre(expires));
  EXPECT_THAT(context->warnings(end + 1s), ElementsAre(name + " expired on " + time_text(end)));
  EXPECT_THAT(context->warnings(begin - 1s),
              ElementsAre(name + " is not valid before " + time_text(begin)));
}

/// It may become valid, or be renewed, while the program runs.
TEST_F(TlsContext, TakesAnExpiredCertificate) {
  EXPECT_EQ(
      valid(-48h, -1h)
          ->warnings(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()))
          .size(),
      1U);
}

TEST_F(TlsContext, DoesNotWarnOfOthers) {
  const Certified old = ca_.issue({.subject = "CN=old", .from_now = -48h, .until_now = -1h});
  const auto made = Context::for_servers({files_.add("ca.pem", old.pem()), "", ""});
  ASSERT_TRUE(made);
  EXPECT_THAT((*made)->warnings(not_after(old.x509()) + 1h), IsEmpty());
}

}  // namespace tls_context_test
}  // namespace idproxy::net::tls
