#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "asio.hpp"
#include "io_thread.hpp"
#include "upstream.hpp"

namespace idproxy::net {

using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         asio::io_context::executor_type>;

/// Opens one connection to a server: asks the DNS, tries each address in turn, once. An address
/// that is a listener of ours is none. While the server is known to be down, one connector tries
/// after the pause (Backoff); the others wait, and fail if that one fails. Lives on one io thread.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// Called once, unless cancelled: with the open socket, or with why there is none.
  using Done = std::function<void(Socket* socket, std::string_view reason)>;

  /// Options::connect_timeout is the limit of it all.
  static std::shared_ptr<Connector> start(IoThread& thread, std::shared_ptr<Upstream> server,
                                          Done done);
  void cancel();

  Connector(IoThread& thread, std::shared_ptr<Upstream> server, Done done);

 private:
  void begin();
  void take_turn();
  void look_up();
  void connect_next();
  void connected();
  void fail(std::string_view reason);
  [[nodiscard]] bool note_failure();
  void end(Socket* socket, std::string_view reason);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Done done_;  // empty once it is over
  Timer deadline_;
  Timer pause_;
  std::uint32_t failures_;  // of the server, when this began
  bool tries_ = false;      // it is not waiting for others
  bool claimed_ = false;
  Socket socket_;
  std::vector<Protocol::endpoint> endpoints_;
  std::size_t next_ = 0;
  std::size_t own_ = 0;  // of those tried: listeners of ours
  std::string last_error_;
};

}  // namespace idproxy::net
