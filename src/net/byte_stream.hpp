#pragma once

#include <sys/uio.h>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <span>

#include "idproxy/base/bytes.hpp"

namespace idproxy::net {

/// A connected byte stream, which a Direction reads and an OutQueue writes. The proxy uses Stream;
/// unit tests use scripted ones. Never blocks.
class ByteStream {
 public:
  struct Received {
    enum class Status { some, none, ended, broken };
    Status status = Status::none;
    std::size_t bytes = 0;
    bool more = false;  ///< another read may return more without waiting
  };
  enum class Sent { all, blocked, failed };
  enum class Peeked { nothing, bytes, end };

  /// Receives the end of a wait: the stream is ready, has ended, or has been closed here. There may
  /// be nothing to read or write all the same. A wait holds a reference to its waiter until it has
  /// called it.
  class Waiter {
   public:
    virtual void readable() = 0;
    virtual void writable() = 0;
    virtual void acquire() = 0;
    virtual void release() = 0;

   protected:
    ~Waiter() = default;
  };
  using WaiterPtr = boost::intrusive_ptr<Waiter>;

  /// Calls waiter->readable() once there is something to read or the stream has ended, though not
  /// before notify_readable() returns. One wait at a time.
  virtual void notify_readable(WaiterPtr waiter) = 0;
  /// Calls waiter->writable() once write() can take something.
  virtual void notify_writable(WaiterPtr waiter) = 0;

  /// True if the stream holds received bytes that read() has not returned yet.
  [[nodiscard]] virtual bool has_received() const = 0;
  /// On a TLS connection, too, the end of the TCP stream is reported as an end, with or without
  /// close_notify: message lengths show a truncation.
  [[nodiscard]] virtual Received read(std::span<std::uint8_t> to) = 0;
  /// For plain streams: what read() would find. The end, too, if the connection is lost.
  [[nodiscard]] virtual Peeked peek() = 0;
  [[nodiscard]] virtual bool is_secure() const = 0;

  /// Returns the number of bytes taken. If fewer than given, the socket is full: call
  /// notify_writable(). Negative: the write failed.
  [[nodiscard]] virtual ssize_t write(Bytes bytes) = 0;
  /// The same for consecutive slices.
  [[nodiscard]] virtual ssize_t write(std::span<const iovec> slices) = 0;
  /// Sends what write() took but has not sent: the ciphertext that a TLS connection holds.
  [[nodiscard]] virtual Sent flush() = 0;
  [[nodiscard]] virtual bool unsent() const = 0;

 protected:
  ByteStream() = default;
  ByteStream(const ByteStream&) = default;
  ByteStream(ByteStream&&) = default;
  ByteStream& operator=(const ByteStream&) = default;
  ByteStream& operator=(ByteStream&&) = default;
  ~ByteStream() = default;
};

inline void intrusive_ptr_add_ref(ByteStream::Waiter* waiter) {
  waiter->acquire();
}
inline void intrusive_ptr_release(ByteStream::Waiter* waiter) {
  waiter->release();
}

}  // namespace idproxy::net
