#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "idproxy/rewrite/topology.hpp"
#include "net/io_thread.hpp"
#include "net/listener.hpp"
#include "net/member_ports.hpp"
#include "net/prober.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Manages the servers and their listeners: opens a listener for each host of the connection
/// string, then for each member that replies to hello name, and closes those of members that have
/// left their set. Publishes them for other threads in Shared::directory. Lives on the first io
/// thread, except ServerObserver and fault_of(), which any thread may call.
class Upstreams final : public ServerObserver {
 public:
  explicit Upstreams(std::span<const std::unique_ptr<IoThread>> threads);
  ~Upstreams() override;
  Upstreams(const Upstreams&) = delete;
  Upstreams& operator=(const Upstreams&) = delete;

  /// Opens the listeners for the connection string's hosts. A fault names the listener.
  [[nodiscard]] ListenFault open();
  /// Begins to accept clients and to probe servers.
  void start();
  /// Closes the listeners and stops probing. Idempotent.
  void stop();
  /// Applies to members that get a listener from now on.
  void set_pins(Pins pins);
  /// The listeners' addresses with their actual ports, as Server::listening().
  [[nodiscard]] std::vector<Endpoint> listening() const;
  /// Why a pin cannot be applied, or "". Any thread.
  [[nodiscard]] std::string fault_of(const Pins& pins) const;

  void learn(rewrite::ServerId server, rewrite::HelloReply said,
             std::function<void()> then) override;
  void lost(Upstream& server) override;
  void forget(const Upstream& server) override;
  void is_ours(const Upstream& server) override;

 private:
  struct Served {
    std::shared_ptr<Upstream> upstream;
    std::shared_ptr<Listener> listener;
    std::shared_ptr<Prober> prober;
    bool tried = false;  // it has answered or failed, or its clients wait no longer
    // Since when it has said that it is no member though its listener stands for one. A member that
    // is starting says so, too.
    std::optional<std::chrono::steady_clock::time_point> nobody_since{};
  };

  [[nodiscard]] ListenFault open(Route route, rewrite::ServerDescription::Origin origin,
                                 const std::string& set_name);
  [[nodiscard]] std::shared_ptr<Prober> make_prober(const std::shared_ptr<Upstream>& server);
  [[nodiscard]] bool open_member(const rewrite::Topology::Missing& member);
  [[nodiscard]] bool is_nobody_for_long(Served& served) const;
  void leave_out(const rewrite::Topology::Missing& member);
  void close(rewrite::ServerId server);
  void retry_later(const std::string& member, std::chrono::seconds time);
  void wait_for_retry();
  void heard(rewrite::ServerId server, rewrite::HelloReply said);
  void warn_of_bypass(const rewrite::ServerDescription& server);
  void tried(Served& server);
  void all_tried();
  void settle();
  void open_and_close();
  void publish();
  [[nodiscard]] std::string advertised(const Endpoint& listener) const;
  [[nodiscard]] std::set<std::uint32_t> ports_of_servers() const;

  std::span<const std::unique_ptr<IoThread>> threads_;
  IoThread& thread_;  // the first
  const Options& options_;
  rewrite::Topology topology_;
  MemberPorts ports_;
  std::map<rewrite::ServerId, Served> served_;
  std::set<std::string> reported_left_out_;
  // Members that cannot have a listener now, and when to try again.
  std::map<std::string, std::chrono::steady_clock::time_point> retry_at_;
  std::size_t untried_ = 0;  // hosts of the connection string that have not been tried yet
  std::vector<std::function<void()>> waiting_;  // to call when untried_ is 0
  Timer startup_timer_;
  Timer retry_timer_;
  bool stopped_ = false;
  bool warned_of_bypass_ = false;
};

}  // namespace idproxy::net
