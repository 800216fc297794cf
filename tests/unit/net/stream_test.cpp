#include "net/stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/tls_peers.hpp"

namespace idproxy::net {
namespace stream_test {

using Status = Stream::Received::Status;

/// What is left of the slices without their first bytes.
std::vector<iovec> behind(const std::vector<iovec>& slices, std::size_t first) {
  std::vector<iovec> rest;
  for (const iovec& slice : slices) {
    const std::size_t gone = std::min(first, slice.iov_len);
    first -= gone;
    if (gone == slice.iov_len) continue;
    rest.push_back({static_cast<char*>(slice.iov_base) + gone, slice.iov_len - gone});
  }
  return rest;
}

/// A stream towards a TLS client that the test plays.
class StreamTls : public ::testing::Test {
 protected:
  StreamTls() : stream_(loop_, scratch_), context_(test::RawPeer::context(false)) {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    stream_.open(FileDescriptor(fds[0]), sides_.accept());
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
  void run() { loop_.poll(); }
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
  EventLoop loop_;
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
  stream_.close();
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

/// Sizes around those of records (16 KiB), and of what is encrypted at once (32 and 64 KiB), in one
/// slice and in several, to a peer that reads now and then.
TEST_F(StreamTls, SendsEveryByteWhateverTheSizeAndTheSlices) {
  shake();
  std::string text(200'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  std::vector<std::uint8_t> to(text.size());
  for (const std::size_t around : {16'384U, 32'768U, 65'536U, 98'304U, 131'072U, 199'000U}) {
    for (const std::size_t size : {around - 1, around, around + 1}) {
      for (const std::size_t slice : {size, size / 2, std::size_t{16'384}, std::size_t{5'000}}) {
        std::vector<iovec> slices;
        for (std::size_t at = 0; at < size; at += slice) {
          slices.push_back({text.data() + at, std::min(slice, size - at)});
        }
        std::size_t taken = 0;
        std::size_t arrived = 0;
        while (arrived < size) {
          if (taken < size && !stream_.unsent()) {
            const std::vector<iovec> rest = behind(slices, taken);
            const ssize_t n = stream_.write(rest);
            ASSERT_GE(n, 0);
            taken += static_cast<std::size_t>(n);
          }
          ASSERT_NE(stream_.flush(), Stream::Sent::failed);
          Bytes in = receive();
          std::size_t n = 0;
          Buffer sent;
          static_cast<void>(peer_.decrypt(in, std::span(to).subspan(arrived), n, sent));
          arrived += n;
        }
        ASSERT_EQ(as_text(Bytes(to).first(arrived)), std::string_view(text).substr(0, size))
            << size << " bytes in slices of " << slice;
      }
    }
  }
}

enum class Waits { by_function, as_reader };

/// A plain stream whose peer the test plays, and waits that are counted.
class StreamPlain : public ::testing::TestWithParam<Waits>, public StreamReader {
 protected:
  StreamPlain() : stream_(loop_, scratch_) {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    stream_.open(FileDescriptor(fds[0]), nullptr);
    peer_ = FileDescriptor(fds[1]);
  }

  void send(std::string_view text) {
    ASSERT_EQ(::write(peer_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void readable() override { ++woken_; }
  void begin_to_wait() {
    if (GetParam() == Waits::as_reader) return stream_.when_readable(*this);
    stream_.when_readable([this] { ++woken_; });
  }
  void wait() {
    begin_to_wait();
    loop_.poll();
  }
  std::string read(std::size_t room) {
    std::vector<std::uint8_t> to(room);
    received_ = stream_.read(to);
    return std::string(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(received_.bytes));
  }

  EventLoop loop_;
  TlsScratch scratch_;
  Stream stream_;
  FileDescriptor peer_;
  Stream::Received received_;
  int woken_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Both, StreamPlain,
                         ::testing::Values(Waits::by_function, Waits::as_reader));

TEST_P(StreamPlain, WaitsForBytes) {
  wait();
  EXPECT_EQ(woken_, 0);
  send("hello");
  loop_.poll();
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(read(100), "hello");
  wait();
  EXPECT_EQ(woken_, 1) << "the read has found less than it had room for";
  send("more");
  loop_.poll();
  EXPECT_EQ(woken_, 2);
}

TEST_P(StreamPlain, NeedNotWaitIfMoreMayHaveArrived) {
  wait();
  send("hello");
  loop_.poll();
  EXPECT_EQ(read(5), "hello");
  EXPECT_TRUE(received_.more);
  begin_to_wait();
  EXPECT_EQ(woken_, 1) << "not before the call returns";
  loop_.poll();
  EXPECT_EQ(woken_, 2);
  EXPECT_EQ(read(5), "");
  EXPECT_EQ(received_.status, Status::none);
  wait();
  EXPECT_EQ(woken_, 2);
}

TEST_P(StreamPlain, WaitsAgainOnceALookHasFoundNothing) {
  wait();
  send("hello");
  loop_.poll();
  EXPECT_EQ(read(5), "hello");
  EXPECT_EQ(stream_.peek(), Stream::Peeked::nothing);
  wait();
  EXPECT_EQ(woken_, 1);
}

/// The kernel tells once of the bytes and the end together.
TEST_P(StreamPlain, FindsTheEndBehindBytes) {
  send("hello");
  peer_.close();
  wait();
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(stream_.peek(), Stream::Peeked::bytes);
  EXPECT_EQ(read(100), "hello");
  EXPECT_EQ(stream_.peek(), Stream::Peeked::end);
  wait();
  EXPECT_EQ(woken_, 2);
  EXPECT_EQ(read(100), "");
  EXPECT_EQ(received_.status, Status::ended);
}

TEST_P(StreamPlain, FindsTheEndThatComesLater) {
  send("hello");
  wait();
  EXPECT_EQ(read(100), "hello");
  wait();
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(stream_.peek(), Stream::Peeked::nothing);
  peer_.close();
  loop_.poll();
  EXPECT_EQ(woken_, 2);
  EXPECT_EQ(read(100), "");
  EXPECT_EQ(received_.status, Status::ended);
}

TEST_P(StreamPlain, WaitsUntilItsPeerTakesMore) {
  const std::string much(1'000'000, 'x');
  std::size_t taken = 0;
  ssize_t n = 0;
  while ((n = stream_.write(as_bytes(much))) == static_cast<ssize_t>(much.size())) {
    taken += much.size();
  }
  taken += static_cast<std::size_t>(n);
  int writable = 0;
  stream_.when_writable([&] { ++writable; });
  loop_.poll();
  EXPECT_EQ(writable, 0);
  std::vector<char> room(taken);
  for (std::size_t at = 0; at < taken;) {
    const ssize_t got = ::read(peer_.get(), room.data(), room.size());
    ASSERT_GT(got, 0);
    at += static_cast<std::size_t>(got);
  }
  loop_.poll();
  EXPECT_EQ(writable, 1);
}

TEST_P(StreamPlain, EndsItsWaitsWhenItIsClosed) {
  int writable = 0;
  wait();
  while (stream_.write(as_bytes(std::string(1'000'000, 'x'))) == 1'000'000) {
  }
  stream_.when_writable([&] { ++writable; });
  stream_.close();
  EXPECT_EQ(woken_, 0) << "not before the call returns";
  loop_.poll();
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(writable, 1);
}

/// Who looks into the process can have a copy of its socket, as a debugger. The kernel goes on
/// telling of one that is open anywhere.
TEST_P(StreamPlain, HearsNothingMoreOnceItIsClosedAlthoughTheSocketIsOpenElsewhere) {
  wait();
  const FileDescriptor copy(::dup(stream_.socket()));
  const FileDescriptor peer_of_copy = std::move(peer_);
  stream_.close();
  loop_.poll();
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
  stream_.open(FileDescriptor(fds[0]), nullptr);
  peer_ = FileDescriptor(fds[1]);
  EXPECT_EQ(read(1), "");
  wait();
  woken_ = 0;
  EXPECT_EQ(::write(peer_of_copy.get(), "x", 1), 1);
  loop_.poll();
  EXPECT_EQ(woken_, 0);
}

TEST_P(StreamPlain, MovesWithWhatItHasNotRead) {
  wait();
  send("hello");
  loop_.poll();
  EXPECT_EQ(read(2), "he");
  Stream other(std::move(stream_));
  int woken = 0;
  other.when_readable([&] { ++woken; });
  loop_.poll();
  EXPECT_EQ(woken, 1);
  std::array<std::uint8_t, 10> to{};
  EXPECT_EQ(other.read(to).bytes, 3U);
  other.when_readable([&] { ++woken; });
  send("again");
  loop_.poll();
  EXPECT_EQ(woken, 2);
}

}  // namespace stream_test
}  // namespace idproxy::net
