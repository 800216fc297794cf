#include "app/doctor/servers_check.hpp"

#include <mongoc/mongoc.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "app/jobs/store_fault.hpp"
#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "idproxy/base/owned.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::ServerHello;
using jobs::answers;

// Below, the time that a message takes may be all of the difference.
constexpr std::chrono::milliseconds kLeastSkew = 2s;
// More than that, certificates' dates and logs are wrong, too.
constexpr std::chrono::milliseconds kLargeSkew = 60s;

/// Values of the rule have the time in them.
bool has_time(const rewrite::Rule& rule) {
  const ids::SequenceOptions& sequences = rule.strategy->about().sequences;
  if (sequences.reset != ids::Reset::none || sequences.text) return true;
  const auto version = rule.definition.find("version");
  const bool is_random = version != rule.definition.end() && version->second == "4";
  const std::string& name = rule.strategy_name;
  return name == "objectid" || name == "ulid" || name == "snowflake" ||
         (name == "uuid" && !is_random);
}

/// The rule's numbers are only as safe as the servers' majority.
bool needs_majority(const rewrite::Rule& rule) {
  const ids::RuleSource::About& about = rule.strategy->about();
  return about.counter || about.ranges || about.gapless || about.lease || rule.reserve;
}

bool is_member(const ServerHello& server) {
  return answers(server) && !server.set_name.empty();
}

/// Without a port, all of it is the host.
HostPort parts_of(const std::string& address) {
  return split_host_port(address).value_or(HostPort{.host = address});
}

/// The reason in libmongoc's "No suitable servers found (…): [connection refused calling hello on
/// 'db1:27017']".
std::string reason_in(const std::string& fault) {
  const std::size_t begin = fault.find('[');
  const std::size_t end = fault.rfind(']');
  const bool has_one = begin != std::string::npos && end != std::string::npos && begin < end;
  return has_one ? fault.substr(begin + 1, end - begin - 1) : fault;
}

/// For openssl: the file of authorities, if the connection string names one.
std::vector<std::string> ca_option(const std::string& uri) {
  const Owned<mongoc_uri_t, mongoc_uri_destroy> parsed(mongoc_uri_new(uri.c_str()));
  const char* file =
      parsed ? mongoc_uri_get_option_as_utf8(parsed.get(), MONGOC_URI_TLSCAFILE, nullptr) : nullptr;
  if (file == nullptr) return {};
  return {"-CAfile", file};
}

/// Collects the findings about the servers of one configuration.
class ServersCheck {
 public:
  ServersCheck(const config::Config& config, const std::string& uri, const ServersSaid& said,
               const std::string& file)
      : config_(config), uri_(uri), said_(said), file_(file) {}

  DoctorCheck run() {
    look("upstream.uri", uri_, said_.upstream);
    if (!said_.store.empty()) look(config_.id_store.uri_key, config_.id_store.uri, said_.store);
    if (!said_.store.empty()) store_elsewhere();
    releases();
    limits();
    unlisted();
    standalone();
    clocks();
    check_.what = summary();
    return std::move(check_);
  }

 private:
  void look(const std::string& key, const std::string& uri, const std::vector<ServerHello>& all) {
    const std::string expected = id_store::replica_set_of(uri);
    for (const ServerHello& each : all) {
      const bool is_new = seen_.insert(each.address).second;
      if (!answers(each)) {
        if (is_new) unreachable(each, uri);
        continue;
      }
      if (!id_store::set_name_fault(each, expected, key).empty()) set_name(key, each, expected);
      if (is_new) state(each);
    }
    primary(key, all);
  }

