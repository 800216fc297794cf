#include "app/exposition.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "app/rule_statistics.hpp"
#include "idproxy/observability/metrics_page.hpp"

namespace idproxy::app {
namespace {

using metrics::Labels;
using metrics::Page;

void add_process(Page& page, const ProcessStatistics& process) {
  page.counter("process_cpu_seconds_total", "User and system CPU time, in seconds.")
      .add({}, process.cpu_seconds);
  page.gauge("process_resident_memory_bytes", "Resident memory, in bytes.")
      .add({}, process.resident_memory_bytes);
  page.gauge("process_virtual_memory_bytes", "Mapped address space, in bytes.")
      .add({}, process.virtual_memory_bytes);
  page.gauge("process_open_fds", "Open file descriptors: two for each client, and more.")
      .add({}, process.open_fds);
  page.gauge("process_max_fds", "Limit of open file descriptors (LimitNOFILE).")
      .add({}, process.max_fds);
  page.gauge("process_start_time_seconds", "When the process was started, in seconds since 1970.")
      .add({}, process.start_time_seconds);
}

void add_log(Page& page, const log::Counts& log) {
  page.counter("idproxy_log_lines_suppressed_total",
               "Log lines left out because there were more than ten of one event in a second.")
      .add({}, log.suppressed);
  page.counter("idproxy_log_lines_dropped_total",
               "Log lines lost because nobody read standard error.")
      .add({}, log.dropped);
}

void add_reloads(Page& page, const Snapshot& snapshot) {
  const ReloadStatistics& reloads = snapshot.reloads;
  page.counter("idproxy_config_reloads_total",
               "Reloads (SIGHUP) that were applied, or failed and changed nothing.")
      .add({{"result", "success"}}, reloads.succeeded)
      .add({{"result", "failure"}}, reloads.failed);
  page.gauge("idproxy_config_last_reload_successful",
             "0: the last reload failed, and the old configuration is in force; the log says why.")
      .add({}, snapshot.last_reload_failed ? 0 : 1);
  page.gauge("idproxy_config_last_success_timestamp_seconds",
             "When the current configuration was read, in seconds since 1970.")
      .add({}, reloads.last_success.count());
}

void add_counted(Page& page, const net::ServerStatistics& net) {
  for (const net::CountedFamily& family : net::counted_families()) {
    auto shown = page.counter(std::string(family.name), std::string(family.help));
    for (const auto& [kind, labels] : family.series) {
      shown.add(Labels(labels.begin(), labels.end()), net.counted[kind]);
    }
  }
}

void add_connections(Page& page, const net::ServerStatistics& net) {
  page.gauge("idproxy_connections", "Open client connections.").add({}, net.connections_open);
  page.gauge("idproxy_connections_limit", "Limit of open client connections.")
      .add({}, net.connections_limit);
}

void add_listeners(Page& page, const net::ServerStatistics& net) {
  auto connections =
      page.gauge("idproxy_listener_connections", "Open client connections at one listener.");
  auto up = page.gauge("idproxy_listener_up",
                       "1: the last connection to the listener's server was made and answered; "
                       "0: it failed.");
  auto failures = page.counter("idproxy_listener_connect_failures_total",
                               "Connections to the listener's server that failed, or on which it "
                               "did not answer hello.");
  for (const net::ServerStatistics::Listener& each : net.listeners) {
    const Labels listener{{"listener", each.listener}};
    connections.add(listener, each.connections);
    up.add(listener, each.up ? 1 : 0);
    failures.add(listener, each.connect_failures);
  }
}

void add_inserts(Page& page, const net::ServerStatistics& net) {
  page.histogram("idproxy_insert_added_seconds",
                 "Time that the proxy and the id store added to inserts that got values, without "
                 "the server's time.")
      .add({}, net.insert_added);
}

void add_buffers(Page& page, const net::ServerStatistics& net) {
  page.gauge("idproxy_buffered_messages_bytes", "Memory in use for messages that are held whole.")
      .add({}, net.buffered_bytes);
  page.gauge("idproxy_buffered_messages_limit_bytes", "Limit of that memory.")
      .add({}, net.buffered_limit);
  page.gauge("idproxy_buffered_messages_waiting",
             "Connections that wait for room for their message.")
      .add({}, net.buffered_waiting);
  page.counter("idproxy_buffered_messages_waits_total", "How often a connection had to wait.")
      .add({}, net.buffered_waits);
}

/// Of each rule.
std::vector<Labels> labels_of(const std::vector<rewrite::Rule>& rules) {
  std::vector<Labels> labels;
  labels.reserve(rules.size());
  for (const rewrite::Rule& rule : rules) {
    labels.push_back({{"rule", std::to_string(labels.size())},
                      {"ns", rule.ns},
                      {"field", rule.field},
                      {"strategy", rule.strategy_name}});
  }
  return labels;
}

void add_rules(Page& page, const Snapshot& snapshot) {
  using rewrite::RuleOutcomes;
  struct Outcome {
    const char* name;
    const char* help;
    RuleOutcomes::Counter RuleOutcomes::* counter;
  };
  static constexpr std::array kOutcomes{
      Outcome{"idproxy_rule_values_assigned_total",
              "Values that the rule put into documents and upserts.", &RuleOutcomes::assigned},
      Outcome{"idproxy_rule_values_unacknowledged_total",
              "Of these, values in writes with w: 0, whose duplicates are not reported.",
              &RuleOutcomes::unacknowledged},
      Outcome{"idproxy_rule_documents_resent_total",
              "Documents sent again with a new value because theirs was a duplicate; each time "
              "counts.",
              &RuleOutcomes::resent},
      Outcome{"idproxy_rule_documents_cured_total", "Documents that were stored because of that.",
              &RuleOutcomes::cured},
      Outcome{"idproxy_rule_duplicates_given_up_total",
              "Duplicates of the rule's values that were reported to the client.",
              &RuleOutcomes::given_up},
      Outcome{"idproxy_rule_duplicates_foreign_total",
              "Duplicates on other keys, in documents with a value of the rule.",
              &RuleOutcomes::foreign},
      Outcome{"idproxy_rule_transactions_transient_total",
              "Transactions that the client was told to run again because of a duplicate.",
              &RuleOutcomes::transient},
      Outcome{"idproxy_rule_transactions_surfaced_total",
              "Duplicates in transactions that were reported to the client.",
              &RuleOutcomes::surfaced},
      Outcome{"idproxy_rule_values_handed_out_total",
              "Values given to applications that asked for them with {idproxy: \"next\"}.",
              &RuleOutcomes::handed_out}};
  const std::vector<Labels> labels = labels_of(snapshot.rules->rules());
  for (const Outcome& outcome : kOutcomes) {
    auto family = page.counter(outcome.name, outcome.help);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      family.add(labels[i], (snapshot.rules->outcomes(i).*outcome.counter).load());
    }
  }
  auto forwarded =
      page.counter("idproxy_rule_upserts_forwarded_total",
                   "Upserts, and other commands that store documents, that were sent without a "
                   "value of the rule, by the reason.");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto& counts = snapshot.rules->outcomes(i).forwarded;
    for (std::size_t reason = 0; reason < counts.size(); ++reason) {
      Labels with_reason = labels[i];
      with_reason.emplace_back("reason", name_of(static_cast<rewrite::ForwardReason>(reason)));
      forwarded.add(with_reason, counts[reason].load());
    }
  }
  auto not_ready = page.gauge("idproxy_rule_collections_not_ready",
                              "Collections in which the rule gives no values now; {idproxy: "
                              "\"status\"} says which, and why.");
  for (std::size_t i = 0; i < std::min(labels.size(), snapshot.not_ready.size()); ++i) {
    not_ready.add(labels[i], snapshot.not_ready[i]);
  }
}

