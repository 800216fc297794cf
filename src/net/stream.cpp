#include "net/stream.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace idproxy::net {
namespace {

constexpr std::size_t kRecord = 16384;  // RFC 8446, 5.1: plaintext of one record
// Longer data is sent in pieces of this size, which stay within the processor's cache: with 64 KiB,
// a reply of 1 MB takes a twentieth longer.
constexpr std::size_t kPiece = std::size_t{32} * 1024;

bool is_for_now(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// glibc's own recv() and send() announce to pthread_cancel(), before and after each call, that the
// thread may end there: two atomic operations, 25 ns each time. Nobody cancels the threads of the
// proxy. Builds with a sanitizer call them all the same: from them the sanitizer knows what becomes
// of the memory.
#ifdef IDPROXY_SANITIZED
constexpr auto recv_now = ::recv;
constexpr auto send_now = ::send;
#else
ssize_t recv_now(int fd, void* to, std::size_t room, int flags) {
  return ::syscall(SYS_recvfrom, fd, to, room, flags, nullptr, nullptr);
}

ssize_t send_now(int fd, const void* bytes, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, fd, bytes, size, flags, nullptr, 0);
}
#endif

/// Bytes taken by the socket; -1 for an error other than "not now".
ssize_t send_some(int fd, Bytes bytes) {
  const ssize_t n = send_now(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 && is_for_now(errno) ? 0 : n;
}

Bytes bytes_of(const iovec& slice) {
  return {static_cast<const std::uint8_t*>(slice.iov_base), slice.iov_len};
}

constexpr std::uint32_t kReadable = EPOLLIN | EPOLLRDHUP;
// The kernel reports these events even if nobody asks for them.
constexpr std::uint32_t kLost = EPOLLERR | EPOLLHUP;

}  // namespace

Stream::Stream(Stream&& other) noexcept : loop_(other.loop_), scratch_(other.scratch_) {
  *this = std::move(other);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  loop_.forget(other);
  socket_ = std::move(other.socket_);
  tls_ = std::move(other.tls_);
  may_read_ = other.may_read_;
  hung_up_ = other.hung_up_;
  // The kernel tells the new watcher again what the socket is ready for.
  if (const std::uint32_t events = std::exchange(other.watched_, 0); events != 0) {
    watched_ = events;
    loop_.rewatch(socket_.get(), events, *this);
  }
  return *this;
}

void Stream::open(FileDescriptor socket, std::unique_ptr<tls::Engine> engine) {
  socket_ = std::move(socket);
  if (engine) tls_ = std::make_unique<Tls>(std::move(engine));
}

void Stream::close() {
  if (!socket_.is_open()) return;
  say_goodbye();
  if (std::exchange(watched_, 0) != 0) loop_.unwatch(socket_.get(), *this);
  socket_.close();
  if (reader_ != nullptr) {
    loop_.call_later([reader = std::exchange(reader_, nullptr)] { reader->readable(); });
  }
  const auto waiting = std::exchange(callbacks_, nullptr);
  if (waiting && waiting->readable) loop_.call_later(std::move(waiting->readable));
  if (waiting && waiting->writable) loop_.call_later(std::move(waiting->writable));
}

/// Sends close_notify, if the socket takes it at once.
void Stream::say_goodbye() {
  if (!tls_ || unsent()) return;
  scratch_.sent.clear();
  tls_->engine->close_notify(scratch_.sent);
  static_cast<void>(send_some(socket_.get(), scratch_.sent.view()));
}

void Stream::finish() {
  say_goodbye();
  static_cast<void>(::shutdown(socket_.get(), SHUT_WR));
}

void Stream::shut_down() {
  static_cast<void>(::shutdown(socket_.get(), SHUT_RDWR));
}

// ---- waiting ---------------------------------------------------------------------------------

/// Has the loop watch the socket for these events, too.
void Stream::watch(std::uint32_t events) {
  if ((watched_ & events) == events) return;
  const std::uint32_t before = std::exchange(watched_, watched_ | events);
  before == 0 ? loop_.watch(socket_.get(), watched_, *this)
              : loop_.rewatch(socket_.get(), watched_, *this);
}

void Stream::ready(std::uint32_t events) {
  if ((events & (kReadable | kLost)) != 0) may_read_ = true;
  if ((events & (EPOLLRDHUP | kLost)) != 0) hung_up_ = true;
  if (callbacks_) return call_waiting(events);
  if (may_read_ && reader_ != nullptr) std::exchange(reader_, nullptr)->readable();
}

void Stream::call_waiting(std::uint32_t events) {
  // All first: each call may close and destroy the stream.
  StreamReader* reader = nullptr;
  Callbacks due;
  if (may_read_) std::swap(reader, reader_);
  if (may_read_) due.readable.swap(callbacks_->readable);
  if ((events & (EPOLLOUT | kLost)) != 0) due.writable.swap(callbacks_->writable);
  if (!callbacks_->readable && !callbacks_->writable) callbacks_.reset();
  if (reader != nullptr) reader->readable();
  if (due.readable) due.readable();
  if (due.writable) due.writable();
}

void Stream::when_readable(StreamReader& reader) {
  if (may_read_ || undecoded() || !socket_.is_open()) {
    return loop_.call_later([&reader] { reader.readable(); });
  }
  reader_ = &reader;
  watch(kReadable);
}

void Stream::when_readable(std::function<void()> then) {
  if (may_read_ || undecoded() || !socket_.is_open()) return loop_.call_later(std::move(then));
  callbacks().readable = std::move(then);
  watch(kReadable);
}

/// Unlike a TCP socket, a Unix socket reports each byte that the peer has taken. So it is watched
/// for that only once it has been full.
void Stream::when_writable(std::function<void()> then) {
  if (!socket_.is_open()) return loop_.call_later(std::move(then));
  callbacks().writable = std::move(then);
  watch(EPOLLOUT);
}

// ---- handshake -------------------------------------------------------------------------------

void Stream::handshake(std::function<void(std::string_view)> then) {
  advance(std::make_shared<const Then>(std::move(then)), {});
}

void Stream::advance(const std::shared_ptr<const Then>& then, Bytes received) {
  scratch_.sent.clear();
  const auto status = tls_->engine->handshake(received, scratch_.sent);
  const bool sent = send_secure();
  if (status == tls::Engine::Status::failed) return (*then)(tls_->engine->reason());
  if (!sent) return (*then)(why_left());
  if (status == tls::Engine::Status::done) {
    tls_->unread.append(received);
    return (*then)({});
  }
  receive_handshake(then);
}

void Stream::receive_handshake(const std::shared_ptr<const Then>& then) {
  const bool full = unsent();
  auto go_on = [this, full, then] {
    if (!socket_.is_open()) return;  // closed here
    try {
      continue_handshake(full, then);
    } catch (const std::exception& failure) {
      (*then)(failure.what());
    }
  };
  full ? when_writable(std::move(go_on)) : when_readable(std::move(go_on));
}

void Stream::continue_handshake(bool full, const std::shared_ptr<const Then>& then) {
  if (full) {
    if (flush() == Sent::failed) return (*then)("the connection is lost");
    return receive_handshake(then);
  }
  if (!scratch_.received) {
    scratch_.received = std::make_unique_for_overwrite<std::uint8_t[]>(TlsScratch::kReadSize);
  }
  const std::span<std::uint8_t> room(scratch_.received.get(), kRecord);
  const ssize_t n = receive(room);
  if (n == 0) return (*then)(why_left());
  if (n < 0 && !is_for_now(errno)) return (*then)("the connection is lost");
  if (n < 0) return receive_handshake(then);
  tls_->heard = true;
  advance(then, room.first(static_cast<std::size_t>(n)));
}

/// The reason if the peer disconnected before the end of the handshake.
std::string Stream::why_left() const {
  if (!tls_->heard) return std::string(kClosedAtOnce);
  const std::string reason = tls_->engine->why_closed();
  return reason.empty() ? "the connection was closed during the handshake" : reason;
}

// ---- reading ---------------------------------------------------------------------------------

/// As ::recv(). A read that finds less than it has room for leaves nothing, unless the end follows:
/// epoll(7) tells of everything that comes later.
ssize_t Stream::receive(std::span<std::uint8_t> to) {
  const ssize_t n = recv_now(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
  if (n < 0) {
    if (errno != EINTR) may_read_ = false;
  } else if (static_cast<std::size_t>(n) < to.size()) {
    may_read_ = hung_up_;
  }
  return n;
}

Stream::Received Stream::read(std::span<std::uint8_t> to) {
  using Status = Received::Status;
  if (tls_) return read_secure(to);
  const ssize_t n = receive(to);
  if (n == 0) return {Status::ended};
  if (n < 0) return {is_for_now(errno) ? Status::none : Status::broken};
  return {Status::some, static_cast<std::size_t>(n), static_cast<std::size_t>(n) == to.size()};
}

Stream::Received Stream::read_secure(std::span<std::uint8_t> to) {
  using Status = Received::Status;
  Tls& tls = *tls_;
  if (tls.broken) return {Status::broken};
  const Buffer before = std::exchange(tls.unread, {});
  Bytes in = before.view();
  bool more = false;
  if (in.empty() && !tls.decrypted_left) {
    if (!scratch_.received) {
      scratch_.received = std::make_unique_for_overwrite<std::uint8_t[]>(TlsScratch::kReadSize);
    }
    // Not more than `to` has room for, apart from the rest of a record that was begun before.
    const std::span<std::uint8_t> room(scratch_.received.get(),
                                       std::min(to.size(), TlsScratch::kReadSize));
    const ssize_t n = receive(room);
    if (n < 0) return {is_for_now(errno) ? Status::none : Status::broken};
    tls.cut_off = n == 0;
    if (tls.cut_off) return {Status::ended};
    in = room.first(static_cast<std::size_t>(n));
    more = in.size() == room.size();
  }
  scratch_.sent.clear();
  std::size_t bytes = 0;
  const auto status = tls.engine->decrypt(in, to, bytes, scratch_.sent);
  if (!in.empty()) tls.unread.append(in);
  tls.decrypted_left = status == tls::Engine::Status::done;
  // Limits the answers to TLS messages (key updates) that a peer provokes and does not read.
  const bool sent = send_secure();
  tls.broken = !scratch_.sent.empty() && tls.unsent.size() > 2 * kMostAtOnce;
  if (bytes == 0 && status == tls::Engine::Status::ended) return {Status::ended};
  const bool failed = status == tls::Engine::Status::failed || !sent || tls.broken;
  if (bytes == 0 && failed) return {Status::broken};
  // The next call meets an end or a failure after the plaintext again.
  const bool over = status != tls::Engine::Status::done && status != tls::Engine::Status::need_more;
  if (over) tls.decrypted_left = true;
  return {bytes > 0 ? Status::some : Status::none, bytes, more || undecoded()};
}

std::string_view Stream::fault() const {
  return tls_ ? std::string_view(tls_->engine->reason()) : std::string_view();
}

std::string Stream::why_closed() const {
  return tls_ ? tls_->engine->why_closed() : std::string();
}

Stream::Peeked Stream::peek() {
  std::uint8_t byte;
  const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return Peeked::bytes;
  if (n == 0 || !is_for_now(errno)) return Peeked::end;
  may_read_ = false;
  return Peeked::nothing;
}

// ---- writing ---------------------------------------------------------------------------------

ssize_t Stream::write(Bytes bytes) {
  if (!tls_) return send_some(socket_.get(), bytes);
  const iovec slice{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  return write_secure({&slice, 1});
}

ssize_t Stream::write(std::span<const iovec> slices) {
  if (tls_) return write_secure(slices);
  // The kernel takes a tenth of a microsecond less for send() than for sendmsg().
  if (slices.size() == 1) return send_some(socket_.get(), bytes_of(slices[0]));
  msghdr header{};
  header.msg_iov = const_cast<iovec*>(slices.data());  // sendmsg() does not write to it
  header.msg_iovlen = slices.size();
  const ssize_t n = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 && is_for_now(errno) ? 0 : n;
}

/// Gathers small slices in a record; encrypts whole records of a large slice in place.
ssize_t Stream::write_secure(std::span<const iovec> slices) {
  Buffer& record = scratch_.record;
  record.clear();
  scratch_.sent.clear();
  std::size_t taken = 0;
  std::size_t size = 0;
  for (const iovec& slice : slices) size += slice.iov_len;
  const std::size_t piece = size < kMostAtOnce ? kMostAtOnce : kPiece;
  const auto send_record = [&] {
    const bool good = record.empty() || tls_->engine->encrypt(record.view(), scratch_.sent);
    record.clear();
    return good;
  };
  for (const iovec& slice : slices) {
    for (Bytes rest = bytes_of(slice); !rest.empty();) {
      if (unsent()) return static_cast<ssize_t>(taken);
      const bool whole = record.empty() && rest.size() >= kRecord;
      const std::size_t most = whole ? rest.size() / kRecord * kRecord : kRecord - record.size();
      const Bytes part = rest.first(std::min({rest.size(), most, piece}));
      rest = rest.subspan(part.size());
      taken += part.size();
      if (whole) {
        if (!tls_->engine->encrypt(part, scratch_.sent)) return -1;
      } else {
        record.append(part);
        if (record.size() == kRecord && !send_record()) return -1;
      }
      if (scratch_.sent.size() < piece) continue;
      if (!send_record() || !send_secure()) return -1;
      scratch_.sent.clear();
    }
  }
  return send_record() && send_secure() ? static_cast<ssize_t>(taken) : -1;
}

/// Sends the ciphertext and keeps what the socket does not take. False if the connection is lost.
bool Stream::send_secure() {
  const Bytes bytes = scratch_.sent.view();
  if (bytes.empty()) return true;
  std::size_t n = 0;
  if (!unsent()) {
    const ssize_t sent = send_some(socket_.get(), bytes);
    if (sent < 0) return false;
    n = static_cast<std::size_t>(sent);
  }
  tls_->unsent.append(bytes.subspan(n));
  return true;
}

Stream::Sent Stream::flush() {
  if (!unsent()) return Sent::all;
  const ssize_t n = send_some(socket_.get(), tls_->unsent.view());
  if (n < 0) return Sent::failed;
  if (static_cast<std::size_t>(n) < tls_->unsent.size()) {
    tls_->unsent.drop_front(static_cast<std::size_t>(n));
    return Sent::blocked;
  }
  tls_->unsent = Buffer();
  return Sent::all;
}

}  // namespace idproxy::net