  void unreachable(const ServerHello& server, const std::string& uri) {
    const std::string reason = reason_in(server.fault);
    if (server.wants_tls) {
      return check_.add(finding::kServerTlsFails, server.address, reason,
                        Commands().shell({"sudoedit", as_path(file_)}));
    }
    const auto has = [&](std::string_view part) { return reason.find(part) != std::string::npos; };
    const std::string host = parts_of(server.address).host;
    const bool is_host = is_host_name(host);
    Commands commands;
    if (has("Failed to resolve")) {
      if (is_host) commands.shell({"getent", "hosts", host});
      return check_.add(
          server_name_unknown(server.address, "this host knows no address of " + host +
                                                  ": correct the name, or the name service"),
          commands);
    }
    if (has("TLS") || has("SSL") || has("certificate")) {
      // A handshake that succeeds would wait for the keyboard.
      std::vector<std::string> words{"timeout",  "5",        "openssl",
                                     "s_client", "-connect", server.address};
      for (std::string& each : ca_option(uri)) words.push_back(std::move(each));
      words.insert(words.end(), {"-verify_return_error", "-brief"});
      if (is_host) commands.shell(std::move(words));
      return check_.add(finding::kServerTlsFails, server.address, "TLS fails: " + reason,
                        std::move(commands));
    }
    if (server.is_silent) {
      if (is_host) {
        commands
            .shell({"ssh", "--", host, "ps", "-C", "mongod", "-o", "pid,stat,wchan:20,etime,args"})
            .shell({"ssh", "--", host, "uptime"});
      }
      return check_.add(
          finding::kServerSilent, server.address,
          "the server accepts connections, and does not answer: somebody has stopped "
          "its process (stat T; kill -CONT lets it go on), it waits for its disk (stat "
          "D), or its host is overloaded",
          std::move(commands));
    }
    if (is_host) {
      commands.shell({"nc", "-vz", "-w", "3", host, std::to_string(parts_of(server.address).port)})
          .shell({"ssh", "--", host, "systemctl", "status", "mongod"});
    }
    const bool is_closed = has("closed") || has("socket error");
    const char* hint = is_closed ? " (it may require TLS: tls=true; or be no MongoDB server)" : "";
    check_.add(server_unreachable(server.address, reason + hint), commands);
  }

  void set_name(const std::string& key, const ServerHello& server, const std::string& expected) {
    if (!reported_sets_.insert(key).second) return;  // all members say the same
    const bool is_upstream = key == "upstream.uri";
    const idproxy::Place& place =
        is_upstream ? config_.written.upstream_uri_place : config_.written.store_uri_place;
    const std::string line = "line " + std::to_string(place.line) + " of " + file_;
    Commands commands;
    commands.shell({"sudoedit", as_path(file_)}).append(check_connect(file_));
    const std::string fault = server.state == id_store::kWithoutSet
                                  ? std::string(kNotInitiated)
                                  : "it " + fault_of_set(server.set_name, expected, key);
    Finding found = set_name_differs(server.address, fault);
    found.subject = key;
    found.remedy = {};  // which line, and how to change it
    found.what.text +=
        key.ends_with("_file") ? ", in the file that " + line + " names" : ", in " + line;
    check_.add(std::move(found), commands);
  }

  void state(const ServerHello& server) {
    if (server.wire_version > 0 && server.wire_version < server_release::k4_4) {
      check_.add(finding::kServerTooOld, server.address,
                 "the server is " + server_release::name_of(server.wire_version, server.version) +
                     ", and the proxy needs 4.4 or later",
                 Commands().mongosh("db.version()"));
    }
    if (server.state == id_store::kWithoutSet) {
      check_.add(state::set_not_initiated(server.address), {});
    } else if (server.state == "between states") {
      check_.add(
          finding::kMemberNotReady, server.address,
          "the member is neither primary nor secondary: it starts up, recovers, or was "
          "removed from its set",
          Commands().mongosh("rs.status().members.map(m => [m.name, m.stateStr, m.infoMessage])"));
    }
  }

  void primary(const std::string& key, const std::vector<ServerHello>& all) {
    const bool is_direct = key == "upstream.uri" && !config_.net.map_members;
    const auto is_primary = [&](const ServerHello& each) {
      const bool knows_one = !is_direct && !each.primary.empty();
      return answers(each) && (each.state == "primary" || knows_one || each.is_mongos);
    };
    const auto member = std::ranges::find_if(all, is_member);
    if (member == all.end() || std::ranges::any_of(all, is_primary)) return;
    if (is_direct && config_.rules.empty()) return;
    if (!reported_primaries_.insert(member->set_name).second) return;
    const auto found = is_direct ? state::primary_not_named : state::primary_missing;
    check_.add(found(member->set_name), {});
  }

  void store_elsewhere() {
    const std::string fault =
        jobs::store_fault(said_.upstream, said_.store, config_.id_store.uri_key);
    if (fault.empty()) return;
    check_.add(finding::kStoreElsewhere, config_.id_store.uri_key, fault, check_connect(file_));
  }

  void releases() {
    std::set<std::string> series;
    std::string each_one;
    for (const ServerHello& each : said_.upstream) {
      if (!is_member(each) || each.version.empty()) continue;
      series.emplace(server_release::series_of(each.version));
      if (!each_one.empty()) each_one += ", ";
      each_one.append(each.address).append(" ").append(each.version);
    }
    if (series.size() < 2) return;
    check_.add(finding::kServerReleasesDiffer, "upstream.uri",
               "the members have different releases, and what only the newer one can do may come "
               "and go with an election: " +
                   each_one,
               Commands().mongosh("db.version()"));
  }

