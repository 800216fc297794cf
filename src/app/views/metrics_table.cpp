#include "app/views/metrics_table.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "app/state/rule_figures.hpp"
#include "app/state/servers_log.hpp"
#include "app/system_clock.hpp"
#include "idproxy/metrics/metrics_page.hpp"

namespace idproxy::app::views {
namespace {

using Listener = net::ServerStatistics::Listener;
using Net = net::ServerStatistics;
using Outcomes = rewrite::RuleOutcomes;
using Store = id_store::StoreStatistics;
using metrics::Family;
using metrics::Labels;
using metrics::Type;
using enum net::Counted;

/// Where the figures come from that there are before the proxy serves, too.
struct Process {
  const std::string& version;
  const state::ProcessStatistics& process;
  const log::Counts& log;
};

/// Where all others come from.
struct Serving {
  const state::Snapshot& snapshot;
  const std::vector<state::RuleFigures> rules = state::figures_of(snapshot);
};

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Now, since 1970.
double wall_seconds() {
  return in_seconds(process_sources().clock.wall());
}

// Each adds the series of one metric: its value is a member.

template <auto kMember>
void of_process(Family& family, const Process& from) {
  family.add({}, from.process.*kMember);
}
template <auto kMember>
void of_log(Family& family, const Process& from) {
  family.add({}, from.log.*kMember);
}
template <auto kMember>
void of_net(Family& family, const Serving& from) {
  family.add({}, from.snapshot.net.*kMember);
}
template <net::Counted kKind>
void of_counted(Family& family, const Serving& from) {
  family.add({}, from.snapshot.net.counted[kKind]);
}
template <auto kMember>
void of_store(Family& family, const Serving& from) {
  family.add({}, from.snapshot.store.*kMember);
}
template <auto kMember>
void of_listeners(Family& family, const Serving& from) {
  for (const Listener& each : from.snapshot.net.listeners) {
    family.add({{"listener", each.listener}, {"server", each.server}}, each.*kMember);
  }
}
/// Of servers of which the figure is known.
template <auto kMember>
void of_servers_in_seconds(Family& family, const Serving& from) {
  for (const Listener& each : from.snapshot.net.listeners) {
    const std::optional<std::chrono::nanoseconds> time = each.*kMember;
    if (!time) continue;
    family.add({{"listener", each.listener}, {"server", each.server}}, in_seconds(*time));
  }
}
/// Of rules that count: when their numbers end; +Inf if that is not in sight.
template <auto kMember>
void of_outlooks(Family& family, const Serving& from, const char* window) {
  for (std::size_t i = 0; i < from.rules.size(); ++i) {
    if (!from.rules[i].left) continue;
    const state::RunOut::Outlook* outlook = from.snapshot.outlook_of(i);
    Labels labels = from.rules[i].labels;
    labels.emplace_back("window", window);
    family.add(std::move(labels), outlook != nullptr && outlook->*kMember
                                      ? wall_seconds() + in_seconds(*(outlook->*kMember))
                                      : std::numeric_limits<double>::infinity());
  }
}
/// `figure_of(outcomes)` of each rule.
template <class FigureOf>
void add_outcomes(Family& family, const Serving& from, const FigureOf& figure_of) {
  for (std::size_t i = 0; i < from.rules.size(); ++i) {
    family.add(from.rules[i].labels, figure_of(from.snapshot.rules->outcomes(i)));
  }
}
template <auto kMember>
void of_outcomes(Family& family, const Serving& from) {
  add_outcomes(family, from, [](const Outcomes& its) { return (its.*kMember).load(); });
}
template <auto kMember>
void of_rules(Family& family, const Serving& from) {
  for (const state::RuleFigures& each : from.rules) {
    if (each.*kMember) family.add(each.labels, *(each.*kMember));
  }
}

/// A series for each of these values of one label.
void add_counted(Family& family, const Serving& from, const char* label,
                 std::initializer_list<std::pair<const char*, net::Counted>> series) {
  for (const auto& [text, kind] : series) {
    family.add({{label, text}}, from.snapshot.net.counted[kind]);
  }
}

void add_bytes(Family& family, const Serving& from) {
  const auto add = [&](const char* peer, const char* direction, net::Counted kind) {
    family.add({{"peer", peer}, {"direction", direction}}, from.snapshot.net.counted[kind]);
  };
  add("client", "received", bytes_from_clients);
  add("client", "sent", bytes_to_clients);
  add("server", "received", bytes_from_servers);
  add("server", "sent", bytes_to_servers);
}

void add_states(Family& family, const Serving& from) {
  for (const Listener& each : from.snapshot.net.listeners) {
    family.add({{"listener", each.listener}, {"server", each.server}, {"state", each.state}}, 1);
  }
}

/// Of each rule, one for each reason.
template <class Reason, auto kCounts>
void add_reasons(Family& family, const Serving& from) {
  for (std::size_t i = 0; i < from.rules.size(); ++i) {
    const auto& counts = from.snapshot.rules->outcomes(i).*kCounts;
    for (std::size_t reason = 0; reason < counts.size(); ++reason) {
      Labels labels = from.rules[i].labels;
      labels.emplace_back("reason", name_of(static_cast<Reason>(reason)));
      family.add(std::move(labels), counts[reason].load());
    }
  }
}

/// If a file has several certificates with one subject, as during a renewal, shows the latest
/// expiry.
void add_certificates(Family& family, const Serving& from) {
  std::map<Labels, std::int64_t> expiries;
  const auto add = [&](const char* side, const std::vector<net::tls::Certificate>& all) {
    for (const net::tls::Certificate& each : all) {
      const auto expiry = each.not_after.time_since_epoch().count();
      const auto [entry, added] = expiries.emplace(
          Labels{{"side", side}, {"file", each.file}, {"subject", each.subject}}, expiry);
      if (!added) entry->second = std::max(entry->second, expiry);
    }
  };
  add("client", from.snapshot.client_side);
  add("server", from.snapshot.server_side);
  for (const auto& [labels, expiry] : expiries) family.add(labels, expiry);
}

/// The unit is the end of the name. The help is a sentence.
struct Metric {
  Type type;
  const char* name;
  /// Adds the series.
  std::variant<void (*)(Family&, const Process&), void (*)(Family&, const Serving&)> collect;
  const char* help;
};

/// All metrics, in the order of the page. docs/metrics.md describes each, too.
const Metric kMetrics[] = {
    {Type::gauge, "idproxy_build_info",
     [](Family& family, const Process& from) { family.add({{"version", from.version}}, 1); },
     "Always 1; the label is the program's version."},
    {Type::gauge, "idproxy_draining",
     [](Family& family, const Serving& from) { family.add({}, from.snapshot.draining); },
     "1: the proxy is stopping and accepts no clients."},

    {Type::counter, "idproxy_connections_accepted_total", of_counted<connections_accepted>,
     "Accepted client connections."},
    {Type::counter, "idproxy_connections_closed_total",
     [](Family& family, const Serving& from) {
       add_counted(family, from, "reason",
                   {{"max_connections", closed_max_connections},
                    {"descriptors", closed_descriptors},
                    {"first_byte", closed_first_byte},
                    {"tls_handshake", closed_tls_handshake},
                    {"message", closed_message},
                    {"memory", closed_memory},
                    {"connect", closed_connect},
                    {"protocol", closed_protocol},
                    {"drain", closed_drain}});
     },
     "Client connections that the proxy turned away or closed. max_connections: the limit was "
     "reached; descriptors: no file descriptor was left for the client, or for its connection to "
     "the server; first_byte, tls_handshake, message: the client exceeded this limit; memory: "
     "it stopped in the middle of a message while others waited for memory; connect: the proxy "
     "could not connect to the server; protocol: the client or the server violated the "
     "protocol; drain: closed at the end of limits.drain, or by a second SIGTERM."},
    {Type::counter, "idproxy_accept_failures_total", of_counted<accept_failures>,
     "Failures to accept a waiting client; the log says why."},
    {Type::counter, "idproxy_tls_failures_total",
     [](Family& family, const Serving& from) {
       add_counted(family, from, "peer",
                   {{"client", tls_failures_client}, {"server", tls_failures_server}});
     },
     "Failed TLS handshakes and connections with clients or servers; the log says why."},
    {Type::counter, "idproxy_bytes_total", add_bytes,
     "Message bytes received from and sent to clients and servers, without the overhead of TLS."},
    {Type::counter, "idproxy_requests_total",
     [](Family& family, const Serving& from) {
       add_counted(family, from, "kind",
                   {{"relayed", requests_relayed},
                    {"insert", requests_insert},
                    {"update", requests_update},
                    {"findAndModify", requests_find_and_modify},
                    {"bulkWrite", requests_bulk_write},
                    {"hello", requests_hello},
                    {"status", requests_status},
                    {"next", requests_next},
                    {"assign", requests_assign},
                    {"refused", requests_refused},
                    {"shutdown", requests_shutdown}});
     },
     "Client requests. relayed: passed on unchanged; insert, update, findAndModify, bulkWrite: "
     "commands "
     "that got values; hello: questions about the server and its set; status: {idproxy: "
     "\"status\"}; next: {idproxy: \"next\"}; assign: {idproxy: \"assign\"}; refused: answered "
     "with an error by the proxy; "
     "shutdown: answered with ShutdownInProgress while draining."},
    {Type::counter, "idproxy_requests_compressed_total",
     [](Family& family, const Serving& from) {
       add_counted(family, from, "compressor",
                   {{"snappy", requests_snappy}, {"zlib", requests_zlib}, {"zstd", requests_zstd}});
     },
     "Client requests that came compressed, by compressor; they count in idproxy_requests_total, "
     "too."},
    {Type::counter, "idproxy_documents_refused_total", of_counted<documents_refused>,
     "Documents that could not take their value and got a write error."},

    {Type::gauge, "idproxy_connections", of_net<&Net::connections_open>,
     "Open client connections."},
    {Type::gauge, "idproxy_connections_limit", of_net<&Net::connections_limit>,
     "Limit of open client connections."},
    {Type::gauge, "idproxy_transactions", of_net<&Net::transactions_open>,
     "Transactions that clients have begun and not ended."},
    {Type::gauge, "idproxy_oldest_transaction_seconds",
     [](Family& family, const Serving& from) {
       const auto age = from.snapshot.net.oldest_transaction;
       family.add({}, in_seconds(age.value_or(std::chrono::nanoseconds(0))));
     },
     "How long the oldest of them has been open; 0: there is none."},
    {Type::gauge, "idproxy_listener_connections", of_listeners<&Listener::connections>,
     "Open client connections at one listener."},
    {Type::gauge, "idproxy_listener_up",
     [](Family& family, const Serving& from) {
       for (const Listener& each : from.snapshot.net.listeners) {
         family.add({{"listener", each.listener}, {"server", each.server}},
                    each.up && !state::is_slow(each) ? 1 : 0);
       }
     },
     "1: the listener's server answers; 0: the last connection to it failed, or it has not "
     "answered a request for 5 s, or the proxy's hello for 2 s."},
    {Type::counter, "idproxy_listener_connect_failures_total",
     of_listeners<&Listener::connect_failures>,
     "Connections to the listener's server that failed, or on which it did not answer hello."},
    {Type::gauge, "idproxy_server_state", add_states,
     "Always 1; the label state is what the server said last: PRIMARY, SECONDARY, ARBITER, "
     "STANDALONE, MONGOS, OTHER, unknown; or down, if it cannot be reached."},
    {Type::gauge, "idproxy_server_state_age_seconds", of_servers_in_seconds<&Listener::state_age>,
     "Since when."},
    {Type::counter, "idproxy_server_requests_total", of_listeners<&Listener::requests>,
     "Requests sent to the server, including those sent again."},
    {Type::counter, "idproxy_server_replies_total", of_listeners<&Listener::replies>,
     "Requests that the server has answered."},
    {Type::counter, "idproxy_server_bytes_total",
     [](Family& family, const Serving& from) {
       for (const Listener& each : from.snapshot.net.listeners) {
         const Labels labels{{"listener", each.listener}, {"server", each.server}};
         for (const auto& [direction, bytes] :
              {std::pair("sent", each.bytes_sent), std::pair("received", each.bytes_received)}) {
           Labels all = labels;
           all.emplace_back("direction", direction);
           family.add(std::move(all), bytes);
         }
       }
     },
     "Message bytes sent to and received from the server, without the overhead of TLS."},
    {Type::gauge, "idproxy_server_requests_in_flight", of_listeners<&Listener::in_flight>,
     "Requests that wait for the server's reply now, without those that may wait for news: "
     "awaitable hellos, exhaust streams and getMores on tailable cursors."},
    {Type::gauge, "idproxy_server_oldest_request_seconds",
     [](Family& family, const Serving& from) {
       for (const Listener& each : from.snapshot.net.listeners) {
         const auto age = each.oldest.value_or(std::chrono::nanoseconds(0));
         family.add({{"listener", each.listener}, {"server", each.server}}, in_seconds(age));
       }
     },
     "How long the oldest of them has waited; 0: none waits."},
    {Type::histogram, "idproxy_server_reply_seconds", of_listeners<&Listener::reply_time>,
     "Time from sending such a request to the server to the end of its reply."},
    {Type::gauge, "idproxy_server_round_trip_seconds", of_servers_in_seconds<&Listener::round_trip>,
     "How long the last hello took that asked for the state at once."},
    {Type::histogram, "idproxy_insert_added_seconds", of_net<&Net::insert_added>,
     "Time that the proxy and the id store added to inserts that got values, without the server's "
     "time."},
    {Type::gauge, "idproxy_buffered_messages_bytes", of_net<&Net::buffered_bytes>,
     "Memory in use for messages that are held whole."},
    {Type::gauge, "idproxy_buffered_messages_limit_bytes", of_net<&Net::buffered_limit>,
     "Limit of that memory."},
    {Type::gauge, "idproxy_buffered_messages_waiting", of_net<&Net::buffered_waiting>,
     "Connections that wait for room for their message."},
    {Type::counter, "idproxy_buffered_messages_waits_total", of_net<&Net::buffered_waits>,
     "How often a connection had to wait."},

    {Type::counter, "idproxy_rule_values_assigned_total", of_outcomes<&Outcomes::assigned>,
     "Values that the rule put into documents and upserts."},
    {Type::counter, "idproxy_rule_values_unacknowledged_total",
     of_outcomes<&Outcomes::unacknowledged>,
     "Of these, values in writes with w: 0, whose duplicates are not reported."},
    {Type::counter, "idproxy_rule_documents_resent_total", of_outcomes<&Outcomes::resent>,
     "Documents sent again with a new value because theirs was a duplicate; each time counts."},
    {Type::counter, "idproxy_rule_documents_cured_total", of_outcomes<&Outcomes::cured>,
     "Documents that were stored because of that."},
    {Type::counter, "idproxy_rule_duplicates_given_up_total", of_outcomes<&Outcomes::given_up>,
     "Duplicates of the rule's values that were reported to the client."},
    {Type::counter, "idproxy_rule_duplicates_foreign_total", of_outcomes<&Outcomes::foreign>,
     "Duplicates on other keys, in documents with a value of the rule."},
    {Type::counter, "idproxy_rule_transactions_transient_total", of_outcomes<&Outcomes::transient>,
     "Transactions that the client was told to run again because of a duplicate."},
    {Type::counter, "idproxy_rule_transactions_surfaced_total", of_outcomes<&Outcomes::surfaced>,
     "Duplicates in transactions that were reported to the client."},
    {Type::counter, "idproxy_rule_values_handed_out_total", of_outcomes<&Outcomes::handed_out>,
     "Values given to applications that asked for them with {idproxy: \"next\"}."},
    {Type::counter, "idproxy_rule_writes_refused_total", of_outcomes<&Outcomes::refused>,
     "Writes that need a value of the rule and that the proxy has answered with an error."},
    {Type::counter, "idproxy_rule_writes_not_permitted_total",
     of_outcomes<&Outcomes::not_permitted>,
     "Writes that the server refused because the client may not write there."},
    {Type::counter, "idproxy_rule_upserts_forwarded_total",
     add_reasons<rewrite::ForwardReason, &Outcomes::forwarded>,
     "Upserts, and other commands that store documents, that were sent without a value of the "
     "rule, by the reason."},
    {Type::counter, "idproxy_rule_values_taken_away_total",
     add_reasons<rewrite::LossReason, &Outcomes::taken_away>,
     "Updates that took a stored value of the rule away or set the field, by the reason."},
    {Type::gauge, "idproxy_rule_requests_waiting",
     [](Family& family, const Serving& from) {
       add_outcomes(family, from, [](const Outcomes& its) { return its.waiting.summary().number; });
     },
     "Requests that wait for a value of the rule."},
    {Type::gauge, "idproxy_rule_oldest_waiting_seconds",
     [](Family& family, const Serving& from) {
       const auto now = process_sources().clock.monotonic();
       add_outcomes(family, from, [&](const Outcomes& its) {
         const auto [number, since] = its.waiting.summary();
         return number == 0 ? 0 : in_seconds(now - since);
       });
     },
     "How long the first of them has waited; 0: none does."},
    {Type::gauge, "idproxy_rule_collections_not_ready", of_rules<&state::RuleFigures::not_ready>,
     "Collections in which the rule gives no values now; {idproxy: \"status\"} says which, and "
     "why."},
    {Type::gauge, "idproxy_rule_collections_unguarded", of_rules<&state::RuleFigures::unguarded>,
     "Collections in which no unique index keeps the rule's values from being stored twice, of "
     "rules that demand none (unique_index: warn)."},

    {Type::gauge, "idproxy_rule_next_number", of_rules<&state::RuleFigures::next>,
     "The next number that this proxy hands out, as far as it knows; only of rules with one "
     "counter."},
    {Type::gauge, "idproxy_rule_numbers_held", of_rules<&state::RuleFigures::held>,
     "Numbers in memory, of all counters of the rule."},
    {Type::gauge, "idproxy_rule_numbers_left", of_rules<&state::RuleFigures::left>,
     "Numbers up to max; of several counters, those of the one with the fewest; of ranges, those "
     "of all together."},
    {Type::gauge, "idproxy_rule_ranges_live", of_rules<&state::RuleFigures::live_ranges>,
     "Ranges that have numbers left, of a rule with counter-ranges."},
    {Type::gauge, "idproxy_rule_machine_number", of_rules<&state::RuleFigures::machine>,
     "The machine number in the rule's ids, of a rule with snowflakes; none: there is none now."},
    {Type::gauge, "idproxy_rule_numbers_run_out", of_rules<&state::RuleFigures::run_out>,
     "Collections in which a hundredth of the rule's numbers is left, or less than a day takes at "
     "the rate of the last hour."},
    {Type::gauge, "idproxy_rule_numbers_end_timestamp_seconds",
     [](Family& family, const Serving& from) {
       of_outlooks<&state::RunOut::Outlook::at_hour_rate>(family, from, "hour");
       of_outlooks<&state::RunOut::Outlook::at_day_rate>(family, from, "day");
     },
     "When the rule's numbers end, in seconds since 1970, if they are used as fast as in the last "
     "hour (window=\"hour\") or day; +Inf: not in a hundred years."},
    {Type::gauge, "idproxy_rule_last_value_timestamp_seconds",
     [](Family& family, const Serving& from) {
       const double now = in_seconds(process_sources().clock.monotonic());
       add_outcomes(family, from, [&](const Outcomes& its) {
         const std::int64_t last = its.last_assigned;
         const double age = now - in_seconds(std::chrono::nanoseconds(last));
         return last == 0 ? 0 : wall_seconds() - age;
       });
     },
     "When the rule last gave a value, in seconds since 1970; 0: never."},
    {Type::gauge, "idproxy_rule_documents", of_rules<&state::RuleFigures::documents>,
     "Documents with one of the possible numbers, estimated; of several collections, those of the "
     "fullest."},
    {Type::gauge, "idproxy_rule_fill_ratio", of_rules<&state::RuleFigures::fill>,
     "Used part of the possible random numbers, 0 to 1; of several collections, that of the "
     "fullest."},
    {Type::gauge, "idproxy_rule_max_fill_ratio", of_rules<&state::RuleFigures::max_fill>,
     "Above this fill the rule gives no more numbers: max_fill."},

    {Type::gauge, "idproxy_store_up", of_store<&Store::up>,
     "1: the id store answered last time; 0: it did not, and counters give out only the numbers "
     "that they hold."},
    {Type::histogram, "idproxy_store_round_trip_seconds", of_store<&Store::round_trip>,
     "How long commands for counters took, including those that failed."},
    {Type::counter, "idproxy_store_round_trips_failed_total", of_store<&Store::round_trips_failed>,
     "Commands for counters that got no answer, an error, or no majority."},
    {Type::counter, "idproxy_store_blocks_total", of_store<&Store::blocks>,
     "Blocks of numbers that were allocated."},
    {Type::counter, "idproxy_store_blocks_dropped_total", of_store<&Store::blocks_dropped>,
     "Blocks that may have been allocated and were not used: gaps."},
    {Type::counter, "idproxy_store_numbers_allocated_total", of_store<&Store::numbers_allocated>,
     "Numbers in the blocks that were allocated."},
    {Type::counter, "idproxy_store_numbers_returned_total", of_store<&Store::numbers_returned>,
     "Unused numbers that were given back."},
    {Type::counter, "idproxy_store_heals_total", of_store<&Store::heals>,
     "How often a counter was set past the numbers that are stored."},
    {Type::gauge, "idproxy_store_counters", of_store<&Store::counters>,
     "Counters that this process uses."},
    {Type::gauge, "idproxy_store_counters_exhausted", of_store<&Store::counters_exhausted>,
     "Of these, counters that have reached their max."},
    {Type::gauge, "idproxy_store_counters_refused", of_store<&Store::counters_refused>,
     "Of these, counters that give no numbers for another reason; the log says which."},
    {Type::gauge, "idproxy_store_requests_waiting", of_store<&Store::requests_waiting>,
     "Inserts that wait for numbers now."},
    {Type::gauge, "idproxy_store_numbers_held", of_store<&Store::numbers_held>,
     "Numbers in memory, for the next inserts."},
    {Type::gauge, "idproxy_store_numbers_of_blocks", of_store<&Store::numbers_of_blocks>,
     "How many numbers would be held if each counter had a full block. The smaller the part that "
     "is held, the sooner inserts must wait for the store."},
    {Type::counter, "idproxy_store_reservations_made_total", of_store<&Store::reservations_made>,
     "Values that were reserved."},
    {Type::counter, "idproxy_store_reservations_taken_total", of_store<&Store::reservations_taken>,
     "Values that were not reserved, because another document has them."},
    {Type::counter, "idproxy_store_reservations_released_total",
     of_store<&Store::reservations_released>,
     "Reservations that were deleted because their documents were not stored."},
    {Type::counter, "idproxy_store_reservations_swept_total", of_store<&Store::reservations_swept>,
     "Reservations that were deleted as orphans: old, and without their document."},
    {Type::gauge, "idproxy_store_reservations_waiting", of_store<&Store::reservations_waiting>,
     "Writes that wait for reservations now."},

    {Type::gauge, "idproxy_tls_certificate_expiry_timestamp_seconds", add_certificates,
     "When a certificate of listen.tls (side=\"client\") or upstream.uri (side=\"server\") "
     "expires, in seconds since 1970."},
    {Type::counter, "idproxy_config_reloads_total",
     [](Family& family, const Serving& from) {
       family.add({{"result", "success"}}, from.snapshot.reloads.succeeded);
       family.add({{"result", "failure"}}, from.snapshot.reloads.failed);
     },
     "Reloads (SIGHUP) that were applied, or failed and changed nothing."},
    {Type::gauge, "idproxy_config_last_reload_successful",
     [](Family& family, const Serving& from) { family.add({}, !from.snapshot.last_reload_failed); },
     "0: the last reload failed, and the old configuration is in force; the log says why."},
    {Type::gauge, "idproxy_config_last_success_timestamp_seconds",
     [](Family& family, const Serving& from) {
       family.add({}, from.snapshot.reloads.last_success.count());
     },
     "When the current configuration was read, in seconds since 1970."},

    {Type::counter, "idproxy_log_lines_suppressed_total", of_log<&log::Counts::suppressed>,
     "Log lines left out because there were more than ten of one event in a second."},
    {Type::counter, "idproxy_log_lines_dropped_total", of_log<&log::Counts::dropped>,
     "Log lines lost because nobody read standard error."},
    {Type::counter, "process_cpu_seconds_total", of_process<&state::ProcessStatistics::cpu_seconds>,
     "User and system CPU time, in seconds."},
    {Type::gauge, "process_resident_memory_bytes",
     of_process<&state::ProcessStatistics::resident_memory_bytes>, "Resident memory, in bytes."},
    {Type::gauge, "process_virtual_memory_bytes",
     of_process<&state::ProcessStatistics::virtual_memory_bytes>,
     "Mapped address space, in bytes."},
    {Type::gauge, "process_open_fds", of_process<&state::ProcessStatistics::open_fds>,
     "Open file descriptors: two for each client, and more."},
    {Type::gauge, "process_max_fds", of_process<&state::ProcessStatistics::max_fds>,
     "Limit of open file descriptors (LimitNOFILE)."},
    {Type::gauge, "process_start_time_seconds",
     of_process<&state::ProcessStatistics::start_time_seconds>,
     "When the process was started, in seconds since 1970."},
};

}  // namespace

std::string exposition(const std::string& version, const state::ProcessStatistics& process,
                       const log::Counts& log, const std::optional<state::Snapshot>& snapshot) {
  const Process of_process{version, process, log};
  std::optional<Serving> serving;
  if (snapshot) serving.emplace(Serving{*snapshot});
  std::vector<Family> families;
  for (const Metric& metric : kMetrics) {
    Family& family = families.emplace_back(Family{metric.type, metric.name, metric.help});
    if (const auto* always = std::get_if<0>(&metric.collect)) {
      (*always)(family, of_process);
    } else if (serving) {
      std::get<1>(metric.collect)(family, *serving);
    }
  }
  return metrics::page_of(families);
}

}  // namespace idproxy::app::views
