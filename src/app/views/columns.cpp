#include "app/views/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "app/state/servers_log.hpp"
#include "app/views/figures.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using enum Unit::Kind;
using enum Detail;

constexpr Figure::Page at(std::string_view group = "", std::string_view title = "",
                          std::string_view joint = "") {
  return {group, title, joint};
}
constexpr Figure::Line line(std::string_view header = "", Detail from = brief,
                            std::string_view behind = "") {
  return {header, from, behind};
}

// ---- how figures are written -----------------------------------------------------------------

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}
std::string word(const Entry& entry, const char* key) {
  return or_dash(entry.of[key].text());
}
template <auto kText>
std::string number_as(const Entry& entry, const char* key) {
  return kText(entry.of[key].number());
}
template <auto kText>
std::string since_as(const Entry& entry, const char* key) {
  return kText(entry.since(key));
}
std::string ago(const Entry& entry, const char* key) {
  const auto age = entry.since(key);
  return age ? age_text(age) + " ago" : "-";
}
std::string plain_number(const Entry& entry, const char* key) {
  const auto number = entry.of[key].number();
  return number ? fmt::format("{:.0f}", *number) : "-";
}
/// "in_aggregate 3, multi 12"
std::string counts(const Entry& entry, const char* key) {
  const JsonView all = entry.of[key];
  std::string text;
  for (const std::string& reason : all.keys()) {
    text += (text.empty() ? "" : ", ") + reason + " " + count_text(all[reason].number());
  }
  return or_dash(text);
}

template <auto kText>
constexpr Unit kNumber{number, number_as<kText>, number_as<kText>};
constexpr Unit kCount = kNumber<count_text>;
constexpr Unit kRate = kNumber<rate_text>;
constexpr Unit kBytes = kNumber<bytes_text>;
constexpr Unit kLatency = kNumber<latency_text>;
constexpr Unit kDuration = kNumber<age_text>;
constexpr Unit kWait{number, number_as<age_text>, number_as<short_age_text>};
constexpr Unit kSince{number, since_as<age_text>, since_as<short_age_text>};
constexpr Unit kAgo{number, ago, since_as<short_age_text>};
constexpr Unit kId{number, number_as<count_text>, plain_number};
constexpr Unit kName{name, word, word};
constexpr Unit kCounts{name, counts, counts};

// ---- servers ---------------------------------------------------------------------------------

Tone tone_of_request(const Entry& entry) {
  return state::is_slow(entry.of["oldest"].number()) ? Tone::bad : Tone::plain;
}

Tone tone_of_server(const Entry& entry) {
  if (!entry.of["up"].is_true()) return Tone::bad;
  if (entry.of["slow"].is_true()) return Tone::bad;
  return entry.of["fault"].text().empty() ? Tone::good : Tone::warning;
}
constexpr Style kRequestStyle{tone_of_request};
constexpr Style kServerStyle{tone_of_server,
                             {{{Tone::good, "up"},
                               {Tone::warning, "not the one that is meant"},
                               {Tone::bad, "down, or slow"}}}};

constexpr Unit kServerState{name,
                            [](const Entry& server, const char* key) {
                              const bool is_slow =
                                  server.of["up"].is_true() && server.of["slow"].is_true();
                              return (is_slow ? "slow: " : "") + server.of[key].text();
                            },
                            [](const Entry& server, const char* key) {
                              return server.of["up"].is_false() ? "down" : word(server, key);
                            }};

/// A word for what is true, false, or neither.
template <auto& kWords>
std::string answer(const Entry& entry, const char* key) {
  const JsonView value = entry.of[key];
  return kWords[value.is_true() ? 0 : value.is_false() ? 1 : 2];
}
constexpr const char* kWanted[] = {"wanted", "not wanted", "not known"};
constexpr const char* kYesNo[] = {"yes", "no", "-"};
constexpr Unit kLogins{name, answer<kWanted>, answer<kYesNo>};
constexpr Unit kFlag{name, answer<kYesNo>, answer<kYesNo>};

std::string last_failure(const Entry& server, const char* key) {
  const JsonView failure = server.of[key];
  if (!failure.is_object()) return or_dash(server.of["fault"].text());
  return failure["reason"].text() + ", " + ago({failure, server.now}, "at");
}

