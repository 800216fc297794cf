#pragma once

#include <cstddef>

#include "buffer_pool.hpp"
#include "byte_stream.hpp"
#include "idproxy/base/buffer.hpp"
#include "out_queue.hpp"

namespace idproxy::net {

/// One direction of a connection, from its source to its sink: waits until the source can be read
/// (holding 512 bytes), reads into the thread's buffer, lets its owner decide about the bytes,
/// keeps those that are not decided yet, writes those that go on, and stops reading while the sink
/// does not take them or the owner holds the direction up. Lives on one io thread.
class Direction final : public ByteStream::Waiter {
 public:
  /// The connection that a direction belongs to. It lives as long as a wait is under way.
  class Owner {
   public:
    /// Decides about `input`, which starts where the last call stopped consuming; returns how much
    /// it has consumed. Calls need() if it cannot decide before there is more.
    virtual std::size_t process(Direction& direction, Bytes input) = 0;
    /// True while nothing may be processed, for a reason other than the sink's.
    [[nodiscard]] virtual bool holds_up(const Direction& direction) const = 0;
    /// How much may be read into the thread's buffer at once.
    [[nodiscard]] virtual std::size_t read_size(const Direction& direction) const = 0;

    /// A wait is over: calls direction.on_readable() or on_writable(), and handles what they throw.
    virtual void woken(Direction& direction, bool writable, ByteStream::Wake wake) = 0;
    /// The direction is about to wait for its source, or its sink.
    virtual void waits(const Direction& direction) = 0;
    /// The source has sent something; of TLS, something that is not TLS's own.
    virtual void heard(const Direction& direction) = 0;
    /// `bytes` have been read.
    virtual void received(const Direction& direction, std::size_t bytes) = 0;
    /// The source's bytes have ended; ended() is true.
    virtual void source_ended(const Direction& direction) = 0;
    virtual void source_broke(const Direction& direction) = 0;
    /// The source has gone while the direction is held up, or after its end everything is written.
    virtual void finished(const Direction& direction) = 0;
    /// The sink has taken everything that it had not taken before.
    virtual void written(Direction& direction) = 0;
    virtual void write_failed(const Direction& direction) = 0;

    virtual void acquire() = 0;
    virtual void release() = 0;

   protected:
    ~Owner() = default;
  };

  /// `notices_leaving`: even while it is held up, a source that goes away is noticed at once.
  Direction(Owner& owner, ByteStream& source, ByteStream& sink, BufferPool& pool,
            bool notices_leaving)
      : owner_(owner),
        source_(source),
        sink_(sink),
        pool_(pool),
        notices_leaving_(notices_leaving) {}

  /// No byte is read, processed or written any more.
  void close() { closed_ = true; }

  /// Waits for the source, unless it waits already or is to wait for resume().
  void wait_source();
  /// Reads and processes what has been received, at most a few times; then waits.
  void read();
  /// Goes on after whatever held the direction up is gone, first with what is held. Does not read
  /// into the thread's buffer: the caller may be using it.
  void resume();
  /// Events: a wait is over.
  void on_readable(ByteStream::Wake wake);
  void on_writable();

  /// Sends, and keeps what the sink does not take.
  void write(Bytes bytes) { after(out_.send(sink_, bytes)); }
  /// Sends `message`, which patches `original`: see OutQueue::send(). True if it has been taken
  /// whole.
  bool write(const wire::PatchedMessage& message, Bytes original);

  /// From within process(): nothing can be decided before `bytes` of what is left are there.
  void need(std::size_t bytes) { wanted_ = bytes; }
  /// The source has come to its end, or is to be treated as if it had.
  void end() { ended_ = true; }
  /// Forgets that the last read found nothing.
  void forget_empty() { seen_empty_ = false; }

  [[nodiscard]] bool blocked() const { return closed_ || !out_.empty() || owner_.holds_up(*this); }
  /// What has been read and not been decided.
  [[nodiscard]] Bytes held() const { return held_.view(); }
  /// The buffer that holds `message` and nothing else; may be moved from. Else null.
  [[nodiscard]] Buffer* buffer_of(Bytes message) {
    const bool owns = held_.data() == message.data() && held_.size() == message.size();
    return owns ? &held_ : nullptr;
  }
  /// Something has not been taken by the sink.
  [[nodiscard]] bool unsent() const { return !out_.empty(); }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool waiting() const { return waiting_source_; }
  /// The last read has found nothing.
  [[nodiscard]] bool seen_empty() const { return seen_empty_; }

 private:
  using Status = ByteStream::Received::Status;

  void readable(ByteStream::Wake wake) override;
  void writable(ByteStream::Wake wake) override;
  void acquire() override { owner_.acquire(); }
  void release() override { owner_.release(); }

  [[nodiscard]] ByteStream::Received read_some();
  void read_to_hold();
  /// True if the read has ended the direction.
  [[nodiscard]] bool ends(Status status);
  void source_ended();
  void process(Bytes input);
  void settle(Bytes input, std::size_t consumed);
  void after(OutQueue::Status status);
  void wait_sink();

  Owner& owner_;
  ByteStream& source_;
  ByteStream& sink_;
  BufferPool& pool_;
  Buffer held_;             // read, not decided or not allowed on yet
  std::size_t wanted_ = 0;  // size of held_ below which nothing can be decided
  OutQueue out_;            // decided, not taken by the sink yet
  const bool notices_leaving_;
  bool closed_ = false;
  bool ended_ = false;
  bool waiting_source_ = false;
  bool waiting_sink_ = false;
  bool seen_empty_ = false;
};

}  // namespace idproxy::net
