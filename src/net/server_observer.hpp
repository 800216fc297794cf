#pragma once

#include <functional>

#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/members.hpp"
#include "upstream.hpp"

namespace idproxy::net {

/// Hears what connections find out about servers. Each function may be called from any thread, and
/// takes effect later.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;

  /// A server has said something new. Calls `then`, on any thread, once Directory::members() takes
  /// it into account: soon, for the first clients after one second at most.
  virtual void learn(rewrite::ServerId server, rewrite::HelloReply said,
                     std::function<void()> then) = 0;
  /// A connection to the server has broken, or none could be made.
  virtual void lost(Upstream& server) = 0;
  /// The server could not be reached for so long that its set may have it elsewhere by now.
  virtual void forget(const Upstream& server) = 0;
  /// All of the server's addresses are listeners of this proxy.
  virtual void is_ours(const Upstream& server) = 0;
};

}  // namespace idproxy::net