constexpr Unit kLastFailure{text, last_failure, last_failure};

constexpr Figure kServerFigures[] = {
    {"server", at("server", "server"), line("SERVER"), kName,
     "its name in upstream.uri, or in its replica set"},
    {"state", at("server", "state"), line("STATE"), kServerState,
     "what it said last, or down if it cannot be reached, and since when", "", kServerStyle},
    {"since", at("server", "", " for "), line("FOR"), kSince, "how long it has been in this state"},
    {"release", at("server", "release"), line("RELEASE", full), kName,
     "its version, as buildInfo says"},
    {"logins", at("server", "logins"), line("LOGINS", full), kLogins,
     "whether it refuses clients that have not logged in"},
    {"listener", at("server", "listener"), line("LISTENER", full, "server"), kName,
     "where clients reach this server"},
    {"clients", at("clients", "clients"), line("CLIENTS"), kCount,
     "connections of clients, each with one to this server", "idproxy_listener_connections"},
    {"in_flight", at("requests", "in flight"), line("IN FLIGHT"), kCount,
     "requests that wait for their reply; without hellos and cursors that wait for news",
     "idproxy_server_requests_in_flight"},
    {"oldest", at("requests", "oldest"), line("OLDEST"), kWait,
     "how long the oldest of them has waited; red from 5 s on",
     "idproxy_server_oldest_request_seconds", kRequestStyle},
    {"requests", at("requests", "sent"), line("REQUESTS"), kCount, "requests since the start",
     "idproxy_server_requests_total"},
    {"replies", at(), line("REPLIES", full), kCount, "replies since the start",
     "idproxy_server_replies_total"},
    {"p50", at("time to reply", "p50"), line("P50"), kLatency,
     "half of the requests of the last minute were answered within this time"},
    {"p99", at("time to reply", "p99"), line("P99"), kLatency, "99 of 100 were"},
    {"round_trip", at("time to reply", "hello"), line("ROUND TRIP", full), kLatency,
     "how long the last hello took, which costs the server nothing",
     "idproxy_server_round_trip_seconds"},
    {"bytes_sent", at("bytes", "to it"), line("SENT", full), kBytes, "since the start",
     "idproxy_server_bytes_total{direction=\"sent\"}"},
    {"bytes_received", at("bytes", "from it"), line("RECEIVED", full), kBytes, "since the start",
     "idproxy_server_bytes_total{direction=\"received\"}"},
    {"connect_failures", at("failures", "number"), line("FAILURES", full), kCount,
     "connections to it that could not be made", "idproxy_listener_connect_failures_total"},
    {"last_failure", at("failures", "last"), line(), kLastFailure,
     "why and when, or what else is wrong with it"},
};

// ---- rules -----------------------------------------------------------------------------------

/// A rule's state, its words on the page and in the terminal.
struct RuleState {
  Tone tone;
  std::string page;
  std::string terminal;
};

RuleState state_of(const Entry& rule) {
  const auto collections = [&](const char* key) { return rule.of[key].number().value_or(0); };
  const double not_ready = collections("not_ready_collections");
  if (!rule.of["reason"].text().empty()) return {Tone::bad, "not ready", "NOT READY"};
  if (not_ready > 0) return {Tone::bad, "not ready in " + count_text(not_ready), "NOT READY"};
  if (!rule.of["warning"].text().empty()) return {Tone::warning, "ready, runs out", "runs out"};
  if (collections("unguarded_collections") > 0) {
    return {Tone::warning, "ready, no unique index", "no unique index"};
  }
  if (!rule.of["ready"].is_true()) return {Tone::plain, "-", "-"};
  return {Tone::good, "ready", "ready"};
}
Tone tone_of_rule(const Entry& rule) {
  return state_of(rule).tone;
}
/// The reasons are there, with what to do.
std::string link_to_reasons(const Entry& rule) {
  return tone_of_rule(rule) == Tone::good ? "" : "#wrong";
}
constexpr Style kRuleStyle{tone_of_rule,
                           {{{Tone::good, "gives values"},
                             {Tone::warning, "its numbers run out, or it has no unique index"},
                             {Tone::bad, "gives no values"}}},
                           link_to_reasons};

