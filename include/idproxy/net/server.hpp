#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::net {

/// What can be changed while the proxy works.
struct Changes {
  std::shared_ptr<const rewrite::RuleSet> rules;
  std::shared_ptr<const tls::Context> client_tls;  ///< null exactly where Options has null
  std::shared_ptr<const tls::Context> server_tls;
  Pins pins;  ///< for members that get a listener from now on
};

/// The proxy at work: a listener per route and the threads that serve its clients.
class Server {
 public:
  /// Opens all listeners; the error says which cannot be opened and why. `clock` outlives the
  /// server.
  [[nodiscard]] static boost::system::result<std::unique_ptr<Server>, std::string> open(
      Options options, const std::shared_ptr<const rewrite::RuleSet>& rules, const Clock& clock);
  ~Server();

  /// What is listened on, in the order of the routes, with the ports that were chosen.
  [[nodiscard]] std::vector<Endpoint> listening() const;

  /// Serves until all is closed after drain() or stop(). The calling thread is the first of
  /// Options::threads.
  void run();

  // From any thread, also before run():

  /// Accepts nobody any more, and closes each connection as soon as nothing is under way on it;
  /// what is left after Limits::drain is cut off. Idempotent.
  void drain();
  [[nodiscard]] bool draining() const;
  /// Closes everything at once. Idempotent.
  void stop();

  /// Why these pins cannot be had, or "": "port 27121 for db4:27017: Address already in use".
  [[nodiscard]] std::string fault_of_pins(const Pins& pins) const;
  /// Connections that are made and messages that come from now on meet the changes. Nothing that is
  /// under way is disturbed. What is replaced may be let go by an io thread.
  void apply(Changes changes);

  [[nodiscard]] ServerStatistics statistics() const;
  [[nodiscard]] std::size_t threads() const;
  /// Runs `work` on that io thread as soon as it has time; not at all once run() has returned.
  void ask(std::size_t thread, std::function<void()> work);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::net
