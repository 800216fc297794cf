#include "idproxy/config/config.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "config/connection_string.hpp"
#include "config/endpoints.hpp"
#include "config/environment.hpp"
#include "config/names.hpp"
#include "config/reader.hpp"
#include "config/rules.hpp"
#include "config/scalars.hpp"
#include "config/secret_file.hpp"
#include "config/words.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kTiB = std::int64_t{1} << 40;
constexpr unsigned kCoresPerThread = 4;

/// TLS that is asked for and not there would send passwords in the clear.
void read_tls(Reader& tls) {
  if (tls.choice("mode", {"off", "require"}) != 0) {
    tls.error("mode", "TLS towards clients is not in this release; only off is");
  }
  tls.no_effect_yet("certificate_key_file",
                    read_named_file("certificate_key_file", Access::secret, tls).has_value());
  tls.no_effect_yet("ca_file", read_named_file("ca_file", Access::any, tls).has_value());
  tls.no_effect_yet("client_certificate",
                    tls.choice("client_certificate", {"none", "optional", "require"}) != 0);
}

std::uint32_t read_threads(Reader& file) {
  const auto threads = file.integer_unless("threads", "auto", 1, 256);
  if (threads) return static_cast<std::uint32_t>(*threads);
  return std::max(1U, std::thread::hardware_concurrency() / kCoresPerThread);
}

/// The port behind those of the URI's servers. If there is none, that of the last one, which is
/// taken.
std::uint16_t port_behind(const Servers& servers) {
  if (servers.first.port == 0) return 0;
  const std::size_t port = servers.first.port + servers.routes.size();
  return static_cast<std::uint16_t>(std::min<std::size_t>(port, 65535));
}

net::Options read_net(Reader& file, const Servers& servers) {
  Reader& listen = file.section("listen");
  Reader& upstream = file.section("upstream");
  net::Options options;
  options.routes = servers.routes;
  options.map_members = !servers.direct;
  options.advertise = servers.advertise;
  for (const Pin& pin : servers.pins) options.pins.emplace(pin.server.text(), pin.port);
  options.next_port = port_behind(servers);
  options.replica_set = servers.replica_set;
  options.max_connections =
      static_cast<std::uint32_t>(listen.integer("max_connections", 1, 1'000'000, 10000));
  options.connect_timeout = upstream.duration("connect_timeout", 1ms, 10min, 5s);
  options.threads = read_threads(file);
  read_tls(listen.section("tls"));
  return options;
}

/// Members of one set may be named differently; a set without a common member is another one.
void warn_of_other_servers(const std::vector<net::Route>& routes,
                           const std::vector<net::Endpoint>& hosts, std::string_view key,
                           Reader& store) {
  const auto is_upstream = [&](const net::Endpoint& host) {
    return std::ranges::any_of(
        routes, [&](const net::Route& route) { return route.upstream.text() == host.text(); });
  };
  if (std::ranges::any_of(hosts, is_upstream)) return;
  store.warning(key,
                "names none of the servers of upstream.uri: the store must be of the same replica "
                "set, since views, indexes and the largest numbers in use are looked for there");
}

/// The store's own connection string, or nothing. The key that holds it is the one that its faults
/// are shown at.
std::optional<std::string> read_store_uri(const Servers& servers, Reader& store) {
  const auto in_file = read_named_file("uri_file", Access::secret, store);
  const auto here = store.optional_text("uri");
  if (here && store.optional_text("uri_file")) {
    store.error("uri_file", "cannot be set beside uri: only one of them");
    return std::nullopt;
  }
  const std::string_view key = here ? "uri" : "uri_file";
  const auto& text = here ? here : in_file;
  if (!text) return std::nullopt;
  const auto uri = parse_connection_string(*text, key, store);
  if (!uri) return std::nullopt;
  // Its hosts would be looked up at the start, which then waits for the DNS and can fail.
  if (uri->srv) {
    store.error(key, "mongodb+srv is not in this release: name the hosts in a mongodb:// string");
  }
  const bool refused = refuse_own_listeners(servers.own, uri->hosts, key, store);
  const bool same_set = !uri->replica_set.empty() && uri->replica_set == servers.replica_set;
  if (!refused && !uri->srv && !servers.srv && !same_set) {
    warn_of_other_servers(servers.routes, uri->hosts, key, store);
  }
  return text;
}

