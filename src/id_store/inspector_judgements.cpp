#include <algorithm>
#include <chrono>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"

// How Collections evaluates responses and clients' changes, and what it tells the guards that
// writes ask.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::GuardState;
using ids::UniqueIndex;
using Kind = CatalogResponse::Kind;

// The pause after an unreachable server, beside the second that it takes to find that out.
constexpr auto kRest = 250ms;
// Each attempt to make an index reads the whole collection. The pause is ten times as long, so that
// the server is not busy with attempts alone.
constexpr int kRestPerTry = 10;
constexpr auto kLongestRest = 1h;

constexpr std::string_view kBeingMade = "the unique index on the field is being made";
constexpr std::string_view kBeingBuilt = "the unique index on the field is still being built";

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
std::string cause_of(const CatalogResponse& response) {
  return response.kind == Kind::unreachable ? response.told : response.reason;
}

/// The effect of a missing privilege.
std::string consequence(std::string_view privilege) {
  if (privilege == "listCollections") {
    return "views and time-series collections of this database are not known: rules apply to them "
           "as to ordinary collections";
  }
  if (privilege == "listIndexes") return "the proxy cannot check for unique indexes";
  if (privilege == "find") {
    return "the proxy cannot see which documents have a value, and takes all of them for numbers "
           "in use";
  }
  if (privilege == "dropIndex") {
    return "the proxy's own unique index stays beside the application's";
  }
  if (privilege == "collStats") {
    return "the proxy cannot count documents, and estimates from duplicates alone how many numbers "
           "are in use";
  }
  return "the proxy cannot make unique indexes";
}

/// Nothing if the response does not tell, or the collection has yet to be made.
std::optional<ids::UniqueIndexes> unique_indexes_in(const CatalogResponse& response) {
  if (response.kind != Kind::answered) return std::nullopt;
  ids::UniqueIndexes found;
  for (const Index& index : response.indexes) {
    std::vector<std::string> fields;
    fields.reserve(index.keys.size());
    for (const Index::Key& key : index.keys) fields.push_back(key.field);
    const bool is_on_id = fields.size() == 1 && fields.front() == "_id";
    if (index.unique && !is_on_id) found.push_back(std::move(fields));
  }
  return found;
}

}  // namespace

void Collections::learn(const CatalogRequest& request, const CatalogResponse& response, Time now) {
  has_user_ = response.has_user;
  reached(response, now);
  const std::string& db = request.ns.db;
  if (request.kind == CatalogRequest::Kind::databases) return learn_databases(response, now);
  if (request.kind == CatalogRequest::Kind::left_alone) {
    const auto database = databases_.find(db);
    if (database != databases_.end()) {
      learn_left_alone(database->second, db, response, now);
      schedule(database->first, database->second);
    }
    if (request.lists_all) learn_names(db, response, now);
    return;
  }
  if (request.kind == CatalogRequest::Kind::values) return;  // they have their answer
  if (request.kind == CatalogRequest::Kind::make_room) return learn_room(request, response);
  const auto found = collections_.find(request.ns.text());
  if (found == collections_.end()) return;  // forgotten meanwhile
  learn(found->second, request, response, now);
  schedule(found->second);
}

void Collections::learn(Collection& collection, const CatalogRequest& request,
                        const CatalogResponse& response, Time now) {
  if (request.kind == CatalogRequest::Kind::indexes)
    return learn_indexes(collection, request, response, now);
  if (request.kind == CatalogRequest::Kind::documents)
    return learn_documents(collection, response, now);
  for (Guard& guard : collection.guards) {
    const bool is_this = guard.making && rules_[guard.rule].field == request.field.name;
    if (!is_this) continue;
    if (request.kind == CatalogRequest::Kind::yield) {
      learn_yielded(collection, guard, response, now);
      continue;
    }
    learn_made(collection, guard, response, now);
    publish(collection, guard);
  }
}

