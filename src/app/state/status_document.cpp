#include "app/state/status_document.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "app/json_view.hpp"
#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/state/rule_figures.hpp"
#include "app/state/rules_in_force.hpp"
#include "app/state/servers_log.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::state {
namespace {

namespace json = boost::json;
using Seconds = std::chrono::duration<double>;
using Listener = net::ServerStatistics::Listener;

constexpr std::size_t kMostRules = 100;
constexpr std::size_t kMostCollections = 20;  // of a rule
constexpr std::size_t kMostClients = 50;
constexpr std::size_t kMostOfApplication = 1000;

double seconds(std::chrono::nanoseconds time) {
  return Seconds(time).count();
}

/// BSON has no larger one.
json::value count_or_null(const std::optional<std::uint64_t>& count) {
  if (!count) return {};
  return std::min<std::uint64_t>(*count, std::numeric_limits<std::int64_t>::max());
}

json::value seconds_or_null(const std::optional<std::chrono::nanoseconds>& time) {
  return time ? json::value(seconds(*time)) : json::value();
}

json::value enforced_or_null(rewrite::Logins logins) {
  if (logins == rewrite::Logins::unknown) return {};
  return logins == rewrite::Logins::enforced;
}

/// An array of what `make` makes of each.
template <class All, class Make>
json::array array_of(const All& all, const Make& make) {
  json::array array;
  for (const auto& each : all) array.push_back(make(each));
  return array;
}

/// `current`: later than the last sample.
json::value with_limit(const Peak& peak, std::uint64_t current,
                       std::optional<std::uint64_t> limit) {
  return json::object{{"current", current},
                      {"most", std::max(peak.most, current)},
                      {"most_lately", std::max(peak.most_lately, current)},
                      {"limit", or_null(limit)}};
}

/// Makes the document of a proxy that serves.
class StatusWriter {
 public:
  StatusWriter(const StatusSources& sources, const Snapshot& snapshot, const Recent& recent,
               const StatusQuery& query)
      : sources_(sources), snapshot_(snapshot), recent_(recent), query_(query) {
    const ids::Store* store = snapshot.rules->store();
    if (sources.asked && store != nullptr) not_ready_ = store->not_ready(kMostCollections);
  }

  void add_to(json::object& out, const net::ClientList& clients) const {
    const auto now =
        std::chrono::sys_seconds(std::chrono::floor<std::chrono::seconds>(sources_.now));
    if (sources_.asked) {
      const auto& all = snapshot_.net.listeners;
      const auto found = std::ranges::find(all, *sources_.asked, &Listener::told);
      out["listener"] = json_text(*sources_.asked);
      out["server"] = text_or_null(found == all.end() ? std::string() : found->server);
    }
    out["wrong"] = array_of(findings_of(sources_.phase, snapshot_, now), finding);
    out["configuration"] = configuration();
    out["limits"] = limits();
    out["store"] = store();
    out["requests"] = requests();
    out["servers"] =
        array_of(snapshot_.net.listeners, [&](const Listener& each) { return server(each); });
    out["rules"] = rules();
    out["rules_total"] = snapshot_.rules->rules().size();
    out["clients"] = clients_object(clients);
    out["proxies"] =
        array_of(snapshot_.proxies, [&](const id_store::KnownProxy& each) { return proxy(each); });
    out["history"] = history();
  }

 private:
  static json::value finding(const Finding& finding) {
    return json::object{
        {"level", name_of(finding.kind.level)},         {"text", json_text(finding.what.whole())},
        {"remedy", json_text(finding.remedy.whole())},  {"link", finding.kind.page},
        {"subject", text_or_null(finding.subject)},     {"id", finding.kind.id},
        {"commands", commands_json(finding.commands())}};
  }

  json::value configuration() const {
    const ReloadStatistics& reloads = snapshot_.reloads;
    json::value last;
    if (reloads.last_number() > 0) {
      last = json::object{{"number", reloads.last_number()},
                          {"at", reloads.last_at.count()},
                          {"applied", !snapshot_.last_reload_failed},
                          {"text", json_text(reloads.last_text)},
                          {"findings", array_of(reloads.last_findings, json_text)}};
    }
    return json::object{{"file", json_text(sources_.file)},
                        {"hash", rules_hash(*snapshot_.rules)},
                        {"read", reloads.last_success.count()},
                        {"reloads", json::object{{"succeeded", reloads.succeeded},
                                                 {"failed", reloads.failed},
                                                 {"under_way", reloads.under_way}}},
                        {"last_reload", std::move(last)}};
  }