void read_write_concern(Reader& store) {
  constexpr std::string_view kMajority = "majority";
  if (store.text("write_concern", kMajority) == kMajority) return;
  store.error("write_concern",
              "must be majority: what fewer servers have can be undone by a failover, and the same "
              "ids would be given out again");
}

std::string read_store_db(Reader& store) {
  std::string fallback = id_store::Options().db;
  std::string db = store.text("db", fallback);
  std::string fault = fault_of_database(db);
  if (db == "admin" || db == "config" || db == "local") {
    fault = "must not be '" + db + "', which belongs to the server";
  }
  if (fault.empty()) return db;
  store.error("db", fault);
  return fallback;
}

id_store::Options read_id_store(const Servers& servers, Reader& upstream, Reader& store) {
  id_store::Options options;
  const auto uri = read_store_uri(servers, store);
  if (uri && servers.has_user) {
    upstream.warning("uri",
                     "user and password are not used: clients authenticate themselves, and the id "
                     "store has a connection string of its own");
  }
  options.uri = uri.value_or(servers.uri);
  read_write_concern(store);
  options.wtimeout = store.duration("wtimeout", 1ms, 1h, options.wtimeout);
  options.db = read_store_db(store);
  return options;
}

void read_admin(Reader& admin, const Servers& servers, Reader& members) {
  constexpr std::string_view kDefault = "127.0.0.1:9216";
  auto listen = admin.optional_text("listen");
  if (!admin.given("listen")) listen = kDefault;
  if (!listen) return;
  const auto endpoint = parse_address_and_port(*listen);
  if (!endpoint) {
    admin.error("listen",
                "must be an IP address and a port, as in 127.0.0.1:9216 or [::1]:9216, "
                "or null, is '" +
                    shown(*listen) + "'");
    return;
  }
  refuse_pins_at(*endpoint, "admin.listen", servers, members);
  admin.no_effect_yet("listen", *listen != kDefault);
}

void read_limits(Reader& limits) {
  const std::int64_t buffered = 256 * kMiB;
  limits.no_effect_yet("buffered_messages",
                       limits.size("buffered_messages", kMiB, kTiB, buffered) != buffered);
  const auto wait = [&](std::string_view key, std::chrono::milliseconds fallback) {
    limits.no_effect_yet(key, limits.duration(key, 100ms, 1h, fallback) != fallback);
  };
  wait("first_byte", 10s);
  wait("tls_handshake", 10s);
  wait("message", 30s);
  limits.no_effect_yet("drain", limits.duration("drain", 0ms, 1h, 25s) != 25s);
}

log::Options read_log(Reader& reader) {
  using log::Format;
  using log::Level;
  constexpr Level kLevels[] = {Level::info, Level::debug, Level::warning, Level::error};
  constexpr Format kFormats[] = {Format::automatic, Format::text, Format::json};
  log::Options options;
  options.level = kLevels[reader.choice("level", {"info", "debug", "warning", "error"})];
  options.format = kFormats[reader.choice("format", {"auto", "text", "json"})];
  return options;
}

Config read_file(Reader& file, ids::Sources sources, const std::string& seed_list) {
  Config config;
  Reader& listen = file.section("listen");
  const Servers servers = read_servers(listen, file.section("upstream"), seed_list);
  if (servers.srv) config.srv_uri = servers.uri;
  config.net = read_net(file, servers);
  config.id_store = read_id_store(servers, file.section("upstream"), file.section("id_store"));
  read_admin(file.section("admin"), servers, listen.section("members"));
  read_limits(file.section("limits"));
  config.log = read_log(file.section("log"));
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
  return std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Finding::Severity::error;
  });
}

Loaded parse(const std::string& text, ids::Sources sources, const std::string& seed_list) {
  Findings findings;
  Loaded loaded;
  auto root = parse_tree(text, findings);
  if (root && is_usable_root(*root, findings)) {
    substitute_environment(*root, findings);
    const bool empty = root->kind == TreeNode::Kind::null;
    Reader file(empty ? nullptr : &*root, "", {}, findings);
    loaded.config = read_file(file, sources, seed_list);
  }
  loaded.findings = std::move(findings).in_file_order();
  return loaded;
}

std::string format(const std::string& file, const Finding& finding) {
  const bool is_error = finding.severity == Finding::Severity::error;
  std::string text = file;
  if (finding.line > 0) {
    text += ":" + std::to_string(finding.line) + ":" + std::to_string(finding.column);
  }
  return text + (is_error ? ": error: " : ": warning: ") + finding.message;
}

}  // namespace idproxy::config