/// When a server can be reached again, all failed requests are due at once.
void Collections::reached(const CatalogResponse& response, Time now) {
  if (response.kind == Kind::unreachable) {
    not_before_ = now + kRest;
    if (!down_) go_down(response);
    return;
  }
  if (!down_) return;
  down_.reset();
  not_before_ = {};
  const auto hurry = [now](Look& look) {
    if (std::exchange(look.failed, false)) look.hurry(now);
  };
  for (auto& [name, database] : databases_) {
    hurry(database.look);
    schedule(name, database);
  }
  for (auto& [ns, collection] : collections_) {
    hurry(collection.indexes);
    hurry(collection.documents);
    schedule(collection);
  }
  log_events_.push_back({log::Level::info,
                         "inspection_again",
                         "the id store answers again: the proxy checks collections again",
                         {}});
}

/// Other unchecked rules get the reason at once, without a request of their own.
void Collections::go_down(const CatalogResponse& response) {
  was_down_ = true;
  down_ = response.reason;
  down_told_ = response.told;
  log_events_.push_back({log::Level::warning,
                         "inspection_failing",
                         "the id store cannot be used: the proxy cannot check collections",
                         {{"reason", response.reason}, {}, {}}});
  for (auto& [ns, collection] : collections_) {
    for (Guard& guard : collection.guards) {
      if (guard.verdict.kind != Verdict::Kind::unchecked || guard.making) continue;
      set(collection, guard, {Verdict::Kind::unchecked, kCannotCheck + down_told_});
      publish(collection, guard);
    }
  }
}

void Collections::learn_left_alone(Database& database, std::string_view db,
                                   const CatalogResponse& response, Time now) {
  const bool answered = response.kind == Kind::answered;
  const bool not_permitted = response.kind == Kind::not_permitted;
  if (not_permitted) miss("listCollections", {std::string(db), {}});
  if (answered || not_permitted) {
    database.failing_since.reset();
  } else if (!database.failing_since) {
    database.failing_since = now;
  }
  database.look.answered(response, now + (database.failing_since ? Time(kSoon) : round()));
  // Old knowledge expires.
  if (database.failing_since && now - *database.failing_since < kRound) return;
  if (database.left_alone == response.left_alone) return;
  const auto before = std::exchange(database.left_alone, response.left_alone);
  ++version_;
  for (auto& [ns, collection] : collections_) {
    const bool was_left_alone = before.contains(collection.ns.collection);
    if (collection.ns.db != db || was_left_alone == is_left_alone(collection.ns)) continue;
    forget(collection, "the collection has not been looked at yet", now);
  }
}

void Collections::learn_databases(const CatalogResponse& response, Time now) {
  if (response.kind != Kind::answered) {
    const bool passes = response.kind == Kind::unreachable;
    databases_due_ = passes ? now + kSoon : kNever;
    return;
  }
  for (const std::string& name : response.names) {
    const std::string any = name + ".*";
    const bool touched = std::ranges::any_of(rules_, [&](const WatchedRule& rule) {
      return lists_collections(rule) && globs_overlap(rule.ns, any);
    });
    // Half of the room is for what writes name.
    if (!touched || databases_.size() >= kMostDatabases / 2) continue;
    Database& found = database(name);
    found.lists_all = true;
    found.look.hurry(now);
    schedule(name, found);
  }
}

/// Begins to look at the collections that exist.
void Collections::learn_names(const std::string& db, const CatalogResponse& response, Time now) {
  if (response.kind == Kind::unreachable) return;  // it is asked again
  if (const auto found = databases_.find(db); found != databases_.end()) {
    found->second.lists_all = false;
  }
  for (const std::string& name : response.names) {
    const Namespace ns{db, name};
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      const WatchedRule& its = rules_[rule];
      if (!lists_collections(its) || rule_of(rules_, ns.text(), its.field) != rule) continue;
      if (collections_.size() >= kMostCollections / 2 || collections_.contains(ns.text())) continue;
      guard(collection(ns), rule, now).listed = true;
    }
  }
}

