#include "app/jobs/backfill_rule.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "app/jobs/value_text.hpp"
#include "app/state/readiness.hpp"
#include "app/system_clock.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::app::jobs {
namespace {

using Mode = BackfillRequest::Mode;

// How long the id store may take to check the rule.
constexpr std::chrono::seconds kReadyWithin{10};
constexpr std::chrono::milliseconds kReadyAgain{50};

/// True if a backfill needs a unique index although the rule only warns without one: nothing else
/// would detect that a random number is taken.
bool needs_more(const rewrite::Rule& rule) {
  return rule.strategy->about().fills_up && rule.unique_index == ids::UniqueIndex::warn;
}

/// Returns the configuration with the changes that a backfill of the rule at `index` needs.
config::Config prepared(config::Config config, std::size_t index, const BackfillRequest& request) {
  using ids::UniqueIndex;
  std::vector<rewrite::Rule>& rules = config.rules;
  config.id_store.scans = request.mode == Mode::write;
  add_rule_of(request.ns, rules, index);
  if (needs_more(rules[index])) rules[index].unique_index = UniqueIndex::require;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    UniqueIndex& unique_index = rules[i].unique_index;
    if (unique_index != UniqueIndex::create) continue;
    if (i != index) unique_index = UniqueIndex::warn;
    if (i == index && request.mode == Mode::dry_run) unique_index = UniqueIndex::offer;
  }
  return config;
}

}  // namespace

std::string fault_of(const BackfillRequest& request) {
  if (request.field == "_id" || request.field.starts_with("_id.")) {
    return "--field must not be _id: a document keeps its _id as long as it lives";
  }
  const std::string sort = order_of(request).field;
  if (sort.empty() || sort.starts_with('$')) {
    return "--sort must be a field, or -FIELD for descending order";
  }
  if (request.period_from.starts_with('$')) return "--period-from must be a field";
  return "";
}

std::string fault_for(const BackfillRequest& request, const rewrite::Rule& rule) {
  const std::string subject = "the rule for " + request.field + " in " + request.ns;
  if (rule.reserve) {
    return subject +
           " has a `reserve`, and a backfill reserves nothing: its values could be given "
           "out again";
  }
  const auto& lease = rule.strategy->about().lease;
  if (lease && lease->name.empty()) {
    return subject +
           " has `machine.lease: none`, and a backfill would make the ids that a running proxy "
           "makes "
           "with the same number: run it with a copy of the configuration in which `machine` has a "
           "`lease` of its own, such as backfill, and an `id` that no proxy has";
  }
  const ids::SequenceOptions& sequences = rule.strategy->about().sequences;
  const bool resets = sequences.reset != ids::Reset::none;
  const bool shows_date = sequences.text && !sequences.text->is_timeless();
  if (!request.period_from.empty() && !resets && !shows_date) {
    return "--period-from is for rules with `reset`, or with a date in the `template`, which " +
           subject + " does not have";
  }
  if (request.period_from.empty() && resets) {
    return subject +
           " has a `reset`: --period-from must name the field with the date of each document";
  }
  return "";
}

BackfillTarget target_of(const BackfillRequest& request, const rewrite::Assignment& assignment) {
  using rewrite::Assign;
  const Assign assign = assignment.rule->assign;
  BackfillTarget target{id_store::split_namespace(request.ns), request.field,
                        assign == Assign::always ? Assign::missing_or_null : assign,
                        filter_of(assignment.rule->when)};
  if (assignment.sequences != nullptr) target.beside = assignment.sequences->fields();
  if (!request.period_from.empty()) target.beside.push_back(request.period_from);
  return target;
}

BackfillOrder order_of(const BackfillRequest& request) {
  if (request.sort.starts_with('-')) return {request.sort.substr(1), -1};
  return {request.sort, 1};
}

BackfillRule::BackfillRule(config::Config config, std::size_t index, const BackfillRequest& request)
    : ns_(request.ns),
      index_(index),
      needs_more_(needs_more(config.rules[index])),
      session_(prepared(std::move(config), index, request)) {}

std::string BackfillRule::await_ready(const StopSignals& stop) {
  const auto end = std::chrono::steady_clock::now() + kReadyWithin;
  session_.await_first_inspection(kReadyWithin);
  const id_store::Namespace ns = id_store::split_namespace(ns_);
  while (true) {
    std::vector<rewrite::Assignment> its;
    std::ranges::copy_if(
        session_.set().plan(ns.db, ns.collection), std::back_inserter(its),
        [this](const rewrite::Assignment& each) { return each.rule_index == index_; });
    plan_ = rewrite::Plan(std::move(its));
    if (plan_.empty()) {
      return "no rule applies to this collection: it is a view or a time-series collection, or "
             "belongs to the server or the id store";
    }
    const auto not_ready = why_not_ready();
    if (!not_ready) return why_no_values();
    const bool may_be_transient = not_ready->code == ids::Errc::unavailable;
    const bool is_over = std::chrono::steady_clock::now() > end || stop.wait_for(kReadyAgain);
    if (!may_be_transient || is_over) return reason_of(*not_ready);
  }
}

/// Why the rule gives no values now. Asks for what it needs, as a write does.
std::optional<ids::Error> BackfillRule::why_not_ready() {
  using Kind = ids::GuardState::Kind;
  const rewrite::Assignment& assignment = plan_.front();
  if (assignment.not_ready || !assignment.guard) return assignment.not_ready;
  ids::GuardState state = assignment.guard->state(process_sources().clock.monotonic());
  if (state.kind == Kind::guarded) return std::nullopt;
  if (state.kind == Kind::unknown && !asks_) asks_ = assignment.guard->want(0);
  return state.error;
}

/// Adds that the backfill needs the index, if a proxy does not.
std::string BackfillRule::reason_of(const ids::Error& error) const {
  const bool lacks_it = error.code == ids::Errc::exhausted && session_.lacks_index(index_);
  const bool is_own = needs_more_ && lacks_it;
  const bool are_digits = rule().strategy_name == "random-digits";
  return (is_own ? std::string("a backfill of ") + (are_digits ? "random digits" : "nanoids") +
                       " needs a unique index: "
                 : "") +
         error.reason;
}

/// Returns why the rule's counters give no values, which RuleSet::plan() does not check.
std::string BackfillRule::why_no_values() const {
  if (std::string why = session_.why_down(); !why.empty()) return why;
  const auto all = session_.watch().not_ready(std::numeric_limits<std::size_t>::max());
  for (const ids::NotReady& each : all) {
    const bool is_this = each.rule_index == index_ && (each.ns == ns_ || each.ns == rule().ns);
    const bool is_refused = each.readiness.kind == ids::Readiness::Kind::not_ready &&
                            each.readiness.error.code == ids::Errc::exhausted;
    if (is_this && is_refused) return each.readiness.error.reason;
  }
  return "";
}

std::string BackfillRule::note() const {
  const auto lacks = session_.lacks_index(index_);
  return lacks ? state::note_on_index(rule(), lacks->commands) : "";
}

std::string BackfillRule::samples(std::uint64_t count) const {
  const auto numbers = session_.watch().numbers(std::numeric_limits<std::size_t>::max());
  return samples_of(rule(), index_, ns_, numbers, count);
}

std::string BackfillRule::next_values(std::size_t count, ids::Values& out) const {
  const auto numbers = session_.watch().numbers(std::numeric_limits<std::size_t>::max());
  return append_next(rule(), index_, ns_, numbers, count, out);
}

}  // namespace idproxy::app::jobs