  /// What rules cannot have with the oldest server.
  void limits() {
    const std::int32_t oldest = state::oldest_of(said_.upstream);
    const auto server = std::ranges::find(said_.upstream, oldest, &ServerHello::wire_version);
    for (const auto& [limit, rules] : state::rules_by_limit(config_.rules, oldest)) {
      check_.add(state::server_lacks(server->address, oldest, limit, rules.text()), {});
    }
  }

  /// Members that get a listener only once a reply names them.
  void unlisted() {
    if (!config_.net.map_members) return;
    std::set<std::string> members;
    std::string set_name;
    for (const ServerHello& each : said_.upstream) {
      if (!is_member(each)) continue;
      set_name = each.set_name;
      members.insert(each.members.begin(), each.members.end());
    }
    for (const ServerHello& each : said_.upstream) members.erase(ascii_lower(each.address));
    for (const std::string& member : members) {
      if (config_.net.pins.contains(member)) continue;
      std::string text = member;
      text.append(" is a member of ")
          .append(named(set_name))
          .append(
              ", and upstream.uri does not name it: its listener gets a port when a reply names "
              "it, which may be another one after a restart. Name it in upstream.uri or in "
              "listen.members");
      check_.add(finding::kMemberUnlisted, member, std::move(text),
                 Commands().mongosh("rs.conf().members.map(m => m.host)"));
    }
  }

  void standalone() {
    if (std::ranges::none_of(config_.rules, needs_majority)) return;
    const auto alone = std::ranges::find(said_.upstream, "standalone", &ServerHello::state);
    if (alone == said_.upstream.end()) return;
    const std::string host = parts_of(alone->address).host;
    const bool is_local = host == "localhost" || host.starts_with("127.");
    std::vector<std::string> look{"grep", "-A1", "replication:", "/etc/mongod.conf"};
    if (!is_local) look.insert(look.begin(), {"ssh", "--", host});
    Commands commands;
    if (is_local || is_host_name(host)) commands.shell(std::move(look));
    commands.mongosh("rs.initiate()");
    check_.add(finding::kStandaloneServer, alone->address,
               "counters are written with a majority, which is this server alone: if it loses its "
               "last writes, or a backup is restored, numbers can be given out twice. A replica "
               "set of one member also allows transactions and retryable writes: its configuration "
               "has replSetName: rs0 below replication:",
               std::move(commands));
  }

  void clocks() {
    const bool matters = std::ranges::any_of(config_.rules, has_time);
    std::set<std::string> told;
    const auto look_at = [&](const ServerHello& each) {
      if (!each.clock_ahead || !told.insert(each.address).second) return;
      const auto skew = *each.clock_ahead;
      if (std::chrono::abs(skew) < (matters ? kLeastSkew : kLargeSkew)) return;
      Commands commands;
      commands.shell({"timedatectl", "status"}).shell({"sudo", "timedatectl", "set-ntp", "true"});
      const std::string host = parts_of(each.address).host;
      if (is_host_name(host)) commands.shell({"ssh", "--", host, "timedatectl", "status"});
      check_.add(finding::kClockSkew, each.address,
                 "its clock is " + seconds_text(std::chrono::abs(skew)) +
                     (skew.count() > 0 ? " ahead of" : " behind") + " this host's: " +
                     (matters ? "values with a time in them, and periods, do not fit the data"
                              : "logs and certificates' dates do not fit"),
                 std::move(commands));
    };
    std::ranges::for_each(said_.upstream, look_at);
    std::ranges::for_each(said_.store, look_at);
  }

  std::string summary() const {
    std::string text;
    std::set<std::string> named;
    for (const auto* all : {&said_.upstream, &said_.store}) {
      for (const ServerHello& each : *all) {
        if (!named.insert(each.address).second) continue;
        text += (text.empty() ? "" : ", ") + each.address;
        text += answers(each) ? " " + each.state : " no answer";
        if (!each.version.empty()) text += " " + each.version;
      }
    }
    return text;
  }

  const config::Config& config_;
  const std::string& uri_;
  const ServersSaid& said_;
  const std::string& file_;
  DoctorCheck check_{"servers"};
  std::set<std::string> seen_;  // addresses
  std::set<std::string> reported_sets_;
  std::set<std::string> reported_primaries_;
};

}  // namespace

DoctorCheck check_servers(const config::Config& config, const std::string& upstream_uri,
                          const ServersSaid& said, const std::string& file) {
  return ServersCheck(config, upstream_uri, said, file).run();
}

Finding server_name_unknown(std::string subject, std::string what) {
  return {finding::kServerNameUnknown, std::move(subject), {std::move(what)}};
}

}  // namespace idproxy::app::doctor
