#include <algorithm>
#include <utility>

#include "id_store/collection_watch.hpp"
#include "idproxy/base/finding.hpp"
#include "idproxy/base/printable.hpp"

// How a CollectionWatch judges the unique index of a rule, and what it tells the guards that writes
// ask.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::GuardState;
using ids::UniqueIndex;
using AnswerKind = ServerAnswer::Kind;
using Time = Inquiry::Time;

// Each attempt to make an index reads the whole collection. The pause is ten times as long, so that
// the server is not busy with attempts alone.
constexpr int kRestPerTry = 10;
constexpr auto kLongestRest = 1h;
// The shortest; and that after a transient error. Inserts wait two seconds.
constexpr auto kLeastRest = 2s;
constexpr auto kMakesAgain = 250ms;
// After an attempt to drop the proxy's own index that has failed; without the privilege, longer.
constexpr auto kYieldRest = 10s;
constexpr auto kNotPermittedRest = 1h;
// The index of an empty collection is made at once: the log has it only if it takes this long.
constexpr auto kSaidAfter = 2s;

constexpr std::string_view kBeingMade = "the unique index on the field is being made";
constexpr std::string_view kBeingBuilt = "the unique index on the field is still being built";

ids::Error never(std::string reason) {
  return {ids::Errc::exhausted, std::move(reason)};
}

bool seems_to_guard(const Index& index, const UniqueField& field) {
  if (index.keys.empty()) return false;
  if (!index.unique) return has_key(index, field.name, field.repeats);
  if (!field.repeats.any()) return index.keys.front().field == field.name;
  return std::ranges::find(index.keys, field.name, &Index::Key::field) != index.keys.end();
}

std::string fault_of(const Index& index, const UniqueField& field) {
  if (!index.unique) return "it is not unique";
  if (has_key(index, field.name, field.repeats)) return "it holds some of the documents only";
  if (!field.repeats.any()) return "its key has further fields, and values may repeat";
  if (field.repeats.and_more) return "its key needs a field that differs from period to period";
  return "its key must be the field and those of `scope`";
}

/// Why an index that looks sufficient is not, for people: "", or a text that begins with a blank.
std::string why_not(const std::vector<Index>& indexes, const UniqueField& field) {
  for (const Index& index : indexes) {
    if (!seems_to_guard(index, field) || guards(index, field)) continue;
    return " (" + named(index.name) + " does not do: " + fault_of(index, field) + ")";
  }
  return {};
}

/// Clients see this too, so it does not name servers; the log does.
std::string cause_of(const ServerAnswer& answer) {
  return answer.kind == AnswerKind::unreachable ? answer.told : answer.reason;
}

/// The state that the answer shows.
IndexState state_of(IndexWatch& index, const WatchedRule& rule, const IndexList& answer) {
  const UniqueField field = unique_field(rule);
  const bool creates = rule.unique_index == UniqueIndex::create;
  const Index* found = guard_among(answer.indexes, field);
  if (creates) {
    const Index* readable = readable_guard_among(answer.indexes, field);
    index.is_unreadable = readable == nullptr && found != nullptr;
    index.cannot_make = index.cannot_make && index.is_unreadable;
    if (!index.cannot_make) found = readable;
  }
  if (found != nullptr && !found->building) {
    const bool yields = creates && !index.is_making && yields_to(answer.indexes, field) != nullptr;
    return yields ? IndexState::guarded_twice : IndexState::guarded;
  }
  if (!index.is_asked_for) return IndexState::not_asked_for;
  if (found != nullptr || index.is_making) return IndexState::building;
  if (answer.kind == AnswerKind::not_permitted) return IndexState::not_permitted;
  if (!makes_index(rule)) return IndexState::lacking;
  return answer.kind == AnswerKind::no_collection ? IndexState::no_collection : IndexState::to_make;
}

/// The guard's state for writes.
GuardState shown(const IndexWatch& index, const Namespace& ns, const Surroundings& around,
                 const std::optional<ids::CollectionUuid>& uuid) {
  using State = GuardState::Kind;
  const auto unknown = [](std::string_view why) {
    return GuardState{State::unknown, not_yet(std::string(why)), {}};
  };
  if (around.is_left_alone(ns)) return {State::left_alone, {}, {}};
  if (around.is_changing(ns)) {
    return unknown("a command that changes the collection or its indexes is under way");
  }
  const bool is_absent = index.state == IndexState::no_collection;
  if (index.is_ready() && is_absent) return unknown(kBeingMade);
  if (index.is_ready()) return {State::guarded, {}, uuid};
  if (index.has_failed() && !index.tries_again) return {State::unguarded, *index.obstacle, {}};
  return unknown(index.obstacle->reason);
}

}  // namespace

