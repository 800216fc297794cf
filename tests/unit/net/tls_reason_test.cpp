#include "net/tls_reason.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hex.hpp"
#include "support/tls_peers.hpp"

namespace idproxy::net::tls {
namespace tls_reason_test {

using test::RawPeer;
using test::TlsSides;
using test::TlsStatus;
using test::TlsWire;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsReason : public ::testing::Test {
 protected:
  /// What is said of a client whose first bytes these are, cut anywhere.
  std::string client_sends(Bytes bytes) {
    const std::string at_once = answer(*sides_.accept(), bytes, SIZE_MAX);
    EXPECT_EQ(answer(*sides_.accept(), bytes, 1), at_once);
    return at_once;
  }
  /// The same of a server's, to which ours has said hello.
  std::string server_sends(Bytes bytes) {
    const auto engine = sides_.connect();
    Bytes nothing;
    EXPECT_EQ(engine->handshake(nothing, out_), TlsStatus::need_more);
    return answer(*engine, bytes, SIZE_MAX);
  }
  std::string answer(Engine& engine, Bytes bytes, std::size_t piece) {
    TlsStatus status = TlsStatus::need_more;
    while (status == TlsStatus::need_more && !bytes.empty()) {
      Bytes in = bytes.first(std::min(piece, bytes.size()));
      bytes = bytes.subspan(in.size());
      status = engine.handshake(in, out_);
    }
    EXPECT_EQ(status, TlsStatus::failed);
    EXPECT_EQ(engine.handshake(bytes, out_), TlsStatus::failed) << "it stays so";
    return engine.reason();
  }

  TlsSides sides_;
  Buffer out_;
};

// isMaster in OP_QUERY and hello in OP_MSG, of 0x120 bytes and of 0x310316.
constexpr const char* kMessages[] = {
    "3a000000 01000000 00000000 d4070000 00000000 61646d696e2e24636d6400 00000000",
    "20010000 01000000 00000000 dd070000 00000000 00 0b010000 10 68656c6c6f00 01000000",
};

/// In hex, of TLS 1.2 or older.
std::string server_hello(const std::string& version, const std::string& cipher) {
  std::string hello = "16" + version + "0031 02 00002d" + version;
  for (int i = 0; i < 32; ++i) hello += "5a";  // random
  return hello + "00" + cipher + "00 0005 ff01 0001 00";
}

TEST_F(TlsReason, SaysThatAClientSendsMessages) {
  for (const char* message : kMessages) {
    const auto bytes = test::from_hex(message);
    EXPECT_EQ(answer(*sides_.accept(), bytes, SIZE_MAX),
              "the client sent no TLS, but a MongoDB message");
  }
}

/// OpenSSL gives up at the fifth byte, before it can be seen what it is.
TEST_F(TlsReason, SaysThatAClientSendsNoTlsWhereItComesInPieces) {
  const auto bytes = test::from_hex(kMessages[0]);
  EXPECT_EQ(answer(*sides_.accept(), bytes, 5),
            "the client sent no TLS, but bytes of another protocol");
}

/// Whose length begins like a record. The bytes that should be a ClientHello are not one.
TEST_F(TlsReason, SaysThatAClientSendsAMessageWhoseLengthLooksLikeTls) {
  auto bytes = test::from_hex("16033100 01000000 00000000 dd070000 00000000 00");
  bytes.resize(70'000);
  EXPECT_EQ(answer(*sides_.accept(), bytes, SIZE_MAX),
            "the client sent no TLS, but a MongoDB message");
}

TEST_F(TlsReason, SaysThatAClientSpeaksHttp) {
  for (const char* request : {"GET / HTTP/1.1\r\n\r\n", "POST /x HTTP/1.1\r\n\r\n",
                              "OPTIONS * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n"}) {
    EXPECT_EQ(answer(*sides_.accept(), as_bytes(request), SIZE_MAX),
              "the client sent no TLS, but HTTP");
  }
}

TEST_F(TlsReason, SaysThatAServerSpeaksNoTls) {
  EXPECT_EQ(server_sends(as_bytes("HTTP/1.1 400 Bad Request\r\n\r\n")),
            "the server speaks no TLS: it sent HTTP");
  EXPECT_EQ(server_sends(as_bytes("+OK hello, this is no TLS\r\n")),
            "the server speaks no TLS: it sent bytes of another protocol");
  EXPECT_EQ(server_sends(test::from_hex(kMessages[1])),
            "the server speaks no TLS: it sent a MongoDB message");
}

TEST_F(TlsReason, NamesOldVersions) {
  const struct {
    int version;
    const char* name;
  } versions[] = {{TLS1_VERSION, "TLS 1.0"}, {TLS1_1_VERSION, "TLS 1.1"}};
  for (const auto& [version, name] : versions) {
    const auto old_client = RawPeer::context(false);
    const auto old_server = RawPeer::context(true, &sides_.server);
    for (SSL_CTX* context : {old_client.get(), old_server.get()}) {
      SSL_CTX_set_security_level(context, 0);
      SSL_CTX_set_min_proto_version(context, version);
      SSL_CTX_set_max_proto_version(context, version);
    }
    RawPeer client(old_client.get(), false);
    const auto server = sides_.accept();
    TlsWire towards_us(client, *server);
    towards_us.shake();
    EXPECT_EQ(server->reason(),
              std::string("the client offers only ") + name + "; TLS 1.2 or 1.3 is needed");
    EXPECT_FALSE(towards_us.both_done());

    RawPeer other(old_server.get(), true);
    const auto ours = sides_.connect();
    TlsWire from_us(*ours, other);
    from_us.shake();
    EXPECT_EQ(ours->reason(),
              "the server speaks neither TLS 1.2 nor 1.3 (alert: protocol version)");
  }
}

/// One that answers in its own version instead of with an alert.
TEST_F(TlsReason, NamesTheVersionThatAServerChooses) {
  EXPECT_EQ(server_sends(test::from_hex(server_hello("0302", "c014"))),
            "the server speaks only TLS 1.1; TLS 1.2 or 1.3 is needed");
}

TEST_F(TlsReason, NamesCipherSuitesThatDoNotMatch) {
  const auto context = RawPeer::context(false);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  for (const char* ciphers : {"ECDHE-ECDSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256",
                              "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-CCM"}) {
    ASSERT_EQ(SSL_CTX_set_cipher_list(context.get(), ciphers), 1) << ciphers;
    RawPeer client(context.get(), false);
    const auto server = sides_.accept();
    TlsWire wire(client, *server);
    wire.shake();
    EXPECT_EQ(server->reason(), "the client offers no cipher suite that is allowed") << ciphers;
  }
}

/// TLS 1.2 has no alert of its own for it.
TEST_F(TlsReason, SaysThatAnOldServerWantsACertificate) {
  const auto context = RawPeer::context(true, &sides_.server);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  RawPeer server(context.get(), true);
  const auto client = sides_.connect();
  TlsWire wire(*client, server);
  wire.shake();
  EXPECT_EQ(client->reason(),
            "the server refused the connection: it asks for a client certificate, and none is "
            "set (alert: handshake failure)");
}

TEST_F(TlsReason, NamesAnyOtherAlert) {
  EXPECT_EQ(server_sends(test::from_hex("15 0303 0002 0250")),
            "the server ended the TLS session (alert: internal error)");
  EXPECT_EQ(server_sends(test::from_hex("15 0303 0002 0228")),
            "the server ended the TLS session (alert: handshake failure)");
  EXPECT_EQ(server_sends(test::from_hex("15 0303 0002 0100")),
            "the server closed during the TLS handshake");
  EXPECT_THAT(server_sends(test::from_hex("15 0303 0002 02ee")), StartsWith("the "));
}

TEST_F(TlsReason, SaysWhatIsWrongWithACertificateThatIsNone) {
  EXPECT_THAT(server_sends(test::from_hex(server_hello("0303", "c02b") +
                                          "16 0303 000f 0b 00000b 000008 000005 3003020101")),
              StartsWith("the TLS handshake with the server failed: wrong tag"));
}

TEST_F(TlsReason, GivesOpensslsTextForTheRest) {
  EXPECT_THAT(client_sends(test::from_hex("16 0301 0005 02000001 00")),
              StartsWith("the TLS handshake with the client failed: "));
  EXPECT_THAT(client_sends(test::from_hex("16 0301 ffff 01000001 00")),
              HasSubstr("packet length too long"));
}

// ---- where the peer closes the connection itself --------------------------------------------

TEST_F(TlsReason, SaysWhatAClosedConnectionMayMean) {
  const auto server = sides_.accept();
  EXPECT_EQ(server->why_closed(), "the client closed the connection during the TLS handshake");
  const auto client = sides_.connect();
  TlsWire wire(*client, *server);
  Bytes nothing;
  EXPECT_EQ(client->handshake(nothing, wire.to_server), TlsStatus::need_more);
  EXPECT_EQ(client->why_closed(),
            "the server closed the connection at the first bytes of TLS: it may speak none");
  Bytes in = wire.to_server.view();
  EXPECT_EQ(server->handshake(in, wire.to_client), TlsStatus::need_more);
  in = wire.to_client.view().first(50);
  EXPECT_EQ(client->handshake(in, wire.to_server), TlsStatus::need_more);
  EXPECT_EQ(client->why_closed(), "the server closed the connection during the TLS handshake");
}

TEST_F(TlsReason, SaysThatAServerThatAskedForACertificateMayHaveRefusedIt) {
  sides_.check_clients(ClientCertificate::optional);
  for (const bool has_one : {true, false}) {
    if (!has_one) sides_.client_options.certificate_key_file.clear();
    const auto server = sides_.accept();
    const auto client = sides_.connect();
    TlsWire wire(*client, *server);
    wire.shake();
    ASSERT_TRUE(wire.both_done());
    EXPECT_EQ(client->why_closed(),
              std::string("the server closed the connection after the TLS handshake, as mongod "
                          "does with those ") +
                  (has_one ? "whose certificate it refuses: ours is 'CN=client,O=Clients'"
                           : "that have no certificate: none is set"));
    EXPECT_EQ(wire.to_client_says("reply"), "reply");
    EXPECT_EQ(client->why_closed(), "");
  }
}

TEST_F(TlsReason, KnowsNothingOfAServerThatAskedForNone) {
  const auto server = sides_.accept();
  const auto client = sides_.connect();
  TlsWire wire(*client, *server);
  wire.shake();
  ASSERT_TRUE(wire.both_done());
  EXPECT_EQ(client->why_closed(), "");
  EXPECT_EQ(server->why_closed(), "");
}

}  // namespace tls_reason_test
}  // namespace idproxy::net::tls