void add_counters_of_rules(Page& page, const Snapshot& snapshot, const std::vector<Labels>& labels,
                           const std::vector<RuleStatistics>& statistics) {
  auto next = page.gauge("idproxy_rule_next_number",
                         "The next number that this proxy hands out, as far as it knows; only of "
                         "rules with one counter.");
  auto held =
      page.gauge("idproxy_rule_numbers_held", "Numbers in memory, of all counters of the rule.");
  auto left = page.gauge("idproxy_rule_numbers_left",
                         "Numbers up to max; of several counters, those of the one with the "
                         "fewest; of ranges, those of all together.");
  auto ranges = page.gauge("idproxy_rule_ranges_live",
                           "Ranges that have numbers left, of a rule with counter-ranges.");
  auto run_out = page.gauge("idproxy_rule_numbers_run_out",
                            "Collections in which a hundredth of the rule's numbers is left, or "
                            "less than a day takes at the rate of the last hour.");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto its = std::ranges::count(snapshot.run_out, i, &RunOut::Warning::rule_index);
    run_out.add(labels[i], static_cast<std::uint64_t>(its));
    if (statistics[i].next) next.add(labels[i], *statistics[i].next);
    if (statistics[i].held) held.add(labels[i], *statistics[i].held);
    if (statistics[i].left) left.add(labels[i], *statistics[i].left);
    if (statistics[i].live_ranges) ranges.add(labels[i], *statistics[i].live_ranges);
  }
}

