#include <algorithm>
#include <chrono>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "idproxy/base/glob.hpp"

// How Collections evaluates responses.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
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

bool seems_to_guard(const Index& index, std::string_view field, const Repeats& repeats) {
  if (!index.unique || index.keys.empty()) return false;
  if (!repeats.any()) return index.keys.front().field == field;
  return std::ranges::find(index.keys, field, &Index::Key::field) != index.keys.end();
}

std::string fault_of(const Index& index, std::string_view field, const Repeats& repeats) {
  if (has_key(index, field, repeats)) return "it holds some of the documents only";
  if (!repeats.any()) return "its key has further fields, and values may repeat";
  if (repeats.and_more) return "its key needs a field that differs from period to period";
  return "its key must be the field and those of `scope`";
}

/// Why an index that looks sufficient is not, for people: "", or a text that begins with a blank.
std::string why_not(const std::vector<Index>& indexes, std::string_view field, ValueType type,
                    const Repeats& repeats) {
  for (const Index& index : indexes) {
    if (!seems_to_guard(index, field, repeats)) continue;
    if (guards(index, field, type, repeats)) continue;
    return " (" + index.name + " does not do: " + fault_of(index, field, repeats) + ")";
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
  if (request.kind == CatalogRequest::Kind::databases) return learn_databases(response, now);
  if (request.kind == CatalogRequest::Kind::left_alone) {
    const auto database = databases_.find(request.db);
    if (database != databases_.end()) {
      learn_left_alone(database->second, request.db, response, now);
    }
    if (request.lists_all) learn_names(request.db, response, now);
    return;
  }
  if (request.kind == CatalogRequest::Kind::values) return;  // they have their answer
  const auto found = collections_.find(request.db + "." + request.collection);
  if (found == collections_.end()) return;  // forgotten meanwhile
  Collection& collection = found->second;
  if (request.kind == CatalogRequest::Kind::indexes)
    return learn_indexes(collection, request, response, now);
  if (request.kind == CatalogRequest::Kind::documents)
    return learn_documents(collection, response, now);
  for (Guard& guard : collection.guards) {
    const bool is_this = guard.making && rules_[guard.rule].field == request.field;
    if (!is_this) continue;
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
  const auto hurry = [now](bool& failed, Time& due) {
    if (std::exchange(failed, false)) due = std::min(due, now);
  };
  for (auto& [name, database] : databases_) hurry(database.failed, database.due);
  for (auto& [ns, collection] : collections_) {
    if (!std::exchange(collection.failed, false)) continue;
    for (Time Collection::* due : {&Collection::indexes_due, &Collection::documents_due}) {
      if (collection.*due != kNever) collection.*due = std::min(collection.*due, now);
    }
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
      if (guard.state != Guard::State::unchecked || guard.making) continue;
      set(collection, guard, guard.state, kCannotCheck + down_told_);
      publish(collection, guard);
    }
  }
}

void Collections::learn_left_alone(Database& database, std::string_view db,
                                   const CatalogResponse& response, Time now) {
  const bool answered = response.kind == Kind::answered;
  const bool not_permitted = response.kind == Kind::not_permitted;
  if (not_permitted) miss("listCollections", std::string(db), "");
  database.open = false;
  database.failed = response.kind == Kind::unreachable;
  if (answered || not_permitted) {
    database.failing_since.reset();
  } else if (!database.failing_since) {
    database.failing_since = now;
  }
  database.due = now + (database.failing_since ? kSoon : kRound);
  // Old knowledge expires.
  if (database.failing_since && now - *database.failing_since < kRound) return;
  if (database.left_alone == response.left_alone) return;
  const auto before = std::exchange(database.left_alone, response.left_alone);
  ++version_;
  for (auto& [ns, collection] : collections_) {
    if (collection.db != db || before.contains(collection.name) == is_left_alone(ns)) continue;
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
      return lists(rule) && globs_overlap(rule.ns, any);
    });
    // Half of the room is for what writes name.
    if (!touched || databases_.size() >= kMostDatabases / 2) continue;
    Database& found = database(name);
    found.lists_all = true;
    if (found.due != kNever) found.due = now;
  }
}

/// Begins to look at the collections that exist.
void Collections::learn_names(std::string_view db, const CatalogResponse& response, Time now) {
  if (response.kind == Kind::unreachable) return;  // it is asked again
  if (const auto found = databases_.find(db); found != databases_.end()) {
    found->second.lists_all = false;
  }
  for (const std::string& name : response.names) {
    const std::string ns = std::string(db) + "." + name;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (!lists(rules_[rule]) || rule_of(rules_, ns, rules_[rule].field) != rule) continue;
      if (collections_.size() >= kMostCollections / 2 || collections_.contains(ns)) continue;
      guard(collection(db, name), rule, now).listed = true;
    }
  }
}

