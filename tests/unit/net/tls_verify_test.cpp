#include "net/tls_session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/tls_certificate.hpp"
#include "support/tls_peers.hpp"

namespace idproxy::net::tls {
namespace tls_verify_test {

using namespace std::chrono_literals;
using test::Authority;
using test::Certified;
using test::RawPeer;
using test::TlsSides;
using test::TlsStatus;
using test::TlsWire;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Handshakes, and what each side says of them. A client only hears of the server's refusal when it
/// reads on (TLS 1.3).
class TlsVerify : public ::testing::Test {
 protected:
  void shake(const std::string& host = "db.example") {
    server_ = sides_.accept();
    client_ = sides_.connect(host);
    TlsWire wire(*client_, *server_);
    wire.shake();
    if (wire.client_status == TlsStatus::done) {
      wire.read(*client_, wire.client_status, wire.to_client, wire.to_server);
    }
    server_refuses_ = wire.server_status == TlsStatus::failed;
    client_refuses_ = wire.client_status == TlsStatus::failed;
  }
  /// What the client says of the server that shows this one.
  std::string server_shows(const Certified& one, const std::string& host = "db.example") {
    sides_.server_options.certificate_key_file = sides_.files.add("shown.pem", one.file());
    shake(host);
    EXPECT_EQ(client_refuses_, !client_->reason().empty());
    return client_->reason();
  }
  /// What the server says of the client that shows this one.
  std::string client_shows(const Certified& one) {
    sides_.check_clients();
    sides_.client_options.certificate_key_file = sides_.files.add("shown.pem", one.file());
    shake();
    EXPECT_EQ(server_refuses_, !server_->reason().empty());
    return server_->reason();
  }
  void trust(const std::string& pem) {
    sides_.client_options.ca_file = sides_.files.add("ca.pem", pem);
  }
  [[nodiscard]] std::string trusted() const {
    return "the CA file " + sides_.client_options.ca_file;
  }

