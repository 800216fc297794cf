#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "idproxy/base/buffer.hpp"
#include "idproxy/net/tls.hpp"
#include "net/byte_stream.hpp"
#include "net/event_loop.hpp"
#include "net/file_descriptor.hpp"

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
/// thread. A closed stream may be destroyed.
///
/// The event loop watches the socket once and for all, edge-triggered. The stream remembers that
/// there may be something to read, until a read finds less than it had room for.
///
/// With TLS, one system call reads or writes many records. Between calls a stream keeps at most an
/// incomplete record, and the ciphertext that the socket has not taken.
class Stream final : public ByteStream, private EventLoop::Watcher {
 public:
  Stream(EventLoop& loop, TlsScratch& scratch) : loop_(loop), scratch_(scratch) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Nothing may wait on `other`.
  Stream(Stream&& other) noexcept;
  /// The same; the target must be closed or never opened.
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() { close(); }

  /// With an `engine` the stream uses TLS, and handshake() must come first; null: plain.
  void open(FileDescriptor socket, std::unique_ptr<tls::Engine> engine);
  /// Closes, after sending close_notify to a TLS peer if the socket takes it at once, and ends all
  /// waits. Idempotent.
  void close();
  /// Ends both directions. Received bytes can still be read; the end follows them.
  void shut_down();
  /// The descriptor; -1 if closed.
  [[nodiscard]] int socket() const { return socket_.get(); }

  /// The reason if the peer closed the connection without having sent a byte.
  static constexpr std::string_view kClosedAtOnce = "the connection was closed at once";
  /// Calls `then` once, unless the stream is closed before: with "" after success, else with the
  /// reason for the failure.
  void handshake(std::function<void(std::string_view reason)> then);

  /// The same as notify_readable() and notify_writable(), for a function.
  void when_readable(std::function<void()> then);
  void when_writable(std::function<void()> then);
  void notify_readable(WaiterPtr waiter) override;
  void notify_writable(WaiterPtr waiter) override;

  [[nodiscard]] bool has_received() const override { return undecoded(); }
  [[nodiscard]] Received read(std::span<std::uint8_t> to) override;
  [[nodiscard]] Peeked peek() override;
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
  // How much to encrypt before sending it. Bounds what must be kept if the socket takes nothing.
  static constexpr std::size_t kMostAtOnce = std::size_t{64} * 1024;

  using Then = std::function<void(std::string_view)>;

  [[nodiscard]] bool undecoded() const { return decrypted_left_ || broken_ || !unread_.empty(); }
  void ready(std::uint32_t events) override;
  void watch(std::uint32_t events);
  void advance(const std::shared_ptr<const Then>& then, Bytes received);
  void receive_handshake(const std::shared_ptr<const Then>& then);
  void continue_handshake(bool full, const std::shared_ptr<const Then>& then);
  [[nodiscard]] std::string why_left() const;
  [[nodiscard]] ssize_t receive(std::span<std::uint8_t> to);
  [[nodiscard]] Received read_secure(std::span<std::uint8_t> to);
  [[nodiscard]] ssize_t write_secure(std::span<const iovec> slices);
  [[nodiscard]] bool send_secure();

  EventLoop& loop_;
  TlsScratch& scratch_;
  FileDescriptor socket_;
  std::uint32_t watched_ = 0;  // the events that the loop watches for
  WaiterPtr reader_;
  WaiterPtr writer_;
  std::unique_ptr<tls::Engine> engine_;  // null: plain
  Buffer unread_;                        // received ciphertext, in rare cases
  Buffer unsent_;                        // ciphertext
  bool heard_ = false;                   // the peer has sent something
  bool broken_ = false;                  // TLS failed after the bytes that read() returned
  bool decrypted_left_ = false;          // the engine holds more plaintext
  bool may_read_ = false;                // there may be something to read
  bool hung_up_ = false;                 // the last thing to read is the end, or an error
};

}  // namespace idproxy::net
