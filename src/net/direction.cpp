#include "direction.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::net {
namespace {

// How often one direction is read before other connections have a turn.
constexpr int kReadsPerTurn = 4;
// Bounds of a read while a message is collected: the least, and the most until as much is held.
constexpr std::size_t kSmallestRead = std::size_t{16} * 1024;
constexpr std::size_t kFirstGrowth = std::size_t{64} * 1024;

}  // namespace

void Direction::wait_source() {
  if (closed_) return;
  owner_.waits(*this);
  if (waiting_source_ || ended_) return;
  // Received bytes wait for resume(), and a peer that keeps sending waits until they are read.
  const bool enough = source_.has_received() || held_.size() > BufferPool::kReadSize;
  if (enough && blocked()) return;
  waiting_source_ = true;
  source_.notify_readable(ByteStream::WaiterPtr(this));
}

void Direction::readable() {
  waiting_source_ = false;
  if (!closed_) owner_.woken(*this, false);
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
    read_to_hold();
    if (!closed_ && held_.empty()) wait_source();
    return;
  }
  using Peeked = ByteStream::Peeked;
  const Peeked peeked = source_.peek();
  if (peeked == Peeked::bytes) owner_.heard(*this);
  if (peeked == Peeked::nothing) wait_source();
  if (peeked == Peeked::end) source_ended();
}

void Direction::read() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ByteStream::Received received = read_some();
    if (ends(received.status)) return;
    seen_empty_ = received.status == Status::none && !received.more;
    if (received.status == Status::none) {
      if (received.more) continue;
      break;
    }
    owner_.received(*this, received.bytes);
    if (held_.empty()) {
      process({pool_.read_buffer(), received.bytes});
    } else if (held_.size() >= wanted_) {
      process(held_.view());
    }
    if (blocked() || !received.more) break;
  }
  // If bytes are unsent, on_writable() goes on.
  if (out_.empty()) wait_source();
}

/// Reads into the thread's buffer; if bytes are held, appends to them.
ByteStream::Received Direction::read_some() {
  if (held_.empty()) return source_.read({pool_.read_buffer(), owner_.read_size(*this)});
  // Memory grows with what the peer has sent, not with the length that it announced.
  const std::size_t size = held_.size();
  const std::size_t missing = wanted_ > size ? wanted_ - size : 0;
  std::size_t room = std::clamp(missing, kSmallestRead, std::max(size, kFirstGrowth));
  room = std::max(room, std::min(held_.capacity() - size, BufferPool::kReadSize));
  const ByteStream::Received received = source_.read({held_.extend(room), room});
  held_.truncate(size + received.bytes);
  return received;
}

/// Appends to the held bytes, for when the thread's buffer is in use.
void Direction::read_to_hold() {
  if (held_.capacity() == 0) held_ = pool_.take();
  const std::size_t size = held_.size();
  const ByteStream::Received received = source_.read({held_.extend(kSmallestRead), kSmallestRead});
  held_.truncate(size + received.bytes);
  if (held_.empty()) pool_.give_back(std::move(held_));
  if (!ends(received.status)) owner_.received(*this, received.bytes);
}

bool Direction::ends(Status status) {
  if (status == Status::ended) source_ended();
  if (status == Status::broken) owner_.source_broke(*this);
  return status == Status::ended || status == Status::broken;
}

void Direction::source_ended() {
  ended_ = true;
  owner_.source_ended(*this);
}

void Direction::process(Bytes input) {
  wanted_ = 0;
  const std::size_t consumed = owner_.process(*this, input);
  settle(input, consumed);
}

/// Keeps the part of `input` that was not consumed. `input` is in the thread's buffer or in held_,
/// or was in held_ until an OutQueue took that memory over.
void Direction::settle(Bytes input, std::size_t consumed) {
  if (held_.empty()) {
    if (consumed == input.size()) return;
    if (held_.capacity() == 0) held_ = pool_.take();
    held_.append(input.subspan(consumed));
    return;
  }
  held_.drop_front(consumed);
  if (held_.empty()) pool_.give_back(std::move(held_));
}

bool Direction::write(const wire::PatchedMessage& message, Bytes original) {
  const OutQueue::Status status = out_.send(sink_, message, original);
  after(status);
  return status == OutQueue::Status::done;
}

void Direction::after(OutQueue::Status status) {
  if (status == OutQueue::Status::blocked) wait_sink();
  if (status == OutQueue::Status::failed) owner_.write_failed(*this);
}

void Direction::wait_sink() {
  if (waiting_sink_ || closed_) return;
  waiting_sink_ = true;
  owner_.waits(*this);
  sink_.notify_writable(ByteStream::WaiterPtr(this));
}

void Direction::writable() {
  waiting_sink_ = false;
  if (!closed_) owner_.woken(*this, true);
}

void Direction::on_writable() {
  const OutQueue::Status status = out_.flush(sink_);
  if (status != OutQueue::Status::done) return after(status);
  owner_.written(*this);
}

void Direction::resume() {
  if (blocked()) {
    // Held up by its owner: only watch for the end of the source.
    if (!closed_ && out_.empty()) wait_source();
    return;
  }
  if (!held_.empty() && held_.size() >= wanted_) process(held_.view());
  if (closed_ || !out_.empty()) return;
  if (ended_ && !blocked()) return owner_.finished(*this);
  wait_source();
}

}  // namespace idproxy::net
