#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "idproxy/base/buffer.hpp"
#include "idproxy/rewrite/hello.hpp"
#include "net/connector.hpp"
#include "net/out_queue.hpp"

namespace idproxy::net {

/// Sends one hello to a server, over a connection of its own. Lives on one io thread.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  /// Called once, unless cancelled. Without a value if the server cannot be reached or its reply
  /// cannot be parsed.
  using Done = std::function<void(std::optional<rewrite::HelloReply> said)>;

  static std::shared_ptr<Probe> start(IoThread& thread, std::shared_ptr<Upstream> server,
                                      Done done);
  void cancel();

  Probe(IoThread& thread, std::shared_ptr<Upstream> server, Done done);

 private:
  void connected(Stream stream);
  void send();
  void wait_for_reply();
  void read();
  void broke_off();
  void fail(std::string_view reason);
  void end(std::optional<rewrite::HelloReply> said);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Done done_;  // empty once it is over
  std::shared_ptr<Connector> connector_;
  Stream stream_;
  std::chrono::nanoseconds connected_{};
  OutQueue out_;
  Timer deadline_;
  Buffer reply_;
};

}  // namespace idproxy::net
