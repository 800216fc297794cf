#include <algorithm>
#include <utility>

#include "id_store/inspector_collections.hpp"

// The part of Collections that sets the guards that writes ask, and voids them.
namespace idproxy::id_store {

using ids::GuardState;

/// Returns the guard's state for writes.
GuardState Collections::shown(const Collection& collection, const Guard& guard) const {
  using State = GuardState::Kind;
  const auto unknown = [](std::string why) {
    return GuardState{State::unknown, {ids::Errc::unavailable, std::move(why)}, {}};
  };
  if (is_left_alone(collection.ns())) return {State::left_alone, {}, {}};
  if (is_changing(collection)) {
    return unknown("a command that changes the collection or its indexes is under way");
  }
  switch (guard.state) {
    case Guard::State::ready:
      if (guard.absent) return unknown("the unique index on the field is being made");
      return {State::guarded, {}, collection.uuid};
    case Guard::State::failed:
      if (guard.tries_again) return unknown(guard.reason);
      return {State::unguarded, {ids::Errc::exhausted, guard.reason}, {}};
    case Guard::State::unchecked:
      break;
  }
  return unknown(guard.reason);
}

void Collections::publish(Collection& collection, Guard& guard) {
  if (!guard.shared) return;
  guard.shared->set(shown(collection, guard), collection.indexes_at);
  answers_.push_back(guard.shared);
}

void Collections::publish(Collection& collection) {
  for (Guard& guard : collection.guards) publish(collection, guard);
}

bool Collections::is_awaited(const Collection& collection) {
  return std::ranges::any_of(collection.guards, [](const Guard& guard) {
    return guard.shared != nullptr && guard.shared->is_awaited();
  });
}

/// The collection may have been forgotten since the guard was handed out.
void Collections::need(const ids::Guard& who, ids::Guard::Need need, Time now) {
  Collection& known = collection(who.db(), who.collection());
  Guard& its = asked_guard(known, who.rule(), now);
  if (its.shared.get() != &who) {
    its.shared = std::const_pointer_cast<ids::Guard>(who.shared_from_this());
  }
  if (need == ids::Guard::Need::anew) {
    forget(known, "the collection has been dropped, made anew or renamed", now);
  }
  if (its.absent && its.make_due == kNever && !its.making) its.make_due = now;
  if (known.indexes_due != kNever) known.indexes_due = std::min(known.indexes_due, now);
  awaited_.push_back(known.ns());
  news_ = true;
}

// ---- changes -----------------------------------------------------------------------------------

bool Collections::is_changing(const Collection& collection) const {
  return std::ranges::any_of(changes_, [&](const ids::CatalogChange& change) {
    return change.includes(collection.db, collection.name);
  });
}

/// Voids all that is known of the collection, and the responses to requests that are under way.
void Collections::forget(Collection& collection, std::string_view why, Time now) {
  ++collection.epoch;
  collection.is_anew = true;
  collection.uuid.reset();
  const bool is_of_use = !collection.guards.empty() || collection.unique_indexes;
  collection.unique_indexes.reset();
  if (is_of_use) collection.indexes_due = now;
  for (Guard& guard : collection.guards) {
    if (!guard.shared) continue;
    guard.state = Guard::State::unchecked;
    guard.reason = why;
    guard.absent = guard.tries_again = false;
    publish(collection, guard);
  }
  if (is_awaited(collection)) awaited_.push_back(collection.ns());
  news_ = true;
}

void Collections::begin_change(const ids::CatalogChange& change, Time now) {
  changes_.push_back(change);
  for (auto& [ns, collection] : collections_) {
    if (change.includes(collection.db, collection.name)) {
      forget(collection, "a command has changed the collection or its indexes", now);
    }
  }
}

void Collections::end_change(const ids::CatalogChange& change, Time now) {
  const auto under_way = std::ranges::find(changes_, change);
  if (under_way == changes_.end()) return;
  changes_.erase(under_way);
  for (auto& [ns, collection] : collections_) {
    if (!change.includes(collection.db, collection.name)) continue;
    forget(collection, "a command has changed the collection or its indexes", now);
  }
  // It may have made a view, or dropped one.
  for (auto& [name, database] : databases_) {
    const bool is_changed = change.db.empty() || change.db == name;
    if (is_changed && database.due != kNever) database.due = now;
  }
  news_ = true;
}

}  // namespace idproxy::id_store