constexpr Unit kRuleState{name, [](const Entry& rule, const char*) { return state_of(rule).page; },
                          [](const Entry& rule, const char*) { return state_of(rule).terminal; }};

/// On the page, what is left of numbers; the terminal has in the same place how full the space of
/// random ones is.
constexpr Unit kLeft{number, number_as<left_text>, [](const Entry& rule, const char* key) {
                       const auto fill = rule.of["fill"].number();
                       return fill ? fmt::format("{:.1f} % full", std::clamp(*fill, 0.0, 1.0) * 100)
                                   : left_text(rule.of[key].number());
                     }};

/// By the rate of the hour, and of the day if that is another time.
std::string full_on(const Entry& rule, const char* /*key*/) {
  const auto text = [&](const char* key) {
    const auto at = rule.of[key].number();
    return at ? date_text(at) + " (" + age_text(*at - rule.now.value_or(0)) + ")" : "-";
  };
  const std::string hour = text("full_at_hour_rate");
  const std::string day = text("full_at_day_rate");
  return hour == day ? hour : hour + ", " + day;
}
constexpr Unit kFullOn{date, full_on, number_as<date_text>};

constexpr Figure kRuleFigures[] = {
    {"rule", at("rule", "#"), line(), kId, "its place in the file, from 0 on"},
    {"ns", at("rule", "ns"), line("NS"), kName, "the collections to which it applies"},
    {"field", at("rule", "field"), line("FIELD"), kName, "the field that it fills"},
    {"strategy", at("rule", "strategy"), line("STRATEGY"), kName, "how it makes values"},
    {"ready", at("rule", "state"), line("STATE"), kRuleState, "whether it gives values", "",
     kRuleStyle},
    {"values_per_second", at("values", "a second"), line("/S"), kRate, "lately"},
    {"values", at("values", "in all"), line("VALUES", brief, "ready"), kCount, "since the start",
     "idproxy_rule_values_assigned_total"},
    {"last_value", at("values", "last"), line("LAST VALUE", full, "given_up"), kAgo,
     "when it gave the last one"},
    {"waiting", at("values", "waiting"), line("WAIT"), kCount,
     "requests that wait for one, or for their turn, and how long the first has",
     "idproxy_rule_requests_waiting"},
    {"oldest_waiting", at("values", "", ", "), line("OLDEST", full), kDuration,
     "how long the first of them has waited", "idproxy_rule_oldest_waiting_seconds"},
    {"duplicates", at(), line("DUP"), kCount, "duplicates, sent again or given up"},
    {"resent", at("duplicates", "sent again"), line("RESENT", full), kCount,
     "documents that got another value because theirs was taken",
     "idproxy_rule_documents_resent_total"},
    {"given_up", at("duplicates", "given up"), line("GIVEN UP", full), kCount,
     "duplicates that went to the client", "idproxy_rule_duplicates_given_up_total"},
    {"next", at("numbers", "next"), line("NEXT"), kCount,
     "the next number of the rule's one counter, as far as this proxy knows",
     "idproxy_rule_next_number"},
    {"held", at("numbers", "in memory"), line("HELD", full), kCount, "numbers for the next inserts",
     "idproxy_rule_numbers_held"},
    {"left", at("numbers", "left"), line("LEFT"), kLeft, "up to max", "idproxy_rule_numbers_left"},
    {"machine", at("numbers", "machine number"), line("MACHINE", full), kCount,
     "the number in its ids that no other proxy has", "idproxy_rule_machine_number"},
    {"full_at_hour_rate", at("numbers", "full on"), line("FULL BY HOUR'S RATE", full), kFullOn,
     "when none is left, at the rate of the last hour, and of the last day"},
    {"full_at_day_rate", at(), line("FULL BY DAY'S RATE", full), kFullOn,
     "when none is left, at the rate of the last day"},
    {"forwarded", at("past the rule", "without a value"), line("WITHOUT A VALUE", full), kCounts,
     "upserts and other commands that the rule did not cover, by reason"},
    {"taken_away", at("past the rule", "values taken away"), line(), kCounts,
     "updates that took a stored value away or set the field, by reason"},
};

