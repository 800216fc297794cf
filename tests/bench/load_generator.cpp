#include "load_generator.hpp"

#include <sys/epoll.h>

#include <array>
#include <stdexcept>

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReplyTimeout{10};

}  // namespace

LoadGenerator::LoadGenerator(std::uint16_t port, const Work& work, StubServer& stub)
    : work_(work), stub_(stub), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (std::size_t tag = 0; tag < work.connections; ++tag) {
    Fd fd = connect_to_loopback(port);
    set_nonblocking(fd);
    watch(epoll_, fd, EPOLLIN, tag);
    connections_.push_back({std::move(fd), OutgoingMessage(), ReplyChecker(work.reply)});
  }
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

void LoadGenerator::start(std::size_t tag) {
  Connection& connection = connections_[tag];
  const std::int32_t request_id = next_request_id_++;
  connection.request = OutgoingMessage(work_.request, request_id, 0);
  connection.reply.expect(request_id);
  ++in_flight_;
  send(tag);
}

void LoadGenerator::send(std::size_t tag) {
  Connection& connection = connections_[tag];
  if (!connection.request.send(connection.fd.get())) {
    throw std::runtime_error(work_.name + ": a connection was closed");
  }
  const bool full = !connection.request.done();
  if (full == connection.full) return;
  connection.full = full;
  change_watch(epoll_, connection.fd, full ? EPOLLIN | EPOLLOUT : EPOLLIN, tag);
}

void LoadGenerator::serve() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (count == 0 && Clock::now() - last_reply_ > kReplyTimeout) {
    throw std::runtime_error(work_.name + ": replies did not come");
  }
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if ((event.events & EPOLLOUT) != 0) send(event.data.u64);
    if ((event.events & ~static_cast<unsigned>(EPOLLOUT)) != 0) receive(event.data.u64);
  }
}

void LoadGenerator::receive(std::size_t tag) {
  Connection& connection = connections_[tag];
  const std::ptrdiff_t received = receive_some(connection.fd, buffer_.data(), buffer_.size());
  if (received < 0) throw std::runtime_error(work_.name + ": a connection was closed");
  if (received == 0) return;
  if (!connection.reply.feed({buffer_.data(), static_cast<std::size_t>(received)})) return;
  ++completed_;
  --in_flight_;
  last_reply_ = Clock::now();
  if (last_reply_ < end_) start(tag);
}

}  // namespace idproxy::bench
