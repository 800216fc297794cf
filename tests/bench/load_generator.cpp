#include "load_generator.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReplyTimeout{10};

}  // namespace

LoadGenerator::LoadGenerator(std::uint16_t port, const Work& work, const Transport& transport,
                             StubServer& stub)
    : port_(port),
      work_(work),
      transport_(transport),
      stub_(stub),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (std::size_t tag = 0; tag < work.connections; ++tag) {
    connections_.push_back({open(tag), OutgoingMessage(), ReplyChecker(work.reply)});
    stub_.serve(0);  // more proxies than its listener holds may wait to be accepted
  }
  shake_hands();
}

std::uint64_t LoadGenerator::run(std::chrono::nanoseconds duration) {
  last_reply_ = Clock::now();
  end_ = last_reply_ + duration;
  completed_ = 0;
  for (std::size_t tag = 0; tag < connections_.size(); ++tag) start(tag);
  while (in_flight_ > 0) {
    serve();
    stub_.serve(0);
  }
  return completed_;
}

Stream LoadGenerator::open(std::size_t tag) {
  Stream stream = transport_.connect(port_);
  set_nonblocking(stream.fd());
  watch(epoll_, stream.fd(), EPOLLIN, tag);
  return stream;
}

/// A proxy may want the server's handshake before it ends the client's: the stub server has turns.
void LoadGenerator::shake_hands() {
  const auto end = Clock::now() + kReplyTimeout;
  const auto waits = [](Connection& connection) { return !connection.stream.handshake(); };
  while (std::count_if(connections_.begin(), connections_.end(), waits) > 0) {
    if (Clock::now() > end) throw std::runtime_error("TLS handshakes take too long");
    stub_.serve(0);
  }
}

void LoadGenerator::start(std::size_t tag) {
  Connection& connection = connections_[tag];
  if (work_.connects) {
    connection.stream = open(tag);
    connection.full = false;
  }
  const std::int32_t request_id = next_request_id_++;
  connection.request = OutgoingMessage(work_.request, request_id, 0);
  connection.reply.expect(request_id);
  ++in_flight_;
  send(tag);
}

void LoadGenerator::send(std::size_t tag) {
  Connection& connection = connections_[tag];
  const Sent sent = connection.stream.send(connection.request);
  if (sent == Sent::failed) throw std::runtime_error(work_.name + ": a connection was closed");
  const bool full = sent == Sent::waits_for_room;
  if (full == connection.full) return;
  connection.full = full;
  change_watch(epoll_, connection.stream.fd(), full ? EPOLLIN | EPOLLOUT : EPOLLIN, tag);
}

void LoadGenerator::serve() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (count == 0 && Clock::now() - last_reply_ > kReplyTimeout) {
    throw std::runtime_error(work_.name + ": replies did not come");
  }
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::size_t tag = event.data.u64;
    // Nothing is received before all is sent: reading could end a handshake, and who then sends?
    if (!connections_[tag].request.done()) send(tag);
    if (!connections_[tag].request.done()) continue;
    if ((event.events & ~static_cast<unsigned>(EPOLLOUT)) != 0) receive(tag);
  }
}

void LoadGenerator::receive(std::size_t tag) {
  Connection& connection = connections_[tag];
  do {
    const std::ptrdiff_t received = connection.stream.receive(buffer_.data(), buffer_.size());
    if (received < 0) throw std::runtime_error(work_.name + ": a connection was closed");
    if (received == 0) return;
    if (connection.reply.feed({buffer_.data(), static_cast<std::size_t>(received)})) {
      return on_reply(tag);
    }
  } while (connection.stream.pending());
}

void LoadGenerator::on_reply(std::size_t tag) {
  ++completed_;
  --in_flight_;
  last_reply_ = Clock::now();
  if (last_reply_ < end_) start(tag);
}

}  // namespace idproxy::bench
