#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "connector.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/rewrite/hello.hpp"

namespace idproxy::net {

/// Asks one server for one hello, over a connection of its own. Lives on one io thread.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  /// Called once, unless cancelled; with nothing if the server cannot be reached or understood.
  using Done = std::function<void(std::optional<rewrite::HelloReply> said)>;

  static std::shared_ptr<Probe> start(IoThread& thread, std::shared_ptr<Upstream> server,
                                      Done done);
  void cancel();

  Probe(IoThread& thread, Done done);

 private:
  void connected(Socket socket);
  void read_header();
  void read_rest();
  void end(std::optional<rewrite::HelloReply> said);

  IoThread& thread_;
  Done done_;  // empty once it is over
  std::shared_ptr<Connector> connector_;
  Socket socket_;
  Timer deadline_;
  Buffer buffer_;
};

}  // namespace idproxy::net
