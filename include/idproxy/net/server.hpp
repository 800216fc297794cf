#pragma once

#include <atomic>
#include <boost/system/result.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/rewrite/outcomes.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::net {

/// What happened since the start. Thread-safe; each is exact, together they are no snapshot.
struct Counters {
  std::atomic<std::uint64_t> connections{0};        ///< of clients, accepted
  std::atomic<std::uint64_t> inserts_assigned{0};   ///< commands in which values were put
  std::atomic<std::uint64_t> documents_refused{0};  ///< that could not take their value
  std::atomic<std::uint64_t> commands_failed{0};    ///< inserts answered, or dropped, here
};

/// The proxy at work: a listener per route and the threads that serve its clients.
class Server {
 public:
  /// Opens all listeners and takes SIGTERM and SIGINT over; the error says which listener cannot be
  /// opened and why. `clock` outlives the server.
  [[nodiscard]] static boost::system::result<std::unique_ptr<Server>, std::string> open(
      Options options, std::shared_ptr<const rewrite::RuleSet> rules, const Clock& clock);
  ~Server();

  /// What is listened on, in the order of the routes, with the ports that were chosen.
  [[nodiscard]] std::vector<Endpoint> listening() const;

  /// Serves until SIGTERM or SIGINT, then closes all connections and returns. The calling thread
  /// is the first of Options::threads.
  void run();

  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] const rewrite::Outcomes& outcomes() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::net
