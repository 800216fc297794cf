#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/listen_fault.hpp"
#include "idproxy/net/client_statistics.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::net {

/// The settings that a reload can change while the server runs.
struct Changes {
  std::shared_ptr<const rewrite::RuleSet> rules;
  std::shared_ptr<const tls::Context> client_tls;  ///< null if and only if it is in Options
  std::shared_ptr<const tls::Context> server_tls;
  Pins pins;  ///< apply to members that get a listener from now on
};

/// The proxy server: a listener for each route, and the threads that serve the clients.
class Server {
 public:
  /// Opens all listeners. The error names the listener that cannot be opened and why. `clock` must
  /// outlive the server.
  [[nodiscard]] static boost::system::result<std::unique_ptr<Server>, ListenFault> open(
      Options options, const std::shared_ptr<const rewrite::RuleSet>& rules, const Clock& clock);
  ~Server();

  /// The listeners' addresses with their actual ports, in the order of the routes.
  [[nodiscard]] std::vector<Endpoint> listening() const;

  /// Serves until all connections are closed after drain() or stop(). The calling thread becomes
  /// the first of Options::threads. Calls `serving` on it once all of them run, before the first
  /// client is accepted.
  void run(std::function<void()> serving = [] {});

  // All of the following may be called from any thread, also before run().

  /// Stops accepting clients and closes each connection as soon as nothing is under way on it;
  /// closes the remaining ones after Limits::drain. Idempotent.
  void drain();
  [[nodiscard]] bool draining() const;
  /// Closes everything at once. Idempotent.
  void stop();

  /// Why a pin cannot be applied, or "": "port 27121 for db4:27017: Address already in use".
  [[nodiscard]] std::string fault_of_pins(const Pins& pins) const;
  /// Applies the changes to connections and messages that arrive from now on; what is under way is
  /// not disturbed. An io thread may drop the last reference to what is replaced.
  void apply(Changes changes);

  [[nodiscard]] ServerStatistics statistics() const;
  /// Asks the io threads, and waits for them, 200 ms at most. Not from an io thread.
  [[nodiscard]] ClientList clients(const ClientQuery& query) const;
  [[nodiscard]] std::size_t threads() const;
  /// Runs `work` on the io thread with this index as soon as the thread is free; never after run()
  /// has returned.
  void ask(std::size_t thread, std::function<void()> work);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::net
