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

/// Memory that the TLS streams of one io thread share; each uses it only within a call. Empty until
/// the first use.
struct TlsScratch {
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  std::unique_ptr<std::uint8_t[]> received;  // kReadSize: ciphertext
  Buffer sent;                               // ciphertext
  Buffer record;                             // plaintext of small slices, gathered
};

/// A connected socket, plain or with TLS; no other class knows which. Never blocks. Lives on one io
/// thread. The owner must keep it alive while anything waits on it.
///
/// With TLS, one system call reads or writes many records. Between calls a stream keeps at most an
/// incomplete record, and the ciphertext that the socket has not taken.
class Stream final : public ByteStream {
 public:
  Stream(asio::io_context& io, TlsScratch& scratch) : socket_(io), scratch_(scratch) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;
  /// The target must be closed or never opened.
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() = default;

  /// With an `engine` the stream uses TLS, and handshake() must come first; null: plain.
  void open(Socket socket, std::unique_ptr<tls::Engine> engine);
  /// Closes, after sending close_notify to a TLS peer if the socket takes it at once. Idempotent.
  void close();
  /// Ends both directions. Received bytes can still be read; the end follows them.
  void shut_down();
  [[nodiscard]] Socket& socket() { return socket_; }

  /// The reason if the peer closed the connection without having sent a byte.
  static constexpr std::string_view kClosedAtOnce = "the connection was closed at once";
  /// Calls `then` once, unless the stream is closed before: with "" after success, else with the
  /// reason for the failure.
  void handshake(std::function<void(std::string_view reason)> then);

  /// Calls `handler(error_code)` once there is something to read; with error::eof at the end. While
  /// messages are small, the wait itself receives the first bytes, which saves a system call per
  /// message: a wait for readability costs an epoll_ctl.
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
  /// Why TLS failed, for the log; "" if it did not.
  [[nodiscard]] std::string_view fault() const;
  /// The likely TLS reason for an end without an alert; "" if none is known.
  [[nodiscard]] std::string why_closed() const;

  [[nodiscard]] ssize_t write(Bytes bytes) override;
  [[nodiscard]] ssize_t write(std::span<const iovec> slices) override;
  [[nodiscard]] Sent flush() override;
  [[nodiscard]] bool unsent() const override { return !unsent_.empty(); }

 private:
  // How much to encrypt before sending it. Bounds what must be kept if the socket takes nothing,
  // and stays within the processor's cache: with 256 KiB, a reply of 1 MB takes an eighth longer.
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
  Buffer unread_;                        // received ciphertext, in rare cases
  Buffer unsent_;                        // ciphertext
  bool heard_ = false;                   // the peer has sent something
  bool broken_ = false;                  // TLS failed after the bytes that read() returned
  bool decrypted_left_ = false;          // the engine holds more plaintext
  bool bulk_ = false;                    // the last read was large: wait without receiving
  std::uint16_t early_size_ = 0;         // bytes received into `early_` and not read yet
  std::array<std::uint8_t, kEarly> early_;
};

}  // namespace idproxy::net
