#include "stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>

#include "support/tls_peers.hpp"

namespace idproxy::net {
namespace stream_test {

using Status = Stream::Received::Status;

/// A stream towards a TLS client that the test plays.
class StreamTls : public ::testing::Test {
 protected:
  StreamTls() : stream_(io_, scratch_), context_(test::RawPeer::context(false)) {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    stream_.open(Socket(io_, Protocol(AF_UNIX, 0), fds[0]), sides_.accept());
    client_ = fds[1];
    stream_.handshake([this](std::string_view reason) { result_ = std::string(reason); });
  }
  ~StreamTls() override { leave(); }

  void leave() {
    if (client_ >= 0) ::close(std::exchange(client_, -1));
  }
  void send(Buffer& bytes) {
    ASSERT_EQ(::write(client_, bytes.view().data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    bytes.clear();
  }
  Bytes receive() {
    const ssize_t n = ::read(client_, received_.data(), received_.size());
    return Bytes(received_).first(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  void run() {
    io_.restart();
    io_.poll();
  }
  void say_hello() {
    Bytes nothing;
    Buffer sent;
    EXPECT_EQ(peer_.handshake(nothing, sent), test::TlsStatus::need_more);
    send(sent);
    run();
  }
  void shake() {
    say_hello();
    Buffer sent;
    Bytes in = receive();
    ASSERT_EQ(peer_.handshake(in, sent), test::TlsStatus::done);
    send(sent);
    run();
    ASSERT_EQ(result_, "");
  }

  test::TlsSides sides_;
  asio::io_context io_;
  TlsScratch scratch_;
  Stream stream_;
  test::OwnedSslCtx context_;
  test::RawPeer peer_{context_.get(), false};
  std::optional<std::string> result_;
  int client_ = -1;

 private:
  std::vector<std::uint8_t> received_ = std::vector<std::uint8_t>(100'000);
};

TEST_F(StreamTls, WhoLeavesWithoutAWordIsSaidToHaveLeft) {
  leave();
  run();
  EXPECT_EQ(result_, Stream::kClosedAtOnce);
}

TEST_F(StreamTls, WhoLeavesInTheMiddleIsSaidToHaveDoneSo) {
  say_hello();
  EXPECT_FALSE(result_);
  static_cast<void>(receive());
  leave();
  run();
  EXPECT_EQ(result_, "the client closed the connection during the TLS handshake");
}

TEST_F(StreamTls, SaysNothingOnceItIsClosed) {
  say_hello();
  Buffer sent;
  Bytes in = receive();
  EXPECT_EQ(peer_.handshake(in, sent), test::TlsStatus::done);
  send(sent);
  asio::post(io_, [this] { stream_.close(); });  // the wait is over before this comes
  run();
  EXPECT_FALSE(result_);
}

/// TLS 1.3: each KeyUpdate has to be answered. A byte of plaintext behind each must not make that
/// endless for a peer that takes no answers.
TEST_F(StreamTls, AnswersThatAreNotTakenAreBounded) {
  shake();
  constexpr std::size_t kMost = 20'000;
  std::array<std::uint8_t, 1000> to{};
  Buffer sent;
  std::size_t bytes = 0;
  auto received = Stream::Received{Status::none};
  for (std::size_t i = 0; i < kMost && received.status != Status::broken; ++i) {
    ASSERT_EQ(SSL_key_update(peer_.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_TRUE(peer_.encrypt(as_bytes("x"), sent));
    send(sent);
    received = stream_.read(to);
    bytes += received.bytes;
  }
  EXPECT_EQ(received.status, Status::broken);
  EXPECT_GT(bytes, 1'000U);
  EXPECT_LT(bytes, kMost);
  EXPECT_TRUE(stream_.has_received()) << "waiting for more tells of it";
}

}  // namespace stream_test
}  // namespace idproxy::net
