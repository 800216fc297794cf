#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace idproxy::net {

/// Asks the system for the addresses of names (getaddrinfo(3)), each name on threads of its own, so
/// that a name server that does not answer for one server holds up nobody who wants another.
/// Whoever asks for a name that is being asked for gets the first answer that comes; where none has
/// come for a while, another thread asks as well, of four at most. Thread-safe.
class Lookups {
 public:
  /// Without an error there is at least one address.
  using Done = std::function<void(const std::string& error,
                                  const std::vector<boost::asio::ip::tcp::endpoint>& found)>;

  Lookups();
  ~Lookups() { stop(); }
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  /// `done` is called on a thread of `io`, which lives until stop(). After that only for an answer
  /// that had come before.
  void start(boost::asio::io_context& io, const std::string& host, std::uint16_t port, Done done);
  /// Does not wait for answers that are still to come.
  void stop();

 private:
  struct State;
  // Shared with threads that may wait for a name server longer than this object lives.
  std::shared_ptr<State> state_;
};

}  // namespace idproxy::net