  json::value limits() const {
    const net::ServerStatistics& net = snapshot_.net;
    const id_store::StoreStatistics& store = snapshot_.store;
    std::uint64_t in_flight = 0;
    for (const Listener& each : net.listeners) in_flight += each.in_flight;
    const std::uint64_t waiting =
        net.buffered_waiting + store.requests_waiting + store.reservations_waiting;
    const auto figure = [&](Recent::Gauge gauge, std::uint64_t current,
                            std::optional<std::uint64_t> limit) {
      return with_limit(recent_.peak(gauge), current, limit);
    };
    return json::object{
        {"clients", figure(Recent::open_clients, net.connections_open, net.connections_limit)},
        {"in_flight", figure(Recent::in_flight, in_flight, std::nullopt)},
        {"waiting", figure(Recent::waiting, waiting, std::nullopt)},
        {"held_bytes", figure(Recent::held_bytes, net.buffered_bytes, net.buffered_limit)}};
  }

  json::value store() const {
    const id_store::StoreStatistics& store = snapshot_.store;
    return json::object{{"up", store.up},
                        {"reason", text_or_null(store.down_reason)},
                        {"round_trips", store.round_trips},
                        {"blocks", store.blocks},
                        {"blocks_dropped", store.blocks_dropped},
                        {"numbers_allocated", store.numbers_allocated},
                        {"numbers_returned", store.numbers_returned},
                        {"heals", store.heals},
                        {"p50", or_null(quantile(store.round_trip, 0.5))},
                        {"p99", or_null(quantile(store.round_trip, 0.99))}};
  }

  /// Since the start.
  json::value requests() const {
    using net::Counted;
    const auto& counted = snapshot_.net.counted;
    return json::object{{"connections", counted[Counted::connections_accepted]},
                        {"inserts", counted[Counted::requests_insert]},
                        {"refused", counted[Counted::requests_refused]},
                        {"documents_refused", counted[Counted::documents_refused]}};
  }

  json::value server(const Listener& server) const {
    json::object out{{"listener", json_text(server.listener)},
                     {"server", json_text(server.server)},
                     {"advertised", json_text(server.told)},
                     {"me", text_or_null(server.me)},
                     {"set", text_or_null(server.set_name)},
                     {"origin", server.is_listed ? "uri" : "member"},
                     {"up", server.up},
                     {"slow", is_slow(server)},
                     {"state", server.state},
                     {"since", ago(server.state_age)},
                     {"release", text_or_null(server.release)},
                     {"logins", enforced_or_null(server.logins)},
                     {"clients", server.connections},
                     {"in_flight", server.in_flight},
                     {"oldest", seconds_or_null(server.oldest)},
                     {"requests", server.requests},
                     {"replies", server.replies},
                     {"bytes_sent", server.bytes_sent},
                     {"bytes_received", server.bytes_received}};
    const auto lately = recent_.reply_time(server.server);
    out["p50"] = lately ? json::value(lately->p50) : or_null(quantile(server.reply_time, 0.5));
    out["p99"] = lately ? json::value(lately->p99) : or_null(quantile(server.reply_time, 0.99));
    out["round_trip"] = seconds_or_null(server.round_trip);
    out["connect_failures"] = server.connect_failures;
    out["last_failure"] = nullptr;
    if (!server.last_failure.empty()) {
      out["last_failure"] =
          json::object{{"reason", json_text(server.last_failure)}, {"at", ago(server.failure_age)}};
    }
    out["fault"] = text_or_null(server.fault);
    return out;
  }

  // ---- rules

