#include "app/server_check.hpp"

#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::app {
namespace {

using id_store::ServerHello;

constexpr std::int32_t kConnectMs = 3000;

struct DestroyUri {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
struct DestroyClient {
  void operator()(mongoc_client_t* client) const { mongoc_client_destroy(client); }
};
struct DestroyPreferences {
  void operator()(mongoc_read_prefs_t* preferences) const {
    mongoc_read_prefs_destroy(preferences);
  }
};
struct DestroyServer {
  void operator()(mongoc_server_description_t* server) const {
    mongoc_server_description_destroy(server);
  }
};

/// The state in the words of the proxy's status; libmongoc's names are those of the drivers'
/// specification.
std::string state_of(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kStates{
      {{"RSPrimary", "primary"},
       {"RSSecondary", "secondary"},
       {"RSArbiter", "arbiter"},
       {"Standalone", "standalone"},
       {"Mongos", "mongos"}}};
  for (const auto& [name, state] : kStates) {
    if (type == name) return std::string(state);
  }
  return type == "Unknown" ? "" : "answers";
}

/// "a member of the replica set rs0"
std::string set_of(const ServerHello& server) {
  if (server.set_name.empty()) return "a member of no replica set";
  std::string members;
  for (const std::string& each : server.members) members += (members.empty() ? "" : ",") + each;
  return "a member of the replica set " + server.set_name + " (" + members + ")";
}

std::int32_t wire_version_of(const mongoc_server_description_t* server) {
  const bson_t* reply = mongoc_server_description_hello_response(server);
  const auto said = bson::find({bson_get_data(reply), reply->len}, "maxWireVersion");
  return said ? static_cast<std::int32_t>(said->as_integer().value_or(0)) : 0;
}

/// Those that have answered buildInfo say it exactly.
void add_versions(const std::vector<ServerHello>& each, ServerCheck& check) {
  for (const ServerHello& server : each) {
    const auto row =
        std::ranges::find(check.servers, server.address, &ServerCheck::Server::address);
    if (row == check.servers.end() || server.version.empty()) continue;
    row->version = "MongoDB " + server.version;
  }
}

/// libmongoc lists only servers that answered; those of the string must be there too.
std::vector<ServerCheck::Server> servers_of(const mongoc_client_t* client) {
  std::vector<ServerCheck::Server> servers;
  std::size_t count = 0;
  mongoc_server_description_t** all = mongoc_client_get_server_descriptions(client, &count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* host = mongoc_server_description_host(all[i]);
    servers.push_back({static_cast<const char*>(host->host_and_port),
                       state_of(mongoc_server_description_type(all[i])),
                       server_release::name_of(wire_version_of(all[i]))});
  }
  mongoc_server_descriptions_destroy_all(all, count);
  const auto* host = mongoc_uri_get_hosts(mongoc_client_get_uri(client));
  for (; host != nullptr; host = host->next) {
    const std::string address = static_cast<const char*>(host->host_and_port);
    const bool is_listed =
        std::ranges::find(servers, address, &ServerCheck::Server::address) != servers.end();
    if (!is_listed) servers.push_back({address, "", ""});
  }
  return servers;
}

/// libmongoc ignores servers of another set than the string names, as if they did not answer.
void add_faults_of_set(const std::string& uri, const std::vector<ServerHello>& each,
                       ServerCheck& check) {
  const std::string expected = id_store::replica_set_of(uri);
  std::string first;
  for (const ServerHello& server : each) {
    const std::string fault = id_store::set_name_fault(server, expected, "upstream.uri");
    if (fault.empty()) continue;
    const auto row =
        std::ranges::find(check.servers, server.address, &ServerCheck::Server::address);
    if (row != check.servers.end()) row->state = set_of(server);
    if (first.empty()) first = fault;
  }
  if (!first.empty()) check.fault = first;
}

bool answers(const ServerHello& server) {
  return server.fault.empty();
}

}  // namespace

std::string store_fault(const std::vector<ServerHello>& upstream,
                        const std::vector<ServerHello>& store, const std::string& uri_key) {
  const auto its = std::ranges::find_if(store, answers);
  if (its == store.end() || std::ranges::none_of(upstream, answers)) return {};
  const bool is_there = std::ranges::any_of(upstream, [&](const ServerHello& server) {
    return answers(server) && id_store::may_be_of_one_deployment(server, *its);
  });
  if (is_there) return {};
  const auto other = std::ranges::find_if(upstream, answers);
  return its->address + ", of " + uri_key + ", is " + set_of(*its) + ", and " + other->address +
         ", of upstream.uri, is " + set_of(*other) +
         ": the proxies must coordinate in the servers that have the documents. Name those in " +
         uri_key + ", or remove it";
}

ServerCheck ask_servers(const std::string& uri, const std::vector<ServerHello>& each) {
  mongoc_init();
  mongoc_log_set_handler(nullptr, nullptr);  // its messages may contain secrets
  const std::unique_ptr<mongoc_uri_t, DestroyUri> parsed(mongoc_uri_new(uri.c_str()));
  if (!parsed) std::abort();  // checked by config
  mongoc_uri_set_option_as_int32(parsed.get(), MONGOC_URI_CONNECTTIMEOUTMS, kConnectMs);
  mongoc_uri_set_option_as_int32(parsed.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, kConnectMs);
  bson_error_t error{};
  const std::unique_ptr<mongoc_client_t, DestroyClient> client(
      mongoc_client_new_from_uri_with_error(parsed.get(), &error));
  ServerCheck check;
  if (client) {
    // Any member will do. Without a pool, libmongoc asks all servers once, in this thread.
    const std::unique_ptr<mongoc_read_prefs_t, DestroyPreferences> any(
        mongoc_read_prefs_new(MONGOC_READ_NEAREST));
    const std::unique_ptr<mongoc_server_description_t, DestroyServer> found(
        mongoc_client_select_server(client.get(), false, any.get(), &error));
    check.servers = servers_of(client.get());
    if (!found) check.fault = static_cast<const char*>(error.message);
  }
  add_faults_of_set(uri, each, check);
  add_versions(each, check);
  return check;
}

}  // namespace idproxy::app
