#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "asio.hpp"
#include "io_thread.hpp"
#include "stream.hpp"
#include "timer.hpp"
#include "upstream.hpp"

namespace idproxy::net {

/// Opens one connection to a server: asks the DNS, tries each address once, the next one as soon as
/// those before it have failed or been silent for a moment (RFC 8305), and makes a TLS handshake,
/// on the first one that stands, where servers are to speak TLS. An address that is a listener of
/// ours is none. While the server is known to be down, one connector tries after the pause
/// (Backoff); the others wait, and fail if that one fails. Lives on one io thread.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// Called once, unless cancelled: with the open stream, or null if there is none. `gave_up`: it
  /// was this process that could not, for want of descriptors.
  using Done = std::function<void(Stream* stream, bool gave_up)>;

  /// Options::connect_timeout is the limit of it all.
  static std::shared_ptr<Connector> start(IoThread& thread, std::shared_ptr<Upstream> server,
                                          Done done);
  void cancel();
  /// Counts, logs and waits as if no connection had been made: for one that broke after its
  /// handshake for a reason of TLS.
  static void tls_failed(IoThread& thread, Upstream& server, std::string_view reason);
  /// For one that stood, and on which a hello was not answered.
  static void gave_no_answer(IoThread& thread, Upstream& server, std::string_view reason);

  Connector(IoThread& thread, std::shared_ptr<Upstream> server, Done done);

 private:
  /// Where a failure is logged: as a warning if it is news, or for debugging only.
  enum class Report { if_news, at_debug };

  template <class Work>
  void guarded(Work work);
  void begin();
  void take_turn();
  void look_up();
  void found(std::vector<Protocol::endpoint> endpoints);
  void connect_next();
  void connect_later();
  [[nodiscard]] bool others_connect() const;
  void connected(Socket socket);
  void ready();
  void fail(std::string_view reason);
  void give_up(std::string_view reason);
  static void note_failure(IoThread& thread, Upstream& server, std::string_view reason,
                           Report report);
  static void tell_failure(Upstream& server, std::string_view reason, bool news);
  [[nodiscard]] static bool is_news(IoThread& thread, Upstream& server);
  void end(Stream* stream, bool gave_up = false);

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Done done_;  // empty once it is over
  Timer deadline_;
  Timer pause_;             // until it is our turn, then until the next address has its
  std::uint32_t failures_;  // of the server, when this began
  bool tries_ = false;      // it is not waiting for others
  bool claimed_ = false;
  Stream stream_;
  std::vector<Protocol::endpoint> endpoints_;
  std::vector<Socket> sockets_;  // of the first of them, in their order; empty once one stands
  std::size_t next_ = 0;
  std::size_t failed_ = 0;  // of those tried
  std::size_t own_ = 0;     // of these: listeners of ours
  std::string last_error_;
};

}  // namespace idproxy::net
