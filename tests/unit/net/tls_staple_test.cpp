#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ocsp.h>

#include "net/tls_session.hpp"
#include "support/tls_peers.hpp"

namespace idproxy::net::tls {
namespace tls_staple_test {

using namespace std::chrono_literals;
using test::Authority;
using test::Certified;
using test::TlsSides;
using test::TlsWire;
using ::testing::StartsWith;

/// Handshakes with a server that staples OCSP responses.
class TlsStaple : public ::testing::Test {
 protected:
  /// What the client says of the server that staples `staple`; "" if it accepts it.
  std::string server_staples(const std::string& staple) {
    staple_ = staple;
    const auto context = sides_.for_clients();
    SSL_CTX* ssl = context->impl().ssl.get();
    SSL_CTX_callback_ctrl(ssl, SSL_CTRL_SET_TLSEXT_STATUS_REQ_CB,
                          reinterpret_cast<void (*)()>(answer));
    SSL_CTX_ctrl(ssl, SSL_CTRL_SET_TLSEXT_STATUS_REQ_CB_ARG, 0, this);
    const auto server = Engine::accept(context);
    const auto client = sides_.connect();
    TlsWire wire(*client, *server);
    asked_ = false;
    wire.shake();
    return client->reason();
  }
  static std::string said(const std::string& what) {
    return "the stapled OCSP response for the server's certificate 'CN=server,O=Servers' " + what;
  }

  TlsSides sides_;
  const Authority& ca_ = sides_.authority;
  bool asked_ = false;

 private:
  /// OpenSSL asks the server side for what to staple, and frees it.
  static int answer(SSL* ssl, void* argument) {
    auto& self = *static_cast<TlsStaple*>(argument);
    self.asked_ = true;
    if (self.staple_.empty()) return SSL_TLSEXT_ERR_NOACK;
    const auto size = self.staple_.size();
    auto* copy = static_cast<unsigned char*>(OPENSSL_malloc(size));
    std::copy_n(self.staple_.begin(), size, copy);
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_STATUS_REQ_OCSP_RESP, static_cast<long>(size), copy);
    return SSL_TLSEXT_ERR_OK;
  }

  std::string staple_;
};

TEST_F(TlsStaple, AcceptsAGoodOneAndNone) {
  EXPECT_EQ(server_staples(ca_.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD)), "");
  EXPECT_TRUE(asked_);
  EXPECT_EQ(server_staples(ca_.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD, 24h, EVP_sha256())),
            "");
  EXPECT_EQ(server_staples(""), "");
  EXPECT_TRUE(asked_);
}

/// RFC 6960, 2.2: its authority has not issued it, or has not said so yet. It proves nothing.
TEST_F(TlsStaple, RefusesWhatItsAuthorityDoesNotKnow) {
  EXPECT_EQ(server_staples(ca_.answer(sides_.server, V_OCSP_CERTSTATUS_UNKNOWN)),
            said("says that its authority does not know it"));
}

TEST_F(TlsStaple, RefusesWhatIsRevoked) {
  EXPECT_EQ(server_staples(ca_.answer(sides_.server, V_OCSP_CERTSTATUS_REVOKED)),
            said("says that it is revoked"));
}

TEST_F(TlsStaple, RefusesWhatProvesNothing) {
  const Authority other("CN=Other CA");
  const Certified another = ca_.issue({.subject = "CN=another"});
  const std::string good = ca_.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD);
  OCSP_RESPONSE* later = OCSP_response_create(OCSP_RESPONSE_STATUS_TRYLATER, nullptr);
  EXPECT_EQ(server_staples(Authority::der(later)), said("says trylater"));
  OCSP_RESPONSE_free(later);
  EXPECT_EQ(server_staples("what is this?"), said("cannot be read"));
  EXPECT_EQ(server_staples(good + "."), said("cannot be read"));
  EXPECT_EQ(server_staples(good.substr(0, good.size() - 1)), said("cannot be read"));
  EXPECT_EQ(server_staples(ca_.answer(another, V_OCSP_CERTSTATUS_GOOD)),
            said("is about other certificates"));
  EXPECT_THAT(server_staples(ca_.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD, -1h)),
              StartsWith(said("is not of this time: ")));
  EXPECT_THAT(
      server_staples(other.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD, 24h, EVP_sha1(), &ca_)),
      StartsWith(said("is not signed by its authority: ")));
}

TEST_F(TlsStaple, RefusesAForgedOne) {
  std::string forged = ca_.answer(sides_.server, V_OCSP_CERTSTATUS_GOOD);
  forged.back() = static_cast<char>(forged.back() ^ 1);  // of the signature
  EXPECT_NE(server_staples(forged), "");
}

TEST_F(TlsStaple, AsksForNoneIfNothingIsToBeChecked) {
  const std::string revoked = ca_.answer(sides_.server, V_OCSP_CERTSTATUS_REVOKED);
  sides_.client_options.ignore_staple = true;
  EXPECT_EQ(server_staples(revoked), "");
  EXPECT_FALSE(asked_);
  sides_.client_options.ignore_staple = false;
  sides_.client_options.allow_invalid_certificates = true;
  EXPECT_EQ(server_staples(revoked), "");
  EXPECT_FALSE(asked_);
}

}  // namespace tls_staple_test
}  // namespace idproxy::net::tls
