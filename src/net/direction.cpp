#include "net/direction.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace idproxy::net {
namespace {

// How often one direction is read before other connections have a turn.
constexpr int kReadsPerTurn = 4;
// Bounds of a read while a message is collected: the least, and the most until as much is held.
constexpr std::size_t kSmallestRead = std::size_t{16} * 1024;
constexpr std::size_t kFirstGrowth = std::size_t{64} * 1024;
// Smaller messages are read into the thread's buffer, and copied if they must be kept.
constexpr std::size_t kSmallestExpected = std::size_t{16} * 1024;

}  // namespace

void Direction::wait_source() {
  if (closed_ || waiting_source_ || ended_) return;
  // Received bytes wait for resume(), and a peer that keeps sending waits until they are read.
  const bool enough = source_.has_received() || held_.size() > BufferPool::kReadSize;
  if (enough && blocked()) return;
  waiting_source_ = true;
  source_.when_readable([this] {
    waiting_source_ = false;
    if (!closed_) woken(&Direction::on_readable);
  });
}

void Direction::on_readable() {
  if (!blocked()) return read();
  // A pipelined message waits for resume(). As long as there is none, notice at once if the peer
  // disconnects.
  if (notices_leaving_ && out_.empty()) look_at_source();
}

void Direction::look_at_source() {
  if (source_.is_secure()) {
    if (!held_.empty()) return;
    // The thread's buffer may be in use.
    held_ = pool_.take(kSmallestRead);
    const Stream::Received got = read_to_hold(held_.capacity());
    if (ends(got.status)) return;
    received(got.bytes);
    if (!closed_ && held_.empty()) wait_source();
    return;
  }
  using Peeked = Stream::Peeked;
  const Peeked peeked = source_.peek();
  if (peeked == Peeked::bytes) heard();
  if (peeked == Peeked::nothing) wait_source();
  if (peeked == Peeked::end) end_here();
}

void Direction::read() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const Stream::Received got = read_some();
    if (ends(got.status)) return;
    seen_empty_ = got.status == Status::none && !got.more;
    if (got.status == Status::none) {
      if (got.more) continue;
      break;
    }
    received(got.bytes);
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

/// Reads into the thread's buffer; if bytes are held or a large message is expected, into held_.
Stream::Received Direction::read_some() {
  std::size_t room = read_size();
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
Stream::Received Direction::read_to_hold(std::size_t room) {
  const std::size_t size = held_.size();
  if (room > held_.capacity() - size) held_.reserve(std::bit_ceil(size + room));
  const Stream::Received got = source_.read({held_.extend(room), room});
  held_.truncate(size + got.bytes);
  if (held_.empty()) pool_.give_back(std::move(held_));
  return got;
}

bool Direction::ends(Status status) {
  if (status == Status::ended) end_here();
  if (status == Status::broken) source_broke();
  return status == Status::ended || status == Status::broken;
}

void Direction::end_here() {
  ended_ = true;
  source_ended();
}

void Direction::offer(Bytes input) {
  wanted_ = whole_ = 0;
  consumed_ = 0;
  passed_ = {};
  while (consumed_ < input.size() && !blocked()) {
    if (!take(input.subspan(consumed_))) break;
  }
  if (!closed_) write_passed();
  settle(input, consumed_);
}

/// Keeps the part of `input` that was not consumed. `input` is in the thread's buffer or in held_,
/// or was in held_ until an OutQueue took that memory over.
void Direction::settle(Bytes input, std::size_t consumed) {
  if (held_.empty()) {
    if (consumed < input.size()) hold(input.subspan(consumed));
    return;
  }
  held_.drop_front(consumed);
  // Before take() needs a large message, it has made room for all of it.
  const std::size_t size = wanted_ > kFirstGrowth ? std::max(wanted_, held_.size()) : held_.size();
  if (!held_.empty() && BufferPool::is_for(size, held_)) return;
  Buffer large = std::move(held_);
  if (!large.empty()) hold(large.view());
  pool_.give_back(std::move(large));
}

void Direction::hold(Bytes bytes) {
  held_ = pool_.take(bytes.size());
  held_.append(bytes);
}

void Direction::write(Bytes bytes) {
  writing(bytes.size());
  after(out_.send(sink_, bytes));
}

bool Direction::write(const wire::PatchedMessage& message, Bytes original) {
  writing(message.size());
  const OutQueue::Status status = out_.send(sink_, message, original);
  after(status);
  return status == OutQueue::Status::done;
}

void Direction::after(OutQueue::Status status) {
  if (status == OutQueue::Status::blocked) wait_sink();
  if (status == OutQueue::Status::failed) write_failed();
}

void Direction::wait_sink() {
  if (waiting_sink_ || closed_) return;
  waiting_sink_ = true;
  sink_.when_writable([this] {
    waiting_sink_ = false;
    if (!closed_) woken(&Direction::on_writable);
  });
}

void Direction::on_writable() {
  const OutQueue::Status status = out_.flush(sink_);
  if (status != OutQueue::Status::done) return after(status);
  written();
}

void Direction::resume() {
  if (blocked()) {
    // Held up: only watch for the end of the source.
    if (!closed_ && out_.empty()) wait_source();
    return;
  }
  if (!held_.empty() && held_.size() >= wanted_) offer(held_.view());
  if (closed_ || !out_.empty()) return;
  if (ended_ && !blocked()) return finished();
  wait_source();
}

}  // namespace idproxy::net