  [[nodiscard]] const RunOut::Warning* warning_of(std::size_t rule) const {
    const auto found = std::ranges::find(snapshot_.run_out, rule, &RunOut::Warning::rule_index);
    return found == snapshot_.run_out.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::chrono::nanoseconds end_of(std::size_t rule) const {
    const RunOut::Outlook* outlook = snapshot_.outlook_of(rule);
    return outlook == nullptr ? std::chrono::nanoseconds::max() : outlook->end();
  }

  /// Those that fail, those that end first, then the busiest; a few are in the order of the file.
  [[nodiscard]] std::vector<std::size_t> chosen_rules() const {
    std::vector<std::size_t> chosen(snapshot_.rules->rules().size());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    if (query_.rules == StatusQuery::Rules::failing) {
      std::erase_if(chosen, [&](std::size_t i) {
        return !snapshot_.fails(i) && warning_of(i) == nullptr &&
               snapshot_.unguarded_of(i) == nullptr;
      });
    }
    const bool are_asked_for = query_.rules != StatusQuery::Rules::some;
    if (are_asked_for || chosen.size() <= kMostRules) return chosen;
    const auto rank = [&](std::size_t i) {
      return std::tuple(!snapshot_.fails(i), warning_of(i) == nullptr,
                        snapshot_.unguarded_of(i) == nullptr, end_of(i),
                        ~snapshot_.rules->outcomes(i).assigned.load());
    };
    std::ranges::partial_sort(chosen, chosen.begin() + kMostRules, {}, rank);
    chosen.resize(kMostRules);
    return chosen;
  }

  json::value rules() const {
    const std::vector<RuleFigures> figures = figures_of(snapshot_);
    return array_of(chosen_rules(), [&](std::size_t i) { return rule(i, figures[i]); });
  }

  /// Those that are not 0, by the name of their reason.
  template <class Reason, std::size_t kReasons>
  static json::object reasons(const std::array<rewrite::RuleOutcomes::Counter, kReasons>& counts) {
    json::object out;
    for (std::size_t each = 0; each < kReasons; ++each) {
      const std::uint64_t count = counts[each];
      if (count > 0) out[name_of(static_cast<Reason>(each))] = count;
    }
    return out;
  }

  json::value rule(std::size_t i, const RuleFigures& figures) const {
    const rewrite::Rule& rule = snapshot_.rules->rules()[i];
    const rewrite::RuleOutcomes& outcomes = snapshot_.rules->outcomes(i);
    const auto [waiting, since] = outcomes.waiting.summary();
    json::object out{{"rule", i + rule.nones_before},
                     {"ns", json_text(rule.ns)},
                     {"field", json_text(rule.field)},
                     {"strategy", rule.strategy_name},
                     {"ready", !snapshot_.fails(i)},
                     {"reason", text_or_null(snapshot_.reason_of(i).whole())},
                     {"not_ready_collections", figures.not_ready.value_or(0)},
                     {"unguarded_collections", figures.unguarded.value_or(0)},
                     {"values", outcomes.assigned.load()},
                     {"values_per_second", recent_.values_per_second(i)},
                     {"last_value", nullptr},
                     {"waiting", waiting},
                     {"oldest_waiting",
                      waiting > 0 ? json::value(seconds(sources_.monotonic - since)) : nullptr},
                     {"duplicates", outcomes.resent.load() + outcomes.given_up.load()},
                     {"resent", outcomes.resent.load()},
                     {"given_up", outcomes.given_up.load()},
                     {"cured", outcomes.cured.load()},
                     {"foreign", outcomes.foreign.load()},
                     {"transient", outcomes.transient.load()},
                     {"surfaced", outcomes.surfaced.load()},
                     {"unacknowledged", outcomes.unacknowledged.load()},
                     {"handed_out", outcomes.handed_out.load()},
                     {"refused", outcomes.refused.load()},
                     {"forwarded", reasons<rewrite::ForwardReason>(outcomes.forwarded)},
                     {"taken_away", reasons<rewrite::LossReason>(outcomes.taken_away)},
                     {"driver_made_ids", outcomes.driver_made_logged.load()},
                     {"next", or_null(figures.next)},
                     {"held", or_null(figures.held)},
                     {"left", count_or_null(figures.left)},
                     {"fill", or_null(figures.fill)},
                     {"max_fill", or_null(figures.max_fill)},
                     {"machine", or_null(figures.machine)},
                     {"full_at_hour_rate", nullptr},
                     {"full_at_day_rate", nullptr},
                     {"warning", nullptr}};
    if (const std::int64_t last = outcomes.last_assigned; last != 0) {
      out["last_value"] = ago(sources_.monotonic - std::chrono::nanoseconds(last));
    }
    if (const RunOut::Outlook* outlook = snapshot_.outlook_of(i)) {
      if (outlook->at_hour_rate) out["full_at_hour_rate"] = ago(-*outlook->at_hour_rate);
      if (outlook->at_day_rate) out["full_at_day_rate"] = ago(-*outlook->at_day_rate);
    }
    if (const RunOut::Warning* warning = warning_of(i)) out["warning"] = warning->text();
    if (sources_.asked) add_collections(i, out);
    return out;
  }

  /// At most kMostCollections of each.
  void add_collections(std::size_t i, json::object& rule) const {
    json::array reasons;
    for (const ids::NotReady& each : not_ready_) {
      if (each.rule_index == i) reasons.push_back(reason(each));
    }
    json::array all;
    for (const ids::RuleNumbers& each : snapshot_.numbers) {
      if (each.rule_index == i && all.size() < kMostCollections) all.push_back(numbers(each));
    }
    rule["not_ready"] = std::move(reasons);
    rule["numbers"] = std::move(all);
  }

  static json::value reason(const ids::NotReady& not_ready) {
    const ids::Error& error = not_ready.readiness.error;
    const bool is_left_alone = not_ready.readiness.kind == ids::Readiness::Kind::left_alone;
    return json::object{{"ns", json_text(not_ready.ns)},
                        {"code", is_left_alone ? json::value() : number_of(error.code)},
                        {"reason", json_text(is_left_alone ? kLeftAlone : error.reason)}};
  }
  static json::value number_of(ids::Errc code) {
    return static_cast<std::int32_t>(rewrite::code_of(code));
  }

  static json::value numbers(const ids::RuleNumbers& numbers) {
    json::object out{{"ns", json_text(numbers.ns)}, {"sequence", text_or_null(numbers.sequence)}};
    if (const auto* counter = std::get_if<ids::CounterNumbers>(&numbers.numbers)) {
      out["next"] = or_null(counter->next);
      out["held"] = counter->held;
      out["left"] = count_or_null(counter->left);
      out["reads_collection"] = counter->reads_all;
      if (counter->ranges) {
        out["live_ranges"] = counter->ranges->live;
        out["ranges"] = counter->ranges->all;
      }
    } else if (const auto* space = std::get_if<ids::SpaceUse>(&numbers.numbers)) {
      out["documents"] = or_null(space->documents);
      out["fill"] = space->fill;
      out["max_fill"] = space->max_fill;
    } else if (const auto* machine = std::get_if<ids::MachineNumber>(&numbers.numbers)) {
      out["lease"] = text_or_null(machine->lease);
      out["machine"] = or_null(machine->number);
    }
    return out;
  }

  // ---- clients

  json::value clients_object(const net::ClientList& clients) const {
    using net::Counted;
    const auto& counted = snapshot_.net.counted;
    return json::object{
        {"total", snapshot_.net.connections_open},
        {"matching", clients.matching},
        {"complete", clients.complete},
        {"transactions", snapshot_.net.transactions_open},
        {"oldest_transaction", seconds_or_null(snapshot_.net.oldest_transaction)},
        {"requests_compressed", json::object{{"snappy", counted[Counted::requests_snappy]},
                                             {"zlib", counted[Counted::requests_zlib]},
                                             {"zstd", counted[Counted::requests_zstd]}}},
        {"applications", array_of(clients.applications, application)},
        {"other_applications", other_applications(clients)},
        {"list", array_of(clients.clients, [&](const auto& each) { return client(each); })}};
  }

  static json::object application(const net::ApplicationStatistics& its) {
    return json::object{{"application", text_or_null(its.application)},
                        {"connections", its.connections},
                        {"requests_per_second", its.requests_per_second},
                        {"documents_per_second", its.documents_per_second},
                        {"oldest", seconds_or_null(its.waits)},
                        {"transactions", its.transactions},
                        {"oldest_transaction", seconds_or_null(its.oldest_transaction)},
                        {"memory", its.memory}};
  }

  static json::value other_applications(const net::ClientList& clients) {
    if (clients.others == 0) return {};
    json::object sum = application(clients.other_applications);
    sum["application"] = and_more(clients.others);
    sum["applications"] = clients.others;
    return sum;
  }

  json::value client(const net::ClientStatistics& client) const {
    return json::object{{"id", client.id},
                        {"address", json_text(client.address)},
                        {"application", text_or_null(client.application)},
                        {"driver", text_or_null(client.driver)},
                        {"user", text_or_null(client.user)},
                        {"server", json_text(client.server)},
                        {"since", ago(client.age)},
                        {"oldest", seconds_or_null(client.waits)},
                        {"requests", client.requests},
                        {"requests_per_second", client.requests_per_second},
                        {"documents", client.documents},
                        {"documents_per_second", client.documents_per_second},
                        {"values", client.values},
                        {"transactions", client.transactions},
                        {"oldest_transaction", seconds_or_null(client.oldest_transaction)},
                        {"bytes_received", client.bytes_received},
                        {"bytes_sent", client.bytes_sent},
                        {"memory", client.memory},
                        {"compressor", text_or_null(client.compressor)},
                        {"tls", client.tls},
                        {"port", client.port}};
  }

  json::value proxy(const id_store::KnownProxy& proxy) const {
    return json::object{{"host", json_text(proxy.host)},
                        {"version", json_text(proxy.version)},
                        {"listeners", array_of(proxy.listeners, json_text)},
                        {"rules_hash", json_text(proxy.rules_hash)},
                        {"since", ago(proxy.age)},
                        {"seen", ago(proxy.unseen)},
                        {"self", proxy.self}};
  }

  json::value history() const {
    json::object out{{"every", 1}, {"end", seconds(sources_.now)}};
    for (std::size_t i = 0; i < Recent::kNames.size(); ++i) {
      out[Recent::kNames[i]] = array_of(recent_.series(static_cast<Recent::Chart>(i)),
                                        [](const auto& each) { return or_null(each); });
    }
    return out;
  }

  /// In whole seconds since 1970: fractions would only take room.
  [[nodiscard]] std::int64_t ago(std::chrono::nanoseconds age) const {
    return whole_seconds(sources_.now - age);
  }

  const StatusSources& sources_;
  const Snapshot& snapshot_;
  const Recent& recent_;
  const StatusQuery& query_;
  std::vector<ids::NotReady> not_ready_;
};

json::value event(const log::Line& line) {
  json::object fields;
  for (const auto& [name, value] : line.fields) fields[json_text(name)] = json_text(value);
  return json::object{{"at", seconds(line.time.time_since_epoch())},
                      {"level", log::name_of(line.level)},
                      {"event", line.event},
                      {"message", json_text(line.message)},
                      {"fields", std::move(fields)}};
}

/// "a b/c" of "a+b%2Fc".
std::string decoded(std::string_view query) {
  std::string out;
  for (std::size_t i = 0; i < query.size(); ++i) {
    const std::string_view digits = query.substr(i + 1, 2);
    const char* const first = digits.data();
    const char* const last = first + digits.size();
    unsigned char byte = 0;
    if (query[i] == '%' && digits.size() == 2 &&
        std::from_chars(first, last, byte, 16).ptr == last) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += query[i] == '+' ? ' ' : query[i];
    }
  }
  return out;
}

}  // namespace

