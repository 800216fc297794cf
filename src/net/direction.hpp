#pragma once

#include <algorithm>
#include <bit>
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
/// nothing or holds_up(). `Side`, which is derived from this, says what the bytes mean. `Io` is a
/// Stream, or what a test plays one with. Lives on one io thread. May be destroyed once its streams
/// have ended its waits.
///
/// Side has these, and befriends this:
///
///   bool take(Bytes front)        takes a message, or a part of one, from `front`, which starts
///                                 where the last call stopped consuming: calls relay(), consume()
///                                 or need(). False if it can take no more now
///   bool holds_up() const         true while nothing may be taken, for reasons other than a full
///                                 sink
///   std::size_t read_size() const how many bytes may be read into the thread's buffer at once
///   void woken(auto go_on)        a wait is over: calls go_on(), and handles what that throws
///   void heard()                  the source has sent something; with TLS, application data
///   void received(std::size_t)    so many bytes have been read
///   void writing(std::size_t)     so many bytes are about to be written
///   void source_ended()           ended() is true
///   void source_broke()
///   void finished()               the source has ended, and either the direction is held up or
///                                 everything is written
///   void written()                the sink has now taken everything that was left from earlier
///   void write_failed()
template <class Side, class Io = Stream>
class Direction : private StreamReader {
 public:
  /// From here on, the direction reads, takes and writes nothing.
  void close() { closed_ = true; }

  /// Waits for the source, unless the direction waits already or must wait for resume().
  void wait_source() {
    if (closed_ || waiting_source_ || ended_) return;
    // Received bytes wait for resume(), and a peer that keeps sending waits until they are read.
    const bool enough = source_.has_received() || held_.size() > BufferPool::kReadSize;
    if (enough && blocked()) return;
    waiting_source_ = true;
    source_.when_readable(static_cast<StreamReader&>(*this));
  }
  /// Reads, and has messages taken, in at most a few reads; then waits.
  void read() {
    for (int turn = 0; turn < kReadsPerTurn; ++turn) {
      const Stream::Received got = read_some();
      if (ends(got.status)) return;
      seen_empty_ = got.status == Status::none && !got.more;
      if (got.status == Status::none) {
        if (got.more) continue;
        break;
      }
      side().received(got.bytes);
      const bool filled = !held_.empty() && held_.size() == held_.capacity();
      if (held_.empty()) {
        offer({pool_.read_buffer(), got.bytes});
      } else if (held_.size() >= wanted_) {
        offer(held_.view());
      }
      // More came than was expected, and was not kept.
      if (filled && held_.empty()) expected_ = 0;
      if (blocked() || !got.more) break;
    }
    // If bytes are unsent, on_writable() goes on.
    if (out_.empty()) wait_source();
  }
  /// Goes on when nothing holds the direction up any more, first with held bytes. Does not read
  /// into the thread's buffer, which the caller may be using.
  void resume() {
    if (blocked()) {
      // Held up: only watch for the end of the source.
      if (!closed_ && out_.empty()) wait_source();
      return;
    }
    if (!held_.empty() && held_.size() >= wanted_) offer(held_.view());
    if (closed_ || !out_.empty()) return;
    if (ended_ && !blocked()) return side().finished();
    wait_source();
  }
  /// Writes to the sink, and keeps what the sink does not take.
  void write(Bytes bytes) {
    side().writing(bytes.size());
    after(out_.send(sink_, bytes));
  }
  /// Writes `message`, which patches `original`: see OutQueue::send(). True if the sink took it
  /// all.
  bool write(const wire::PatchedMessage& message, Bytes original) {
    side().writing(message.size());
    const OutQueue::Status status = out_.send(sink_, message, original);
    after(status);
    return status == OutQueue::Status::done;
  }

