#pragma once

#include <boost/system/result.hpp>
#include <memory>
#include <span>
#include <string>

#include "asio.hpp"
#include "idproxy/net/options.hpp"
#include "io_thread.hpp"
#include "timer.hpp"
#include "upstream.hpp"

namespace idproxy::net {

/// An acceptor that listens at `endpoint`, an IP address (port 0: any free port) or a Unix socket.
[[nodiscard]] boost::system::result<Acceptor> listen_at(const Endpoint& endpoint,
                                                        asio::io_context& io);

/// Accepts the clients of one server and hands them to the io threads in turn. Lives on the first
/// io thread.
///
/// Shared ownership, because a wait for the next client may be under way when it is stopped.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(std::span<const std::unique_ptr<IoThread>> threads, std::shared_ptr<Upstream> upstream);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Opens the socket; the error text says what is in the way. Then the upstream has the real port.
  [[nodiscard]] std::string open();
  void start() { accept(); }
  void stop();

 private:
  void accept();
  void accepted(IoThread& thread, error_code error, Socket socket);
  void admit(IoThread& thread, Socket socket);
  void pause(const error_code& error);
  void turn_one_away();

  std::span<const std::unique_ptr<IoThread>> threads_;
  std::shared_ptr<Upstream> upstream_;
  Acceptor acceptor_;
  Timer pause_;
  int reserve_ = -1;  // a file descriptor to turn a client away with when there is no other
  std::size_t next_thread_ = 0;
};

}  // namespace idproxy::net