StatusQuery StatusQuery::parse(std::string_view query) {
  StatusQuery parsed;
  while (!query.empty()) {
    const std::string part = decoded(take_part(query, "&"));
    constexpr std::string_view kApplication = "clients=app:";
    if (part.starts_with(kApplication)) parsed.application = part.substr(kApplication.size());
    if (part == "rules=failing") parsed.rules = StatusQuery::Rules::failing;
    if (part == "rules=all") parsed.rules = StatusQuery::Rules::all;
  }
  return parsed;
}

net::ClientQuery clients_for(const StatusQuery& query) {
  return {.most = query.application ? kMostOfApplication : kMostClients,
          .application = query.application};
}

json::object status_document(const StatusSources& sources, const Snapshot* snapshot,
                             const Recent& recent, const net::ClientList& clients,
                             const StatusQuery& query) {
  json::object out{
      {"version", sources.version},  {"commit", sources.commit},
      {"pid", ::getpid()},           {"phase", name_of(sources.phase)},
      {"now", seconds(sources.now)}, {"started", std::floor(seconds(sources.started))}};
  if (snapshot != nullptr) {
    StatusWriter(sources, *snapshot, recent, query).add_to(out, clients);
  }
  out["events"] = array_of(sources.lines, event);
  return out;
}

}  // namespace idproxy::app::state
