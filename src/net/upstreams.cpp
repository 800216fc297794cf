#include "upstreams.hpp"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <charconv>
#include <utility>

#include "connection_pair.hpp"
#include "idproxy/base/text.hpp"
#include "idproxy/observability/log.hpp"
#include "own_address.hpp"
#include "probe.hpp"
#include "tcp.hpp"

namespace idproxy::net {
namespace {

using tcp = asio::ip::tcp;
using Origin = rewrite::Server::Origin;
using State = rewrite::HelloReply::State;

// How long the first clients' hello may wait until it is known which member is which host of the
// connection string.
constexpr std::chrono::seconds kPatience{1};
// Until a port is tried again that was in use, and a name that led to ourselves.
constexpr std::chrono::seconds kAgain{10};
constexpr std::chrono::seconds kAgainOurs{60};
// How often a server is asked that no client is connected to.
constexpr std::chrono::seconds kAskIdle{10};
// Ports in a row that are tried for one member.
constexpr std::size_t kMostPorts = 100;
constexpr std::size_t kMostTold = 100;

/// The name that a server has in Topology: as a member of a set would be called.
std::string name_of(const Endpoint& server) {
  return server.unix_path.empty() ? ascii_lower(server.text()) : server.unix_path;
}

/// 0 if it has none.
std::uint32_t port_of(std::string_view member) {
  const std::string_view digits = member.substr(member.rfind(':') + 1);
  std::uint32_t port = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return port;
}

/// "host:port" or "[v6]:port", which it is known to be.
Endpoint endpoint_of(const std::string& member) {
  const std::size_t colon = member.rfind(':');
  Endpoint endpoint;
  endpoint.host = member.substr(0, colon);
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  endpoint.port = static_cast<std::uint16_t>(port_of(member));
  return endpoint;
}

asio::ip::address plain(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

/// Whether a connection to `target` ends at a listener that is bound to `address`.
bool reaches(const asio::ip::address& target, const asio::ip::address& address,
             asio::io_context& io, error_code& error) {
  if (target == address) return true;
  if (address.is_unspecified()) return is_of_this_host(target, io, error);
  return target.is_unspecified() && address.is_loopback();
}

/// Why nobody can listen there now, or "".
std::string fault_of_listening(const Endpoint& listen, asio::io_context& io) {
  tcp::acceptor acceptor(io);
  error_code error;
  const tcp::endpoint endpoint(asio::ip::make_address(listen.host, error), listen.port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1, error);
  return error ? error.message() : std::string();
}

}  // namespace

/// What other threads see.
struct Upstreams::Published {
  std::shared_ptr<const rewrite::Members> members;
  std::vector<std::shared_ptr<const Upstream>> upstreams;
};

Upstreams::Upstreams(std::span<const std::unique_ptr<IoThread>> threads,
                     std::shared_ptr<const rewrite::RuleSet> rules)
    : threads_(threads),
      thread_(*threads[0]),
      options_(thread_.shared.options),
      pins_(options_.pins),
      patience_(thread_.io),
      again_(thread_.io),
      next_port_(options_.next_port),
      rules_(std::move(rules)) {}

Upstreams::~Upstreams() = default;

std::string Upstreams::open() {
  for (const Route& route : options_.routes) {
    if (std::string error = open(route, Origin::uri, {}); !error.empty()) return error;
  }
  return {};
}

/// The error says why it cannot be opened.
std::string Upstreams::open(Route route, Origin origin, const std::string& set_name) {
  auto upstream = std::make_shared<Upstream>(std::move(route));
  auto listener = std::make_shared<Listener>(threads_, upstream);
  if (std::string error = listener->open(); !error.empty()) return error;
  const Endpoint& listen = upstream->route.listen;
  upstream->id =
      topology_.add(name_of(upstream->route.upstream), advertised(listen), origin, set_name);
  served_.emplace(upstream->id, Served{upstream, std::move(listener), Timer(thread_.io)});
  publish();
  return {};
}

/// As clients are told.
std::string Upstreams::advertised(const Endpoint& listener) const {
  if (!listener.unix_path.empty()) return listener.unix_path;
  Endpoint told = listener;
  if (!options_.advertise.empty()) told.host = options_.advertise;
  return told.text();
}

void Upstreams::start() {
  for (auto& [id, served] : served_) served.listener->start();
  undecided_ = served_.size();
  patience_.expires_after(kPatience);
  patience_.async_wait([this](error_code error) {
    if (!error && !stopped_) decided();
  });
  for (auto& [id, served] : served_) ask(served);
}

void Upstreams::stop() {
  if (std::exchange(stopped_, true)) return;
  patience_.cancel();
  again_.cancel();
  for (auto& [id, served] : served_) {
    served.pause.cancel();
    if (served.probe) served.probe->cancel();
    served.listener->stop();
  }
  for (const auto& then : std::exchange(waiting_, {})) then();
}

void Upstreams::set_pins(Pins pins) {
  pins_ = std::move(pins);
  for (const auto& [id, served] : served_) {
    const Upstream& upstream = *served.upstream;
    const auto pin = pins_.find(upstream.route.upstream.key());
    if (pin == pins_.end() || pin->second == upstream.route.listen.port) continue;
    log::event(log::Level::warning, "pin_later",
               "a server that has a listener already keeps its port until the next start",
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

std::shared_ptr<const Upstreams::Published> Upstreams::published() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

std::shared_ptr<const rewrite::Members> Upstreams::members() const {
  return published()->members;
}

void Upstreams::learn(rewrite::ServerId server, rewrite::HelloReply said,
                      std::function<void()> then) {
  asio::post(thread_.io, [this, server, said = std::move(said), then = std::move(then)]() mutable {
    if (stopped_) return then();
    const rewrite::Server* known = topology_.find(server);
    if (known == nullptr) return then();
    // Many connections bring the same news; while not all hosts have been tried, what a probe has
    // heard is not in members() yet.
    if (known->said == said && undecided_ == 0) return then();
    heard(server, std::move(said));
    tried(served_.at(server));
    if (undecided_ > 0 && !topology_.missing().empty()) {
      waiting_.push_back(std::move(then));
      return;
    }
    settle();
    then();
  });
}

void Upstreams::lost(Upstream& server) {
  if (!server.primary.exchange(false)) return;
  asio::post(thread_.io, [this, id = server.id] {
    if (stopped_) return;
    topology_.lost(id);
    publish();
  });
}

void Upstreams::forget(const Upstream& server) {
  asio::post(thread_.io, [this, id = server.id] {
    const auto found = served_.find(id);
    if (stopped_ || found == served_.end()) return;
    topology_.forget(id);
    settle();
    ask(found->second);
  });
}

void Upstreams::is_ours(const Upstream& server) {
  asio::post(thread_.io, [this, id = server.id] {
    const rewrite::Server* known = topology_.find(id);
    if (stopped_ || known == nullptr || known->origin == Origin::uri) return;
    rest(known->name, kAgainOurs);
    close(id);
    settle();
  });
}

bool Upstreams::is_own(const Protocol::endpoint& endpoint, asio::io_context& io,
                       error_code& error) const {
  const auto published = this->published();
  if (endpoint.protocol().family() == AF_UNIX) return false;  // checked in the configuration
  const tcp::endpoint server = tcp_endpoint(endpoint);
  const asio::ip::address target = plain(server.address());
  return std::ranges::any_of(published->upstreams, [&](const auto& upstream) {
    const Endpoint& listen = upstream->route.listen;
    if (!listen.unix_path.empty() || listen.port != server.port()) return false;
    error_code malformed;
    const auto address = plain(asio::ip::make_address(listen.host, malformed));
    return !malformed && reaches(target, address, io, error);
  });
}

rewrite::Status Upstreams::status(rewrite::ServerId asked) const {
  const auto published = this->published();
  const auto sum = [&](Cells::Count Cells::* count) {
    std::uint64_t all = 0;
    for (const auto& thread : threads_) all += (thread->cells.*count).value();
    return all;
  };
  rewrite::Status status{.version = options_.version,
                         .listener = {},
                         .server = {},
                         .listeners = {},
                         .rules = rules(),
                         .connections = sum(&Cells::connections),
                         .inserts_assigned = sum(&Cells::inserts_assigned),
                         .documents_refused = sum(&Cells::documents_refused),
                         .commands_failed = sum(&Cells::requests_refused)};
  for (const rewrite::Server& server : published->members->servers()) {
    const auto upstream = std::ranges::find_if(
        published->upstreams, [&](const auto& each) { return each->id == server.id; });
    status.listeners.push_back(
        {server.listener, server.name, server.said.me, server.set_name,
         rewrite::state_name(server.said.state), server.origin == Origin::uri ? "uri" : "member",
         upstream == published->upstreams.end() ? 0 : (*upstream)->connections.load()});
    if (server.id != asked) continue;
    status.listener = server.listener;
    status.server = server.name;
  }
  return status;
}

std::shared_ptr<const rewrite::RuleSet> Upstreams::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

void Upstreams::set_rules(std::shared_ptr<const rewrite::RuleSet> rules) {
  const std::lock_guard lock(mutex_);
  rules_.swap(rules);
}

std::vector<Figures::Listener> Upstreams::figures() const {
  std::vector<Figures::Listener> result;
  const auto published = this->published();
  for (const rewrite::Server& server : published->members->servers()) {
    const auto found = std::ranges::find_if(
        published->upstreams, [&](const auto& each) { return each->id == server.id; });
    if (found == published->upstreams.end()) continue;
    const Upstream& upstream = **found;
    result.push_back({upstream.route.listen.text(), upstream.name, upstream.down_since == 0,
                      upstream.connections, upstream.connect_failures});
  }
  return result;
}

std::string Upstreams::fault_of(const Pins& pins) const {
  const auto published = this->published();
  Endpoint listen = options_.routes.front().listen;
  if (!listen.unix_path.empty()) return {};
  for (const auto& [server, port] : pins) {
    listen.port = port;
    const auto ours = std::ranges::find_if(published->upstreams, [&](const auto& upstream) {
      return upstream->route.listen.port == port;
    });
    std::string reason;
    if (ours == published->upstreams.end()) {
      reason = fault_of_listening(listen, thread_.io);
    } else if ((*ours)->route.upstream.key() != server) {
      reason = "it is the listener of " + (*ours)->name;
    }
    if (reason.empty()) continue;
    std::string text = "port ";
    text.append(std::to_string(port)).append(" for ").append(server).append(": ").append(reason);
    return text;
  }
  return {};
}

// ---- on the first io thread ------------------------------------------------------------------

/// Again and again: soon until it is heard, and now and then while no client is connected to it,
/// whose hellos would tell, or none can be any more.
void Upstreams::ask(Served& served) {
  const rewrite::ServerId id = served.upstream->id;
  const bool heard_of = topology_.find(id)->said.state != State::unknown;
  if (served.probe) std::exchange(served.probe, nullptr)->cancel();
  served.pause.expires_after(heard_of ? kAskIdle
                                      : served.asks->wait(thread_.shared.clock.monotonic()));
  served.pause.async_wait([this, id, heard_of](error_code error) {
    // A wait that was over before it was cancelled still comes here.
    const auto found = served_.find(id);
    if (error || stopped_ || found == served_.end()) return;
    Served& server = found->second;
    if (is_nobody_for_long(server)) {
      topology_.forget(id);
      settle();
    }
    const bool clients_tell = server.upstream->connections > 0 && server.upstream->down_since == 0;
    if (heard_of && clients_tell) return ask(server);
    auto probe =
        Probe::start(thread_, server.upstream, [this, id](std::optional<rewrite::HelloReply> said) {
          const auto asking = served_.find(id);
          if (!stopped_ && asking != served_.end()) asked(asking->second, std::move(said));
        });
    // It may have failed at once, and this server be gone with it.
    if (const auto still = served_.find(id); still != served_.end()) {
      still->second.probe = std::move(probe);
    }
  });
}

/// Its address may have been given to a server that waits to be made a member of something.
bool Upstreams::is_nobody_for_long(Served& served) const {
  const rewrite::Server& server = *topology_.find(served.upstream->id);
  const bool nobody = server.said.state == State::other && server.said.set_name.empty();
  if (!nobody || server.alias.empty()) {
    served.nobody_since.reset();
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!served.nobody_since) served.nobody_since = now;
  return now - *served.nobody_since >= kLongDown;
}

void Upstreams::asked(Served& server, std::optional<rewrite::HelloReply> said) {
  const rewrite::ServerId id = server.upstream->id;
  if (said && said->state != State::unknown) {
    heard(id, std::move(*said));
    server.asks->succeeded();
  } else {
    server.asks->failed(thread_.shared.clock.monotonic(), system_random());
  }
  ask(server);
  tried(server);
  if (undecided_ == 0) settle();
}

/// It is known who the server is, or that it cannot be known now.
void Upstreams::tried(Served& server) {
  if (server.tried || undecided_ == 0) return;
  server.tried = true;
  if (--undecided_ == 0) decided();
}

void Upstreams::heard(rewrite::ServerId server, rewrite::HelloReply said) {
  const rewrite::Server* known = topology_.find(server);
  if (known == nullptr) return;
  const bool renamed = !said.me.empty() && said.me != known->known_as && said.me != known->name;
  const bool ambiguous = known->ambiguous;
  const bool other_set = !options_.replica_set.empty() && said.set_name != options_.replica_set;
  if (other_set && (said.set_name != known->said.set_name || known->said.state == State::unknown)) {
    log::event(
        log::Level::warning, "set_name_differs",
        "a server belongs to another replica set than upstream.uri names, or to none",
        {{"server", known->name}, {"expected", options_.replica_set}, {"found", said.set_name}});
  }
  topology_.heard(server, std::move(said));
  if (ambiguous || !renamed) return;
  log::event(log::Level::info, "server_identified",
             known->ambiguous ? "a name of upstream.uri leads to several members of a replica set: "
                                "its listener stands for none of them"
                              : "a server is a member of a replica set",
             {{"server", known->name}, {"me", known->known_as}, {"set", known->set_name}});
}

/// All hosts of the connection string have been tried, or that takes too long.
void Upstreams::decided() {
  undecided_ = 0;
  patience_.cancel();
  settle();
  for (const auto& then : std::exchange(waiting_, {})) then();
}

/// Has the listeners that are needed, and no others.
void Upstreams::settle() {
  if (options_.map_members) open_and_close();
  publish();
}

void Upstreams::open_and_close() {
  for (const rewrite::ServerId server : topology_.superfluous()) close(server);
  for (const auto& member : topology_.missing()) {
    const bool possible = member.possible && options_.routes.front().listen.unix_path.empty();
    if (!possible || (!resting_.contains(member.member) && !open_member(member))) {
      leave_out(member);
    }
  }
}

/// False if it cannot have one now.
bool Upstreams::open_member(const rewrite::Topology::Missing& member) {
  Route route{options_.routes.front().listen, endpoint_of(member.member)};
  for (const std::uint16_t port : ports_for(member.member)) {
    route.listen.port = port;
    const std::string error = open(route, Origin::member, member.set_name);
    if (!error.empty()) {
      log::event(log::Level::warning, "listener_failed",
                 "cannot listen for a member of the replica set",
                 {{"address", route.listen.text()}, {"server", member.member}, {"reason", error}});
      continue;
    }
    Served& served = served_.rbegin()->second;
    const Endpoint& listen = served.upstream->route.listen;
    if (port != 0 && ports_.size() < kMostTold) ports_[member.member] = port;
    if (port >= next_port_ && next_port_ != 0 && !pins_.contains(route.upstream.key())) {
      next_port_ = port + 1U;
    }
    log::event(log::Level::info, "member_joined", "listening for a member of the replica set",
               {{"address", listen.text()}, {"server", member.member}, {"set", member.set_name}});
    told_left_out_.erase(member.member);
    served.listener->start();
    ask(served);
    return true;
  }
  rest(member.member, kAgain);
  return false;
}

/// It has no listener until then.
void Upstreams::rest(const std::string& member, std::chrono::seconds time) {
  resting_[member] = std::chrono::steady_clock::now() + time;
  wake_resting();
}

void Upstreams::wake_resting() {
  if (resting_.empty()) return;
  const auto earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
  again_.expires_at(std::ranges::min_element(resting_, earlier)->second);
  again_.async_wait([this](error_code error) {
    if (error || stopped_) return;
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(resting_, [&](const auto& member) { return member.second <= now; });
    settle();
    wake_resting();
  });
}

/// Where a member may have its listener, in the order to try.
std::vector<std::uint16_t> Upstreams::ports_for(const std::string& member) {
  if (const auto pin = pins_.find(endpoint_of(member).key()); pin != pins_.end()) {
    return {pin->second};
  }
  if (next_port_ == 0) return {0};
  std::vector<std::uint16_t> ports;
  if (const auto before = ports_.find(member); before != ports_.end()) {
    ports.push_back(before->second);
  }
  std::set<std::uint32_t> taken;
  for (const auto& [server, port] : pins_) taken.insert(port);
  // A member of this host that is down would find its own port in use, by us.
  for (const rewrite::Server& server : topology_.servers()) {
    taken.insert(port_of(server.name));  // the set may have other names for it
    for (const std::string& each : server.said.members) taken.insert(port_of(each));
  }
  for (std::uint32_t port = next_port_; port <= kMaxPort && ports.size() < kMostPorts; ++port) {
    if (!taken.contains(port)) ports.push_back(static_cast<std::uint16_t>(port));
  }
  return ports;
}

void Upstreams::leave_out(const rewrite::Topology::Missing& member) {
  if (!options_.routes.front().listen.unix_path.empty()) return;  // the configuration has said so
  if (told_left_out_.size() == kMostTold || !told_left_out_.insert(member.member).second) return;
  log::event(log::Level::warning, "member_left_out",
             "a member of the replica set has no listener here: clients do not see it",
             {{"member", member.member}, {"set", member.set_name}});
}

void Upstreams::close(rewrite::ServerId server) {
  const auto found = served_.find(server);
  const std::shared_ptr<Upstream> upstream = found->second.upstream;
  log::event(log::Level::info, "member_left",
             "a server is no member of the replica set any more: its listener is closed",
             {{"address", upstream->route.listen.text()}, {"server", upstream->name}});
  if (found->second.probe) found->second.probe->cancel();
  found->second.listener->stop();
  topology_.remove(server);
  for (const auto& thread : threads_) {
    asio::post(thread->io, [&thread = *thread, upstream] {
      for (const ConnectionPair::Self& pair : ConnectionPair::all_of(thread)) {
        if (&pair->upstream() == upstream.get()) pair->close();
      }
    });
  }
  served_.erase(found);
}

void Upstreams::publish() {
  auto published = std::make_shared<Published>();
  published->members = topology_.members();
  for (const auto& [id, served] : served_) {
    const auto* server = topology_.find(id);
    served.upstream->primary = server->said.state == State::primary;
    served.upstream->alias = !server->alias.empty();
    published->upstreams.push_back(served.upstream);
  }
  const std::lock_guard lock(mutex_);
  published_ = std::move(published);
}

}  // namespace idproxy::net
