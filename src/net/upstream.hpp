#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/net/options.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/logins.hpp"
#include "idproxy/rewrite/members.hpp"
#include "net/backoff.hpp"
#include "net/server_load.hpp"

namespace idproxy::net {

/// If a host of the connection string is unreachable, or says that it is no member, for this long,
/// its listener stops standing for its member, which then gets a listener under its own name.
/// Longer than a restart, because that listener and its clients are closed when the host comes
/// back.
inline constexpr std::chrono::minutes kLongDown{5};

/// Why the last attempt to connect to a server failed, or another text that changes. Thread-safe.
class LastFailure {
 public:
  void set(std::string_view reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
  }
  [[nodiscard]] std::string reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;  // guards:
  std::string reason_;
};

/// A server and its listener. Shared by the listener and all connections to the server, which may
/// outlive the listener. Thread-safe: what is not atomic does not change once the listener is open.
struct Upstream {
  /// `threads`: how many io threads there are.
  explicit Upstream(Route both, std::size_t threads = 1)
      : route(std::move(both)), name(route.upstream.text()), loads(threads) {}

  /// The server has sent something on a connection that was opened at `connected` (monotonic). A
  /// connection from before the server went down proves nothing: it may go on while the server
  /// accepts no new ones.
  void heard(std::chrono::nanoseconds connected) {
    const std::int64_t since = down_since.load(std::memory_order_relaxed);
    if (since != 0 && connected.count() > since) is_back(since, connected);
  }

  /// Event: connecting to it has failed, or it has not answered.
  void failed(std::string_view reason, std::chrono::nanoseconds now) {
    last_failure.set(reason);
    last_failed = now.count();
  }
  /// Event: it has answered what needs a login; `unknown`: not so that it tells.
  void now_has(rewrite::Logins answer) {
    if (answer != rewrite::Logins::unknown) logins = answer;
  }
  /// Event: a connection to it broke, so that it may be another one from now on: the prober asks it
  /// again within two seconds. Until then it is taken for what it was, since clients can make a
  /// server break their connections.
  void may_be_new() { may_be_another = true; }
  /// When it last answered a client's hello, monotonic.
  [[nodiscard]] std::chrono::nanoseconds last_hello() const {
    return std::chrono::nanoseconds(said_hello.load(std::memory_order_relaxed));
  }
  /// Event: the topology has taken its reply to hello into account, or has forgotten it.
  void is(rewrite::HelloReply::State now_state, std::chrono::nanoseconds now) {
    if (state.exchange(now_state) != now_state) state_since = now.count();
  }

  /// As in ServerStatistics::Listener.
  [[nodiscard]] std::string fault() const {
    return down_since.load(std::memory_order_relaxed) != 0 ? last_failure.reason()
                                                           : other_set.reason();
  }

  Route route;
  const std::string name;  ///< the server's, for logs and replies
  rewrite::ServerId id = 0;
  Backoff backoff;
  LastFailure last_failure;
  LastFailure other_set;  ///< it belongs to another replica set than upstream.uri names; empty: no
  LastFailure version;    ///< "6.0.27", by buildInfo; empty: it has not said it
  std::atomic<rewrite::Logins> logins{};            ///< whether it enforces them
  std::atomic<bool> may_be_another{false};          ///< a connection broke since it was asked
  std::atomic<std::uint32_t> connections{0};        ///< open client connections
  std::atomic<std::uint64_t> connect_failures{0};   ///< since the start
  std::atomic<bool> primary{false};                 ///< it last said that it is the primary
  std::atomic<bool> alias{false};                   ///< its set has another name for it
  std::atomic<std::int64_t> down_since{0};          ///< monotonic, in ns; 0: the server is up
  std::atomic<std::int64_t> down_logged{0};         ///< when the log last said so; monotonic, in ns
  std::atomic<std::int64_t> last_failed{0};         ///< when last_failure was set; monotonic, in ns
  std::atomic<rewrite::HelloReply::State> state{};  ///< as it last said
  std::atomic<std::int64_t> state_since{0};         ///< monotonic, in ns; 0: from the start
  std::atomic<std::int64_t> round_trip{
      0};  ///< of the last hello that did not wait, ns; 0: none yet
  std::atomic<std::int64_t> said_hello{0};  ///< as last_hello(), in ns
  /// Since when it owes an answer to the prober; monotonic, in ns; 0: it does not.
  std::atomic<std::int64_t> asked{0};
  std::vector<ServerLoad> loads;  ///< by IoThread::index

 private:
  void is_back(std::int64_t since, std::chrono::nanoseconds connected);
};

/// Receives what connections learn about servers. Any thread may call the functions; they take
/// effect asynchronously.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;

  /// A server's reply to hello says something new. Calls `then`, on any thread, once
  /// Directory::members() reflects it: soon; for the first clients, within a second.
  virtual void learn(rewrite::ServerId server, rewrite::HelloReply said,
                     std::function<void()> then) = 0;
  /// A connection to the server broke or could not be made.
  virtual void lost(Upstream& server) = 0;
  /// The server has been unreachable for so long that another host may be this member by now.
  virtual void forget(const Upstream& server) = 0;
  /// All of the server's addresses are listeners of this proxy.
  virtual void is_ours(const Upstream& server) = 0;
};

}  // namespace idproxy::net
