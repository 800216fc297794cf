#include "idproxy/id_store/server_hello.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "id_store/library.hpp"
#include "idproxy/base/finding.hpp"
#include "idproxy/base/owned.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/threads/threads.hpp"

namespace idproxy::id_store {
namespace {

constexpr std::chrono::seconds kAcceptsWithin{1};

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

WallTime now() {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

/// The parts of a connection string that a connection to one of its servers needs.
struct StringParts {
  std::vector<std::string> hosts;
  std::string tls_options;  // "tls=true&tlsCAFile=…"
};

template <class Use>
void split(std::string_view text, char separator, const Use& use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// mongodb://[user:password@]host,…[/[db][?option&…]]
StringParts parts_of(std::string_view uri) {
  StringParts parts;
  uri.remove_prefix(std::string_view("mongodb://").size());
  const std::size_t slash = std::min(uri.find('/'), uri.size());
  std::string_view hosts = uri.substr(0, slash);
  hosts.remove_prefix(hosts.rfind('@') + 1);  // 0 without one
  split(hosts, ',', [&](std::string_view host) { parts.hosts.emplace_back(host); });
  const std::size_t options = std::min(uri.find('?', slash), uri.size());
  split(uri.substr(std::min(options + 1, uri.size())), '&', [&](std::string_view option) {
    const std::string name = ascii_lower(option);
    if (name.starts_with("tls") || name.starts_with("ssl")) {
      parts.tls_options.append("&").append(option);
    }
  });
  return parts;
}

void read_members(const bson::Element& list, ServerHello& server) {
  for (const bson::Element& name : bson::Elements(list.value)) {
    if (name.type == bson::Type::string) server.members.push_back(ascii_lower(name.text()));
  }
}

/// `server`: with what else the reply says.
std::string state_of(Bytes reply, const ServerHello& server) {
  const auto has = [reply](std::string_view key) { return bson::is_true(reply, key); };
  if (server.is_mongos) return "mongos";
  if (has("isreplicaset")) return kWithoutSet;
  if (server.set_name.empty()) return "standalone";
  // "ismaster" answers those who asked with the old name of hello.
  if (has("isWritablePrimary") || has("ismaster")) {
    return "primary";
  }
  if (has("secondary")) return "secondary";
  return has("arbiterOnly") ? "arbiter" : "between states";
}

/// The server read its clock at some moment between these two of this host.
std::optional<std::chrono::milliseconds> clock_ahead(Bytes reply, WallTime before, WallTime after) {
  using std::chrono::milliseconds;
  const auto said = bson::find(reply, "localTime");
  if (!said || said->type != bson::Type::date) return std::nullopt;
  const WallTime its(milliseconds(load_i64(said->value.data())));
  if (its < before) return its - before;
  return its > after ? its - after : milliseconds(0);
}

void read(Bytes reply, ServerHello& server) {
  for (const bson::Element& field : bson::Elements(reply)) {
    const bool is_text = field.type == bson::Type::string;
    const bool lists = field.key == "hosts" || field.key == "passives" || field.key == "arbiters";
    if (lists && field.type == bson::Type::array) read_members(field, server);
    if (is_text && field.key == "setName") server.set_name = field.text();
    if (is_text && field.key == "me") server.me = ascii_lower(field.text());
    if (is_text && field.key == "primary") server.primary = ascii_lower(field.text());
    if (field.key == "maxWireVersion") {
      server.wire_version = static_cast<std::int32_t>(field.as_integer().value_or(0));
    }
    if (is_text && field.key == "msg") server.is_mongos = field.text() == "isdbgrid";
    if (field.key != "topologyVersion" || field.type != bson::Type::document) continue;
    const auto process = bson::find(field.value, "processId");
    if (process) server.process_id = as_text(process->value);
  }
  server.state = state_of(reply, server);
}

/// Servers answer buildInfo without a login (observed, 4.4 to 6.0).
std::string version_of(mongoc_client_t* client) {
  bson_t* command = bson_new();  // its alignment attribute forbids a unique_ptr
  bson_append_int32(command, "buildInfo", -1, 1);
  bson_t reply;
  std::string version;
  if (mongoc_client_command_simple(client, "admin", command, nullptr, &reply, nullptr)) {
    const auto said = bson::find({bson_get_data(&reply), reply.len}, "version");
    if (said && said->type == bson::Type::string) {
      version = server_release::version_in(said->text());
    }
  }
  bson_destroy(&reply);
  bson_destroy(command);
  return version;
}

std::string uri_of(std::string_view host, std::string_view tls_options,
                   std::chrono::milliseconds limit) {
  const std::string number = std::to_string(limit.count());
  return "mongodb://" + std::string(host) +
         "/?directConnection=true&serverSelectionTryOnce=true&connectTimeoutMS=" + number +
         "&serverSelectionTimeoutMS=" + number + std::string(tls_options);
}

/// Whether it does with TLS what it does not do without: it answers.
bool answers_with_tls(std::string_view host, std::chrono::milliseconds limit) {
  const std::string uri = uri_of(host, "&tls=true&tlsInsecure=true", limit);
  const Owned<mongoc_client_t, mongoc_client_destroy> client(mongoc_client_new(uri.c_str()));
  bson_error_t error{};
  const Owned<mongoc_server_description_t, mongoc_server_description_destroy> found(
      client ? mongoc_client_select_server(client.get(), false, nullptr, &error) : nullptr);
  return found != nullptr;
}

using Places = Owned<addrinfo, ::freeaddrinfo>;

/// "host:port", or a host alone. Blocks for as long as the name service takes.
Places places_of(const std::string& address) {
  const auto parts = split_host_port(address);
  const std::string host = parts ? parts->host : address;
  const std::string port = parts ? std::to_string(parts->port) : std::string();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), parts ? port.c_str() : nullptr, &hints, &found);
  return Places(fault == 0 ? found : nullptr);
}

/// True if a connection to "host:port" can be made within the time.
bool accepts(const std::string& address, std::chrono::milliseconds limit) {
  const Places places = places_of(address);
  for (const addrinfo* each = places.get(); each != nullptr; each = each->ai_next) {
    const Owned<mongoc_socket_t, mongoc_socket_destroy> socket(
        mongoc_socket_new(each->ai_family, SOCK_STREAM, 0));
    const std::int64_t until = bson_get_monotonic_time() + limit.count() * 1000;
    const bool is_made =
        socket && mongoc_socket_connect(socket.get(), each->ai_addr, each->ai_addrlen, until) == 0;
    if (is_made) return true;
  }
  return false;
}

/// Why a server has not answered a hello. One that wants TLS closes the connection.
void explain(ServerHello& server, std::string_view host, const StringParts& parts,
             std::chrono::milliseconds limit) {
  const auto has = [&](std::string_view part) {
    return server.fault.find(part) != std::string::npos;
  };
  if (parts.tls_options.empty() && (has("closed") || has("socket error"))) {
    server.wants_tls = answers_with_tls(host, limit);
  }
  if (server.wants_tls) {
    server.fault =
        "the server takes only connections with TLS: add tls=true to the connection string, and "
        "tlsCAFile=FILE unless this host trusts its authority";
  }
  server.is_silent = !server.wants_tls && has("timeout") && accepts(server.address, kAcceptsWithin);
}

/// Without a pool, libmongoc asks in this thread.
ServerHello ask(std::string_view host, const StringParts& parts, std::chrono::milliseconds limit) {
  const std::string uri = uri_of(host, parts.tls_options, limit);
  ServerHello server;
  server.address = host;
  const Owned<mongoc_client_t, mongoc_client_destroy> client(mongoc_client_new(uri.c_str()));
  if (!client) {
    server.fault = "no connection is possible";
    return server;
  }
  server.address = static_cast<const char*>(
      mongoc_uri_get_hosts(mongoc_client_get_uri(client.get()))->host_and_port);
  bson_error_t error{};
  mongo::last_refusal().clear();
  const WallTime before = now();
  const Owned<mongoc_server_description_t, mongoc_server_description_destroy> found(
      mongoc_client_select_server(client.get(), false, nullptr, &error));
  if (!found) {
    const std::string& refusal = mongo::last_refusal();
    server.fault = refusal.empty() ? static_cast<const char*>(error.message) : refusal;
    explain(server, host, parts, limit);
    return server;
  }
  const bson_t* reply = mongoc_server_description_hello_response(found.get());
  const Bytes said(bson_get_data(reply), reply->len);
  if (bson::find_integer(said, "ok") != 1) {
    const auto why = bson::find(said, "errmsg", bson::Type::string);
    server.fault = why ? why->text() : "the server refuses hello";
    return server;
  }
  read(said, server);
  server.clock_ahead = clock_ahead(said, before, now());
  server.version = version_of(client.get());
  return server;
}

/// What the threads share that look up the names of some servers; some may outlive whoever waits.
struct LookUps {
  std::mutex mutex;  // guards the others
  std::condition_variable changed;
  std::vector<std::string> waiting;  // the hosts of which nothing has been told yet
  bool told_one = false;

