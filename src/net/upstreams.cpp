#include "net/upstreams.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/finding.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"
#include "net/connection_pair.hpp"

namespace idproxy::net {
namespace {

using Origin = rewrite::ServerDescription::Origin;
using State = rewrite::HelloReply::State;

// How long the first clients may wait until every host of the connection string has been tried, and
// it is known which members they are, and whether they want logins.
constexpr std::chrono::seconds kMaxStartupWait{1};
// When to try again a port that was in use, and a name that led to this proxy.
constexpr std::chrono::seconds kRetryPort{10};
constexpr std::chrono::seconds kRetryOwnAddress{60};
constexpr std::size_t kMostReported = 100;

/// The server's name in Topology, spelled like a member of a set.
std::string name_of(const Endpoint& server) {
  return server.unix_path.empty() ? ascii_lower(server.text()) : server.unix_path;
}

/// Started with --replSet, and a member of no set.
bool waits_for_set(const rewrite::HelloReply& said) {
  return said.state == State::other && said.set_name.empty();
}

}  // namespace

Upstreams::Upstreams(std::span<const std::unique_ptr<IoThread>> threads)
    : threads_(threads),
      thread_(*threads[0]),
      options_(thread_.shared.options),
      ports_(options_.pins, options_.next_port),
      startup_timer_(thread_.loop),
      retry_timer_(thread_.loop) {}

Upstreams::~Upstreams() = default;

ListenFault Upstreams::open() {
  for (const Route& route : options_.routes) {
    if (ListenFault fault = open(route, Origin::uri, {}); !fault.text.empty()) return fault;
  }
  return {};
}

ListenFault Upstreams::open(Route route, Origin origin, const std::string& set_name) {
  auto upstream = std::make_shared<Upstream>(std::move(route), threads_.size());
  auto listener = std::make_shared<Listener>(threads_, upstream);
  if (ListenFault fault = listener->open(); !fault.text.empty()) return fault;
  const Endpoint& listen = upstream->route.listen;
  upstream->id =
      topology_.add(name_of(upstream->route.upstream), advertised(listen), origin, set_name);
  served_.emplace(upstream->id, Served{upstream, std::move(listener), make_prober(upstream)});
  publish();
  return {};
}

/// The address to tell clients.
std::string Upstreams::advertised(const Endpoint& listener) const {
  if (!listener.unix_path.empty()) return listener.unix_path;
  Endpoint advertised = listener;
  if (!options_.advertise.empty()) advertised.host = options_.advertise;
  return advertised.text();
}

void Upstreams::start() {
  untried_ = served_.size();
  startup_timer_.start(kMaxStartupWait, [this] { all_tried(); });
  for (auto& [id, served] : served_) served.prober->start();
}

void Upstreams::stop() {
  if (std::exchange(stopped_, true)) return;
  startup_timer_.cancel();
  retry_timer_.cancel();
  for (auto& [id, served] : served_) {
    served.prober->stop();
    served.listener->stop();
  }
  for (const auto& then : std::exchange(waiting_, {})) then();
}

void Upstreams::set_pins(Pins pins) {
  ports_.set_pins(std::move(pins));
  for (const auto& [id, served] : served_) {
    const Upstream& upstream = *served.upstream;
    const auto pin = ports_.pins().find(upstream.route.upstream.key());
    if (pin == ports_.pins().end() || pin->second == upstream.route.listen.port) continue;
    log::event(log::Level::warning, "pin_later",
               "a server that already has a listener keeps its port until the next start",
               {{"server", upstream.name},
                {"address", upstream.route.listen.text()},
                {"pinned", pin->second}});
  }
}

std::vector<Endpoint> Upstreams::listening() const {
  std::vector<Endpoint> endpoints;
  endpoints.reserve(served_.size());
  for (const auto& [id, served] : served_) endpoints.push_back(served.upstream->route.listen);
  return endpoints;
}

// ---- from any thread -------------------------------------------------------------------------

void Upstreams::learn(rewrite::ServerId server, rewrite::HelloReply said,
                      std::function<void()> then) {
  thread_.loop.post([this, server, said = std::move(said), then = std::move(then)]() mutable {
    if (stopped_) return then();
    const rewrite::ServerDescription* known = topology_.find(server);
    if (known == nullptr) return then();
    // Many connections report the same reply. Until all hosts have been tried, however, members()
    // does not reflect what probes have heard.
    if (known->said == said && untried_ == 0) return then();
    heard(server, std::move(said));
    tried(served_.at(server));
    if (untried_ > 0 && !topology_.missing().empty()) {
      waiting_.push_back(std::move(then));
      return;
    }
    settle();
    then();
  });
}

void Upstreams::lost(Upstream& server) {
  server.may_be_new();
  if (!server.primary.exchange(false)) return;
  thread_.loop.post([this, id = server.id] {
    if (stopped_) return;
    topology_.lost(id);
    publish();
  });
}

void Upstreams::forget(const Upstream& server) {
  thread_.loop.post([this, id = server.id] {
    const auto found = served_.find(id);
    if (stopped_ || found == served_.end()) return;
    topology_.forget(id);
    settle();
    found->second.prober->start();
  });
}

void Upstreams::is_ours(const Upstream& server) {
  thread_.loop.post([this, id = server.id] {
    const rewrite::ServerDescription* known = topology_.find(id);
    if (stopped_ || known == nullptr || known->origin == Origin::uri) return;
    retry_later(known->name, kRetryOwnAddress);
    close(id);
    settle();
  });
}

std::string Upstreams::fault_of(const Pins& pins) const {
  Endpoint listen = options_.routes.front().listen;
  if (!listen.unix_path.empty()) return {};
  for (const auto& [server, port] : pins) {
    listen.port = port;
    const auto ours = thread_.shared.directory.at_port(port);
    std::string reason;
    if (ours == nullptr) {
      const auto socket = listen_at(listen);
      if (!socket) reason = socket.error().message();
    } else if (ours->route.upstream.key() != server) {
      reason = "it is the listener of " + ours->name;
    }
    if (reason.empty()) continue;
    std::string text = "port ";
    text.append(std::to_string(port)).append(" for ").append(server).append(": ").append(reason);
    return text;
  }
  return {};
}

// ---- on the first io thread ------------------------------------------------------------------

std::shared_ptr<Prober> Upstreams::make_prober(const std::shared_ptr<Upstream>& server) {
  const auto id = server->id;
  const auto is_known = [this, id] { return topology_.find(id)->said.state != State::unknown; };
  const auto about_to_ask = [this, id] {
    if (!is_nobody_for_long(served_.at(id))) return;
    topology_.forget(id);
    settle();
  };
  const auto answered = [this, id](std::optional<rewrite::HelloReply> said) {
    if (said) heard(id, std::move(*said));
    tried(served_.at(id));
    if (untried_ == 0) settle();
  };
  return std::make_shared<Prober>(thread_, server, Prober::Calls{is_known, about_to_ask, answered});
}

/// True if the server has said for long that it is no member: its address may now belong to another
/// server, which waits to be added to a set.
bool Upstreams::is_nobody_for_long(Served& served) const {
  const rewrite::ServerDescription& server = *topology_.find(served.upstream->id);
  const bool nobody = server.said.state == State::other && server.said.set_name.empty();
  if (!nobody || server.alias.empty()) {
    served.nobody_since.reset();
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!served.nobody_since) served.nobody_since = now;
  return now - *served.nobody_since >= kLongDown;
}

/// The server has answered a hello or failed to: accepts its clients.
void Upstreams::tried(Served& server) {
  if (std::exchange(server.tried, true)) return;
  server.listener->start();
  if (untried_ == 0) return;
  --untried_;
  if (untried_ == 0) all_tried();
}

void Upstreams::heard(rewrite::ServerId server, rewrite::HelloReply said) {
  const rewrite::ServerDescription* known = topology_.find(server);
  if (known == nullptr) return;
  const bool renamed = !said.me.empty() && said.me != known->known_as && said.me != known->name;
  const bool ambiguous = known->ambiguous;
  const bool other_set = !options_.replica_set.empty() && said.set_name != options_.replica_set;
  // One that was removed from its set says the same.
  const bool waits =
      waits_for_set(said) && std::ranges::all_of(topology_.servers(), [](const auto& each) {
        return each.said.set_name.empty();
      });
  const std::string fault =
      other_set ? "it " + fault_of_set(said.set_name, options_.replica_set, "upstream.uri") : "";
  served_.at(server).upstream->other_set.set(waits ? kNotInitiated : fault);
  if (other_set && !waits &&
      (said.set_name != known->said.set_name || known->said.state == State::unknown)) {
    log::event(
        set_name_differs(known->name, fault),
        {{"server", known->name}, {"expected", options_.replica_set}, {"found", said.set_name}});
  }
  topology_.heard(server, std::move(said));
  warn_of_bypass(*known);
  if (ambiguous || !renamed) return;
  log::event(log::Level::info, "server_identified",
             known->ambiguous ? "a name of upstream.uri leads to several members of a replica set: "
                                "its listener stands for none of them"
                              : "a server is a member of a replica set",
             {{"server", known->name}, {"me", known->known_as}, {"set", known->set_name}});
}

/// A driver follows the host list of the set, unless its own connection string forbids that.
void Upstreams::warn_of_bypass(const rewrite::ServerDescription& server) {
  const std::string& me = server.said.me;
  if (options_.map_members || me.empty() || me == ascii_lower(server.listener)) return;
  if (std::exchange(warned_of_bypass_, true)) return;
  log::event(log::Level::warning, "replica_set_bypass",
             "upstream.uri has directConnection=true, and its server is a member of a replica set: "
             "a client without directConnection=true in its own connection string bypasses the "
             "proxy, and GETS NO IDS",
             {{"server", server.name}, {"me", me}, {"set", server.said.set_name}});
}

/// All hosts of the connection string have been tried, or kMaxStartupWait is over.
void Upstreams::all_tried() {
  untried_ = 0;
  startup_timer_.cancel();
  for (auto& [id, served] : served_) tried(served);
  settle();
  for (const auto& then : std::exchange(waiting_, {})) then();
}

/// Opens and closes listeners as the topology requires, and publishes the result.
void Upstreams::settle() {
  if (options_.map_members) open_and_close();
  publish();
}

void Upstreams::open_and_close() {
  for (const rewrite::ServerId server : topology_.superfluous()) close(server);
  for (const auto& member : topology_.missing()) {
    const bool possible = member.possible && options_.routes.front().listen.unix_path.empty();
    if (!possible || (!retry_at_.contains(member.member) && !open_member(member))) {
      leave_out(member);
    }
  }
}

/// False if no listener can be opened for the member now.
bool Upstreams::open_member(const rewrite::Topology::Missing& member) {
  Route route{options_.routes.front().listen, endpoint_of(member.member)};
  for (const std::uint16_t port : ports_.candidates(member.member, ports_of_servers())) {
    route.listen.port = port;
    const std::string error = open(route, Origin::member, member.set_name).text;
    if (!error.empty()) {
      log::event(log::Level::warning, "listener_failed",
                 "cannot listen for a member of the replica set",
                 {{"address", route.listen.text()}, {"server", member.member}, {"reason", error}});
      continue;
    }
    Served& served = served_.rbegin()->second;
    const Endpoint& listen = served.upstream->route.listen;
    ports_.took(member.member, port);
    log::event(log::Level::info, "member_joined", "listening for a member of the replica set",
               {{"address", listen.text()}, {"server", member.member}, {"set", member.set_name}});
    reported_left_out_.erase(member.member);
    tried(served);  // its clients wait for nothing
    served.prober->start();
    return true;
  }
  retry_later(member.member, kRetryPort);
  return false;
}

/// Leaves the member without a listener for `time`.
void Upstreams::retry_later(const std::string& member, std::chrono::seconds time) {
  retry_at_[member] = std::chrono::steady_clock::now() + time;
  wait_for_retry();
}

void Upstreams::wait_for_retry() {
  if (retry_at_.empty()) return;
  const auto earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
  retry_timer_.start_at(std::ranges::min_element(retry_at_, earlier)->second, [this] {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(retry_at_, [&](const auto& member) { return member.second <= now; });
    settle();
    wait_for_retry();
  });
}

/// Includes the ports in the set's own names for the servers, which may differ.
std::set<std::uint32_t> Upstreams::ports_of_servers() const {
  std::set<std::uint32_t> ports;
  for (const rewrite::ServerDescription& server : topology_.servers()) {
    ports.insert(port_of(server.name));
    for (const std::string& each : server.said.members) ports.insert(port_of(each));
  }
  return ports;
}

void Upstreams::leave_out(const rewrite::Topology::Missing& member) {
  if (!options_.routes.front().listen.unix_path.empty()) return;  // config has warned of it
  if (reported_left_out_.size() == kMostReported ||
      !reported_left_out_.insert(member.member).second)
    return;
  log::event(log::Level::warning, "member_left_out",
             "a member of the replica set has no listener here: clients do not see it",
             {{"member", member.member}, {"set", member.set_name}});
}

void Upstreams::close(rewrite::ServerId server) {
  const auto found = served_.find(server);
  const std::shared_ptr<Upstream> upstream = found->second.upstream;
  log::event(log::Level::info, "member_left",
             "a server is no longer a member of the replica set: its listener is closed",
             {{"address", upstream->route.listen.text()}, {"server", upstream->name}});
  found->second.prober->stop();
  found->second.listener->stop();
  topology_.remove(server);
  for (const auto& thread : threads_) {
    thread->loop.post([&thread = *thread, upstream] {
      for (ConnectionPair* pair : ConnectionPair::all_of(thread)) {
        if (&pair->upstream() == upstream.get()) pair->close();
      }
    });
  }
  served_.erase(found);
}

void Upstreams::publish() {
  Directory::Servers servers;
  for (const auto& [id, served] : served_) {
    const auto* server = topology_.find(id);
    served.upstream->is(server->said.state, thread_.shared.clock.monotonic());
    served.upstream->primary = server->said.state == State::primary;
    served.upstream->alias = !server->alias.empty();
    servers.push_back(served.upstream);
  }
  thread_.shared.directory.publish(topology_.members(), std::move(servers));
}

}  // namespace idproxy::net