// ---- clients ---------------------------------------------------------------------------------

/// The page with its clients only.
std::string link_to_application(const Entry& entry) {
  const std::string application = entry.of["application"].text();
  const bool stands_for_many = entry.of["applications"].number().has_value();
  if (application.empty() || stands_for_many) return {};
  return "/?clients=app:" + percent_encoded(application) + "#clients";
}

constexpr Style kApplicationStyle{nullptr, {}, link_to_application};

constexpr Figure kApplicationFigures[] = {
    {"application", at("application", "application"), line("APPLICATION"), kName,
     "appName in the connection strings of its clients", "", kApplicationStyle},
    {"connections", at("application", "clients"), line("CLIENTS"), kCount, "its connections"},
    {"requests_per_second", at("requests", "a second"), line("REQUESTS/S"), kRate,
     "of the last ten seconds, with those of connections that are closed"},
    {"documents_per_second", at("requests", "documents a second"), line("DOCUMENTS/S"), kRate,
     "of its inserts into collections with rules, the same"},
    {"oldest", at("requests", "waits"), line("OLDEST"), kWait,
     "how long its oldest request has waited for the server", "", kRequestStyle},
    {"transactions", at("requests", "in txn"), line("IN TXN"), kCount,
     "open transactions, and how long the first is open"},
    {"oldest_transaction", at("requests", "", ", "), line("OLDEST TXN"), kDuration,
     "how long the first of them is open"},
    {"memory", at("bytes", "held"), line("MEMORY"), kBytes,
     "memory of messages that are held whole, now"},
};

constexpr Unit kPort{number,
                     [](const Entry& client, const char* key) {
                       return client.of[key].number().value_or(0) > 0 ? plain_number(client, key)
                                                                      : "-";
                     },
                     plain_number};

constexpr Figure kClientFigures[] = {
    {"id", at("client", "#"), line("ID"), kId, "connection in the log"},
    {"address", at("client", "address"), line("ADDRESS"), kName,
     "of the client's host; - for a Unix socket"},
    {"application", at("client", "application"), line("APPLICATION"), kName,
     "appName in its connection string", "", kApplicationStyle},
    {"driver", at("client", "driver"), line("DRIVER", brief, "user"), kName,
     "and its version, as the driver says"},
    {"user", at("client", "user"), line("USER"), kName,
     "the last that it logged in as, or tried to"},
    {"since", at("client", "connected"), line("FOR", brief, "server"), kSince, "since when"},
    {"server", at("server", "server"), line("SERVER"), kName, "its server"},
    {"port", at("server", "port"), line("PORT", brief, "tls"), kPort,
     "the proxy's own port, by which mongod's log and db.currentOp() know this client"},
    {"oldest", at("requests", "waits"), line("OLDEST"), kWait,
     "how long its oldest request has waited for the server", "", kRequestStyle},
    {"requests", at("requests", "sent"), line("REQUESTS"), kCount, "since it connected"},
    {"requests_per_second", at("requests", "a second"), line("/S"), kRate,
     "of the last ten seconds"},
    {"documents", at("requests", "documents"), line("DOCUMENTS"), kCount,
     "of its inserts into collections with rules"},
    {"documents_per_second", at("requests", "a second"), line("/S"), kRate,
     "documents of the last ten seconds"},
    {"values", at("requests", "values"), line("VALUES"), kCount, "sent in its writes"},
    {"transactions", at("requests", "in txn"), line("IN TXN"), kCount,
     "transactions that it has begun and not ended, and how long the first is open"},
    {"oldest_transaction", at("requests", "", ", "), line("OLDEST TXN", full), kDuration,
     "how long the first of them is open"},
    {"bytes_received", at("bytes", "from it"), line("RECEIVED"), kBytes, "since it connected"},
    {"bytes_sent", at("bytes", "to it"), line("SENT"), kBytes, "since it connected"},
    {"memory", at("bytes", "held"), line("MEMORY"), kBytes,
     "memory of messages that are held whole, now; who holds much comes first"},
    {"compressor", at("bytes", "in"), line(), kName, "the compressor of its requests"},
    {"tls", at("bytes", "TLS"), line("TLS"), kFlag, "whether its connection is encrypted"},
};