void Collections::learn_indexes(Collection& collection, const CatalogRequest& request,
                                const CatalogResponse& response, Time now) {
  if (request.epoch != collection.epoch) {
    if (collection.indexes.due == kNever) collection.indexes.due = now;
    return;
  }
  const bool is_missed = response.kind == Kind::not_permitted && !collection.guards.empty();
  if (is_missed) miss("listIndexes", collection.ns);
  learn_which(collection, request, response);
  collection.unique_indexes = unique_indexes_in(response);
  bool all_well = true;
  bool others_build = false;
  for (Guard& guard : collection.guards) {
    const auto offer = response.offers.find(rules_[guard.rule].field);
    if (offer != response.offers.end()) {
      guard.offer = offer->second;
      guard.offer_due = now + kOfferRound;
    }
    judge(collection, guard, response, now);
    publish(collection, guard);
    all_well = all_well && (guard.listed || guard.verdict.is_ready());
    others_build = others_build || (guard.verdict.reason == kBeingBuilt && !guard.making);
  }
  const bool hurries = others_build && is_awaited(collection);
  const Time round = response.kind == Kind::unreachable ? Time(kSoon)
                     : all_well                         ? round_if_well()
                     : hurries                          ? Time(kAwaitedRound)
                                                        : Time(kNotReadyRound);
  collection.indexes.answered(response, now + round);
}

/// When to look at the indexes of a collection again with which all is well.
Collections::Time Collections::round_if_well() const {
  const auto all = static_cast<std::int64_t>(collections_.size());
  return std::clamp<Time>(all * kPerLook, kSoon, round());
}

/// Notes which collection was looked at. Its UUID was read before its indexes: if it has been
/// replaced in between, the server refuses writes with that UUID.
void Collections::learn_which(Collection& collection, const CatalogRequest& request,
                              const CatalogResponse& response) {
  const bool is_there = response.kind == Kind::answered;
  if (is_there || response.kind == Kind::no_collection) collection.indexes_at = request.at;
  if (request.is_anew && is_there) {
    collection.uuid = response.uuid;
    collection.is_anew = false;
  } else if (response.kind == Kind::no_collection) {
    collection.uuid.reset();
    collection.is_anew = true;
  }
  const auto database = databases_.find(collection.ns.db);
  if (!response.is_left_alone || database == databases_.end()) return;
  LeftAloneByName& names = database->second.left_alone;
  if (names.emplace(collection.ns.collection, *response.is_left_alone).second) ++version_;
}

Commands Collections::command_for(const Collection& collection, const Guard& guard) const {
  return create_index_command(collection.ns, unique_field(rules_[guard.rule]), guard.offer);
}

void Collections::judge(Collection& collection, Guard& guard, const CatalogResponse& response,
                        Time now) {
  const WatchedRule& rule = rules_[guard.rule];
  if (!demands_index(rule)) return judge_warned(collection, guard, response);
  const bool creates = rule.unique_index == UniqueIndex::create;
  const bool has_failed = guard.verdict.kind == Verdict::Kind::failed;
  if (response.kind == Kind::unreachable || response.kind == Kind::refused) {
    if (guard.verdict.kind != Verdict::Kind::unchecked) return;
    const bool cannot = response.kind == Kind::refused && !response.passes;
    return set(collection, guard,
               {cannot ? Verdict::Kind::failed : Verdict::Kind::unchecked,
                kCannotCheck + cause_of(response)});
  }
  const UniqueField field = unique_field(rule);
  const Index* found = guard_among(response.indexes, field);
  if (creates) {
    const Index* readable = readable_guard_among(response.indexes, field);
    guard.is_unreadable = readable == nullptr && found != nullptr;
    guard.cannot_make = guard.cannot_make && guard.is_unreadable;
    if (!guard.cannot_make) found = readable;
  }
  guard.absent = guard.lacks = guard.yields = false;
  if (found != nullptr && !found->building) {
    guard.had_index = true;
    guard.yields = creates && !guard.making && yields_to(response.indexes, field) != nullptr;
    guard.make_due = guard.yields ? std::max(now, guard.yield_at) : kNever;
    return set(collection, guard, {Verdict::Kind::ready, {}});
  }
  // Nobody may ever store a value there. An index that was there has gone.
  if (guard.listed) {
    guard.verdict.kind = Verdict::Kind::unchecked;
    return;
  }
  if (found != nullptr || guard.making) {
    if (has_failed) return;
    return wait_for_index(collection, guard, kBeingBuilt, now);
  }
  if (response.kind == Kind::not_permitted) {
    return set(collection, guard,
               {Verdict::Kind::failed,
                may_not("listIndexes") + " of " + collection.ns.text() +
                    ", which unique_index: " + (creates ? "create" : "require") + " needs"});
  }
  if (creates && !rule.repeats) {
    // The application may want to make the collection itself, with options of its own.
    guard.absent = response.kind == Kind::no_collection;
    if (guard.absent && !is_awaited(collection)) {
      guard.tries_again = has_failed;
      if (!has_failed) guard.verdict = {Verdict::Kind::ready, {}};
      return;
    }
    if (guard.make_due == kNever) guard.make_due = now;
    if (guard.absent) awaited_.push_front(collection.ns.text());
    if (has_failed) return;
    return wait_for_index(collection, guard, kBeingMade, now);
  }
  guard.lacks = true;
  guard.why_not = why_not(response.indexes, field);
  const auto advice =
      std::make_shared<const Reason>(Reason{"no unique index guards the field" + guard.why_not,
                                            "; make it with ", command_for(collection, guard)});
  set(collection, guard, {Verdict::Kind::failed, advice->whole(), advice});
}

