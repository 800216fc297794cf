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

/// Opens an acceptor at `endpoint`, an IP address (port 0: any free port) or a Unix socket.
[[nodiscard]] boost::system::result<Acceptor> listen_at(const Endpoint& endpoint,
                                                        asio::io_context& io);

/// Accepts the clients of one server and assigns them to the io threads in turn. Lives on the first
/// io thread.
///
/// Shared ownership, because an accept may be under way when the listener is stopped.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(std::span<const std::unique_ptr<IoThread>> threads, std::shared_ptr<Upstream> upstream);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Opens the socket and sets the actual port in the upstream's route. Returns an error, or "".
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
  int reserve_ = -1;  // a spare file descriptor, to turn a client away when no other is free
  std::size_t next_thread_ = 0;
};

}  // namespace idproxy::net
