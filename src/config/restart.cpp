#include <algorithm>

#include "config/addresses.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::config {
namespace {

bool same_address(const net::Endpoint& a, const net::Endpoint& b) {
  return a.unix_path == b.unix_path && same_name_or_address(a.host, b.host);
}

bool same_admin(const Config& a, const Config& b) {
  if (!a.admin || !b.admin) return !a.admin && !b.admin;
  return same_address(*a.admin, *b.admin) && a.admin->port == b.admin->port;
}

bool same_threads(const Config& a, const Config& b) {
  // The number of processors may have changed, but the file has not.
  if (a.written.threads_auto && b.written.threads_auto) return true;
  return a.net.threads == b.net.threads;
}

/// Adds servers of upstream.uri whose pins have changed: a listener cannot move while it is open.
void add_moved(const std::vector<net::Route>& running, const std::vector<net::Route>& next,
               std::vector<std::string>& keys) {
  const std::size_t n = std::min(running.size(), next.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (running[i].listen.port == next[i].listen.port) continue;
    keys.push_back("listen.members." + running[i].upstream.text());
  }
}

}  // namespace

std::vector<std::string> needs_restart(const Config& running, const Config& next) {
  std::vector<std::string> keys;
  const auto add_unless = [&keys](bool same, std::string key) {
    if (!same) keys.push_back(std::move(key));
  };
  const Written& before = running.written;
  const Written& after = next.written;
  const bool same_port = before.listen.port == after.listen.port;
  const bool same_servers = before.upstream_uri == after.upstream_uri;
  add_unless(same_address(before.listen, after.listen), "listen.address");
  add_unless(same_port, "listen.port");
  add_unless(running.net.advertise == next.net.advertise, "listen.advertise");
  if (same_port && same_servers) add_moved(running.net.routes, next.net.routes, keys);
  add_unless(running.net.max_connections == next.net.max_connections, "listen.max_connections");
  add_unless(running.net.compressors == next.net.compressors, "listen.compression");
  add_unless((running.net.client_tls == nullptr) == (next.net.client_tls == nullptr),
             "listen.tls.mode");
  add_unless(same_servers, "upstream.uri");
  add_unless(running.net.connect_timeout == next.net.connect_timeout, "upstream.connect_timeout");
  add_unless(running.net.proxy_protocol == next.net.proxy_protocol, "upstream.proxy_protocol");
  add_unless(before.store_uri == after.store_uri,
             after.store_uri ? after.store_uri_key : before.store_uri_key);
  add_unless(running.id_store.db == next.id_store.db, "id_store.db");
  add_unless(running.id_store.wtimeout == next.id_store.wtimeout, "id_store.wtimeout");
  add_unless(same_admin(running, next), "admin.listen");
  add_unless(running.admin_hosts == next.admin_hosts, "admin.hosts");
  const net::Limits& limits = running.net.limits;
  const net::Limits& others = next.net.limits;
  add_unless(limits.buffered_messages == others.buffered_messages, "limits.buffered_messages");
  add_unless(limits.first_byte == others.first_byte, "limits.first_byte");
  add_unless(limits.tls_handshake == others.tls_handshake, "limits.tls_handshake");
  add_unless(limits.message == others.message, "limits.message");
  add_unless(limits.drain == others.drain, "limits.drain");
  add_unless(running.log.format == next.log.format, "log.format");
  add_unless(same_threads(running, next), "threads");
  return keys;
}

}  // namespace idproxy::config
