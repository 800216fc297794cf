#include "idproxy/config/config.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "config/addresses.hpp"
#include "config/connection_string.hpp"
#include "config/endpoints.hpp"
#include "config/names.hpp"
#include "config/rules.hpp"
#include "config/tls_keys.hpp"
#include "config/tree.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/secret_file.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;

// The server's maxMessageSizeBytes, plus the values that a few rules add to each document.
constexpr std::int64_t kLeastBuffered = std::int64_t{64} << 20;
constexpr std::int64_t kTiB = std::int64_t{1} << 40;
constexpr unsigned kCoresPerThread = 4;
// Options of connection strings, in lower case.
constexpr auto kPasswords = std::to_array<std::string_view>(
    {"proxypassword", "sslclientcertificatekeypassword", "tlscertificatekeyfilepassword"});

/// The port after those of the URI's servers; at most 65535, which is then taken.
std::uint16_t port_behind(const Servers& servers) {
  if (servers.first.port == 0) return 0;
  const std::size_t port = servers.first.port + servers.routes.size();
  return static_cast<std::uint16_t>(std::min<std::size_t>(port, net::kMaxPort));
}

net::Limits read_limits(Parameters& reader) {
  net::Limits limits;
  const auto buffered = static_cast<std::int64_t>(limits.buffered_messages);
  limits.buffered_messages = static_cast<std::uint64_t>(
      reader.size("buffered_messages", kLeastBuffered, kTiB, buffered,
                  "so that the largest message, 48000000 bytes, fits with the values added to it"));
  const auto read = [&](std::string_view key, std::chrono::milliseconds& limit) {
    limit = reader.duration(key, 100ms, 1h, limit);
  };
  read("first_byte", limits.first_byte);
  read("tls_handshake", limits.tls_handshake);
  read("message", limits.message);
  limits.drain = reader.duration("drain", 0ms, 1h, limits.drain);
  return limits;
}

net::Options read_net(Parameters& file, const Servers& servers, std::chrono::sys_seconds now) {
  Parameters& listen = file.section("listen");
  Parameters& upstream = file.section("upstream");
  net::Options options;
  options.routes = servers.routes;
  options.map_members = !servers.direct;
  options.advertise = servers.advertise;
  for (const Pin& pin : servers.pins) options.pins.emplace(pin.server.key(), pin.port);
  options.next_port = port_behind(servers);
  options.replica_set = servers.replica_set;
  options.max_connections =
      static_cast<std::uint32_t>(listen.integer("max_connections", 1, 1'000'000, 10000));
  if (listen.choice("compression", {"relay", "off"}) == 1) options.compressors = {};
  options.connect_timeout = upstream.duration("connect_timeout", 1ms, 10min, 5s);
  options.proxy_protocol = upstream.choice("proxy_protocol", {"off", "v2"}) == 1;
  options.client_tls = read_client_tls(listen.section("tls"), now);
  options.server_tls = servers.tls;
  options.limits = read_limits(file.section("limits"));
  return options;
}

/// Warns if the store's hosts have none in common with upstream.uri: it is probably another set.
void warn_of_other_servers(const std::vector<net::Route>& routes,
                           const std::vector<net::Endpoint>& hosts, std::string_view key,
                           Parameters& store) {
  const auto is_upstream = [&](const net::Endpoint& host) {
    return std::ranges::any_of(
        routes, [&](const net::Route& route) { return route.upstream.text() == host.text(); });
  };
  if (std::ranges::any_of(hosts, is_upstream)) return;
  store.warning(key,
                "names none of the servers of upstream.uri: the store must be in the same replica "
                "set, where the proxy looks for views, indexes and the largest numbers in use");
}

/// The store's own connection string, and the key to report its faults at.
struct StoreUri {
  std::string_view key;
  std::string text;
};

/// Why the content of uri_file cannot be a connection string, or "".
std::string fault_of_content(std::string_view content) {
  if (content.empty()) {
    return "the file is empty: it must hold a connection string, as in "
           "mongodb://USER:PASSWORD@db1,db2,db3/?replicaSet=rs0";
  }
  if (content.starts_with(kScheme) || content.starts_with(kSrvScheme)) return {};
  return "the file must hold a connection string that begins with mongodb://";
}

std::optional<StoreUri> written_store_uri(Parameters& store) {
  auto in_file = read_named_file("uri_file", Access::secret, store);
  auto here = store.optional_text("uri");
  if (here && store.optional_text("uri_file")) {
    store.error("uri_file", "cannot be set together with uri");
    return std::nullopt;
  }
  if (here) return StoreUri{"uri", std::move(*here)};
  if (!in_file) return std::nullopt;
  if (const std::string fault = fault_of_content(*in_file); !fault.empty()) {
    store.error("uri_file", fault);
    return std::nullopt;
  }
  return StoreUri{"uri_file", std::move(*in_file)};
}

