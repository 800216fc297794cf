#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "idproxy/net/tls.hpp"
#include "net/tls_session.hpp"
#include "support/tls_peers.hpp"

namespace idproxy::net::tls {
namespace tls_engine_test {

using test::RawPeer;
using test::TlsSides;
using test::TlsWire;
using ::testing::HasSubstr;
using Status = Engine::Status;

std::string pattern(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ",";
  return text.substr(0, size);
}

// ---- between two of ours --------------------------------------------------------------------

struct Way {
  const char* name;
  int version;
  std::size_t piece;
  bool with_client_certificate;
};

class TlsEngineWays : public ::testing::TestWithParam<Way> {
 protected:
  TlsEngineWays() {
    if (GetParam().with_client_certificate) sides_.check_clients();
    const auto context = sides_.for_clients();
    SSL_CTX_set_max_proto_version(context->impl().ssl.get(), GetParam().version);
    server_ = Engine::accept(context);
    client_ = sides_.connect();
  }

  TlsSides sides_;
  std::unique_ptr<Engine> server_;
  std::unique_ptr<Engine> client_;
};

TEST_P(TlsEngineWays, ShakesHandsAndTalks) {
  TlsWire wire(*client_, *server_, GetParam().piece);
  wire.shake();
  ASSERT_TRUE(wire.both_done()) << client_->reason() << server_->reason();
  EXPECT_EQ(wire.to_server_says("request"), "request");
  EXPECT_EQ(wire.to_client_says("reply"), "reply");
  const std::string large = pattern(20'000);
  EXPECT_TRUE(wire.to_server_says(large) == large);
  EXPECT_TRUE(wire.to_client_says(large) == large);
  client_->close_notify(wire.to_server);
  EXPECT_EQ(wire.read(*server_, wire.server_status, wire.to_server, wire.to_client), "");
  EXPECT_EQ(wire.server_status, Status::ended);
  EXPECT_EQ(server_->reason(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, TlsEngineWays,
    ::testing::Values(Way{"Tls12", TLS1_2_VERSION, SIZE_MAX, false},
                      Way{"Tls13", TLS1_3_VERSION, SIZE_MAX, false},
                      Way{"Tls12WithClientCertificate", TLS1_2_VERSION, SIZE_MAX, true},
                      Way{"Tls13WithClientCertificate", TLS1_3_VERSION, SIZE_MAX, true},
                      Way{"Tls12ByteByByte", TLS1_2_VERSION, 1, true},
                      Way{"Tls13ByteByByte", TLS1_3_VERSION, 1, true},
                      Way{"Tls12InPiecesOf7", TLS1_2_VERSION, 7, true},
                      Way{"Tls13InPiecesOf7", TLS1_3_VERSION, 7, true}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// A finished handshake between two of ours.
class TlsEngine : public ::testing::Test {
 protected:
  TlsEngine() {
    wire_.shake();
    EXPECT_TRUE(wire_.both_done()) << client_->reason() << server_->reason();
  }

  [[nodiscard]] std::vector<std::uint8_t> encrypted(const std::string& text) {
    Buffer out;
    EXPECT_TRUE(client_->encrypt(as_bytes(text), out));
    return {out.data(), out.data() + out.size()};
  }
  Status decrypt(Bytes& in, std::span<std::uint8_t> to, std::size_t& written) {
    return server_->decrypt(in, to, written, answers_);
  }

  TlsSides sides_;
  std::unique_ptr<Engine> server_ = sides_.accept();
  std::unique_ptr<Engine> client_ = sides_.connect();
  TlsWire<Engine, Engine> wire_{*client_, *server_};
  Buffer answers_;
};

TEST_F(TlsEngine, CarriesMegabytesBothWays) {
  const std::string large = pattern(2'000'000);
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{16384}, std::size_t{777}}) {
    wire_.room = room;
    EXPECT_TRUE(wire_.to_server_says(large) == large) << room;
    EXPECT_TRUE(wire_.to_client_says(large) == large) << room;
  }
}

TEST_F(TlsEngine, SendsNothingForNothing) {
  EXPECT_TRUE(client_->encrypt({}, wire_.to_server));
  EXPECT_TRUE(wire_.to_server.empty());
}

TEST_F(TlsEngine, FillsWhatItIsGivenAndKeepsTheRest) {
  const std::vector<std::uint8_t> records = encrypted(pattern(30'000));
  Bytes in = records;
  std::vector<std::uint8_t> to(10'000);
  std::size_t written = 0;
  std::string text;
  for (int i = 0; i < 3; ++i) {
    // Also where it is just enough: who waits for what is not there hears of no end.
    EXPECT_EQ(decrypt(in, to, written), i < 2 ? Status::done : Status::need_more);
    EXPECT_EQ(written, to.size());
    text += as_text(to);
  }
  EXPECT_TRUE(text == pattern(30'000));
  EXPECT_EQ(decrypt(in, to, written), Status::need_more);
  EXPECT_EQ(written, 0U);
  EXPECT_TRUE(in.empty());
}

TEST_F(TlsEngine, NeedsMoreWhereverARecordIsCut) {
  const std::string text = "what is sent";
  constexpr std::size_t kSize = 5 + 12 + 1 + 16;
  for (std::size_t cut = 0; cut < kSize; ++cut) {
    const std::vector<std::uint8_t> record = encrypted(text);
    ASSERT_EQ(record.size(), kSize);
    const std::vector<std::uint8_t> before(record.begin(), record.begin() + std::ptrdiff_t(cut));
    Bytes in = before;
    std::vector<std::uint8_t> to(100);
    std::size_t written = 0;
    ASSERT_EQ(decrypt(in, to, written), Status::need_more) << cut;
    EXPECT_TRUE(in.empty());
    EXPECT_EQ(written, 0U);
    in = Bytes(record).subspan(cut);
    ASSERT_EQ(decrypt(in, to, written), Status::need_more) << cut;
    EXPECT_EQ(as_text(Bytes(to).first(written)), text);
  }
}

TEST_F(TlsEngine, DeliversWhatComesBeforeAnEnd) {
  ASSERT_TRUE(client_->encrypt(as_bytes("last"), wire_.to_server));
  client_->close_notify(wire_.to_server);
  Bytes in = wire_.to_server.view();
  std::vector<std::uint8_t> to(100);
  std::size_t written = 0;
  EXPECT_EQ(decrypt(in, to, written), Status::ended);
  EXPECT_EQ(as_text(Bytes(to).first(written)), "last");
  EXPECT_EQ(decrypt(in, to, written), Status::ended) << "it stays so";
  EXPECT_EQ(written, 0U);
  EXPECT_TRUE(server_->encrypt(as_bytes("answer"), answers_)) << "the other direction is open";
}

TEST_F(TlsEngine, EndsOnce) {
  client_->close_notify(wire_.to_server);
  const std::size_t size = wire_.to_server.size();
  EXPECT_GT(size, 0U);
  client_->close_notify(wire_.to_server);
  EXPECT_EQ(wire_.to_server.size(), size);
}

/// Each byte of a record in turn: its type, version, length, content, tag.
TEST_F(TlsEngine, FailsIfARecordIsChanged) {
  const std::size_t size = encrypted("secret").size();
  for (std::size_t at = 0; at < size; ++at) {
    const auto server = sides_.accept();
    const auto client = sides_.connect();
    TlsWire wire(*client, *server);
    wire.shake();
    ASSERT_TRUE(client->encrypt(as_bytes("secret"), wire.to_server));
    wire.to_server.data()[at] ^= 0x40;
    // Where the length has grown, more is waited for.
    wire.to_server.append(std::vector<std::uint8_t>(20'000));
    EXPECT_EQ(wire.read(*server, wire.server_status, wire.to_server, wire.to_client), "") << at;
    EXPECT_EQ(wire.server_status, Status::failed) << at;
    EXPECT_THAT(server->reason(), HasSubstr("the TLS session with the client is broken: ")) << at;
    EXPECT_FALSE(server->encrypt(as_bytes("x"), wire.to_client));
    Bytes nothing;
    std::size_t written = 0;
    std::vector<std::uint8_t> to(10);
    EXPECT_EQ(server->decrypt(nothing, to, written, wire.to_client), Status::failed) << at;
    const std::size_t sent = wire.to_client.size();
    server->close_notify(wire.to_client);
    EXPECT_EQ(wire.to_client.size(), sent);
  }
}

TEST_F(TlsEngine, TellsThePeerThatItsRecordIsChanged) {
  std::vector<std::uint8_t> record = encrypted("secret");
  record.back() ^= 1;
  Bytes in = record;
  std::vector<std::uint8_t> to(100);
  std::size_t written = 0;
  ASSERT_EQ(decrypt(in, to, written), Status::failed);
  EXPECT_THAT(server_->reason(), HasSubstr("bad record mac"));
  in = answers_.view();
  EXPECT_EQ(client_->decrypt(in, to, written, wire_.to_server), Status::failed);
  EXPECT_THAT(client_->reason(), HasSubstr("the server ended the TLS session (alert: "));
  EXPECT_THAT(client_->reason(), HasSubstr("bad record mac"));
}

TEST_F(TlsEngine, FailsIfPlainBytesFollow) {
  const std::string plain = "GET / HTTP/1.1\r\n\r\n";
  Bytes in = as_bytes(plain);
  std::vector<std::uint8_t> to(100);
  std::size_t written = 0;
  EXPECT_EQ(decrypt(in, to, written), Status::failed);
  EXPECT_EQ(written, 0U);
}

TEST_F(TlsEngine, IsNotTouchedByErrorsOfOthers) {
  const auto other = sides_.accept();
  Bytes garbage = as_bytes("no TLS at all");
  ASSERT_EQ(other->handshake(garbage, answers_), Status::failed);
  ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
  Bytes nothing;
  std::vector<std::uint8_t> to(10);
  std::size_t written = 0;
  EXPECT_EQ(decrypt(nothing, to, written), Status::need_more);
  EXPECT_EQ(wire_.to_server_says("x"), "x");
  ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
  const auto third = sides_.accept();
  EXPECT_EQ(third->handshake(nothing, answers_), Status::need_more);
}

TEST_F(TlsEngine, StaysDoneAfterTheHandshake) {
  Bytes nothing;
  EXPECT_EQ(server_->handshake(nothing, answers_), Status::done);
  EXPECT_TRUE(answers_.empty());
}

TEST_F(TlsEngine, LivesOnWhenItsContextIsReplaced) {
  std::shared_ptr<const Context> context = sides_.for_clients();
  const auto server = Engine::accept(context);
  context.reset();
  const auto client = sides_.connect();
  TlsWire wire(*client, *server);
  wire.shake();
  ASSERT_TRUE(wire.both_done());
  EXPECT_EQ(wire.to_server_says("x"), "x");
}

// ---- bytes of every kind --------------------------------------------------------------------

void flip(Buffer& bytes, std::mt19937& random) {
  std::uint8_t& byte = bytes.data()[random() % bytes.size()];
  byte = static_cast<std::uint8_t>(byte ^ (1U << random() % 8));
}

/// One bit of a flight is changed: the side that receives it fails and says why, or waits for what
/// a length that has grown promises. Only versions of records do not count.
TEST(TlsEngineGarbage, NeverGoesUnnoticedInAHandshake) {
  TlsSides sides;
  sides.check_clients();
  const auto for_clients = sides.for_clients();
  const auto for_servers = sides.for_servers();
  std::mt19937 random(8);  // NOLINT(bugprone-random-generator-seed): repeatable
  int failures = 0;
  for (int i = 0; i < 300; ++i) {
    const auto server = Engine::accept(for_clients);
    const auto client = Engine::connect(for_servers, "db.example");
    TlsWire wire(*client, *server);
    Bytes nothing;
    static_cast<void>(client->handshake(nothing, wire.to_server));
    if (i % 2 == 0) flip(wire.to_server, random);
    Bytes in = wire.to_server.view();
    wire.server_status = server->handshake(in, wire.to_client);
    wire.to_server.clear();
    if (i % 2 == 1) flip(wire.to_client, random);
    in = wire.to_client.view();
    wire.client_status = client->handshake(in, wire.to_server);
    wire.to_client.clear();
    in = wire.to_server.view();
    wire.server_status = server->handshake(in, wire.to_client);
    wire.to_server.clear();
    EXPECT_EQ(wire.client_status == Status::failed, !client->reason().empty()) << i;
    EXPECT_EQ(wire.server_status == Status::failed, !server->reason().empty()) << i;
    if (!client->reason().empty() || !server->reason().empty()) ++failures;
    if (!wire.both_done()) continue;
    EXPECT_EQ(wire.to_client_says("as if nothing were"), "as if nothing were");
  }
  EXPECT_GT(failures, 200);
}

TEST(TlsEngineGarbage, FailsTheHandshakeWithRandomBytes) {
  TlsSides sides;
  const auto for_clients = sides.for_clients();
  const auto for_servers = sides.for_servers();
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 600 + 40);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (i % 3 == 0) {  // looks like a record
      bytes[0] = static_cast<std::uint8_t>(20 + random() % 4);
      bytes[1] = 3;
      bytes[2] = 3;
      bytes[3] = 0;
    }
    if (i % 6 == 0) bytes[5] = static_cast<std::uint8_t>(random() % 3);
    const auto engine =
        i % 2 == 0 ? Engine::accept(for_clients) : Engine::connect(for_servers, "db.example");
    Buffer out;
    Bytes in;
    if (i % 2 != 0) static_cast<void>(engine->handshake(in, out));
    in = bytes;
    const Status status = engine->handshake(in, out);
    EXPECT_NE(status, Status::done);
    EXPECT_EQ(status == Status::failed, !engine->reason().empty());
    EXPECT_TRUE(status != Status::need_more || in.empty());
  }
}

// ---- with other implementations -------------------------------------------------------------

/// Ours on one side, OpenSSL with a version of its own on the other.
class TlsEngineWithOthers : public ::testing::TestWithParam<int> {
 protected:
  TlsEngineWithOthers() {
    for (SSL_CTX* context : {client_context_.get(), server_context_.get()}) {
      SSL_CTX_set_max_proto_version(context, GetParam());
    }
  }

  TlsSides sides_;
  test::OwnedSslCtx client_context_ = RawPeer::context(false, &sides_.client);
  test::OwnedSslCtx server_context_ = RawPeer::context(true, &sides_.server);
};

TEST_P(TlsEngineWithOthers, TalksWithAClient) {
  const auto server = sides_.accept();
  RawPeer client(client_context_.get(), false);
  TlsWire wire(client, *server);
  wire.shake();
  ASSERT_TRUE(wire.both_done()) << server->reason();
  EXPECT_EQ(wire.to_server_says("request"), "request");
  EXPECT_EQ(wire.to_client_says("reply"), "reply");
  EXPECT_EQ(SSL_version(client.ssl()), GetParam());
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get_session(client.ssl())), 0) << "no tickets, no cache";
}

/// It sends session tickets after the handshake (1.3), which are no plaintext.
TEST_P(TlsEngineWithOthers, TalksWithAServer) {
  const auto client = sides_.connect();
  RawPeer server(server_context_.get(), true);
  TlsWire wire(*client, server);
  wire.shake();
  ASSERT_TRUE(wire.both_done()) << client->reason();
  EXPECT_EQ(wire.read(*client, wire.client_status, wire.to_client, wire.to_server), "");
  EXPECT_EQ(wire.client_status, Status::need_more);
  EXPECT_EQ(wire.to_server_says("request"), "request");
  EXPECT_EQ(wire.to_client_says("reply"), "reply");
}

TEST_P(TlsEngineWithOthers, UsesEphemeralKeysAndAuthenticatedEncryption) {
  const auto server = sides_.accept();
  RawPeer client(client_context_.get(), false);
  TlsWire wire(client, *server);
  wire.shake();
  ASSERT_TRUE(wire.both_done());
  const SSL_CIPHER* cipher = SSL_get_current_cipher(client.ssl());
  EXPECT_EQ(SSL_CIPHER_is_aead(cipher), 1);
  const int exchange = SSL_CIPHER_get_kx_nid(cipher);
  EXPECT_TRUE(exchange == NID_kx_ecdhe || exchange == NID_kx_any) << exchange;  // any: 1.3
}

/// Of a server, when a certificate is made for the name.
TEST_P(TlsEngineWithOthers, SendsTheNameButNoAddress) {
  const std::vector<std::pair<std::string, std::string>> sent = {
      {"db.example", "db.example"}, {"db.example.", "db.example"}, {"10.0.0.1", ""}, {"::1", ""}};
  for (const auto& [host, name] : sent) {
    const auto client = sides_.connect(host);
    RawPeer server(server_context_.get(), true);
    TlsWire wire(*client, server);
    wire.shake();
    ASSERT_TRUE(wire.both_done()) << host << ": " << client->reason();
    const char* seen = SSL_get_servername(server.ssl(), TLSEXT_NAMETYPE_host_name);
    EXPECT_EQ(seen != nullptr ? seen : "", name) << host;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, TlsEngineWithOthers,
                         ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION),
                         [](const auto& instance) {
                           return instance.param == TLS1_2_VERSION ? "Tls12" : "Tls13";
                         });

class TlsEngineUpdates : public ::testing::TestWithParam<bool> {};

/// TLS 1.3: the peer changes its keys, and asks for ours to be changed, which we do before we send
/// anything else (RFC 8446, 4.6.3).
TEST_P(TlsEngineUpdates, AnswersAKeyUpdate) {
  const bool is_server = GetParam();
  TlsSides sides;
  const auto engine = is_server ? sides.accept() : sides.connect();
  const auto context = RawPeer::context(!is_server, &sides.server);
  RawPeer peer(context.get(), !is_server);
  Buffer to_peer;
  Buffer from_peer;
  if (is_server) {
    TlsWire wire(peer, *engine);
    wire.shake();
    ASSERT_TRUE(wire.both_done());
  } else {
    TlsWire wire(*engine, peer);
    wire.shake();
    ASSERT_TRUE(wire.both_done());
    EXPECT_EQ(wire.read(*engine, wire.client_status, wire.to_client, wire.to_server), "");
  }
  std::vector<std::uint8_t> to(100);
  constexpr std::size_t kKeyUpdate = 5 + 5 + 1 + 16;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_TRUE(peer.encrypt(as_bytes("new keys"), from_peer));
    Bytes in = from_peer.view();
    std::size_t written = 0;
    EXPECT_EQ(engine->decrypt(in, to, written, to_peer), Status::need_more);
    EXPECT_EQ(as_text(Bytes(to).first(written)), "new keys");
    ASSERT_TRUE(engine->encrypt(as_bytes("ours too"), to_peer));
    EXPECT_EQ(to_peer.size(), kKeyUpdate + 5 + 8 + 1 + 16);
    in = to_peer.view();
    EXPECT_EQ(peer.decrypt(in, to, written, from_peer), Status::need_more);
    EXPECT_EQ(as_text(Bytes(to).first(written)), "ours too");
    from_peer.clear();
    to_peer.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Roles, TlsEngineUpdates, ::testing::Bool(), [](const auto& instance) {
  return instance.param ? "AsServer" : "AsClient";
});

TEST(TlsEngineRenegotiation, IsRefusedToClients) {
  TlsSides sides;
  const auto server = sides.accept();
  const auto context = RawPeer::context(false);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  RawPeer client(context.get(), false);
  TlsWire wire(client, *server);
  wire.shake();
  ASSERT_TRUE(wire.both_done());
  ASSERT_EQ(SSL_renegotiate(client.ssl()), 1);
  Bytes nothing;
  EXPECT_EQ(client.handshake(nothing, wire.to_server), Status::need_more);
  ASSERT_FALSE(wire.to_server.empty());
  EXPECT_EQ(wire.read(*server, wire.server_status, wire.to_server, wire.to_client), "");
  EXPECT_EQ(wire.server_status, Status::need_more) << "the session goes on with its keys";
  Bytes answer = wire.to_client.view();
  EXPECT_EQ(client.handshake(answer, wire.to_server), Status::failed);
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
}

TEST(TlsEngineRenegotiation, IsRefusedToServers) {
  TlsSides sides;
  const auto client = sides.connect();
  const auto context = RawPeer::context(true, &sides.server);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  RawPeer server(context.get(), true);
  TlsWire wire(*client, server);
  wire.shake();
  ASSERT_TRUE(wire.both_done());
  ASSERT_EQ(SSL_renegotiate(server.ssl()), 1);
  Bytes nothing;
  static_cast<void>(server.handshake(nothing, wire.to_client));
  ASSERT_FALSE(wire.to_client.empty());
  EXPECT_EQ(wire.read(*client, wire.client_status, wire.to_client, wire.to_server), "");
  EXPECT_EQ(wire.client_status, Status::need_more);
  EXPECT_EQ(wire.to_server.size(), 5U + 8U + 2U + 16U) << "one alert, and no ClientHello";
}

}  // namespace tls_engine_test
}  // namespace idproxy::net::tls
