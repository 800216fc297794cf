#include "net/exchange_log.hpp"

#include <string>
#include <utility>

#include "idproxy/base/typed_command.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::net {
namespace {

/// How documents that were stored without the value come to one. Clients choose names of
/// collections: for one that cannot be shown as it is there is no command.
std::string way_back(const rewrite::Assignment& assignment) {
  auto words =
      with_option({"mongo-idproxy", "backfill", "--config", "FILE"}, "--ns", assignment.ns);
  words = with_option(std::move(words), "--field", assignment.rule->field);
  const Commands commands = Commands().shell(std::move(words));
  if (commands.empty()) return "";
  return "; " + commands.text() + " gives values to documents that were stored without";
}

/// Returns the consequence for the document that such an upsert inserts, and the remedy.
std::string outcome_of(const rewrite::Forwarded& forwarded) {
  const rewrite::Rule& rule = *forwarded.assignment->rule;
  const std::string way_out(way_out_of(forwarded.reason, rule.field));
  if (forwarded.brings_value) {
    return "a document that it inserts has the value that the client sends; " + way_out;
  }
  if (rule.field == "_id") {
    return "a document that it inserts gets its _id from the client or from the server; " + way_out;
  }
  return "a document that it inserts may lack the field; " + way_out +
         (rule.reserve ? "" : way_back(*forwarded.assignment));
}

std::string text_of(const rewrite::Forwarded& past) {
  const std::string& field = past.assignment->rule->field;
  const std::string way_out(way_out_of(past.reason, field));
  if (past.reason == rewrite::ForwardReason::time_series) {
    return "an insert into a time-series collection, to which no rule applies, was sent without "
           "the rule's values: " +
           way_out;
  }
  return "a command has the server store documents in a collection with a rule, without its "
         "values: " +
         way_out + way_back(*past.assignment);
}

/// Logs upserts that were sent without a value.
void log_forwarded(const rewrite::Exchange& exchange, const Clock& clock) {
  for (const rewrite::Forwarded& each : exchange.facts().forwarded) {
    const rewrite::Assignment& assignment = *each.assignment;
    if (each.reason == rewrite::ForwardReason::configured) continue;
    if (each.past_the_rules) {
      log_past(each, clock);
      continue;
    }
    const std::string& ns = assignment.ns;
    const auto upserts = assignment.outcomes->forwarded_log.add(ns, name_of(each.reason),
                                                                each.upserts, clock.monotonic());
    if (!upserts) continue;
    log::event(log::Level::warning, "upsert_forwarded",
               "an upsert was sent without a value of the rule, because adding one would not be "
               "safe: " +
                   outcome_of(each) +
                   " (docs/duplicates.md#upserts; logged once an hour for each namespace and "
                   "reason, with the number of upserts since the last line)",
               {{"rule", assignment.place()},
                {"ns", ns},
                {"field", assignment.rule->field},
                {"reason", name_of(each.reason)},
                {"upserts", *upserts}});
  }
}

/// Logs updates that were sent although they take values away. One that sets a value may set the
/// same one: no reason to warn.
void log_taken_away(const rewrite::Exchange& exchange, const Clock& clock) {
  for (const rewrite::TakenAway& each : exchange.facts().taken_away) {
    const bool sets = each.reason == rewrite::LossReason::sets;
    const rewrite::Assignment& assignment = *each.assignment;
    const auto updates = assignment.outcomes->taken_away_log.add(
        assignment.ns, name_of(each.reason), each.updates, clock.monotonic());
    if (!updates) continue;
    log::event(sets ? log::Level::info : log::Level::warning, "value_taken_away",
               std::string(sets ? "an update sets the rule's field: "
                                : "an update takes the rule's value away from the documents that "
                                  "it finds: ") +
                   std::string(way_out_of(each.reason)) +
                   " (docs/keep.md; logged once an hour for each namespace and reason, with the "
                   "number of updates since the last line)",
               {{"rule", assignment.rule_index},
                {"ns", assignment.ns},
                {"field", assignment.rule->field},
                {"reason", name_of(each.reason)},
                {"updates", *updates}});
  }
}

void log_driver_made(const rewrite::Exchange& exchange) {
  const rewrite::Assignment* rule = exchange.facts().driver_made;
  if (rule == nullptr || rule->outcomes->driver_made_logged.exchange(true)) return;
  log::event(
      log::Level::warning, "driver_made_ids",
      "all documents of an insert brought an _id that their driver made, so the rule had "
      "nothing to assign: make the driver leave _id out "
      "(docs/drivers.md#documents-without-an-_id), or set assign: driver, and then the insertedId "
      "that the driver reports is not the stored one",
      {{"rule", rule->place()}, {"ns", rule->rule->ns}, {"field", rule->rule->field}});
}

void log_zero(const rewrite::Exchange& exchange) {
  const rewrite::Assignment* rule = exchange.facts().leaves_zero;
  if (rule == nullptr || rule->outcomes->zero_logged.exchange(true)) return;
  log::event(log::Level::warning, "zero_stored",
             "a document brought null, 0, \"\" or an id of zeros in the rule's field, and the rule "
             "leaves it: typed languages send that for a field that was never set. Have them leave "
             "the field out, or set assign: missing-or-zero (docs/drivers.md#zero-values; logged "
             "once for each rule)",
             {{"rule", rule->place()}, {"ns", rule->ns}, {"field", rule->rule->field}});
}

void log_given_up(const rewrite::Exchange& exchange, std::uint64_t connection) {
  const auto given_up = exchange.facts().given_up;
  if (!given_up) return;
  log::event(log::Level::warning, "duplicates_given_up",
             "generated values stayed duplicates until " +
                 std::string(explain(given_up->ended_by)) + "; the client got mongod's error",
             {{"connection", connection},
              {"ns", given_up->ns},
              {"field", given_up->rule->field},
              {"attempts", given_up->attempts},
              {"ended_by", name_of(given_up->ended_by)}});
}

void log_lost(const rewrite::Exchange& exchange) {
  const rewrite::Assignment* rule = exchange.facts().lost_writes;
  if (rule == nullptr || rule->outcomes->lost_logged.exchange(true)) return;
  log::event(log::Level::error, "server_loses_writes",
             "the server has left out documents of an unordered insert that a driver repeated, and "
             "has told no error: the proxy looked which were missing. Inserts without a rule lose "
             "them. MongoDB 5.0 and later do not do this: upgrade (logged once for each rule)",
             {{"rule", rule->place()}, {"ns", rule->rule->ns}});
}

void log_not_permitted(const rewrite::Exchange& exchange, const Ended& by) {
  const rewrite::Assignment* refused = exchange.facts().not_permitted;
  if (refused == nullptr) return;
  // Who has not logged in may call himself anything.
  const std::string user = by.client == nullptr || !by.logged_in ? "" : by.client->user;
  const auto writes = refused->outcomes->not_permitted_log.add(refused->ns + " " + user, {}, 1,
                                                               by.clock.monotonic());
  if (!writes) return;
  log::event(
      log::Level::warning, "not_permitted",
      "the server refuses a client's writes for lack of rights (error 13), so that no values "
      "were used for them, and nothing was made: if it should write there, have it log in, "
      "or grant its user readWrite on the database (logged once a minute for each user and "
      "namespace, with the number of writes since the last line)",
      {{"connection", by.connection}, {"user", user}, {"ns", refused->ns}, {"writes", *writes}});
}

}  // namespace

void log_past(const rewrite::Forwarded& past, const Clock& clock) {
  const rewrite::Assignment& assignment = *past.assignment;
  const auto commands = assignment.outcomes->forwarded_log.add(assignment.ns, name_of(past.reason),
                                                               past.upserts, clock.monotonic());
  if (!commands) return;
  log::event(log::Level::warning, "written_past_the_rules",
             text_of(past) +
                 " (docs/duplicates.md#writes-past-the-rules; logged once an hour for each "
                 "namespace and reason, with the number of commands since the last line)",
             {{"rule", assignment.place()},
              {"ns", assignment.ns},
              {"field", assignment.rule->field},
              {"reason", name_of(past.reason)},
              {"commands", *commands}});
}

void log_request(const rewrite::Exchange& exchange, const Clock& clock) {
  log_forwarded(exchange, clock);
  log_taken_away(exchange, clock);
  log_driver_made(exchange);
  log_zero(exchange);
}

void log_end(const rewrite::Exchange& exchange, const Ended& by) {
  log_given_up(exchange, by.connection);
  log_lost(exchange);
  log_not_permitted(exchange, by);
}

}  // namespace idproxy::net