void Collections::learn_indexes(Collection& collection, const CatalogRequest& request,
                                const CatalogResponse& response, Time now) {
  if (request.epoch != collection.epoch) {
    if (collection.indexes_due == kNever) collection.indexes_due = now;
    return;
  }
  collection.indexes_open = false;
  collection.failed = collection.failed || response.kind == Kind::unreachable;
  if (response.kind == Kind::not_permitted) miss("listIndexes", collection.db, collection.name);
  learn_which(collection, request, response);
  collection.unique_indexes = unique_indexes_in(response);
  bool all_well = true;
  bool others_build = false;
  for (Guard& guard : collection.guards) {
    take_offer(guard, response, now);
    judge(collection, guard, response, now);
    publish(collection, guard);
    all_well = all_well && (guard.listed || guard.state == Guard::State::ready);
    others_build = others_build || (guard.reason == kBeingBuilt && !guard.making);
  }
  const bool unreachable = response.kind == Kind::unreachable;
  const bool hurries = others_build && is_awaited(collection);
  const Time round = unreachable ? Time(kSoon)
                     : all_well  ? Time(kRound)
                     : hurries   ? Time(kAwaitedRound)
                                 : Time(kNotReadyRound);
  collection.indexes_due = now + round;
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
  if (!response.is_left_alone) return;
  LeftAloneByName& names = database(collection.db).left_alone;
  if (names.emplace(collection.name, *response.is_left_alone).second) ++version_;
}

void Collections::take_offer(Guard& guard, const CatalogResponse& response, Time now) const {
  const auto offer = response.offers.find(rules_[guard.rule].field);
  if (offer == response.offers.end()) return;
  guard.offer = offer->second;
  guard.offer_due = now + kOfferRound;
}

std::string Collections::command_for(const Collection& collection, const Guard& guard) const {
  const WatchedRule& rule = rules_[guard.rule];
  return create_index_command({collection.db, collection.name}, rule.field,
                              value_type_of(rule.value_type), guard.offer);
}

void Collections::judge(Collection& collection, Guard& guard, const CatalogResponse& response,
                        Time now) {
  const WatchedRule& rule = rules_[guard.rule];
  if (!demands_index(rule.unique_index)) return judge_warned(collection, guard, response);
  const bool creates = rule.unique_index == UniqueIndex::create;
  if (response.kind == Kind::unreachable || response.kind == Kind::refused) {
    if (guard.state != Guard::State::unchecked) return;
    const bool cannot = response.kind == Kind::refused && !response.passes;
    return set(collection, guard, cannot ? Guard::State::failed : Guard::State::unchecked,
               kCannotCheck + cause_of(response));
  }
  const ValueType type = value_type_of(rule.value_type);
  const Repeats repeats = repeats_of(rule);
  const auto found = std::ranges::find_if(response.indexes, [&](const Index& index) {
    return guards(index, rule.field, type, repeats);
  });
  guard.absent = false;
  if (found != response.indexes.end() && !found->building) {
    guard.make_due = kNever;
    return set(collection, guard, Guard::State::ready, {});
  }
  // Nobody may ever store a value there. An index that was there has gone.
  if (guard.listed) {
    guard.state = Guard::State::unchecked;
    return;
  }
  if (found != response.indexes.end() || guard.making) {
    if (guard.state == Guard::State::failed) return;
    return wait_for_index(collection, guard, kBeingBuilt, now);
  }
  if (response.kind == Kind::not_permitted) {
    return set(collection, guard, Guard::State::failed,
               may_not("listIndexes") + " of " + collection.ns() +
                   ", which unique_index: " + (creates ? "create" : "require") + " needs");
  }
  if (creates && !repeats.and_more) {
    // The application may want to make the collection itself, with options of its own.
    guard.absent = response.kind == Kind::no_collection;
    if (guard.absent && !is_awaited(collection)) {
      guard.tries_again = guard.state == Guard::State::failed;
      if (guard.tries_again) return;
      guard.state = Guard::State::ready;
      guard.reason.clear();
      return;
    }
    if (guard.make_due == kNever) guard.make_due = now;
    if (guard.absent) awaited_.push_front(collection.ns());
    if (guard.state == Guard::State::failed) return;
    return wait_for_index(collection, guard, kBeingMade, now);
  }
  set(collection, guard, Guard::State::failed,
      "no unique index guards the field" + why_not(response.indexes, rule.field, type, repeats) +
          "; make it with " + command_for(collection, guard));
}