  void end(const std::string& host, bool is_told) {
    const std::scoped_lock lock(mutex);
    std::erase(waiting, host);
    told_one = told_one || is_told;
    changed.notify_one();
  }
};

/// What the threads of one question share; some may outlive whoever waits.
struct Asked {
  explicit Asked(StringParts its) : parts(std::move(its)), missing(parts.hosts.size()) {}

  void add(std::size_t place, ServerHello hello) {
    const std::scoped_lock lock(mutex);
    said[place] = std::move(hello);
    if (--missing == 0) complete.notify_one();
  }

  const StringParts parts;
  std::mutex mutex;  // guards the others
  std::condition_variable complete;
  std::vector<ServerHello> said;
  std::size_t missing;
};

/// The name service and a TLS handshake can take longer than libmongoc is told.
constexpr std::chrono::milliseconds kBeyondLimit{500};

std::vector<ServerHello> ask_all(const StringParts& parts, std::chrono::milliseconds limit) {
  const auto asked = std::make_shared<Asked>(parts);
  for (const std::string& host : asked->parts.hosts) {
    asked->said.push_back({.address = host, .fault = "no answer in time"});
  }
  for (std::size_t i = 0; i < parts.hosts.size(); ++i) {
    std::thread thread;
    const bool asks = threads::start(thread, [asked, i, limit] {
      asked->add(i, ask(asked->parts.hosts[i], asked->parts, limit));
    });
    if (asks) {
      thread.detach();
    } else {
      asked->add(i, {.address = parts.hosts[i], .fault = threads::kRefused});
    }
  }
  std::unique_lock lock(asked->mutex);
  asked->complete.wait_for(lock, limit + kBeyondLimit, [&] { return asked->missing == 0; });
  return asked->said;
}

bool have_one_in_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(
      a, [&](const std::string& each) { return std::ranges::find(b, each) != b.end(); });
}

}  // namespace

