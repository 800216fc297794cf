// The cheapest relay that can be written plainly: one thread, level-triggered epoll, one buffer for
// all connections. The second yardstick of the benchmark: what is above it is what a proxy adds.
//
// bench_relay LISTEN_PORT UPSTREAM_PORT

#include <sys/epoll.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

/// One end of a relayed pair. Sides 2n and 2n + 1 belong together.
struct Side {
  Fd fd;
  std::string unsent;  ///< from the peer, not yet taken by this socket
};

class Relay {
 public:
  Relay(std::uint16_t port, std::uint16_t upstream_port)
      : listener_(listen_on_loopback(port)), upstream_port_(upstream_port) {
    watch(epoll_, listener_.fd, EPOLLIN, kListenerTag);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 64> events{};
    while (true) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) on_event(events[static_cast<std::size_t>(i)]);
      for (const std::size_t id : ended_) free_.push_back(id);
      ended_.clear();
    }
  }

 private:
  static constexpr std::uint64_t kListenerTag = ~std::uint64_t{0};

  void on_event(const epoll_event& event) {
    if (event.data.u64 == kListenerTag) return accept_pair();
    const std::size_t id = event.data.u64;
    if (sides_[id].fd.get() < 0) return;  // its peer ended it in this very turn
    if ((event.events & EPOLLOUT) != 0) return send_unsent(id);
    forward_from(id);
  }

  void accept_pair() {
    Fd downstream = accept_from(listener_.fd);
    if (downstream.get() < 0) return;
    Fd upstream = connect_to_loopback(upstream_port_);
    set_nonblocking(upstream);
    const std::size_t id = take_pair();
    watch(epoll_, downstream, EPOLLIN, id);
    watch(epoll_, upstream, EPOLLIN, id + 1);
    sides_[id].fd = std::move(downstream);
    sides_[id + 1].fd = std::move(upstream);
  }

  std::size_t take_pair() {
    if (free_.empty()) {
      sides_.resize(sides_.size() + 2);
      return sides_.size() - 2;
    }
    const std::size_t id = free_.back();
    free_.pop_back();
    return id;
  }

  void forward_from(std::size_t id) {
    const std::ptrdiff_t received = receive_some(sides_[id].fd, buffer_.data(), buffer_.size());
    if (received < 0) return end_pair(id);
    Side& peer = sides_[id ^ 1];
    std::string_view bytes(buffer_.data(), static_cast<std::size_t>(received));
    const std::ptrdiff_t sent = bytes.empty() ? 0 : send_some(peer.fd, bytes);
    if (sent < 0) return end_pair(id);
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (bytes.empty()) return;
    // Nothing more is read for a peer that is full, so one buffer's rest is about all it holds.
    peer.unsent.append(bytes);
    change_watch(epoll_, sides_[id].fd, 0, id);
    change_watch(epoll_, peer.fd, EPOLLOUT, id ^ 1);
  }

  void send_unsent(std::size_t id) {
    Side& side = sides_[id];
    const std::ptrdiff_t sent = send_some(side.fd, side.unsent);
    if (sent < 0) return end_pair(id);
    side.unsent.erase(0, static_cast<std::size_t>(sent));
    if (!side.unsent.empty()) return;
    side.unsent.shrink_to_fit();
    change_watch(epoll_, side.fd, EPOLLIN, id);
    change_watch(epoll_, sides_[id ^ 1].fd, EPOLLIN, id ^ 1);
  }

  void end_pair(std::size_t id) {
    sides_[id] = Side{};
    sides_[id ^ 1] = Side{};
    ended_.push_back(id & ~std::size_t{1});  // reused only when this turn's events are done
  }

  Fd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  Listener listener_;
  std::uint16_t upstream_port_;
  std::vector<Side> sides_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> ended_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
};

}  // namespace
}  // namespace idproxy::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: bench_relay LISTEN_PORT UPSTREAM_PORT\n", stderr);
    return 64;
  }
  try {
    const auto port = [&](int i) { return static_cast<std::uint16_t>(std::atoi(argv[i])); };
    idproxy::bench::Relay(port(1), port(2)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_relay: %s\n", error.what());
    return 70;
  }
}
