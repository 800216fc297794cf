#pragma once

#include <memory>
#include <optional>

#include "backoff.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "io_thread.hpp"
#include "probe.hpp"
#include "timer.hpp"
#include "upstream.hpp"

namespace idproxy::net {

/// Asks one server again and again who it is: soon until it has said so, and now and then while no
/// client is connected to it, whose hellos would tell. Lives on the first io thread.
///
/// Shared ownership, because its handlers may be under way when it is stopped.
class Prober : public std::enable_shared_from_this<Prober> {
 public:
  /// Who wants to know. Outlives the prober, or its thread's loop.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Whether the server has said who it is.
    [[nodiscard]] virtual bool is_known(const Upstream& server) const = 0;
    /// The time to ask has come. May stop the prober.
    virtual void about_to_ask(const Upstream& server) = 0;
    /// With nothing if the server cannot be reached or understood. May stop the prober.
    virtual void answered(const Upstream& server, std::optional<rewrite::HelloReply> said) = 0;
  };

  Prober(IoThread& thread, std::shared_ptr<Upstream> server, Owner& owner);

  /// Begins, or begins anew because there is reason to ask.
  void start();
  /// Idempotent. Nothing of the owner is called afterwards.
  void stop();

 private:
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
