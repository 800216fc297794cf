#include "net/directory.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/server_release.hpp"

namespace idproxy::net {
namespace {

namespace ip = boost::asio::ip;

/// True if a connection to `target` reaches a listener that is bound to `address`.
bool reaches(const ip::address& target, const ip::address& address, error_code& error) {
  if (target == address) return true;
  if (address.is_unspecified()) return is_of_this_host(target, error);
  return target.is_unspecified() && address.is_loopback();
}

void add_state(const Upstream& upstream, std::chrono::nanoseconds now,
               ServerStatistics::Listener& to) {
  const std::int64_t down = upstream.down_since;
  const std::int64_t since = down != 0 ? down : upstream.state_since.load();
  to.state = down != 0 ? "down" : rewrite::state_name(upstream.state);
  to.state_age = now - std::chrono::nanoseconds(since);
  to.last_failure = upstream.last_failure.reason();
  if (!to.last_failure.empty()) {
    to.failure_age = now - std::chrono::nanoseconds(upstream.last_failed);
  }
  const std::int64_t round_trip = upstream.round_trip;
  if (round_trip != 0) to.round_trip = std::chrono::nanoseconds(round_trip);
}

/// Since when the server has answered nothing at all, though it was asked. Drivers close a
/// connection that does not answer, and ask again on another one: the age of the oldest request
/// would begin anew.
std::optional<std::chrono::nanoseconds> silent_since(const Upstream& upstream) {
  std::chrono::nanoseconds heard{};
  for (const ServerLoad& each : upstream.loads) heard = std::max(heard, each.last_heard());
  std::optional<std::chrono::nanoseconds> since;
  for (const ServerLoad& each : upstream.loads) {
    const auto its = each.silent_since();
    if (its && *its > heard) since = std::min(since.value_or(*its), *its);
  }
  return upstream.connections > 0 ? since : std::nullopt;
}

/// Of all threads together.
void add_load(const Upstream& upstream, std::chrono::nanoseconds now,
              ServerStatistics::Listener& to) {
  std::optional<std::chrono::nanoseconds> oldest = silent_since(upstream);
  for (const ServerLoad& each : upstream.loads) {
    to.requests += each.requests.value();
    to.replies += each.replies.value();
    to.bytes_sent += each.bytes_sent.value();
    to.bytes_received += each.bytes_received.value();
    to.in_flight += each.in_flight();
    to.reply_time += each.reply_time.values();
    if (const auto its = each.oldest()) oldest = std::min(oldest.value_or(*its), *its);
  }
  if (oldest) to.oldest = now - *oldest;
  if (const std::int64_t asked = upstream.asked) to.asked = now - std::chrono::nanoseconds(asked);
}

}  // namespace

const Upstream* Directory::Published::find(rewrite::ServerId server) const {
  const auto found =
      std::ranges::find_if(servers, [&](const auto& each) { return each->id == server; });
  return found == servers.end() ? nullptr : found->get();
}

void Directory::publish(std::shared_ptr<const rewrite::Members> members, Servers servers) {
  std::shared_ptr<const Published> next =
      std::make_shared<Published>(Published{std::move(members), std::move(servers)});
  const std::lock_guard lock(mutex_);
  published_.swap(next);
}

std::shared_ptr<const Directory::Published> Directory::published() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

std::shared_ptr<const rewrite::Members> Directory::members() const {
  return published()->members;
}

bool Directory::is_own(const SocketAddress& address, error_code& error) const {
  const auto published = this->published();
  if (address.protocol().family() == AF_UNIX) return false;  // config has checked it
  const tcp::endpoint server = tcp_endpoint(address);
  const ip::address target = plain(server.address());
  return std::ranges::any_of(published->servers, [&](const auto& each) {
    const Endpoint& listen = each->route.listen;
    if (!listen.unix_path.empty() || listen.port != server.port()) return false;
    const auto bound = address_of(listen);
    return bound && reaches(target, plain(tcp_endpoint(*bound).address()), error);
  });
}

std::shared_ptr<const Upstream> Directory::at_port(std::uint16_t port) const {
  const auto published = this->published();
  const auto found = std::ranges::find_if(
      published->servers, [&](const auto& each) { return each->route.listen.port == port; });
  return found == published->servers.end() ? nullptr : *found;
}

std::string Directory::listener_of(rewrite::ServerId server) const {
  const auto published = this->published();
  for (const rewrite::ServerDescription& each : published->members->servers()) {
    if (each.id == server) return each.listener;
  }
  return {};
}

std::vector<ServerStatistics::Listener> Directory::listener_statistics(
    std::chrono::nanoseconds now) const {
  const auto published = this->published();
  std::vector<ServerStatistics::Listener> result;
  for (const rewrite::ServerDescription& server : published->members->servers()) {
    const Upstream* upstream = published->find(server.id);
    if (upstream == nullptr) continue;
    result.push_back(
        {.listener = upstream->route.listen.text(),
         .server = upstream->name,
         .up = upstream->down_since == 0,
         .connections = upstream->connections,
         .connect_failures = upstream->connect_failures,
         .fault = upstream->fault(),
         .wire_version = server.said.wire_version,
         .release = server_release::name_of(server.said.wire_version, upstream->version.reason()),
         .logins = upstream->logins,
         .me = server.said.me,
         .told = server.listener,
         .set_name = server.set_name,
         .is_listed = server.origin == rewrite::ServerDescription::Origin::uri});
    add_state(*upstream, now, result.back());
    add_load(*upstream, now, result.back());
  }
  return result;
}

}  // namespace idproxy::net
