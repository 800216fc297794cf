#pragma once

#include <functional>

#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/members.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Receives what connections learn about servers. Any thread may call the functions; they take
/// effect asynchronously.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;

  /// A server's reply to hello says something new. Calls `then`, on any thread, once
  /// Directory::members() reflects it: soon; for the first clients, within a second.
  virtual void learn(rewrite::ServerId server, rewrite::HelloReply said,
                     std::function<void()> then) = 0;
  /// A connection to the server broke or could not be made.
  virtual void lost(Upstream& server) = 0;
  /// The server has been unreachable for so long that another host may be this member by now.
  virtual void forget(const Upstream& server) = 0;
  /// All of the server's addresses are listeners of this proxy.
  virtual void is_ours(const Upstream& server) = 0;
};

}  // namespace idproxy::net