  /// For take(): consumes `bytes`, the first ones that it was given, and passes them on.
  void relay(Bytes bytes) {
    relayed_ = {relayed_.empty() ? bytes.data() : relayed_.data(), relayed_.size() + bytes.size()};
    consumed_ += bytes.size();
  }
  /// For take(): writes what it has passed on so far, which would otherwise go out together with
  /// what follows. True if what follows may be taken.
  bool write_relayed() {
    if (relayed_.empty()) return true;
    write(std::exchange(relayed_, {}));
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

  [[nodiscard]] bool blocked() const { return closed_ || !out_.empty() || side().holds_up(); }
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

 private:
  friend Side;

  /// `notices_leaving`: notices the end of its source at once, even while it is held up.
  Direction(Io& source, Io& sink, BufferPool& pool, bool notices_leaving)
      : source_(source), sink_(sink), pool_(pool), notices_leaving_(notices_leaving) {}
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;
  ~Direction() override = default;

  // Bounds what is read before it is known whether there is room for it.
  static constexpr std::size_t kMostExpected = std::size_t{4} * 1024 * 1024;

  // How often one direction is read before other connections have a turn.
  static constexpr int kReadsPerTurn = 4;
  // Bounds of a read while a message is collected: the least, and the most until as much is held.
  static constexpr std::size_t kSmallestRead = std::size_t{16} * 1024;
  static constexpr std::size_t kFirstGrowth = std::size_t{64} * 1024;
  // Smaller messages are read into the thread's buffer, and copied if they must be kept.
  static constexpr std::size_t kSmallestExpected = std::size_t{16} * 1024;

  using Status = Stream::Received::Status;

  [[nodiscard]] Side& side() { return static_cast<Side&>(*this); }
  [[nodiscard]] const Side& side() const { return static_cast<const Side&>(*this); }

  void readable() override {
    waiting_source_ = false;
    if (!closed_) side().woken([this] { on_readable(); });
  }

  void on_readable() {
    if (!blocked()) return read();
    // A pipelined message waits for resume(). As long as there is none, notice at once if the peer
    // disconnects.
    if (notices_leaving_ && out_.empty()) look_at_source();
  }

  void on_writable() {
    const OutQueue::Status status = out_.flush(sink_);
    if (status != OutQueue::Status::done) return after(status);
    side().written();
  }

  void look_at_source() {
    if (source_.is_secure()) {
      if (!held_.empty()) return;
      // The thread's buffer may be in use.
      held_ = pool_.take(kSmallestRead);
      const Stream::Received got = read_to_hold(held_.capacity());
      if (ends(got.status)) return;
      side().received(got.bytes);
      if (!closed_ && held_.empty()) wait_source();
      return;
    }
    using Peeked = Stream::Peeked;
    const Peeked peeked = source_.peek();
    if (peeked == Peeked::bytes) side().heard();
    if (peeked == Peeked::nothing) wait_source();
    if (peeked == Peeked::end) end_here();
  }

  /// Reads into the thread's buffer; if bytes are held or a large message is expected, into held_.
  [[nodiscard]] Stream::Received read_some() {
    std::size_t room = side().read_size();
    if (held_.empty()) {
      const bool ahead = expected_ >= kSmallestExpected && room == BufferPool::kReadSize;
      if (!ahead) return source_.read({pool_.read_buffer(), room});
      // One byte more shows that nothing follows.
      held_ = pool_.take(std::min(expected_ + 1, kMostExpected));
      room = 0;
    } else {
      // Memory grows with what the peer has sent, not with the length that it announced.
      const std::size_t missing = whole_ > held_.size() ? whole_ - held_.size() : 0;
      room = std::clamp(missing, kSmallestRead, std::max(held_.size(), kFirstGrowth));
    }
    return read_to_hold(std::max(room, held_.capacity() - held_.size()));
  }

  /// Appends to the held bytes.
  [[nodiscard]] Stream::Received read_to_hold(std::size_t room) {
    const std::size_t size = held_.size();
    if (room > held_.capacity() - size) held_.reserve(std::bit_ceil(size + room));
    const Stream::Received got = source_.read({held_.extend(room), room});
    held_.truncate(size + got.bytes);
    if (held_.empty()) pool_.give_back(std::move(held_));
    return got;
  }

  /// True if the read has ended the direction.
  [[nodiscard]] bool ends(Status status) {
    if (status == Status::ended) end_here();
    if (status == Status::broken) side().source_broke();
    return status == Status::ended || status == Status::broken;
  }

  void end_here() {
    ended_ = true;
    side().source_ended();
  }

  void offer(Bytes input) {
    wanted_ = whole_ = 0;
    consumed_ = 0;
    relayed_ = {};
    while (consumed_ < input.size() && !blocked()) {
      if (!side().take(input.subspan(consumed_))) break;
    }
    if (!closed_) write_relayed();
    settle(input, consumed_);
  }

  /// Keeps the part of `input` that was not consumed. `input` is in the thread's buffer or in
  /// held_, or was in held_ until an OutQueue took that memory over.
  void settle(Bytes input, std::size_t consumed) {
    if (held_.empty()) {
      if (consumed < input.size()) hold(input.subspan(consumed));
      return;
    }
    held_.drop_front(consumed);
    // Before take() needs a large message, it has made room for all of it.
    const std::size_t size =
        wanted_ > kFirstGrowth ? std::max(wanted_, held_.size()) : held_.size();
    if (!held_.empty() && BufferPool::is_for(size, held_)) return;
    Buffer large = std::move(held_);
    if (!large.empty()) hold(large.view());
    pool_.give_back(std::move(large));
  }

  void hold(Bytes bytes) {
    held_ = pool_.take(bytes.size());
    held_.append(bytes);
  }

  void after(OutQueue::Status status) {
    if (status == OutQueue::Status::blocked) wait_sink();
    if (status == OutQueue::Status::failed) side().write_failed();
  }

  void wait_sink() {
    if (waiting_sink_ || closed_) return;
    waiting_sink_ = true;
    sink_.when_writable([this] {
      waiting_sink_ = false;
      if (!closed_) side().woken([this] { on_writable(); });
    });
  }

  Io& source_;
  Io& sink_;
  BufferPool& pool_;
  Buffer held_;               // read, but not consumed
  std::size_t wanted_ = 0;    // the size that held_ needs before take() can go on
  std::size_t whole_ = 0;     // the size that it grows to
  std::size_t expected_ = 0;  // the size of messages that were collected
  Bytes relayed_;             // by take(), but not written yet
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
