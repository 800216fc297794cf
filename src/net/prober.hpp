#pragma once

#include <memory>
#include <optional>

#include "idproxy/rewrite/hello_reply.hpp"
#include "net/backoff.hpp"
#include "net/io_thread.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Sends hello and buildInfo to one server repeatedly, each time over a connection of its own: with
/// short pauses until the server has answered once, then every few seconds while no client is
/// connected to it. While clients are, their own hellos tell; but if a connection breaks, the
/// server may be of another version afterwards. Lives on the first io thread.
///
/// Shared ownership, because its handlers may be under way when it is stopped.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  /// Receives the results. Outlives the prober, or the loop of its thread.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// True if the server has answered a hello before.
    [[nodiscard]] virtual bool is_known(const Upstream& server) const = 0;
    /// Called before each hello. May stop the prober.
    virtual void about_to_ask(const Upstream& server) = 0;
    /// Called without a value if the server cannot be reached or its reply cannot be parsed. May
    /// stop the prober.
    virtual void answered(const Upstream& server, std::optional<rewrite::HelloReply> said) = 0;
  };

  Prober(IoThread& thread, std::shared_ptr<Upstream> server, Owner& owner);

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
  Owner& owner_;
  Timer pause_;  // before the next probe
  std::shared_ptr<Probe> probe_;
  Backoff backoff_;
  bool stopped_ = false;
};

}  // namespace idproxy::net
