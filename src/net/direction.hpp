#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "net/buffer_pool.hpp"
#include "net/out_queue.hpp"
#include "net/stream.hpp"

namespace idproxy::net {

/// One direction of a connection, from its source to its sink. Waits for the source (without a
/// buffer), reads into the thread's buffer, has messages taken from there, keeps the bytes that
/// cannot be taken yet, and writes those that are passed on. Stops reading while the sink takes
/// nothing or holds_up(). A derived class says what the bytes mean. Lives on one io thread. May be
/// destroyed once its streams have ended its waits.
class Direction {
 public:
  /// `notices_leaving`: notices the end of its source at once, even while it is held up.
  Direction(Stream& source, Stream& sink, BufferPool& pool, bool notices_leaving)
      : source_(source), sink_(sink), pool_(pool), notices_leaving_(notices_leaving) {}
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;

  /// From here on, the direction reads, takes and writes nothing.
  void close() { closed_ = true; }

  /// Waits for the source, unless the direction waits already or must wait for resume().
  void wait_source();
  /// Reads, and has messages taken, in at most a few reads; then waits.
  void read();
  /// Goes on when nothing holds the direction up any more, first with held bytes. Does not read
  /// into the thread's buffer, which the caller may be using.
  void resume();
  /// Writes to the sink, and keeps what the sink does not take.
  void write(Bytes bytes);
  /// Writes `message`, which patches `original`: see OutQueue::send(). True if the sink took it
  /// all.
  bool write(const wire::PatchedMessage& message, Bytes original);

  /// For take(): consumes `bytes`, the first ones that it was given, and passes them on.
  void pass(Bytes bytes) {
    passed_ = {passed_.empty() ? bytes.data() : passed_.data(), passed_.size() + bytes.size()};
    consumed_ += bytes.size();
  }
  /// For take(): writes what it has passed on so far, which would otherwise go out together with
  /// what follows. True if what follows may be taken.
  bool write_passed() {
    if (passed_.empty()) return true;
    write(std::exchange(passed_, {}));
    return !blocked();
  }
  /// For take(): consumes so many bytes without passing them on.
  void consume(std::size_t bytes) { consumed_ += bytes; }
  /// For take(): it needs `bytes` of what it was given before it can go on. `whole`: of the message
  /// that they belong to, if it is known.
  void need(std::size_t bytes, std::size_t whole = 0) {
    wanted_ = bytes;
    whole_ = std::max(bytes, whole);
  }
  /// For take(): it has collected a message of so many bytes, and the next one may be about as
  /// large. A large one is then read into a buffer of its own, which buffer_of() returns.
  void expect(std::size_t bytes) { expected_ = std::max(bytes, expected_ - expected_ / 8); }
  /// The memory that such a message is read into before more is known of it.
  [[nodiscard]] std::size_t expected() const { return std::min(expected_, kMostExpected); }
  /// Treats the source as ended.
  void end() { ended_ = true; }
  /// Resets seen_empty().
  void forget_empty() { seen_empty_ = false; }

  [[nodiscard]] bool blocked() const { return closed_ || !out_.empty() || holds_up(); }
  /// The bytes that were read but not consumed.
  [[nodiscard]] Bytes held() const { return held_.view(); }
  /// Bytes of memory for held().
  [[nodiscard]] std::size_t memory() const { return held_.capacity(); }
  /// The buffer that holds exactly `message`, for the caller to move from; null if there is none,
  /// or if it has far more memory than the message needs.
  [[nodiscard]] Buffer* buffer_of(Bytes message) {
    const bool owns = held_.data() == message.data() && held_.size() == message.size();
    return owns && BufferPool::is_for(held_.size(), held_) ? &held_ : nullptr;
  }
  /// True if the sink has not taken everything.
  [[nodiscard]] bool unsent() const { return !out_.empty(); }
  [[nodiscard]] bool ended() const { return ended_; }
  /// True if the last read found nothing.
  [[nodiscard]] bool seen_empty() const { return seen_empty_; }

 protected:
  ~Direction() = default;

 private:
  // Bounds what is read before it is known whether there is room for it.
  static constexpr std::size_t kMostExpected = std::size_t{4} * 1024 * 1024;

  using Status = Stream::Received::Status;

  /// Takes a message, or a part of one, from `front`, which starts where the last call stopped
  /// consuming: calls pass(), consume() or need(). False if it can take no more now.
  virtual bool take(Bytes front) = 0;
  /// True while nothing may be taken, for reasons other than a full sink.
  [[nodiscard]] virtual bool holds_up() const = 0;
  /// How many bytes may be read into the thread's buffer at once.
  [[nodiscard]] virtual std::size_t read_size() const = 0;

  /// A wait is over: calls (this->*go_on)(), and handles what that throws.
  virtual void woken(void (Direction::*go_on)()) = 0;
  /// The source has sent something; with TLS, application data.
  virtual void heard() = 0;
  /// `bytes` have been read.
  virtual void received(std::size_t bytes) = 0;
  /// `bytes` are about to be written.
  virtual void writing(std::size_t bytes) = 0;
  /// The source has ended; ended() is true.
  virtual void source_ended() = 0;
  virtual void source_broke() = 0;
  /// The source has ended, and either the direction is held up or everything is written.
  virtual void finished() = 0;
  /// The sink has now taken everything that was left from earlier writes.
  virtual void written() = 0;
  virtual void write_failed() = 0;

  void on_readable();
  void on_writable();
  void look_at_source();
  [[nodiscard]] Stream::Received read_some();
  [[nodiscard]] Stream::Received read_to_hold(std::size_t room);
  /// True if the read has ended the direction.
  [[nodiscard]] bool ends(Status status);
  void end_here();
  void offer(Bytes input);
  void settle(Bytes input, std::size_t consumed);
  void hold(Bytes bytes);
  void after(OutQueue::Status status);
  void wait_sink();

  Stream& source_;
  Stream& sink_;
  BufferPool& pool_;
  Buffer held_;               // read, but not consumed
  std::size_t wanted_ = 0;    // the size that held_ needs before take() can go on
  std::size_t whole_ = 0;     // the size that it grows to
  std::size_t expected_ = 0;  // the size of messages that were collected
  Bytes passed_;              // by take(), but not written yet
  std::size_t consumed_ = 0;  // by take()
  OutQueue out_;              // written, but not taken by the sink
  const bool notices_leaving_;
  bool closed_ = false;
  bool ended_ = false;
  bool waiting_source_ = false;
  bool waiting_sink_ = false;
  bool seen_empty_ = false;
};

}  // namespace idproxy::net