  TlsSides sides_;
  const Authority& ca_ = sides_.authority;
  std::unique_ptr<Engine> server_;
  std::unique_ptr<Engine> client_;
  bool server_refuses_ = false;
  bool client_refuses_ = false;
};

// ---- of servers -----------------------------------------------------------------------------

TEST_F(TlsVerify, AcceptsTheNamesAndAddressesOfACertificate) {
  for (const char* host : {"db.example", "DB.Example", "db.example.", "a.sets.example", "10.0.0.1",
                           "::1", "0:0::1", "::1%lo"}) {
    EXPECT_EQ(server_shows(sides_.server, host), "") << host;
  }
}

TEST_F(TlsVerify, RefusesOtherNames) {
  const std::string names = "; it is for db.example, *.sets.example, 10.0.0.1, ::1";
  for (const std::string host : {"db.example.org", "example", "a.b.sets.example", "sets.example",
                                 "10.0.0.2", "::2", "0.0.0.1"}) {
    EXPECT_EQ(server_shows(sides_.server, host),
              "the server's certificate 'CN=server,O=Servers' is not for '" + host + "'" + names);
  }
  EXPECT_EQ(server_->reason(),
            "the client refused our certificate 'CN=server,O=Servers' (alert: bad certificate)");
}

TEST_F(TlsVerify, RefusesPartOfANameAsAWildcard) {
  const Certified one = ca_.issue({.subject = "CN=x", .names = {"d*.sets.example"}});
  EXPECT_EQ(server_shows(one, "db.sets.example"),
            "the server's certificate 'CN=x' is not for 'db.sets.example'; "
            "it is for d*.sets.example");
}

TEST_F(TlsVerify, TakesTheCommonNameWhereThereAreNoOthers) {
  EXPECT_EQ(server_shows(ca_.issue({.subject = "CN=db.example"})), "");
  EXPECT_EQ(server_shows(ca_.issue({.subject = "CN=db.example", .names = {"b.example"}})),
            "the server's certificate 'CN=db.example' is not for 'db.example'; "
            "it is for b.example");
  EXPECT_EQ(server_shows(ca_.issue({.subject = "CN=a.example"})),
            "the server's certificate 'CN=a.example' is not for 'db.example'; "
            "it is for a.example");
  EXPECT_EQ(server_shows(ca_.issue({.subject = "O=Nameless"})),
            "the server's certificate 'O=Nameless' is not for 'db.example'; it has no names");
}

TEST_F(TlsVerify, RefusesWhatHasExpired) {
  const Certified one =
      ca_.issue({.subject = "CN=old", .names = {"db.example"}, .from_now = -48h, .until_now = -1h});
  EXPECT_EQ(server_shows(one),
            "the server's certificate 'CN=old' expired on " + time_text(not_after(one.x509())));
}

TEST_F(TlsVerify, RefusesWhatIsNotValidYet) {
  const Certified one =
      ca_.issue({.subject = "CN=early", .names = {"db.example"}, .from_now = 24h});
  EXPECT_EQ(server_shows(one), "the server's certificate 'CN=early' is not valid before " +
                                   time_text(not_before(one.x509())));
}

TEST_F(TlsVerify, RefusesAnUnknownAuthority) {
  const Authority other("CN=Other CA,O=Others");
  EXPECT_EQ(server_shows(other.issue({.subject = "CN=x", .names = {"db.example"}})),
            "unknown CA: the server's certificate 'CN=x' is signed by 'CN=Other CA,O=Others', "
            "which " +
                trusted() + " does not have");
}

TEST_F(TlsVerify, RefusesAnUnknownAuthorityThatComesAlong) {
  const Authority other("CN=Other CA");
  const Certified one = other.issue({.subject = "CN=x", .names = {"db.example"}});
  sides_.server_options.certificate_key_file =
      sides_.files.add("shown.pem", one.file() + other.pem());
  shake();
  EXPECT_EQ(client_->reason(),
            "unknown CA: the CA certificate 'CN=Other CA' of the server's certificate 'CN=x' is "
            "self-signed, and " +
                trusted() + " does not have it");
}

/// Of the same name as the one that is trusted, but another key.
TEST_F(TlsVerify, RefusesAnAuthorityThatOnlyHasTheName) {
  const Authority other("CN=Test CA,O=Tests");
  EXPECT_EQ(server_shows(other.issue({.subject = "CN=x", .names = {"db.example"}})),
            "the server's certificate 'CN=x' is refused: certificate signature failure");
}

TEST_F(TlsVerify, RefusesASelfSignedOne) {
  const Certified one({.subject = "CN=self", .names = {"db.example"}}, nullptr);
  EXPECT_EQ(server_shows(one), "the server's certificate 'CN=self' is self-signed, and " +
                                   trusted() + " does not have it");
  trust(one.pem());
  EXPECT_EQ(server_shows(one), "");
}

TEST_F(TlsVerify, SaysWhomTheSystemDoesNotTrust) {
  sides_.client_options.ca_file.clear();
  EXPECT_EQ(server_shows(sides_.server),
            "unknown CA: the server's certificate 'CN=server,O=Servers' is signed by "
            "'CN=Test CA,O=Tests', which the system does not have");
}

TEST_F(TlsVerify, RefusesACertificateForClientsOnly) {
  const Certified one =
      ca_.issue({.subject = "CN=x", .names = {"db.example"}, .extended_key_usage = "clientAuth"});
  EXPECT_THAT(server_shows(one), StartsWith("the server's certificate 'CN=x' is refused: un"));
}

TEST_F(TlsVerify, AcceptsAChainWithAnIntermediateAuthority) {
  const Authority middle("CN=Middle", ca_);
  const Certified one = middle.issue({.subject = "CN=x", .names = {"db.example"}});
  EXPECT_EQ(server_shows(one),
            "unknown CA: the server's certificate 'CN=x' is signed by "
            "'CN=Middle', which " +
                trusted() + " does not have");
  sides_.server_options.certificate_key_file =
      sides_.files.add("shown.pem", one.file() + middle.pem());
  shake();
  EXPECT_EQ(client_->reason(), "");
}

/// As mongod does: net.tls.CAFile completes what certificateKeyFile has.
TEST_F(TlsVerify, TakesTheIntermediateAuthorityFromTheCaFile) {
  const Authority middle("CN=Middle", ca_);
  sides_.server_options.ca_file = sides_.files.add("both.pem", middle.pem() + ca_.pem());
  EXPECT_EQ(server_shows(middle.issue({.subject = "CN=x", .names = {"db.example"}})), "");
}

TEST_F(TlsVerify, RefusesWhatIsRevoked) {
  const Certified one = ca_.issue({.subject = "CN=lost", .names = {"db.example"}});
  trust(ca_.pem() + ca_.revoke({&one}));
  EXPECT_EQ(server_shows(one), "the server's certificate 'CN=lost' is revoked");
  EXPECT_EQ(server_shows(sides_.server), "");
}

TEST_F(TlsVerify, ReadsListsInAFileOfTheirOwn) {
  const Certified one = ca_.issue({.subject = "CN=lost", .names = {"db.example"}});
  sides_.client_options.crl_file = sides_.files.add("crl.pem", ca_.revoke({&one}));
  EXPECT_EQ(server_shows(one), "the server's certificate 'CN=lost' is revoked");
  EXPECT_EQ(server_shows(sides_.server), "");
  const auto fault_of = [&](const std::string& content) {
    sides_.client_options.crl_file = sides_.files.add("crl.pem", content);
    const auto made = Context::for_servers(sides_.client_options);
    return made || made.error().file != Fault::File::crl ? "" : made.error().reason;
  };
  EXPECT_EQ(fault_of(ca_.pem()), "has no certificate revocation list");
  EXPECT_THAT(fault_of("-----BEGIN X509 CRL-----\nno\n-----END X509 CRL-----\n"),
              StartsWith("cannot be read as PEM: "));
}

TEST_F(TlsVerify, ReadsListsOfClientsInAFileOfTheirOwn) {
  const Certified one = ca_.issue({.subject = "CN=lost"});
  sides_.server_options.crl_file = sides_.files.add("crl.pem", ca_.revoke({&one}));
  EXPECT_EQ(client_shows(one), "the client's certificate 'CN=lost' is revoked");
  EXPECT_EQ(client_shows(sides_.client), "");
}

TEST_F(TlsVerify, RefusesWhatNoListSpeaksOf) {
  const Authority other("CN=Other CA");
  trust(other.pem() + ca_.pem() + other.revoke({}));
  EXPECT_EQ(server_shows(sides_.server),
            "the server's certificate 'CN=server,O=Servers' is refused: " + trusted() +
                " has no revocation list of 'CN=Test CA,O=Tests' "
                "(unable to get certificate CRL)");
  trust(ca_.pem() + ca_.revoke({}, -1h));
  EXPECT_EQ(server_shows(sides_.server),
            "the server's certificate 'CN=server,O=Servers' is refused: CRL has expired");
}

TEST_F(TlsVerify, ChecksNothingIfNothingIsToBeChecked) {
  sides_.client_options.allow_invalid_certificates = true;
  const Authority other("CN=Other CA");
  const Certified one =
      other.issue({.subject = "CN=x", .names = {"b.example"}, .from_now = -48h, .until_now = -1h});
  for (const char* host : {"db.example", "10.0.0.1", ""}) EXPECT_EQ(server_shows(one, host), "");
}

TEST_F(TlsVerify, ChecksAllButTheNameIfNamesAreNotToBeChecked) {
  sides_.client_options.allow_invalid_hostnames = true;
  for (const char* host : {"other.example", "10.9.9.9", ""}) {
    EXPECT_EQ(server_shows(sides_.server, host), "") << host;
  }
  const Authority other("CN=Other CA");
  EXPECT_THAT(server_shows(other.issue({.subject = "CN=x", .names = {"db.example"}})),
              StartsWith("unknown CA: "));
}

TEST_F(TlsVerify, RefusesIfThereIsNoNameToCheck) {
  for (const char* host : {"", "."}) {
    const auto client = sides_.connect(host);
    Buffer out;
    Bytes nothing;
    EXPECT_EQ(client->handshake(nothing, out), TlsStatus::failed);
    EXPECT_TRUE(out.empty());
    EXPECT_EQ(client->reason(), "there is no host name to compare with the server's certificate");
  }
}

// ---- of clients -----------------------------------------------------------------------------

TEST_F(TlsVerify, TellsBothSidesOfAClientWithoutACertificate) {
  sides_.check_clients();
  sides_.client_options.certificate_key_file.clear();
  shake();
  EXPECT_EQ(server_->reason(), "the client sent no certificate, and one is required");
  EXPECT_EQ(client_->reason(),
            "the server requires a client certificate (alert: certificate required)");
}

TEST_F(TlsVerify, AcceptsAClientWithoutACertificateIfThatIsOptional) {
  sides_.check_clients(ClientCertificate::optional);
  sides_.client_options.certificate_key_file.clear();
  shake();
  EXPECT_EQ(server_->reason(), "");
  EXPECT_FALSE(server_refuses_);
}

TEST_F(TlsVerify, RefusesABadCertificateAlsoIfItIsOptional) {
  sides_.check_clients(ClientCertificate::optional);
  const Authority other("CN=Other CA");
  const Certified one = other.issue({.subject = "CN=x,O=X"});
  sides_.client_options.certificate_key_file = sides_.files.add("shown.pem", one.file());
  shake();
  EXPECT_EQ(server_->reason(),
            "unknown CA: the client's certificate 'CN=x,O=X' is signed by "
            "'CN=Other CA', which " +
                trusted() + " does not have");
  EXPECT_EQ(client_->reason(), "the server refused our certificate 'CN=x,O=X' (alert: unknown ca)");
}

TEST_F(TlsVerify, NeverAsksForACertificateThatItWouldNotCheck) {
  sides_.check_clients(ClientCertificate::none);
  const Authority other("CN=Other CA");
  const Certified one = other.issue({.subject = "CN=x,O=X"});
  sides_.client_options.certificate_key_file = sides_.files.add("shown.pem", one.file());
  shake();
  EXPECT_FALSE(server_refuses_ || client_refuses_);
}

TEST_F(TlsVerify, RefusesClientsWithBadCertificates) {
  const Certified old = ca_.issue({.subject = "CN=old", .from_now = -48h, .until_now = -1h});
  EXPECT_EQ(client_shows(old),
            "the client's certificate 'CN=old' expired on " + time_text(not_after(old.x509())));
  EXPECT_THAT(client_->reason(), HasSubstr("certificate expired"));
  const Certified early = ca_.issue({.subject = "CN=early", .from_now = 1h});
  EXPECT_EQ(client_shows(early), "the client's certificate 'CN=early' is not valid before " +
                                     time_text(not_before(early.x509())));
  const Certified self({.subject = "CN=self"}, nullptr);
  EXPECT_EQ(client_shows(self), "the client's certificate 'CN=self' is self-signed, and " +
                                    trusted() + " does not have it");
  const Certified servers = ca_.issue({.subject = "CN=server", .extended_key_usage = "serverAuth"});
  EXPECT_THAT(client_shows(servers),
              StartsWith("the client's certificate 'CN=server' is refused: un"));
}

TEST_F(TlsVerify, RefusesClientsWhoseCertificateIsRevoked) {
  const Certified lost = ca_.issue({.subject = "CN=lost"});
  sides_.client_options.ca_file = sides_.files.add("plain.pem", ca_.pem());
  sides_.check_clients();
  sides_.server_options.ca_file =
      sides_.files.add("with_list.pem", ca_.pem() + ca_.revoke({&lost}));
  sides_.client_options.certificate_key_file = sides_.files.add("shown.pem", lost.file());
  shake();
  EXPECT_EQ(server_->reason(), "the client's certificate 'CN=lost' is revoked");
  EXPECT_THAT(client_->reason(), HasSubstr("certificate revoked"));
}

// ---- certificates of members ----------------------------------------------------------------

struct Pair {
  const char* server;
  const char* ours;
  bool same;
};

class TlsMembers : public ::testing::TestWithParam<Pair> {
 protected:
  /// What the client says that has such a certificate; `asks`: the server asks for it.
  std::string shake(bool asks, bool checked) {
    TlsSides sides;
    const Certified server =
        sides.authority.issue({.subject = GetParam().server, .names = {"db.example"}});
    const Certified ours = sides.authority.issue({.subject = GetParam().ours});
    sides.check_clients(asks ? ClientCertificate::optional : ClientCertificate::none);
    sides.server_options.certificate_key_file = sides.files.add("server.pem", server.file());
    sides.client_options.certificate_key_file = sides.files.add("client.pem", ours.file());
    sides.client_options.allow_invalid_certificates = !checked;
    const auto client = sides.connect();
    const auto accepting = sides.accept();
    TlsWire wire(*client, *accepting);
    wire.shake();
    EXPECT_EQ(wire.client_status, GetParam().same ? TlsStatus::failed : TlsStatus::done);
    return client->reason();
  }
};

TEST_P(TlsMembers, AreNotPlayed) {
  const std::string reason =
      GetParam().same ? std::string("our certificate '") + GetParam().ours +
                            "' has the same O, OU and DC as the server's '" + GetParam().server +
                            "': mongod would take the proxy for a member of its "
                            "cluster, with all rights; use a certificate that differs "
                            "in one of them"
                      : "";
  EXPECT_EQ(shake(true, true), reason);
  EXPECT_EQ(shake(true, false), reason) << "also if nothing else is checked";
  EXPECT_EQ(shake(false, true), reason) << "also if it is not asked for";
}

INSTANTIATE_TEST_SUITE_P(
    Subjects, TlsMembers,
    ::testing::Values(Pair{"CN=a,O=Org", "CN=proxy,O=Org", true},
                      Pair{"CN=a,OU=Db,O=Org", "CN=proxy,O=Org,OU=Db", true},
                      Pair{"CN=a,OU=X,OU=Y,O=Org", "CN=proxy,OU=Y,OU=X,O=Org", true},
                      Pair{"CN=a,DC=example,DC=org", "CN=proxy,DC=example,DC=org", true},
                      Pair{"CN=a,O=Org,L=Here,C=DE", "CN=proxy,O=Org,L=There,C=FR", true},
                      Pair{"CN=a,OU=Db,O=Org", "CN=proxy,OU=Proxies,O=Org", false},
                      Pair{"CN=a,OU=Db,O=Org", "CN=proxy,O=Org", false},
                      Pair{"CN=a,O=Org", "CN=proxy,OU=Db,O=Org", false},
                      Pair{"CN=a,O=Org", "CN=proxy,OU=Org", false},
                      Pair{"CN=a,OU=X,OU=X,O=Org", "CN=proxy,OU=X,O=Org", false},
                      Pair{"CN=a", "CN=proxy", false}, Pair{"CN=a", "CN=a,O=Org", false},
                      Pair{"CN=a,O=Org", "CN=proxy,O=org", false}));

/// The certificate itself does not leave the machine.
TEST(TlsMembersSent, AreNotShown) {
  TlsSides sides;
  const Certified ours = sides.authority.issue({.subject = "CN=proxy,O=Servers"});
  sides.client_options.certificate_key_file = sides.files.add("client.pem", ours.file());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto context = RawPeer::context(true, &sides.server);
    SSL_CTX_set_max_proto_version(context.get(), version);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
    RawPeer server(context.get(), true);
    const auto client = sides.connect();
    TlsWire wire(*client, server);
    wire.shake();
    EXPECT_EQ(wire.client_status, TlsStatus::failed);
    EXPECT_EQ(SSL_get0_peer_certificate(server.ssl()), nullptr);
  }
}

}  // namespace tls_verify_test
}  // namespace idproxy::net::tls
