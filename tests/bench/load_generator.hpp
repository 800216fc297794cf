#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client.hpp"
#include "outgoing_message.hpp"
#include "sockets.hpp"
#include "stream.hpp"
#include "stub_server.hpp"
#include "transport.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// A closed loop: every connection sends its next request when it has the reply to the last one.
/// The connections stay open, and silent, between two runs; where the work is to connect, each
/// request goes over a new one, which takes the place of the last.
///
/// It and the stub server take turns in one thread that never sleeps. Were they two processes that
/// do, the proxy would pay for waking them, and in a virtual machine that costs more than a send
/// and comes as often as chance has it: the same relay took 190 to 610 us for a reply of 1 MB.
class LoadGenerator {
 public:
  /// Opens work.connections connections, with their handshakes. `work`, `transport` and `stub` must
  /// outlive it. Throws std::system_error, and std::runtime_error when a handshake fails.
  LoadGenerator(std::uint16_t port, const Work& work, const Transport& transport, StubServer& stub);

  /// Number of operations done. Starts no operation after `duration`, but returns only when all
  /// are answered, so what the proxy used meanwhile belongs to just these operations.
  /// Throws std::runtime_error when a reply is wrong or does not come.
  std::uint64_t run(std::chrono::nanoseconds duration);

 private:
  struct Connection {
    Stream stream;
    OutgoingMessage request;
    ReplyChecker reply;
    bool full = false;  ///< waits until the socket takes more of `request`
  };

  Stream open(std::size_t tag);
  void shake_hands();
  void start(std::size_t tag);
  void send(std::size_t tag);
  void receive(std::size_t tag);
  void on_reply(std::size_t tag);
  void serve();

  std::uint16_t port_;
  const Work& work_;
  const Transport& transport_;
  StubServer& stub_;
  Fd epoll_;
  std::vector<Connection> connections_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  std::int32_t next_request_id_ = 1;
  std::size_t in_flight_ = 0;
  std::uint64_t completed_ = 0;
  std::chrono::steady_clock::time_point end_;
  std::chrono::steady_clock::time_point last_reply_;
};

}  // namespace idproxy::bench