Commands CollectionWatch::command_for(const IndexWatch& index) const {
  return create_index_command(ns_, unique_field(around_->rules[index.rule]), index.offer);
}

// ---- lists of indexes --------------------------------------------------------------------------

void CollectionWatch::judge(IndexWatch& index, const IndexList& answer, Time now) {
  const WatchedRule& rule = around_->rules[index.rule];
  if (!demands_index(rule)) return judge_warned(index, answer);
  if (answer.kind == AnswerKind::unreachable || answer.kind == AnswerKind::refused) {
    if (!index.is_transient()) return;
    const bool is_transient = answer.kind == AnswerKind::unreachable || answer.is_transient;
    const std::string why = kCannotCheck + cause_of(answer);
    return set(index, is_transient ? not_yet(why) : never(why));
  }
  const IndexState before = std::exchange(index.state, state_of(index, rule, answer));
  if (before == IndexState::guarded_twice) index.make_due = Inquiry::kNever;  // of dropping
  index.lacks = index.state == IndexState::lacking;
  switch (index.state) {
    case IndexState::guarded:
    case IndexState::guarded_twice: {
      const bool yields = index.state == IndexState::guarded_twice;
      index.had_index = true;
      index.make_due = yields ? std::max(now, index.yields_from) : Inquiry::kNever;
      return set(index, {});
    }
    case IndexState::not_asked_for:
      // Nobody may ever store a value there. An index that was there has gone.
      index.obstacle = not_yet(index.obstacle ? index.obstacle->reason : "");
      return;
    case IndexState::building:
      if (!index.has_failed()) wait_for(index, kBeingBuilt, now);
      return;
    case IndexState::not_permitted:
      return set(
          index,
          never(around_->may_not("listIndexes") + " of " + ns_.text() + ", which unique_index: " +
                (rule.unique_index == UniqueIndex::create ? "create" : "require") + " needs"));
    case IndexState::no_collection:
      // The application may want to make the collection itself, with options of its own.
      if (!std::ranges::any_of(indexes_, &IndexWatch::is_awaited)) {
        index.tries_again = index.has_failed();
        if (!index.tries_again) index.obstacle.reset();
        return;
      }
      around_->awaited.push_front(ns_.text());
      [[fallthrough]];
    case IndexState::to_make:
      if (index.make_due == Inquiry::kNever) index.make_due = now;
      if (!index.has_failed()) wait_for(index, kBeingMade, now);
      return;
    case IndexState::lacking: {
      index.why_not = why_not(answer.indexes, unique_field(rule));
      const auto advice =
          std::make_shared<const Reason>(Reason{"no unique index guards the field" + index.why_not,
                                                "; make it with ", command_for(index)});
      return set(index, ids::Error{ids::Errc::exhausted, advice->whole(), advice});
    }
    case IndexState::unchecked:
      return;  // which no answer shows
  }
}

void CollectionWatch::wait_for(IndexWatch& index, std::string_view why, Time now) {
  const bool goes_on = index.is_transient() && index.obstacle->reason == why;
  if (!goes_on) index.waits_since = now;
  const bool is_said = goes_on && now - index.waits_since >= kSaidAfter;
  if (is_said) return set(index, not_yet(std::string(why)));
  index.obstacle = not_yet(std::string(why));
}

/// Says each change, and a missing index only where the collection exists.
void CollectionWatch::judge_warned(IndexWatch& index, const IndexList& answer) {
  const WatchedRule& rule = around_->rules[index.rule];
  // Where values are reserved, the collection may be sharded, so that it can have no such index.
  if (rule.reserve && rule.unique_index == UniqueIndex::warn) return;
  const UniqueField field = unique_field(rule);
  const bool is_offered = rule.unique_index == UniqueIndex::offer;
  const bool is_there = answer.kind == AnswerKind::answered;
  if (!is_there && answer.kind != AnswerKind::no_collection) return;
  const Index* found = guard_among(answer.indexes, field);
  const bool is_building = found != nullptr && found->building;
  const bool lacks = (is_there || is_offered) && (found == nullptr || is_building);
  index.why_not = !lacks        ? ""
                  : is_building ? " yet (" + named(found->name) + " is being built)"
                                : why_not(answer.indexes, field);
  if (std::exchange(index.lacks, lacks) == lacks || is_offered) return;  // lack_index() has it
  if (lacks) {
    say(log::level_of(finding::kIndexMissing.level), finding::kIndexMissing.event,
        kNoUniqueIndex + index.why_not, field.name, "command", command_for(index).text());
  } else if (is_there) {
    say(log::Level::info, "unique_index_again",
        "a unique index keeps values from being stored twice", field.name);
  }
}