std::vector<ServerHello> ask_each(const std::string& uri, std::chrono::milliseconds limit) {
  mongo::open_library();
  return ask_all(parts_of(uri), limit);
}

std::vector<ServerHello> ask_each_and_members(const std::string& uri,
                                              std::chrono::milliseconds limit,
                                              std::chrono::milliseconds of_members) {
  mongo::open_library();
  StringParts parts = parts_of(uri);
  std::vector<ServerHello> said = ask_all(parts, limit);
  std::set<std::string> asked;
  for (const ServerHello& each : said) asked.insert(ascii_lower(each.address));
  parts.hosts.clear();
  for (const ServerHello& each : said) {
    for (const std::string& member : each.members) {
      if (asked.insert(member).second) parts.hosts.push_back(member);
    }
  }
  std::ranges::move(ask_all(parts, of_members), std::back_inserter(said));
  return said;
}

std::string names_not_told(const std::string& uri, std::chrono::milliseconds limit) {
  const auto look_ups = std::make_shared<LookUps>();
  const std::vector<std::string> hosts = parts_of(uri).hosts;
  look_ups->waiting = hosts;
  for (const std::string& host : hosts) {
    const auto look_up = [look_ups, host] { look_ups->end(host, places_of(host) != nullptr); };
    std::thread thread;
    if (threads::start(thread, look_up)) {
      thread.detach();
    } else {
      look_ups->end(host, true);  // nothing is known of the name
    }
  }
  std::unique_lock lock(look_ups->mutex);
  const auto has_ended = [&] { return look_ups->told_one || look_ups->waiting.empty(); };
  if (look_ups->changed.wait_for(lock, limit, has_ended)) return {};
  const std::vector<std::string_view> silent(look_ups->waiting.begin(), look_ups->waiting.end());
  return "the name service has not told the address of " + listed(silent, " or ") + " within " +
         duration_text(limit);
}

std::string replica_set_of(const std::string& uri) {
  const mongo::Uri parsed(mongoc_uri_new(uri.c_str()));
  const char* name = parsed ? mongoc_uri_get_replica_set(parsed.get()) : nullptr;
  return name != nullptr ? name : "";
}

std::string set_name_fault(const ServerHello& server, const std::string& expected,
                           const std::string& uri_key) {
  if (!server.fault.empty() || expected.empty() || server.set_name == expected) return {};
  if (server.state == kWithoutSet) return server.address + ": " + std::string(kNotInitiated);
  return server.address + " " + fault_of_set(server.set_name, expected, uri_key);
}

bool may_be_of_one_deployment(const ServerHello& a, const ServerHello& b) {
  if (!a.fault.empty() || !b.fault.empty() || a.is_mongos || b.is_mongos) return true;
  if (a.set_name != b.set_name) return false;
  if (!a.set_name.empty()) return have_one_in_common(a.members, b.members);
  return a.process_id.empty() || b.process_id.empty() || a.process_id == b.process_id;
}

}  // namespace idproxy::id_store