/// The index of an empty collection is made at once: the log has it only if it takes long.
void Collections::wait_for_index(Collection& collection, Guard& guard, std::string_view why,
                                 Time now) {
  Verdict verdict{Verdict::Kind::unchecked, std::string(why)};
  const bool goes_on =
      guard.verdict.kind == Verdict::Kind::unchecked && guard.verdict.reason == why;
  if (!goes_on) guard.unchecked_since = now;
  if (goes_on && now - guard.unchecked_since >= kNotReadyRound) {
    return set(collection, guard, std::move(verdict));
  }
  guard.verdict = std::move(verdict);
}

/// Says each change, and a missing index only where the collection exists.
void Collections::judge_warned(Collection& collection, Guard& guard,
                               const CatalogResponse& response) {
  const WatchedRule& rule = rules_[guard.rule];
  // Where values are reserved, the collection may be sharded, so that it can have no such index.
  if (rule.reserve) return;
  const UniqueField field = unique_field(rule);
  const bool is_offered = rule.unique_index == UniqueIndex::offer;
  const bool is_there = response.kind == Kind::answered;
  if (!is_there && response.kind != Kind::no_collection) return;
  const Index* found = guard_among(response.indexes, field);
  const bool is_building = found != nullptr && found->building;
  const bool lacks = (is_there || is_offered) && (found == nullptr || is_building);
  guard.why_not = !lacks        ? ""
                  : is_building ? " yet (" + named(found->name) + " is being built)"
                                : why_not(response.indexes, field);
  if (std::exchange(guard.warned, lacks) == lacks || is_offered) return;  // lack_index() has it
  if (!lacks) {
    if (is_there) {
      say(log::Level::info, "unique_index_again",
          "a unique index keeps values from being stored twice", collection.ns, field.name, {});
    }
    return;
  }
  say(log::Level::warning, "no_unique_index", kNoUniqueIndex + guard.why_not, collection.ns,
      field.name, {"command", command_for(collection, guard).text()});
}

/// Logs it of a rule's field, with a third field that has a value, if any.
void Collections::say(log::Level level, std::string_view event, std::string message,
                      const Namespace& ns, const std::string& field, LogEvent::Field third) {
  log_events_.push_back(
      {level, event, std::move(message), {{"ns", ns.text()}, {"field", field}, std::move(third)}});
}