/// Checks the TLS files of the store's own connection string. libmongoc reads them with each
/// connection and would report faults only then.
std::shared_ptr<const net::tls::Context> read_store_tls(const ConnectionString& uri,
                                                        const Servers& servers,
                                                        std::string_view key,
                                                        std::chrono::sys_seconds now,
                                                        Parameters& store) {
  auto context = make_server_tls(uri, key, now, store);
  if (uri.tls || servers.tls == nullptr) return context;
  store.warning(
      key,
      "does not use TLS, but upstream.uri does: without tls options of its own, the store's "
      "password and numbers are sent in the clear");
  return context;
}

bool is_written_out(std::string_view password) {
  return password.find("${") == std::string_view::npos;
}

/// Puts the default in place of each ${NAME:-default}, unless it is empty.
std::string with_defaults(std::string_view written) {
  std::string text;
  while (true) {
    const std::size_t start = written.find("${");
    const std::size_t end = written.find('}', start);
    text += written.substr(0, start);
    if (end == std::string_view::npos) {
      return text.append(written.substr(std::min(start, written.size())));
    }
    const std::string_view variable = written.substr(start, end - start);
    const std::size_t mark = std::min(variable.find(":-"), variable.size());
    const std::string_view fallback = variable.substr(std::min(mark + 2, variable.size()));
    text += fallback.empty() ? written.substr(start, end + 1 - start) : fallback;
    written.remove_prefix(end + 1);
  }
}

/// True if the string contains a password itself, and not a variable.
bool has_password(const UriParts& uri) {
  const std::size_t colon = uri.user_info.find(':');
  bool found = colon != std::string_view::npos && is_written_out(uri.user_info.substr(colon));
  for_each_option(uri.options, [&](std::string_view name, std::string_view value) {
    const bool is_one = std::ranges::find(kPasswords, ascii_lower(name)) != kPasswords.end();
    found = found || (is_one && !value.empty() && is_written_out(value));
  });
  return found;
}

void note_password(std::string_view key, const Parameters& reader, Written& written) {
  const std::string uri = with_defaults(reader.as_written(key));
  if (!uri.starts_with(kScheme) && !uri.starts_with(kSrvScheme)) return;
  if (!has_password(split_uri(uri))) return;
  written.password_keys.push_back(reader.path() + "." + std::string(key));
}

std::optional<StoreUri> read_store_uri(const Servers& servers, std::chrono::sys_seconds now,
                                       Parameters& store, Written& written) {
  auto own = written_store_uri(store);
  if (!own) return own;
  const std::string_view key = own->key;
  const auto uri = parse_connection_string(own->text, key, store);
  if (!uri) return std::nullopt;
  written.store_tls = read_store_tls(*uri, servers, key, now, store);
  // Resolving its hosts would make the start wait for the DNS, and fail if the DNS does.
  if (uri->srv) {
    store.error(key, "mongodb+srv is not in this release: name the hosts in a mongodb:// string");
  }
  const bool refused = refuse_own_listeners(servers.own, uri->hosts, key, store);
  const bool same_set = !uri->replica_set.empty() && uri->replica_set == servers.replica_set;
  if (!refused && !uri->srv && !servers.srv && !same_set) {
    warn_of_other_servers(servers.routes, uri->hosts, key, store);
  }
  return own;
}

void read_write_concern(Parameters& store) {
  constexpr std::string_view kMajority = "majority";
  const bool is_majority = store.text("write_concern", kMajority) == kMajority;
  store.spec("write_concern").words = {kMajority};
  if (is_majority) return;
  store.error("write_concern",
              "must be majority: a failover can roll back what fewer servers have, and the proxy "
              "would give out the same ids again");
}

std::string read_store_db(Parameters& store) {
  std::string fallback = id_store::Options().db;
  std::string db = store.text("db", fallback);
  const std::string fault = fault_of_own_database(db);
  if (fault.empty()) return db;
  store.error("db", fault);
  return fallback;
}

id_store::Options read_id_store(const Servers& servers, std::chrono::sys_seconds now,
                                Parameters& file, Written& written) {
  Parameters& store = file.section("id_store");
  id_store::Options options;
  options.uri = servers.uri;
  Parameters& upstream = file.section("upstream");
  note_password("uri", upstream, written);
  written.upstream_uri_place = upstream.place_of("uri");
  if (const auto own = read_store_uri(servers, now, store, written)) {
    options.uri = own->text;
    if (own->key == "uri") note_password("uri", store, written);
    written.store_uri = own->text;
    written.store_uri_key = "id_store." + std::string(own->key);
    written.store_uri_place = store.place_of(own->key);
    options.uri_key = written.store_uri_key;
    if (servers.has_user) {
      upstream.warning("uri",
                       "user and password have no effect: clients authenticate themselves, and the "
                       "id store has its own connection string");
    }
  }
  read_write_concern(store);
  options.wtimeout = store.duration("wtimeout", 1ms, 1h, options.wtimeout);
  options.db = read_store_db(store);
  return options;
}