// ---- limits ----------------------------------------------------------------------------------

constexpr double kMuch = 0.8;  // of a limit

Tone tone_of_limit(const Entry& limit) {
  const auto most = limit.of["limit"].number();
  const double current = limit.of["current"].number().value_or(0);
  if (!most || current < *most * kMuch) return Tone::plain;
  return current < *most ? Tone::warning : Tone::bad;
}
constexpr Style kLimitStyle{tone_of_limit};

constexpr Figure kLimitFigures[] = {
    {"clients", at("", "clients"), line("clients"), kCount, "", "", kLimitStyle},
    {"in_flight", at("", "requests in flight"), line("in flight"), kCount, "", "", kLimitStyle},
    {"waiting", at("", "requests that wait for numbers, reservations or memory"), line("waiting"),
     kCount, "", "", kLimitStyle},
    {"held_bytes", at("", "memory of messages that are held whole"), line("held memory"), kBytes,
     "", "", kLimitStyle},
};

// ---- other proxies, events -------------------------------------------------------------------

std::string host(const Entry& proxy, const char* key) {
  return or_dash(proxy.of[key].text() + (proxy.of["self"].is_true() ? " (this proxy)" : ""));
}
constexpr Unit kHost{name, host, host};

std::string addresses(const Entry& proxy, const char* key) {
  std::string text;
  for (const JsonView& each : proxy.of[key].items()) {
    text += (text.empty() ? "" : ", ") + each.text();
  }
  return or_dash(text);
}

constexpr Unit kAddresses{name, addresses, addresses};
constexpr Unit kStart{date, number_as<date_text>, since_as<short_age_text>};

constexpr Figure kProxyFigures[] = {
    {"host", at("proxy", "host"), line("HOST"), kHost, "where it runs"},
    {"version", at("proxy", "version"), line("VERSION"), kName, "of the program"},
    {"rules_hash", at("proxy", "rules"), line("RULES"), kName,
     "equal for proxies with equal rules"},
    {"listeners", at("proxy", "listeners"), line(), kAddresses, "where clients reach it"},
    {"since", at("proxy", "since"), line("FOR"), kStart, "when it was started"},
    {"seen", at("proxy", "seen"), line("SEEN BEFORE"), kAgo, "when it last said so"},
};

Tone tone_of_event(const Entry& event) {
  const std::string level = event.of["level"].text();
  return level == "error" ? Tone::bad : level == "warning" ? Tone::warning : Tone::plain;
}

std::string message(const Entry& event, const char* key) {
  std::string text = event.of[key].text();
  const JsonView fields = event.of["fields"];
  const char* separator = " · ";
  for (const std::string& each : fields.keys()) {
    text += separator + each + "=" + fields[each].text();
    separator = " ";
  }
  return or_dash(text);
}

constexpr Unit kClock{name, number_as<clock_text>, number_as<clock_text>};
constexpr Unit kMessage{text, message, message};
constexpr Style kEventStyle{tone_of_event};

constexpr Figure kEventFigures[] = {
    {"at", at("event", "time"), line(), kClock, "of this host"},
    {"level", at("event", "level"), line(), kName, "as in the log", "", kEventStyle},
    {"event", at("event", "event"), line(), kName, "docs/log-events.md says what each means"},
    {"message", at("event", "text"), line(), kMessage, "with its fields"},
};

}  // namespace

std::optional<double> Entry::since(std::string_view key) const {
  const auto at = of[key].number();
  return at && now ? std::optional(std::max(*now - *at, 0.0)) : std::nullopt;
}

Tone tone_of(const Figure& figure, const Entry& entry) {
  return figure.style.tone == nullptr ? Tone::plain : figure.style.tone(entry);
}

const FigureTable kServers{"servers", kServerFigures};
const FigureTable kRules{"rules", kRuleFigures};
const FigureTable kApplications{"applications", kApplicationFigures};
const FigureTable kClients{"clients", kClientFigures};
const FigureTable kLimits{"limits", kLimitFigures};
const FigureTable kProxies{"proxies", kProxyFigures};
const FigureTable kEvents{"events", kEventFigures};

}  // namespace idproxy::app::views