void Collections::learn_made(Collection& collection, Guard& guard, const CatalogResponse& response,
                             Time now) {
  guard.making = guard.tries_again = false;
  if (response.kind == Kind::answered) {
    if (response.is_new) {
      // One that was there before has been dropped since, alone or with its collection.
      say(log::Level::info, "unique_index_made",
          guard.had_index ? "the unique index on the field had gone: the proxy has made it again"
                          : "the proxy has made the unique index on the field",
          collection.ns, rules_[guard.rule].field, {});
    }
    // Which collection has it?
    guard.absent = false;
    guard.verdict = {Verdict::Kind::unchecked, std::string(kBeingMade)};
    collection.is_anew = true;
    collection.indexes.hurry(now);
    ++collection.epoch;
    awaited_.push_front(collection.ns.text());
    return;
  }
  // Of a build that somebody has ended, for instance.
  const bool may_pass = response.kind == Kind::refused && response.passes;
  const bool is_refused = response.kind == Kind::refused && !response.passes;
  if (guard.is_unreadable && (is_refused || response.kind == Kind::not_permitted)) {
    guard.cannot_make = true;
    guard.make_due = kNever;
    collection.indexes.hurry(now);
    return;
  }
  const Time rest =
      std::min<Time>((now - guard.make_begun) * (may_pass ? 1 : kRestPerTry), kLongestRest);
  const Time least = may_pass ? Time(kMakesAgain) : Time(kNotReadyRound);
  guard.make_due = guard.absent ? kNever : now + std::max<Time>(rest, least);
  Verdict verdict{Verdict::Kind::failed,
                  "the unique index on the field cannot be made: " + cause_of(response)};
  if (response.kind == Kind::unreachable || may_pass) {
    if (guard.verdict.kind != Verdict::Kind::unchecked) return;
    verdict.kind = Verdict::Kind::unchecked;
  } else if (response.kind == Kind::not_permitted) {
    miss("createIndex", collection.ns);
    verdict.reason = may_not("createIndex") + " in " + collection.ns.text() +
                     ", which unique_index: create needs";
  }
  set(collection, guard, std::move(verdict));
}

void Collections::learn_room(const CatalogRequest& request, const CatalogResponse& response) {
  if (response.kind == Kind::not_permitted) miss("dropIndex", request.ns);
  if (response.index.empty()) return;
  log_events_.push_back({log::Level::info,
                         "guard_makes_room",
                         "the proxy has replaced its own unique index by another one, since the "
                         "server refused an index of the application because of it",
                         {{"ns", request.ns.text()}, {"index", response.index}, {}}});
}

void Collections::learn_yielded(const Collection& collection, Guard& guard,
                                const CatalogResponse& response, Time now) {
  guard.making = false;
  if (response.index.empty()) {
    const bool may_not = response.kind == Kind::not_permitted;
    if (may_not) miss("dropIndex", collection.ns);
    guard.yield_at = now + (may_not ? Time(kNotPermittedRest) : Time(kYieldRest));
    return;
  }
  say(log::Level::info, "guard_yields",
      "an index of the application guards the field: the proxy has dropped its own", collection.ns,
      rules_[guard.rule].field, {"index", response.index});
}

/// Logs each new reason once, and the return to ready.
void Collections::set(Collection& collection, Guard& guard, Verdict verdict) {
  guard.verdict = std::move(verdict);
  const std::string& reason = guard.verdict.reason;
  if (guard.reported == reason) return;
  guard.reported = reason;
  const bool ready = guard.verdict.is_ready();
  say(ready ? log::Level::info : log::Level::warning, ready ? "ready_again" : "not_ready",
      ready ? "the rule is ready: a unique index guards its field"
            : "the proxy refuses inserts that need a value of the rule",
      collection.ns, rules_[guard.rule].field, {"reason", reason});
}

/// "the id store's user may not listIndexes"
std::string Collections::may_not(std::string_view privilege) const {
  const char* who = has_user_ ? "the id store's user" : "the id store, which logs in as no user,";
  return std::string(who) + " may not " + std::string(privilege);
}

/// Logs a privilege once per database, with the first collection that needed it.
void Collections::miss(std::string_view privilege, const Namespace& ns) {
  // Clients can make the proxy remember at most this many: six privileges per database.
  if (missed_.size() >= 6 * kMostDatabases) return;
  if (!missed_.insert(std::string(privilege) + " " + ns.db).second) return;
  log_events_.push_back(
      {log::Level::warning,
       "missing_privilege",
       may_not(privilege) + " in " + ns.db + ": " + consequence(privilege),
       {{"privilege", std::string(privilege)}, {"db", ns.db}, {"collection", ns.collection}}});
}

// ---- guards ------------------------------------------------------------------------------------

