#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "asio.hpp"
#include "connector.hpp"
#include "idproxy/rewrite/topology.hpp"
#include "io_thread.hpp"
#include "listener.hpp"

namespace idproxy::net {

class Probe;

/// The servers and their listeners: opens one for each host of the connection string, then for
/// members of their replica sets as replies to hello name them, and closes those of members that
/// have left. Lives on the first io thread; the functions marked so may be called from any.
class Upstreams final : public rewrite::StatusSource {
 public:
  Upstreams(std::span<const std::unique_ptr<IoThread>> threads,
            std::shared_ptr<const rewrite::RuleSet> rules);
  ~Upstreams() override;

  /// Opens the listeners of the connection string's hosts; the error says which cannot be opened
  /// and why.
  [[nodiscard]] std::string open();
  /// Begins to accept, and to ask servers who they are.
  void start();
  /// Closes the listeners and asks nobody any more. Idempotent.
  void stop();
  /// Of members that get a listener from now on.
  void set_pins(Pins pins);
  /// Of the hosts of the connection string, with the ports that were chosen.
  [[nodiscard]] std::vector<Endpoint> listening() const;

  /// What replies to hello are to be changed with. Any thread.
  [[nodiscard]] std::shared_ptr<const rewrite::Members> members() const;
  /// A server has said something new. `then` is called, on any thread, once members() takes it into
  /// account: soon, for the first clients after one second at most. Any thread.
  void learn(rewrite::ServerId server, rewrite::HelloReply said, std::function<void()> then);
  /// A connection to the server has broken, or none could be made. Any thread.
  void lost(Upstream& server);
  /// It could not be reached for so long that its set may have it elsewhere by now. Any thread.
  void forget(const Upstream& server);
  /// All of the server's addresses are our own. Any thread.
  void is_ours(const Upstream& server);
  /// True if a connection to this address would be one to ourselves. Any thread, whose `io` it is.
  /// `error`: that cannot be found out now, for want of descriptors.
  [[nodiscard]] bool is_own(const Protocol::endpoint& endpoint, asio::io_context& io,
                            error_code& error) const;
  [[nodiscard]] rewrite::Status status(rewrite::ServerId asked) const override;
  /// For status(). Any thread.
  void set_rules(std::shared_ptr<const rewrite::RuleSet> rules);
  /// Any thread.
  [[nodiscard]] std::vector<Figures::Listener> figures() const;
  /// Why these pins cannot be had, or "". Any thread.
  [[nodiscard]] std::string fault_of(const Pins& pins) const;

 private:
  /// One server on the first io thread.
  struct Served {
    std::shared_ptr<Upstream> upstream;
    std::shared_ptr<Listener> listener;
    Timer pause;  // before the next probe
    std::shared_ptr<Probe> probe{};
    std::unique_ptr<Backoff> asks = std::make_unique<Backoff>();
    bool tried = false;  // there was an answer, or a failure
    // Since when it stands for a member and says that it is none, as one does that starts.
    std::optional<std::chrono::steady_clock::time_point> nobody_since{};
  };
  struct Published;

  [[nodiscard]] std::string open(Route route, rewrite::Server::Origin origin,
                                 const std::string& set_name);
  [[nodiscard]] bool open_member(const rewrite::Topology::Missing& member);
  [[nodiscard]] bool is_nobody_for_long(Served& served) const;
  void leave_out(const rewrite::Topology::Missing& member);
  void close(rewrite::ServerId server);
  void ask(Served& server);
  void asked(Served& server, std::optional<rewrite::HelloReply> said);
  void rest(const std::string& member, std::chrono::seconds time);
  void wake_resting();
  void heard(rewrite::ServerId server, rewrite::HelloReply said);
  void tried(Served& server);
  void decided();
  void settle();
  void open_and_close();
  void publish();
  [[nodiscard]] std::shared_ptr<const Published> published() const;
  [[nodiscard]] std::shared_ptr<const rewrite::RuleSet> rules() const;
  [[nodiscard]] std::string advertised(const Endpoint& listener) const;
  [[nodiscard]] std::vector<std::uint16_t> ports_for(const std::string& member);

  std::span<const std::unique_ptr<IoThread>> threads_;
  IoThread& thread_;  // the first
  const Options& options_;
  rewrite::Topology topology_;
  Pins pins_;
  std::map<rewrite::ServerId, Served> served_;
  std::map<std::string, std::uint16_t> ports_;  // by member, also of those that have left
  std::set<std::string> told_left_out_;
  // Members that cannot have a listener now, and until when.
  std::map<std::string, std::chrono::steady_clock::time_point> resting_;
  std::size_t undecided_ = 0;  // hosts of the connection string that have not been tried yet
  std::vector<std::function<void()>> waiting_;  // until none is
  Timer patience_;
  Timer again_;
  bool stopped_ = false;
  std::uint32_t next_port_;  // 0: any

  mutable std::mutex mutex_;  // guards:
  std::shared_ptr<const Published> published_;
  std::shared_ptr<const rewrite::RuleSet> rules_;
};

}  // namespace idproxy::net
