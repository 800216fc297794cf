#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <memory>
#include <span>
#include <string>

#include "asio.hpp"
#include "io_thread.hpp"

namespace idproxy::net {

/// Accepts the clients of one route and hands them to the io threads in turn. Lives on the first
/// io thread.
class Listener {
 public:
  Listener(std::span<const std::unique_ptr<IoThread>> threads, Route route);

  /// Opens the socket; the error text says what is in the way. Then route() has the real port.
  [[nodiscard]] std::string open();
  void start() { accept(); }
  void stop();
  [[nodiscard]] const Route& route() const { return route_; }

 private:
  void accept();
  void accepted(IoThread& thread, error_code error, Socket socket);
  void pause(const error_code& error);

  std::span<const std::unique_ptr<IoThread>> threads_;
  Route route_;
  Acceptor acceptor_;
  asio::basic_waitable_timer<std::chrono::steady_clock,
                             asio::wait_traits<std::chrono::steady_clock>,
                             asio::io_context::executor_type>
      pause_;
  std::size_t next_thread_ = 0;
};

}  // namespace idproxy::net