/// Returns the guard's state for writes.
GuardState Collections::shown(const Collection& collection, const Guard& guard) const {
  using State = GuardState::Kind;
  const auto unknown = [](std::string_view why) {
    return GuardState{State::unknown, {ids::Errc::unavailable, std::string(why)}, {}};
  };
  if (is_left_alone(collection.ns)) return {State::left_alone, {}, {}};
  if (is_changing(collection)) {
    return unknown("a command that changes the collection or its indexes is under way");
  }
  const Verdict& verdict = guard.verdict;
  if (verdict.is_ready() && guard.absent) return unknown(kBeingMade);
  if (verdict.is_ready()) return {State::guarded, {}, collection.uuid};
  const bool is_sure = verdict.kind == Verdict::Kind::failed && !guard.tries_again;
  return is_sure ? GuardState{State::unguarded, verdict.error(), {}} : unknown(verdict.reason);
}

void Collections::publish(Collection& collection, Guard& guard) {
  if (!guard.shared) return;
  guard.shared->set(shown(collection, guard), collection.indexes_at);
  answers_.push_back(guard.shared);
}

bool Collections::is_awaited(const Collection& collection) {
  return std::ranges::any_of(collection.guards, [](const Guard& guard) {
    return guard.shared != nullptr && guard.shared->is_awaited();
  });
}

/// The collection may have been forgotten since the guard was handed out.
void Collections::need(const ids::Guard& who, ids::Guard::Need need, Time now) {
  Collection& known = collection({who.db(), who.collection()});
  Guard& its = asked_guard(known, who.rule(), now);
  if (its.shared.get() != &who) {
    its.shared = std::const_pointer_cast<ids::Guard>(who.shared_from_this());
  }
  if (need == ids::Guard::Need::anew) {
    forget(known, "the collection has been dropped, made anew or renamed", now);
  }
  if (its.absent && its.make_due == kNever && !its.making) its.make_due = now;
  known.indexes.hurry(now);
  schedule(known);
  awaited_.push_back(known.ns.text());
  news_ = true;
}

// ---- changes -----------------------------------------------------------------------------------

bool Collections::is_changing(const Collection& collection) const {
  return std::ranges::any_of(changes_, [&](const ids::CatalogChange& change) {
    return change.includes(collection.ns.db, collection.ns.collection);
  });
}

/// Voids all that is known of the collection, and the responses to requests that are under way.
void Collections::forget(Collection& collection, std::string_view why, Time now) {
  ++collection.epoch;
  collection.is_anew = true;
  collection.uuid.reset();
  const bool is_of_use = !collection.guards.empty() || collection.unique_indexes;
  collection.unique_indexes.reset();
  if (is_of_use) collection.indexes.due = now;
  for (Guard& guard : collection.guards) {
    if (!guard.shared) continue;
    guard.verdict = {Verdict::Kind::unchecked, std::string(why)};
    guard.absent = guard.tries_again = false;
    publish(collection, guard);
  }
  schedule(collection);
  if (is_awaited(collection)) awaited_.push_back(collection.ns.text());
  news_ = true;
}

void Collections::begin_change(const ids::CatalogChange& change, Time now) {
  changes_.push_back(change);
  forget_changed(change, now);
}

void Collections::forget_changed(const ids::CatalogChange& change, Time now) {
  each_changed(change, [&](Collection& collection) {
    forget(collection, "a command has changed the collection or its indexes", now);
  });
}

template <class Use>
void Collections::each_changed(const ids::CatalogChange& change, const Use& use) {
  const std::string prefix =
      change.db.empty() ? std::string() : change.db + "." + change.collection;
  auto next = collections_.lower_bound(prefix);
  for (; next != collections_.end() && next->first.starts_with(prefix); ++next) {
    Collection& each = next->second;
    if (change.includes(each.ns.db, each.ns.collection)) use(each);
  }
}

void Collections::end_change(const ids::CatalogChange& change, Time now) {
  const auto under_way = std::ranges::find(changes_, change);
  if (under_way == changes_.end()) return;
  changes_.erase(under_way);
  forget_changed(change, now);
  // It may have made a view, or dropped one.
  for (auto& [name, database] : databases_) {
    const bool is_changed = change.db.empty() || change.db == name;
    if (!is_changed) continue;
    database.look.hurry(now);
    schedule(name, database);
  }
  news_ = true;
}

}  // namespace idproxy::id_store