// ---- indexes that are made or dropped ----------------------------------------------------------

void CollectionWatch::learn(const MakeIndex& request, const MadeIndex& answer, Time now) {
  for (IndexWatch& each : indexes_) {
    if (!each.is_making || around_->rules[each.rule].field != request.field.name) continue;
    each.is_making = each.tries_again = false;
    made(each, answer, now);
    publish(each);
  }
  plan();
}

void CollectionWatch::made(IndexWatch& index, const MadeIndex& answer, Time now) {
  if (answer.kind == AnswerKind::answered) {
    if (answer.is_new) {
      // One that was there before has been dropped since, alone or with its collection.
      say(log::Level::info, "unique_index_made",
          index.had_index ? "the unique index on the field had gone: the proxy has made it again"
                          : "the proxy has made the unique index on the field",
          around_->rules[index.rule].field);
    }
    // Which collection has it?
    index.state = IndexState::unchecked;
    index.obstacle = not_yet(std::string(kBeingMade));
    is_anew_ = true;
    listing_.hurry(now);
    ++epoch_;
    around_->awaited.push_front(ns_.text());
    return;
  }
  // Of a build that somebody has ended, for instance.
  const bool refused_for_now = answer.kind == AnswerKind::refused && answer.is_transient;
  const bool is_transient = refused_for_now || answer.kind == AnswerKind::unreachable;
  if (index.is_unreadable && !is_transient && answer.kind != AnswerKind::no_collection) {
    index.cannot_make = true;
    index.make_due = Inquiry::kNever;
    listing_.hurry(now);
    return;
  }
  const bool is_absent = index.state == IndexState::no_collection;
  const auto rest =
      std::min<Time>((now - index.make_begun) * (refused_for_now ? 1 : kRestPerTry), kLongestRest);
  const Time least = refused_for_now ? Time(kMakesAgain) : Time(kLeastRest);
  index.make_due = is_absent ? Inquiry::kNever : now + std::max<Time>(rest, least);
  const std::string why = "the unique index on the field cannot be made: " + cause_of(answer);
  if (is_transient) {
    if (index.is_transient()) set(index, not_yet(why));
    return;
  }
  if (answer.kind != AnswerKind::not_permitted) return set(index, never(why));
  around_->miss("createIndex", ns_);
  set(index, never(around_->may_not("createIndex") + " in " + ns_.text() +
                   ", which unique_index: create needs"));
}

void CollectionWatch::learn(const YieldIndex& request, const DroppedIndex& answer, Time now) {
  for (IndexWatch& each : indexes_) {
    const std::string& field = around_->rules[each.rule].field;
    if (!each.is_making || field != request.field.name) continue;
    each.is_making = false;
    if (answer.index.empty()) {
      const bool may_not = answer.kind == AnswerKind::not_permitted;
      if (may_not) around_->miss("dropIndex", ns_);
      each.yields_from = now + (may_not ? Time(kNotPermittedRest) : Time(kYieldRest));
    } else {
      say(log::Level::info, "guard_yields",
          "an index of the application guards the field: the proxy has dropped its own", field,
          "index", answer.index);
    }
  }
}

// ---- what is said ------------------------------------------------------------------------------

/// Logs each new reason once, and the return to ready.
void CollectionWatch::set(IndexWatch& index, std::optional<ids::Error> obstacle) {
  index.obstacle = std::move(obstacle);
  const std::string reason = index.is_ready() ? "" : index.obstacle->reason;
  if (std::exchange(index.reported, reason) == reason) return;
  const std::string& field = around_->rules[index.rule].field;
  if (index.is_ready()) {
    say(log::Level::info, "ready_again", "the rule is ready: a unique index guards its field",
        field);
  } else {
    say(log::Level::error, "not_ready", "the proxy refuses inserts that need a value of the rule",
        field, "reason", reason);
  }
}

void CollectionWatch::publish(const IndexWatch& index) {
  if (!index.shared) return;
  index.shared->set(shown(index, ns_, *around_, uuid_), listed_at_);
  around_->answers.push_back(index.shared);
}

}  // namespace idproxy::id_store