void add_spaces_of_rules(Page& page, const std::vector<Labels>& labels,
                         const std::vector<RuleStatistics>& statistics) {
  auto documents = page.gauge("idproxy_rule_documents",
                              "Documents with one of the possible numbers, estimated; of several "
                              "collections, those of the fullest.");
  auto fill = page.gauge("idproxy_rule_fill_ratio",
                         "Used part of the possible random numbers, 0 to 1; of several "
                         "collections, that of the fullest.");
  auto limit = page.gauge("idproxy_rule_max_fill_ratio",
                          "Above this fill the rule gives no more numbers: max_fill.");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto& fullest = statistics[i].fullest;
    if (!fullest) continue;
    if (fullest->documents) documents.add(labels[i], *fullest->documents);
    fill.add(labels[i], fullest->fill);
    limit.add(labels[i], fullest->max_fill);
  }
}

void add_numbers_of_rules(Page& page, const Snapshot& snapshot) {
  const std::vector<rewrite::Rule>& rules = snapshot.rules->rules();
  const std::vector<Labels> labels = labels_of(rules);
  const std::vector<RuleStatistics> statistics = statistics_of(rules, snapshot.numbers);
  add_counters_of_rules(page, snapshot, labels, statistics);
  add_spaces_of_rules(page, labels, statistics);
}

void add_reservations(Page& page, const id_store::StoreStatistics& store) {
  page.counter("idproxy_store_reservations_made_total", "Values that were reserved.")
      .add({}, store.reservations_made);
  page.counter("idproxy_store_reservations_taken_total",
               "Values that were not reserved, because another document has them.")
      .add({}, store.reservations_taken);
  page.counter("idproxy_store_reservations_released_total",
               "Reservations that were deleted because their documents were not stored.")
      .add({}, store.reservations_released);
  page.counter("idproxy_store_reservations_swept_total",
               "Reservations that were deleted as orphans: old, and without their document.")
      .add({}, store.reservations_swept);
  page.gauge("idproxy_store_reservations_waiting", "Writes that wait for reservations now.")
      .add({}, store.reservations_waiting);
}

