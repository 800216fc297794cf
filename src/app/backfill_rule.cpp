#include "backfill_rule.hpp"

#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "sample_values.hpp"
#include "sources.hpp"

namespace idproxy::app {
namespace {

using Mode = BackfillRequest::Mode;

// How long the id store may take to check the rule.
constexpr std::chrono::seconds kReadyWithin{10};
constexpr std::chrono::milliseconds kReadyAgain{50};
constexpr std::chrono::seconds kGiveBackWithin{10};

/// As all rules are for a backfill of the one at `index`.
std::vector<rewrite::Rule> prepared(std::vector<rewrite::Rule> rules, std::size_t index,
                                    Mode mode) {
  using ids::UniqueIndex;
  // Only the index would notice that a random number is taken.
  rewrite::Rule& own = rules[index];
  const bool is_random = own.strategy->bounded_space() != nullptr;
  if (is_random && own.unique_index == UniqueIndex::warn) own.unique_index = UniqueIndex::require;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const bool may_make_it = i == index && mode == Mode::write;
    UniqueIndex& unique_index = rules[i].unique_index;
    if (unique_index == UniqueIndex::create && !may_make_it) unique_index = UniqueIndex::warn;
  }
  return rules;
}

id_store::Options store_options(id_store::Options options, Mode mode) {
  options.scans = mode == Mode::write;
  return options;
}

}  // namespace

BackfillRule::BackfillRule(config::Config config, std::size_t index, id_store::Namespace ns,
                           Mode mode)
    : uri_key_(config.id_store.uri_key),
      ns_(std::move(ns)),
      index_(index),
      store_(store_options(config.id_store, mode), process_sources().clock),
      rules_(
          make_rules(prepared(std::move(config.rules), index, mode), config.id_store.db, store_)) {}

std::string BackfillRule::await_ready(const StopSignals& stop) {
  rules_.watch->await_first_look(kReadyWithin);
  const auto end = std::chrono::steady_clock::now() + kReadyWithin;
  while (true) {
    plan_ = rules_.set->plan(ns_.db, ns_.collection);
    std::erase_if(plan_, [this](const rewrite::Assignment& assignment) {
      return assignment.rule_index != index_;
    });
    if (plan_.empty()) {
      return "no rule applies to this collection: it is a view or a time-series collection, or "
             "belongs to the server or the id store";
    }
    const auto& not_ready = plan_.front().not_ready;
    if (!not_ready) return why_no_values();
    const bool may_pass = not_ready->code == ids::Errc::unavailable;
    const bool is_over = std::chrono::steady_clock::now() > end || stop.wait_for(kReadyAgain);
    if (!may_pass || is_over) return not_ready->reason;
  }
}

/// What only counters have, which RuleSet::plan() does not know.
std::string BackfillRule::why_no_values() const {
  if (const auto why = rules_.watch->why_down()) {
    return "the id store (" + uri_key_ + ") " + *why;
  }
  const auto all = rules_.watch->not_ready(std::numeric_limits<std::size_t>::max());
  for (const ids::NotReady& each : all) {
    const bool is_this =
        each.rule_index == index_ && (each.ns == ns_.text() || each.ns == rule().ns);
    const bool is_refused = each.readiness.kind == ids::Readiness::Kind::not_ready &&
                            each.readiness.error.code == ids::Errc::exhausted;
    if (is_this && is_refused) return each.readiness.error.reason;
  }
  return "";
}

std::string BackfillRule::samples(std::uint64_t count) const {
  const auto numbers = rules_.watch->numbers(std::numeric_limits<std::size_t>::max());
  return samples_of(rule(), index_, ns_.text(), numbers, count, process_sources().clock);
}

bool BackfillRule::stop() {
  return store_.stop(kGiveBackWithin);
}

}  // namespace idproxy::app
