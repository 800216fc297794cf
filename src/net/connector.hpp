#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/io_thread.hpp"
#include "net/sockets.hpp"
#include "net/stream.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Opens one connection to a server. Looks the name up, tries each address once, the next one as
/// soon as those before it have failed or not answered for a moment (RFC 8305), and makes a TLS
/// handshake on the first connection if servers use TLS. Skips addresses that are listeners of this
/// proxy. While the server is down, a single connector tries after each pause (Backoff); the others
/// wait for it, and fail if it fails. Lives on one io thread.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// Why no connection was opened.
  struct Failure {
    std::string reason;
    bool gave_up = false;  ///< it was this process's own, for lack of descriptors or memory
  };
  /// Called once, unless cancelled: with the open stream, or with null and the failure.
  using Done = std::function<void(Stream* stream, const Failure& failure)>;

  /// Fails after Options::connect_timeout in all. `client`: the socket of the client that the
  /// connection is for, or -1; the server is told who it is if Options::proxy_protocol says so.
  static std::shared_ptr<Connector> start(IoThread& thread, std::shared_ptr<Upstream> server,
                                          int client, Done done);
  void cancel();
  /// Counts and logs a connection that broke after its handshake because of TLS, and begins a
  /// pause, as if the connection had not been made.
  static void tls_failed(IoThread& thread, Upstream& server, std::string_view reason);
  /// Counts and logs a connection on which the server did not answer hello.
  static void gave_no_answer(IoThread& thread, Upstream& server, std::string_view reason);

  Connector(IoThread& thread, std::shared_ptr<Upstream> server, int client, Done done);
  ~Connector();

 private:
  /// An attempt to connect to one address.
  class Attempt;

  template <class Work>
  void guarded(Work work);
  [[nodiscard]] std::function<void()> later(void (Connector::*step)());
  void begin();
  void take_turn();
  void look_up();
  void connect_next();
  void connect_later();
  [[nodiscard]] bool others_connect() const;
  void attempted(std::size_t place, const error_code& failure);
  void connected(FileDescriptor socket);
  void ready();
  void fail(std::string_view reason);
  void give_up(std::string_view reason);
  void end(Stream* stream, const Failure& failure);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Done done_;  // empty once it is over
  std::optional<std::string>
      header_;  // of the PROXY protocol; "": none; nothing: no client is left
  Timer deadline_;
  Timer pause_;             // until this connector's turn; then until the next address's
  std::uint32_t failures_;  // the server's, when this connector began
  bool tries_ = false;      // it does not wait for another connector
  bool claimed_ = false;
  Stream stream_;
  std::vector<SocketAddress> addresses_;
  std::vector<std::unique_ptr<Attempt>> attempts_;  // in the order of addresses; empty once over
  std::size_t next_ = 0;
  std::size_t failed_ = 0;  // addresses that failed
  std::size_t own_ = 0;     // among these: listeners of this proxy
  std::string last_error_;
};

}  // namespace idproxy::net