void add_store(Page& page, const id_store::StoreStatistics& store) {
  page.gauge("idproxy_store_up",
             "1: the id store answered last time; 0: it did not, and counters give out only the "
             "numbers that they hold.")
      .add({}, store.up ? 1 : 0);
  page.histogram("idproxy_store_round_trip_seconds",
                 "How long commands for counters took, including those that failed.")
      .add({}, store.round_trip);
  page.counter("idproxy_store_round_trips_failed_total",
               "Commands for counters that got no answer, an error, or no majority.")
      .add({}, store.round_trips_failed);
  page.counter("idproxy_store_blocks_total", "Blocks of numbers that were allocated.")
      .add({}, store.blocks);
  page.counter("idproxy_store_blocks_dropped_total",
               "Blocks that may have been allocated and were not used: gaps.")
      .add({}, store.blocks_dropped);
  page.counter("idproxy_store_numbers_allocated_total",
               "Numbers in the blocks that were allocated.")
      .add({}, store.numbers_allocated);
  page.counter("idproxy_store_numbers_returned_total", "Unused numbers that were given back.")
      .add({}, store.numbers_returned);
  page.counter("idproxy_store_heals_total",
               "How often a counter was set past the numbers that are stored.")
      .add({}, store.heals);
  page.gauge("idproxy_store_counters", "Counters that this process uses.").add({}, store.counters);
  page.gauge("idproxy_store_counters_exhausted", "Of these, counters that have reached their max.")
      .add({}, store.counters_exhausted);
  page.gauge("idproxy_store_counters_refused",
             "Of these, counters that give no numbers for another reason; the log says which.")
      .add({}, store.counters_refused);
  page.gauge("idproxy_store_requests_waiting", "Inserts that wait for numbers now.")
      .add({}, store.requests_waiting);
  page.gauge("idproxy_store_numbers_held", "Numbers in memory, for the next inserts.")
      .add({}, store.numbers_held);
  page.gauge(
          "idproxy_store_numbers_of_blocks",
          "How many numbers would be held if each counter had a full block. The smaller the part "
          "that is held, the sooner inserts must wait for the store.")
      .add({}, store.numbers_of_blocks);
}

/// If a file has several certificates with one subject, as during a renewal, shows the latest
/// expiry.
void add_certificates(Page& page, const Snapshot& snapshot) {
  auto family = page.gauge("idproxy_tls_certificate_expiry_timestamp_seconds",
                           "When a certificate of listen.tls (side=\"client\") or upstream.uri "
                           "(side=\"server\") expires, in seconds since 1970.");
  std::map<Labels, std::int64_t> expiries;
  const auto add = [&](const char* side, const std::vector<net::tls::Certificate>& all) {
    for (const net::tls::Certificate& each : all) {
      const auto expiry = each.not_after.time_since_epoch().count();
      const auto [entry, added] = expiries.emplace(
          Labels{{"side", side}, {"file", each.file}, {"subject", each.subject}}, expiry);
      if (!added) entry->second = std::max(entry->second, expiry);
    }
  };
  add("client", snapshot.client_side);
  add("server", snapshot.server_side);
  for (const auto& [labels, expiry] : expiries) family.add(labels, expiry);
}

}  // namespace

std::string exposition(const std::string& version, const ProcessStatistics& process,
                       const log::Counts& log, const Snapshot* snapshot) {
  Page page;
  page.gauge("idproxy_build_info", "Always 1; the label is the program's version.")
      .add({{"version", version}}, 1);
  if (snapshot != nullptr) {
    page.gauge("idproxy_draining", "1: the proxy is stopping and accepts no clients.")
        .add({}, snapshot->draining ? 1 : 0);
    add_counted(page, snapshot->net);
    add_connections(page, snapshot->net);
    add_listeners(page, snapshot->net);
    add_inserts(page, snapshot->net);
    add_buffers(page, snapshot->net);
    add_rules(page, *snapshot);
    add_numbers_of_rules(page, *snapshot);
    add_store(page, snapshot->store);
    add_reservations(page, snapshot->store);
    add_certificates(page, *snapshot);
    add_reloads(page, *snapshot);
  }
  add_log(page, log);
  add_process(page, process);
  return page.text();
}

}  // namespace idproxy::app
