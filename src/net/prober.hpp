#pragma once

#include <memory>
#include <optional>

#include "idproxy/rewrite/hello_reply.hpp"
#include "net/backoff.hpp"
#include "net/io_thread.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

class Upstreams;

/// Sends hello to one server repeatedly, each time over a connection of its own: with short pauses
/// until the server has answered once, then every few seconds while no client is connected to it.
/// While clients are, their own hellos tell. Lives on the first io thread.
///
/// Shared ownership, because its handlers may be under way when it is stopped.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  /// `owner` outlives the prober, or the loop of its thread.
  Prober(IoThread& thread, std::shared_ptr<Upstream> server, Upstreams& owner);

  /// Begins, or begins again at once because something has changed.
  void start();
  /// Idempotent. Calls nothing of the owner afterwards.
  void stop();

 private:
  class Probe;

  void ask();
  void answered(std::optional<rewrite::HelloReply> said);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Upstreams& owner_;
  Timer pause_;  // before the next probe
  std::shared_ptr<Probe> probe_;
  Backoff backoff_;
  bool stopped_ = false;
};

}  // namespace idproxy::net