/// The index of an empty collection is made at once: the log has it only if it takes long.
void Collections::wait_for_index(Collection& collection, Guard& guard, std::string_view why,
                                 Time now) {
  const bool goes_on = guard.state == Guard::State::unchecked && guard.reason == why;
  if (!goes_on) guard.unchecked_since = now;
  if (goes_on && now - guard.unchecked_since >= kNotReadyRound) {
    return set(collection, guard, Guard::State::unchecked, std::string(why));
  }
  guard.state = Guard::State::unchecked;
  guard.reason = why;
}

/// Warns once per collection, when the collection exists.
void Collections::judge_warned(Collection& collection, Guard& guard,
                               const CatalogResponse& response) {
  // Where values are reserved, the collection may be sharded, so that it can have no such index.
  if (rules_[guard.rule].reserve) return;
  const std::string& field = rules_[guard.rule].field;
  const ValueType type = value_type_of(rules_[guard.rule].value_type);
  const Repeats repeats = repeats_of(rules_[guard.rule]);
  const bool is_offered = rules_[guard.rule].unique_index == UniqueIndex::offer;
  const bool is_known =
      response.kind == Kind::answered || (is_offered && response.kind == Kind::no_collection);
  if (guard.warned || !is_known) return;
  if (std::ranges::any_of(response.indexes, [&](const Index& index) {
        return guards(index, field, type, repeats);
      })) {
    return;
  }
  guard.warned = true;
  if (is_offered) return;  // lack_index() has it
  log_events_.push_back(
      {log::Level::warning,
       "no_unique_index",
       "no unique index keeps a value from being stored twice" +
           why_not(response.indexes, field, type, repeats),
       {{"ns", collection.ns()}, {"field", field}, {"command", command_for(collection, guard)}}});
}

void Collections::learn_made(Collection& collection, Guard& guard, const CatalogResponse& response,
                             Time now) {
  guard.making = guard.tries_again = false;
  if (response.kind == Kind::answered) {
    // Which collection has it?
    guard.absent = false;
    guard.state = Guard::State::unchecked;
    guard.reason = kBeingMade;
    collection.is_anew = true;
    if (collection.indexes_due != kNever) collection.indexes_due = now;
    ++collection.epoch;
    awaited_.push_front(collection.ns());
    return;
  }
  const Time rest = std::min<Time>((now - guard.make_begun) * kRestPerTry, kLongestRest);
  guard.make_due = guard.absent ? kNever : now + std::max<Time>(rest, kNotReadyRound);
  if (response.kind == Kind::unreachable) {
    if (guard.state != Guard::State::unchecked) return;
    return set(collection, guard, Guard::State::unchecked,
               "the unique index on the field cannot be made: " + cause_of(response));
  }
  if (response.kind == Kind::not_permitted) {
    miss("createIndex", collection.db, collection.name);
    return set(
        collection, guard, Guard::State::failed,
        may_not("createIndex") + " in " + collection.ns() + ", which unique_index: create needs");
  }
  set(collection, guard, Guard::State::failed,
      "the unique index on the field cannot be made: " + response.reason);
}

/// Logs each new reason once, and the return to ready.
void Collections::set(Collection& collection, Guard& guard, Guard::State state,
                      std::string reason) {
  const std::string& field = rules_[guard.rule].field;
  guard.state = state;
  guard.reason = std::move(reason);
  if (guard.reported == guard.reason) return;
  guard.reported = guard.reason;
  const bool ready = state == Guard::State::ready;
  log_events_.push_back({ready ? log::Level::info : log::Level::warning,
                         ready ? "ready_again" : "not_ready",
                         ready ? "the rule is ready: a unique index guards its field"
                               : "the proxy refuses inserts that need a value of the rule",
                         {{"ns", collection.ns()}, {"field", field}, {"reason", guard.reason}}});
}

/// "the id store's user may not listIndexes"
std::string Collections::may_not(std::string_view privilege) const {
  const char* who = has_user_ ? "the id store's user" : "the id store, which logs in as no user,";
  return std::string(who) + " may not " + std::string(privilege);
}

/// Logs a privilege once per database, with the first collection that needed it.
void Collections::miss(std::string_view privilege, const std::string& db,
                       const std::string& collection) {
  // Clients can make the proxy remember at most this many: five privileges per database.
  if (missed_.size() >= 5 * kMostDatabases) return;
  if (!missed_.insert(std::string(privilege) + " " + db).second) return;
  log_events_.push_back(
      {log::Level::warning,
       "missing_privilege",
       may_not(privilege) + " in " + db + ": " + consequence(privilege),
       {{"privilege", std::string(privilege)}, {"db", db}, {"collection", collection}}});
}

}  // namespace idproxy::id_store
