#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "asio.hpp"
#include "byte_stream.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::net {

/// Memory that the TLS streams of one io thread use one after the other, each for the time of one
/// call. Empty until the first of them needs it.
struct TlsScratch {
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  std::unique_ptr<std::uint8_t[]> received;  // kReadSize: ciphertext
  Buffer sent;                               // ciphertext
  Buffer record;                             // plaintext of small slices, gathered
};

/// A connected socket, plain or with TLS: the only place that knows which. Never blocks. Lives on
/// one io thread. Its owner sees to it that it lives as long as anything waits on it.
///
/// With TLS, one system call reads for many records and one writes many; between calls a stream
/// keeps a record's beginning at most, and ciphertext that the socket has not taken.
class Stream final : public ByteStream {
 public:
  Stream(asio::io_context& io, TlsScratch& scratch) : socket_(io), scratch_(scratch) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;
  /// The target has been closed, or never opened.
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() = default;

  /// `engine`: of a TLS connection; null for a plain one. Then handshake() comes first.
  void open(Socket socket, std::unique_ptr<tls::Engine> engine);
  /// Tells a TLS peer, if that is possible at once, and closes. Idempotent.
  void close();
  /// Nothing is sent any more. What has been received can still be read; the end follows it.
  void shut_down();
  [[nodiscard]] Socket& socket() { return socket_; }

  /// The peer has closed the connection without having sent a byte.
  static constexpr std::string_view kClosedAtOnce = "the connection was closed at once";
  /// Calls `then` once, unless the stream is closed before: with "", or with why there is no TLS
  /// connection.
  void handshake(std::function<void(std::string_view reason)> then);

  /// Calls `handler(error_code)` once there is something to read; error::eof at the end. While
  /// small messages come and go, the wait itself receives the first bytes: that is a system call
  /// less per message than waiting for readability (which costs an epoll_ctl).
  template <class Handler>
  void wait_readable(Handler handler) {
    if (undecoded()) {
      asio::post(socket_.get_executor(), [handler = std::move(handler)]() mutable { handler({}); });
    } else if (bulk_) {
      socket_.async_wait(Socket::wait_read, std::move(handler));
    } else {
      socket_.async_receive(
          asio::buffer(early_),
          [this, handler = std::move(handler)](error_code error, std::size_t received) mutable {
            early_size_ = static_cast<std::uint16_t>(received);
            handler(error);
          });
    }
  }
  template <class Handler>
  void wait_writable(Handler handler) {
    socket_.async_wait(Socket::wait_write, std::move(handler));
  }

  void notify_readable(WaiterPtr waiter) override;
  void notify_writable(WaiterPtr waiter) override;

  [[nodiscard]] bool has_received() const override { return early_size_ > 0 || undecoded(); }
  [[nodiscard]] Received read(std::span<std::uint8_t> to) override;
  [[nodiscard]] bool is_at_end() override;
  [[nodiscard]] bool is_secure() const override { return engine_ != nullptr; }
  /// What TLS has against it once it is broken, for the log; "": nothing.
  [[nodiscard]] std::string_view fault() const;
  /// What TLS may have to do with an end without a word; "": nothing.
  [[nodiscard]] std::string why_closed() const;

  [[nodiscard]] ssize_t write(Bytes bytes) override;
  [[nodiscard]] ssize_t write(std::span<const iovec> slices) override;
  [[nodiscard]] Sent flush() override;
  [[nodiscard]] bool unsent() const override { return !unsent_.empty(); }

 private:
  // Encrypted before it is sent: bounds what is kept if the socket takes none of it, and stays in
  // the processor's cache (with 256 KiB a reply of 1 MB takes an eighth longer).
  static constexpr std::size_t kMostAtOnce = std::size_t{32} * 1024;

  using Then = std::function<void(std::string_view)>;

  [[nodiscard]] bool undecoded() const { return decrypted_left_ || broken_ || !unread_.empty(); }
  void advance(const std::shared_ptr<const Then>& then, Bytes received);
  void receive_handshake(const std::shared_ptr<const Then>& then);
  void continue_handshake(bool full, const std::shared_ptr<const Then>& then);
  [[nodiscard]] std::string why_left() const;
  [[nodiscard]] ssize_t receive(std::span<std::uint8_t> to);
  [[nodiscard]] Received read_secure(std::span<std::uint8_t> to);
  [[nodiscard]] ssize_t write_secure(std::span<const iovec> slices);
  [[nodiscard]] bool send_secure();

  Socket socket_;
  TlsScratch& scratch_;
  std::unique_ptr<tls::Engine> engine_;  // null: plain
  Buffer unread_;                        // ciphertext that was received, in rare cases
  Buffer unsent_;                        // ciphertext
  bool heard_ = false;                   // the peer has sent something
  bool broken_ = false;                  // TLS, found behind what read() has delivered
  bool decrypted_left_ = false;          // the engine has more than was asked for
  bool bulk_ = false;                    // the last read was larger: wait without receiving
  std::uint16_t early_size_ = 0;         // received into `early_`, not read yet
  std::array<std::uint8_t, 512> early_;
};

}  // namespace idproxy::net
