#pragma once

#include <sys/uio.h>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <span>

#include "idproxy/base/bytes.hpp"

namespace idproxy::net {

/// Connected bytes, as a Direction reads and an OutQueue writes them. Stream is the one that
/// serves; unit tests script their own. Never blocks.
class ByteStream {
 public:
  struct Received {
    enum class Status { some, none, ended, broken };
    Status status = Status::none;
    std::size_t bytes = 0;
    bool more = false;  ///< there may be more at once: reading again is worth it
  };
  enum class Sent { all, blocked, failed };
  /// How a wait ended.
  enum class Wake { ready, ended, failed, cancelled };

  /// Who waits. A wait holds a reference until it has called.
  class Waiter {
   public:
    virtual void readable(Wake wake) = 0;
    virtual void writable(Wake wake) = 0;
    virtual void acquire() = 0;
    virtual void release() = 0;

   protected:
    ~Waiter() = default;
  };
  using WaiterPtr = boost::intrusive_ptr<Waiter>;

  /// Calls waiter->readable() once there is something to read, or the bytes have ended.
  virtual void notify_readable(WaiterPtr waiter) = 0;
  /// Calls waiter->writable() once write() can take something.
  virtual void notify_writable(WaiterPtr waiter) = 0;

  /// Bytes have been received that read() has not delivered.
  [[nodiscard]] virtual bool has_received() const = 0;
  /// `to` has room for more than 512 bytes. Of a TLS connection too, an end of the bytes is an end:
  /// where it is one, messages tell.
  [[nodiscard]] virtual Received read(std::span<std::uint8_t> to) = 0;
  /// Of a plain one: true if the peer has sent its end, or the connection is gone; looks behind
  /// nothing that has not been read.
  [[nodiscard]] virtual bool is_at_end() = 0;
  [[nodiscard]] virtual bool is_secure() const = 0;

  /// How much of it was taken; less than all: the socket is full, notify_writable(). Negative:
  /// failed.
  [[nodiscard]] virtual ssize_t write(Bytes bytes) = 0;
  /// The same for slices that follow each other.
  [[nodiscard]] virtual ssize_t write(std::span<const iovec> slices) = 0;
  /// Sends what has been taken and not sent: what a TLS connection holds encrypted.
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
