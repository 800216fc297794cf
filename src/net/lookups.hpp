#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/event_loop.hpp"
#include "net/sockets.hpp"

namespace idproxy::net {

/// Looks host names up (getaddrinfo(3)). Each name has threads of its own, so that a name server
/// that does not answer for one name does not delay the others. Requests for a name that is already
/// being looked up share the first answer; if none arrives for a while, another thread asks too, up
/// to four per name. Thread-safe.
class Lookups {
 public:
  /// `error` is empty, or says why there is no address; if it is empty, `found` is not.
  using Done =
      std::function<void(const std::string& error, const std::vector<SocketAddress>& found)>;

  Lookups();
  ~Lookups() { stop(); }
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  /// Calls `done` on the thread of `loop`, which must live until stop(). After stop(), calls it
  /// only for answers that arrived before. If no thread can be started, the last answer for the
  /// name counts; false: there is none, and `done` will not be called.
  [[nodiscard]] bool start(EventLoop& loop, const std::string& host, std::uint16_t port, Done done);
  /// Does not wait for outstanding answers.
  void stop();

 private:
  struct State;
  // Shared with threads that may outlive this object while they wait for a name server.
  std::shared_ptr<State> state_;
};

}  // namespace idproxy::net
