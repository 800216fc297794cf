#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/net/tls.hpp"
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

/// Waits for a stream that may have something to read.
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  virtual void readable() = 0;
};

/// A connected socket, plain or with TLS; no other class knows which. Never blocks. Lives on one io
/// thread. Once it is closed and the loop has called those who waited, it may be destroyed.
///
/// The event loop watches the socket once and for all, edge-triggered. The stream remembers that
/// there may be something to read, until a read finds less than it had room for.
///
/// With TLS, one system call reads or writes many records. Between calls a stream keeps at most an
/// incomplete record, and the ciphertext that the socket has not taken.
class Stream final : private EventLoop::Watcher {
 public:
  struct Received {
    enum class Status { some, none, ended, broken };
    Status status = Status::none;
    std::size_t bytes = 0;
    bool more = false;  ///< another read may return more without waiting
  };
  enum class Sent { all, blocked, failed };
  enum class Peeked { nothing, bytes, end };

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
  /// Ends the direction to the peer, with close_notify if it uses TLS. All that was written must
  /// have been sent. Call once.
  void finish();
  /// Ends both directions. Received bytes can still be read; the end follows them.
  void shut_down();
  /// The descriptor; -1 if closed.
  [[nodiscard]] int socket() const { return socket_.get(); }

  /// The reason if the peer closed the connection without having sent a byte.
  static constexpr std::string_view kClosedAtOnce = "the connection was closed at once";
  /// Calls `then` once, unless the stream is closed before: with "" after success, else with the
  /// reason for the failure.
  void handshake(std::function<void(std::string_view reason)> then);

  /// Calls `then` once there is something to read, or the stream has ended or been closed, though
  /// not before when_readable() returns. There may be nothing to read all the same. One wait at a
  /// time.
  void when_readable(std::function<void()> then);
  /// The same for a reader that outlives what the loop does for the stream: at half the cost.
  void when_readable(StreamReader& reader);
  /// The same, once write() can take something.
  void when_writable(std::function<void()> then);

  /// True if the stream holds received bytes that read() has not returned yet.
  [[nodiscard]] bool has_received() const { return undecoded(); }
  /// On a TLS connection, too, the end of the TCP stream is reported as an end, with or without
  /// close_notify: message lengths show a truncation.
  [[nodiscard]] Received read(std::span<std::uint8_t> to);
  /// True if a TLS connection has ended without close_notify: its peer reads nothing more.
  [[nodiscard]] bool was_cut_off() const { return tls_ != nullptr && tls_->cut_off; }
  /// For plain streams: what read() would find. The end, too, if the connection is lost.
  [[nodiscard]] Peeked peek();
  [[nodiscard]] bool is_secure() const { return tls_ != nullptr; }
  /// Why TLS failed, for the log; "" if it did not.
  [[nodiscard]] std::string_view fault() const;
  /// The likely TLS reason for an end without an alert; "" if none is known.
  [[nodiscard]] std::string why_closed() const;

  /// Returns the number of bytes taken. If fewer than given, the socket is full: call
  /// when_writable(). Negative: the write failed.
  [[nodiscard]] ssize_t write(Bytes bytes);
  /// The same for consecutive slices.
  [[nodiscard]] ssize_t write(std::span<const iovec> slices);
  /// Sends what write() took but has not sent: the ciphertext that a TLS connection holds.
  [[nodiscard]] Sent flush();
  [[nodiscard]] bool unsent() const { return tls_ != nullptr && !tls_->unsent.empty(); }

 private:
  // How much to encrypt before sending it. Bounds what must be kept if the socket takes nothing.
  static constexpr std::size_t kMostAtOnce = std::size_t{64} * 1024;

  using Then = std::function<void(std::string_view)>;

  struct Tls {
    std::unique_ptr<tls::Engine> engine;
    Buffer unread{};              // received ciphertext, in rare cases
    Buffer unsent{};              // ciphertext
    bool heard = false;           // the peer has sent something
    bool cut_off = false;         // ended without close_notify
    bool broken = false;          // failed after the bytes that read() returned
    bool decrypted_left = false;  // the engine holds more plaintext
  };
  struct Callbacks {
    std::function<void()> readable;
    std::function<void()> writable;
  };

  [[nodiscard]] bool undecoded() const {
    return tls_ != nullptr && (tls_->decrypted_left || tls_->broken || !tls_->unread.empty());
  }
  [[nodiscard]] Callbacks& callbacks() {
    if (callbacks_ == nullptr) callbacks_ = std::make_unique<Callbacks>();
    return *callbacks_;
  }
  void say_goodbye();
  void ready(std::uint32_t events) override;
  void watch(std::uint32_t events);
  void call_waiting(std::uint32_t events);
  void advance(const std::shared_ptr<const Then>& then, Bytes received);
  void receive_handshake(const std::shared_ptr<const Then>& then);
  void continue_handshake(bool full, const std::shared_ptr<const Then>& then);
  [[nodiscard]] std::string why_left() const;
  [[nodiscard]] ssize_t receive(std::span<std::uint8_t> to);
  [[nodiscard]] Received read_secure(std::span<std::uint8_t> to);
  [[nodiscard]] ssize_t write_secure(std::span<const iovec> slices);
  [[nodiscard]] bool send_secure();

  // One cache line: with a thousand connections, none is in the cache when a message comes.
  EventLoop& loop_;
  FileDescriptor socket_;
  std::uint32_t watched_ = 0;             // the events that the loop watches for
  bool may_read_ = false;                 // there may be something to read
  bool hung_up_ = false;                  // the last thing to read is the end, or an error
  StreamReader* reader_ = nullptr;        // waits
  std::unique_ptr<Callbacks> callbacks_;  // wait; mostly null
  std::unique_ptr<Tls> tls_;              // null: plain
  TlsScratch& scratch_;
};

}  // namespace idproxy::net
