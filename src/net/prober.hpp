#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "idproxy/rewrite/hello_reply.hpp"
#include "net/backoff.hpp"
#include "net/io_thread.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Sends hello and buildInfo to one server repeatedly, each time over a connection of its own, and
/// a command that needs a login (Upstream::logins): with short pauses until the server has answered
/// once, then every two seconds in which no client's hello has been answered. If a connection
/// breaks, the server may be another one afterwards. Lives on the first io thread.
///
/// Shared ownership, because its handlers may be under way when it is stopped.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  /// What its owner does.
  struct Calls {
    /// Returns true if the server has answered a hello before.
    std::function<bool()> is_known;
    /// Before each hello. May stop the prober.
    std::function<void()> about_to_ask;
    /// Without a value if the server cannot be reached or its reply cannot be parsed. May stop the
    /// prober.
    std::function<void(std::optional<rewrite::HelloReply> said)> answered;
  };

  Prober(IoThread& thread, std::shared_ptr<Upstream> server, Calls calls);

  /// Begins, or begins again at once because something has changed.
  void start();
  /// Idempotent. Makes none of the calls afterwards.
  void stop();

 private:
  class Probe;

  void wait();
  void wait(std::chrono::nanoseconds pause);
  void answered(std::optional<rewrite::HelloReply> said);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  const Calls calls_;
  Timer pause_;  // before the next probe
  std::shared_ptr<Probe> probe_;
  Backoff backoff_;
  bool stopped_ = false;
};

}  // namespace idproxy::net
