#include <algorithm>
#include <set>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "idproxy/base/glob.hpp"

// The part of Collections that keeps its knowledge when the rules change.
namespace idproxy::id_store {

Collections::Collections(std::vector<WatchedRule> rules, Time now, Collections before)
    : rules_(std::move(rules)) {
  take_over(before, now);
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) pin(rule, now);
  begin_first_look();
  for (const WatchedRule& rule : rules_) {
    if (std::ranges::find(before.rules_, rule) == before.rules_.end()) list_all(rule);
  }
}

void Collections::take_over(Collections& before, Time now) {
  missed_ = std::move(before.missed_);
  log_events_ = std::move(before.log_events_);
  down_ = std::move(before.down_);
  has_user_ = before.has_user_;
  was_down_ = down_.has_value();
  not_before_ = before.not_before_;
  asked_ = before.asked_;
  changes_ = before.changes_;
  for (auto& [name, known] : before.databases_) {
    const std::string any = name + ".*";
    const bool touched = std::ranges::any_of(
        rules_, [&](const WatchedRule& rule) { return globs_overlap(rule.ns, any); });
    if (!touched) continue;
    known.pinned = false;
    if (known.due == kNever) known.due = now;  // a response is under way, for `before`
    databases_.emplace(name, std::move(known));
  }
  for (auto& [ns, known] : before.collections_) take_over(std::move(known), before.rules_, now);
}

void Collections::take_over(Collection known, const std::vector<WatchedRule>& before, Time now) {
  const std::string ns = known.ns();
  const auto guards = std::exchange(known.guards, {});
  const auto numbers = std::exchange(known.numbers, {});
  known.pinned = false;
  std::set<std::string_view> fields;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const WatchedRule& wanted = rules_[rule];
    const bool fills = glob_matches(wanted.ns, ns) && fields.insert(wanted.field).second;
    if (fills && wanted.field != "_id") take_over(known, guards, before, rule, now);
    if (fills && wanted.counts_documents) take_over(known, numbers, before, rule, now);
  }
  if (known.guards.empty() && known.numbers.empty()) return;
  resume(!known.guards.empty(), known.indexes_due, known.indexes_open, now);
  resume(!known.numbers.empty(), known.documents_due, known.documents_open, now);
  collections_.emplace(ns, std::move(known));
}

void Collections::take_over(Collection& known, const std::vector<Guard>& guards,
                            const std::vector<WatchedRule>& before, std::size_t rule, Time now) {
  const WatchedRule& wanted = rules_[rule];
  const auto found = std::ranges::find_if(guards, [&](const Guard& guard) {
    const WatchedRule& was = before[guard.rule];
    return was.field == wanted.field && was.unique_index == wanted.unique_index &&
           was.value_type == wanted.value_type && repeats_of(was) == repeats_of(wanted);
  });
  if (found == guards.end()) {
    (void)guard(known, rule, now);
    return;
  }
  known.guards.push_back(*found);
  Guard& taken = known.guards.back();
  taken.rule = rule;
  if (!taken.shared) return;
  taken.shared = std::make_shared<ids::Guard>(rule, known.db, known.name, tell_);
  publish(known, taken);
}

/// Draws and duplicates say nothing about another space, but the number of documents still holds.
void Collections::take_over(Collection& known, const std::vector<Numbers>& numbers,
                            const std::vector<WatchedRule>& before, std::size_t rule, Time now) {
  const WatchedRule& wanted = rules_[rule];
  const auto found = std::ranges::find(numbers, wanted.field, &Numbers::field);
  if (found == numbers.end()) {
    (void)this->numbers(known, wanted.field, now);
    return;
  }
  const auto was = rule_of(before, known.ns(), wanted.field);
  if (was && before[*was].space == wanted.space) {
    known.numbers.push_back(*found);
    known.numbers.back().free = free_values(known, known.numbers.back());
    fills_due_ = std::min(fills_due_, now);
  } else {
    const auto counted = found->fill->seen().documents;
    Numbers& added = this->numbers(known, wanted.field, now);
    if (counted) added.fill->counted(*counted);
  }
}

/// Asks again for a response that is under way, since it may not reach this object.
void Collections::resume(bool wanted, Time& due, bool& open, Time now) {
  if (!wanted) {
    due = kNever;
    open = false;
  } else if (due == kNever) {
    due = now;
  }
}

}  // namespace idproxy::id_store