std::optional<net::Endpoint> read_admin(Parameters& admin, const Servers& servers,
                                        Parameters& listening) {
  constexpr std::string_view kDefault = "127.0.0.1:27216";
  auto listen = admin.optional_text("listen");
  admin.spec("listen").fallback = kDefault;
  if (!admin.given("listen")) listen = kDefault;
  if (!listen) return std::nullopt;
  auto endpoint = parse_address_and_port(*listen);
  if (!endpoint) {
    admin.error("listen",
                "must be an IP address and a port, as in 127.0.0.1:27216 or [::1]:27216, "
                "or null, is '" +
                    shown(*listen) + "'");
    return std::nullopt;
  }
  if (!is_local_only(endpoint->host)) {
    admin.warning("listen",
                  "everybody who can reach " + *listen +
                      " can read, without a login, the configuration's hash, the servers, the "
                      "rules with the positions of their counters, the clients with their "
                      "addresses, applications and users, and the last lines of the log: listen at "
                      "127.0.0.1 with a reverse proxy in front that asks for a login, or have a "
                      "firewall admit the monitoring only");
  }
  refuse_pins_at(*endpoint, "admin.listen", servers, listening.section("members"));
  refuse_listeners_at(*endpoint, servers, admin, listening);
  return endpoint;
}

std::vector<std::string> read_admin_hosts(Parameters& admin) {
  std::vector<std::string> hosts = admin.texts("hosts");
  for (const std::string& host : hosts) {
    if (is_host(host)) continue;
    admin.error("hosts",
                "must be a list of host names or IP addresses, without brackets, ports and "
                "wildcards; one of them is '" +
                    shown(host) + "'");
  }
  return hosts;
}

log::Options read_log(Parameters& reader) {
  using log::Format;
  using log::Level;
  constexpr Level kLevels[] = {Level::info, Level::debug, Level::warning, Level::warning,
                               Level::error};
  constexpr Format kFormats[] = {Format::automatic, Format::text, Format::json};
  log::Options options;
  options.level = kLevels[reader.choice("level", {"info", "debug", "warn", "warning", "error"})];
  options.format = kFormats[reader.choice("format", {"auto", "text", "json"})];
  return options;
}

Config read_file(Parameters& file, ids::Sources sources, const std::string& seed_list) {
  const auto now =
      std::chrono::sys_seconds(std::chrono::floor<std::chrono::seconds>(sources.clock.wall()));
  Config config;
  Parameters& listen = file.section("listen");
  const Servers servers = read_servers(listen, file.section("upstream"), seed_list, now);
  if (servers.srv) config.srv_uri = servers.uri;
  config.written.listen = servers.first;
  config.written.upstream_uri = servers.written_uri;
  // In the order of the default file, in which people are shown the keys.
  config.id_store = read_id_store(servers, now, file, config.written);
  config.admin = read_admin(file.section("admin"), servers, listen);
  config.admin_hosts = read_admin_hosts(file.section("admin"));
  config.net = read_net(file, servers, now);
  config.log = read_log(file.section("log"));
  const auto threads = file.integer_unless("threads", "auto", 1, 256);
  config.written.threads_auto = !threads;
  config.net.threads = threads
                           ? static_cast<std::uint32_t>(*threads)
                           : std::max(1U, std::thread::hardware_concurrency() / kCoresPerThread);
  config.watch = file.choice("reload", {"signal", "watch"}) == 1;
  config.rules = read_rules(file, config.id_store.db, sources);
  file.finish();
  return config;
}

bool is_usable_root(const TreeNode& root, Findings& findings) {
  if (root.kind == TreeNode::Kind::null || root.kind == TreeNode::Kind::mapping) return true;
  if (root.kind == TreeNode::Kind::refused) return false;
  findings.error(root.place, "the file must be a mapping of keys to values");
  return false;
}

}  // namespace

bool Loaded::ok() const {
  return std::none_of(findings.begin(), findings.end(), [](const FileFinding& finding) {
    return finding.severity == FileFinding::Severity::error;
  });
}

Loaded parse(const std::string& text, ids::Sources sources, const std::string& seed_list,
             const Look& look) {
  Findings findings;
  Loaded loaded;
  auto root = parse_tree(text, findings);
  if (root && is_usable_root(*root, findings)) {
    substitute_environment(*root, findings);
    loaded.is_mapping = true;
    const bool empty = root->kind == TreeNode::Kind::null;
    Parameters file(empty ? nullptr : &*root, "", {}, findings);
    loaded.config = read_file(file, sources, seed_list);
    if (look) look(file, loaded.config);
  }
  loaded.findings = findings.in_file_order();
  loaded.notes = findings.notes();
  loaded.files = findings.files();
  return loaded;
}

}  // namespace idproxy::config
