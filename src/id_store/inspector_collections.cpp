#include "id_store/inspector_collections.hpp"

#include <limits>
#include <utility>

#include "idproxy/base/glob.hpp"

namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::Readiness;
using ids::UniqueIndex;

// How often to check how full the spaces of random numbers are.
constexpr auto kFillRound = 5s;

}  // namespace

std::optional<std::size_t> rule_of(const std::vector<WatchedRule>& rules, std::string_view ns,
                                   std::string_view field) {
  const auto found = std::ranges::find_if(
      rules, [&](const WatchedRule& rule) { return rule.field == field && rule.matches(ns); });
  if (found == rules.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules.begin());
}

// ---- the rules ---------------------------------------------------------------------------------

Collections::Collections(std::vector<WatchedRule> rules, Time now, Collections before)
    : rules_(std::move(rules)) {
  take_over(before, now);
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) pin(rule, now);
  for (auto& [name, database] : databases_) {
    database.awaited = !database.looked();
    schedule(name, database);
  }
  for (auto& [ns, collection] : collections_) {
    collection.awaited = !collection.looked();
    schedule(collection);
  }
  for (const WatchedRule& rule : rules_) {
    if (std::ranges::find(before.rules_, rule) == before.rules_.end()) list_all(rule);
  }
}

void Collections::pin(std::size_t rule, Time now) {
  const Namespace ns = split_namespace(rules_[rule].ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) return;
  database(ns.db).pinned = true;
  if (has_wildcards(ns.collection)) return;
  Collection& known = collection(ns);
  known.pinned = true;
  if (rules_[rule].field == "_id") {
    look_once(known, now);
  } else {
    guard(known, rule, now);
  }
  if (rules_[rule].counts_documents) numbers(known, rules_[rule].field, now);
}

/// Has all collections of the rule that exist looked at in the background, so that the first write
/// into each of them rarely waits. Once: later ones come up with their first write.
void Collections::list_all(const WatchedRule& rule) {
  if (!lists_collections(rule)) return;
  const Namespace ns = split_namespace(rule.ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) {
    databases_due_ = Time{};
  } else {
    database(ns.db).lists_all = true;
  }
  news_ = true;
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
  sweep_databases_at_ = before.sweep_databases_at_;
  sweep_collections_at_ = before.sweep_collections_at_;
  for (auto& [name, known] : before.databases_) {
    const std::string any = name + ".*";
    const bool touched = std::ranges::any_of(
        rules_, [&](const WatchedRule& rule) { return globs_overlap(rule.ns, any); });
    if (!touched) continue;
    known.pinned = false;
    known.listed = kNever;
    known.look.resume(true, now);
    databases_.emplace(name, std::move(known));
  }
  for (auto& [ns, known] : before.collections_) take_over(std::move(known), before.rules_, now);
}

/// Of another space of random numbers, draws and duplicates say nothing, but the number of
/// documents still holds.
void Collections::take_over(Collection known, const std::vector<WatchedRule>& before, Time now) {
  const std::string ns = known.ns.text();
  const auto guards = std::exchange(known.guards, {});
  const auto all_numbers = std::exchange(known.numbers, {});
  known.pinned = false;
  known.listed = known.listed_to_make = kNever;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const WatchedRule& wanted = rules_[rule];
    if (rule_of(rules_, ns, wanted.field) != rule) continue;
    const auto same = std::ranges::find_if(guards, [&](const Guard& guard) {
      const WatchedRule& was = before[guard.rule];
      return was.unique_index == wanted.unique_index && was.value_type == wanted.value_type &&
             unique_field(was) == unique_field(wanted);
    });
    if (same != guards.end()) {
      Guard& taken = known.guards.emplace_back(*same);
      taken.rule = rule;
      if (taken.shared) {
        taken.shared = std::make_shared<ids::Guard>(rule, known.ns.db, known.ns.collection, tell_);
        publish(known, taken);
      }
    } else if (wanted.field != "_id") {
      guard(known, rule, now);
    }
    if (!wanted.counts_documents) continue;
    const auto found = std::ranges::find(all_numbers, wanted.field, &Numbers::field);
    const auto was = rule_of(before, ns, wanted.field);
    if (found != all_numbers.end() && was && before[*was].space == wanted.space) {
      Numbers& taken = known.numbers.emplace_back(*found);
      taken.free = free_values(known, taken);
      fills_due_ = std::min(fills_due_, now);
    } else {
      Numbers& added = numbers(known, wanted.field, now);
      if (found == all_numbers.end()) continue;
      if (const auto counted = found->fill->seen().documents) added.fill->counted(*counted);
    }
  }
  if (known.guards.empty() && known.numbers.empty()) return;
  known.indexes.resume(!known.guards.empty(), now);
  known.documents.resume(!known.numbers.empty(), now);
  collections_.emplace(ns, std::move(known));
}

// ---- questions ---------------------------------------------------------------------------------

Readiness Collections::readiness(std::size_t rule_index, std::string_view db, std::string_view name,
                                 Time now) {
  Database& in = database(db);
  if (const auto found = in.left_alone.find(name); found != in.left_alone.end()) {
    return {Readiness::Kind::left_alone, {}, found->second == LeftAlone::time_series};
  }
  Collection& known = collection({std::string(db), std::string(name)});
  if (rules_[rule_index].field == "_id") {  // whose unique index is always there
    look_once(known, now);
    return {.watched = known.lent};
  }
  Readiness readiness = asked_guard(known, rule_index, now).verdict.readiness();
  readiness.watched = known.lent;
  return readiness;
}

std::shared_ptr<ids::Guard> Collections::guard(std::size_t rule_index, std::string_view db,
                                               std::string_view name, Time now) {
  if (!demands_index(rules_[rule_index])) return nullptr;
  Collection& known = collection({std::string(db), std::string(name)});
  return asked_guard(known, rule_index, now).shared;
}

std::shared_ptr<ids::Fill> Collections::fill(std::string_view ns, std::string_view field,
                                             Time now) {
  return numbers(collection(split_namespace(ns)), field, now).fill;
}

std::shared_ptr<ids::FreeValues> Collections::free_values(std::string_view ns,
                                                          std::string_view field, Time now) {
  return numbers(collection(split_namespace(ns)), field, now).free;
}

std::shared_ptr<ids::FreeValues> Collections::free_values(const Collection& collection,
                                                          const Numbers& numbers) const {
  return std::make_shared<ids::FreeValues>(collection.ns.db, collection.ns.collection,
                                           numbers.field, numbers.fill, look_up_);
}

void Collections::look_up(std::shared_ptr<ids::FreeValues> values) {
  lookups_.push_back(std::move(values));
  news_ = true;
}

std::optional<ids::UniqueIndexes> Collections::unique_indexes(std::string_view ns, Time now) {
  Collection& known = collection(split_namespace(ns));
  if (!known.unique_indexes) look_once(known, now);
  return known.unique_indexes;
}

/// Of a collection without a guard: has its other indexes looked at, before a duplicate comes that
/// does not say of which index it is.
void Collections::look_once(Collection& collection, Time now) {
  if (collection.indexes.due != kNever || collection.indexes.open) return;
  collection.indexes.begin(now);
  schedule(collection);
  news_ = true;
}

std::vector<ids::NotReady> Collections::not_ready(std::size_t most_per_rule) const {
  std::vector<ids::NotReady> found;
  std::vector<std::size_t> counts(rules_.size());
  const auto add = [&](std::size_t rule, const std::string& ns, Readiness readiness) {
    if (counts[rule]++ < most_per_rule) found.push_back({rule, ns, std::move(readiness)});
  };
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const std::string& ns = rules_[rule].ns;
    if (is_left_alone(split_namespace(ns))) add(rule, ns, {Readiness::Kind::left_alone, {}});
  }
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(collection.ns)) continue;
    for (const Guard& guard : collection.guards) {
      if (!guard.verdict.is_ready() && !guard.listed)
        add(guard.rule, ns, guard.verdict.readiness());
    }
    for (const Numbers& numbers : collection.numbers) {
      const std::string why = why_full(numbers.fill->seen());
      const auto rule = rule_of(rules_, ns, numbers.field);
      if (why.empty() || !rule) continue;
      add(*rule, ns, {Readiness::Kind::not_ready, {ids::Errc::exhausted, why}});
    }
  }
  return found;
}

std::vector<std::size_t> Collections::not_ready_counts() const {
  std::vector<std::size_t> counts(rules_.size());
  for (const ids::NotReady& each : not_ready(std::numeric_limits<std::size_t>::max()))
    ++counts[each.rule_index];
  return counts;
}

std::map<std::size_t, MissingIndex> Collections::lack_index() const {
  std::map<std::size_t, MissingIndex> found;
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(collection.ns)) continue;
    for (const Guard& guard : collection.guards) {
      if (!guard.warned && !guard.lacks) continue;
      if (const auto first = found.find(guard.rule); first != found.end()) {
        ++first->second.collections;
        continue;
      }
      found.try_emplace(guard.rule, MissingIndex{collection.ns.text(),
                                                 command_for(collection, guard), guard.why_not});
    }
  }
  return found;
}

bool Collections::looked() const {
  const auto done = [](const auto& item) { return !item.second.awaited || item.second.looked(); };
  return was_down_ ||
         (std::ranges::all_of(databases_, done) && std::ranges::all_of(collections_, done));
}

bool Collections::Collection::looked() const {
  const auto is_open = [](const Guard& guard) {
    return guard.verdict.kind == Verdict::Kind::unchecked &&
           (guard.making || guard.make_due != kNever);
  };
  return !indexes.open && !documents.open && std::ranges::none_of(guards, is_open);
}

std::vector<LogEvent> Collections::take_log_events(Time now) {
  if (now >= fills_due_) {
    fills_due_ = now + kFillRound;
    for (auto& [ns, collection] : collections_) {
      for (Numbers& numbers : collection.numbers) judge_fill(collection, numbers, now);
    }
  }
  return std::exchange(log_events_, {});
}

// ---- memory ------------------------------------------------------------------------------------

Collections::Database& Collections::database(std::string_view db) {
  auto found = databases_.find(db);
  if (found == databases_.end()) {
    if (databases_.size() >= sweep_databases_at_) sweep_databases();
    found = databases_.emplace(db, Database()).first;
    schedule(found->first, found->second);
  }
  found->second.asked = ++asked_;
  news_ = news_ || found->second.look.open;
  return found->second;
}

Collections::Collection& Collections::collection(const Namespace& ns) {
  const std::string name = ns.text();
  auto found = collections_.find(name);
  if (found == collections_.end()) {
    if (collections_.size() >= sweep_collections_at_) sweep_collections();
    found = collections_.emplace(name, Collection()).first;
    found->second.ns = ns;
  }
  found->second.asked = ++asked_;
  return found->second;
}

/// True if somebody holds what it lends. Its free values hold the fill, too.
bool Collections::Collection::is_used() const {
  const auto lends_guard = [](const Guard& each) {
    return each.making || each.shared.use_count() > 1;
  };
  const auto lends_numbers = [](const Numbers& each) {
    return each.fill.use_count() > 2 || each.free.use_count() > 1;
  };
  return lent.use_count() > 1 || std::ranges::any_of(guards, lends_guard) ||
         std::ranges::any_of(numbers, lends_numbers);
}

bool Collections::has_collections(const std::string& db) const {
  const auto first = collections_.lower_bound(db + ".");
  return first != collections_.end() && first->first.starts_with(db + ".");
}

void Collections::sweep_collections() {
  std::erase_if(collections_, [this](const auto& item) {
    const auto& [name, each] = item;
    const bool is_recent = each.asked + kMostCollections / 2 >= asked_;
    if (each.pinned || is_recent || each.is_used()) return false;
    looks_.remove(name, each.listed);
    makes_.remove(name, each.listed_to_make);
    return true;
  });
  sweep_collections_at_ = std::max(kMostCollections, 2 * collections_.size());
}

/// After sweep_collections(): a database is used as long as one of its collections is known.
void Collections::sweep_databases() {
  sweep_collections();
  std::erase_if(databases_, [this](const auto& item) {
    const auto& [name, each] = item;
    const bool is_recent = each.asked + kMostDatabases / 2 >= asked_;
    if (each.pinned || is_recent || has_collections(name)) return false;
    looks_at_databases_.remove(name, each.listed);
    return true;
  });
  sweep_databases_at_ = std::max(kMostDatabases, 2 * databases_.size());
}

Collections::Guard& Collections::guard(Collection& collection, std::size_t rule, Time now) {
  const auto found = std::ranges::find(collection.guards, rule, &Guard::rule);
  if (found != collection.guards.end()) return *found;
  Guard& added = collection.guards.emplace_back(rule);
  if (demands_index(rules_[rule])) {
    added.verdict.reason = down_
                               ? kCannotCheck + down_told_
                               : "whether a unique index guards the field has not been checked yet";
    added.shared =
        std::make_shared<ids::Guard>(rule, collection.ns.db, collection.ns.collection, tell_);
    publish(collection, added);
  } else {
    added.verdict.kind = Verdict::Kind::ready;
  }
  collection.indexes.begin(now);
  schedule(collection);
  news_ = true;
  return added;
}

/// The guard that a write asks: from now on it matters whether there is an index.
Collections::Guard& Collections::asked_guard(Collection& collection, std::size_t rule, Time now) {
  Guard& its = guard(collection, rule, now);
  if (!std::exchange(its.listed, false) || its.verdict.is_ready()) return its;
  collection.indexes.hurry(now);
  schedule(collection);
  news_ = true;
  return its;
}

Collections::Numbers& Collections::numbers(Collection& collection, std::string_view field,
                                           Time now) {
  const auto found = std::ranges::find(collection.numbers, field, &Numbers::field);
  if (found != collection.numbers.end()) return *found;
  Numbers& added = collection.numbers.emplace_back(std::string(field));
  added.free = free_values(collection, added);
  added.age_due = now + kRound;
  collection.documents.begin(now);
  schedule(collection);
  news_ = true;
  fills_due_ = std::min(fills_due_, now + 1s);
  return added;
}

bool Collections::is_left_alone(const Namespace& ns) const {
  const auto in = databases_.find(ns.db);
  return in != databases_.end() && in->second.left_alone.contains(ns.collection);
}

// ---- requests ----------------------------------------------------------------------------------

std::optional<CatalogRequest> Collections::next(Asks asks, Time now) {
  if (now < not_before_) return std::nullopt;
  if (asks == Asks::make_index) return next_index(now);
  return asks == Asks::looks ? next_look(now) : next_awaited(now);
}

/// Looks that writes wait for come first, then databases: a view gets no further request.
std::optional<CatalogRequest> Collections::next_look(Time now) {
  if (auto request = next_awaited(now)) return request;
  if (looks_at_databases_.due() <= now) {
    const auto first = databases_.find(looks_at_databases_.first());
    first->second.look.due = kNever;
    schedule(first->first, first->second);
    return CatalogRequest{.kind = CatalogRequest::Kind::left_alone,
                          .ns = {first->first, {}},
                          .lists_all = first->second.lists_all};
  }
  if (databases_due_ <= now) {
    databases_due_ = kNever;
    return CatalogRequest{CatalogRequest::Kind::databases, {}};
  }
  while (looks_.due() <= now) {
    Collection& first = collections_.find(looks_.first())->second;
    auto request = next_look_at(first, now);
    schedule(first);
    if (request) return request;
  }
  return std::nullopt;
}

std::optional<CatalogRequest> Collections::next_awaited(Time now) {
  while (!awaited_.empty()) {
    const auto found = collections_.find(awaited_.front());
    awaited_.pop_front();
    if (found == collections_.end()) continue;
    auto request = next_look_at(found->second, now);
    schedule(found->second);
    if (request) return request;
  }
  if (lookups_.empty()) return std::nullopt;
  std::shared_ptr<ids::FreeValues> values = std::move(lookups_.front());
  lookups_.pop_front();
  CatalogRequest request{CatalogRequest::Kind::values, {values->db(), values->collection()}};
  request.values = std::move(values);
  return request;
}

std::optional<CatalogRequest> Collections::next_look_at(Collection& collection, Time now) {
  if (is_left_alone(collection.ns)) {
    // Asks again later: the view may be replaced by an ordinary collection.
    for (Look* look : {&collection.indexes, &collection.documents}) {
      if (look->due <= now) look->due = now + round();
      look->open = false;
    }
    for (Guard& guard : collection.guards) publish(collection, guard);
    return std::nullopt;
  }
  if (!is_changing(collection)) {
    const auto made = std::ranges::find_if(collection.guards, [&](const Guard& guard) {
      return guard.absent && guard.make_due <= now;
    });
    if (made != collection.guards.end()) return make_request(collection, *made, now);
    if (collection.indexes.take(now)) return index_request(collection, now);
  }
  if (!collection.documents.take(now)) return std::nullopt;
  CatalogRequest request{CatalogRequest::Kind::documents, collection.ns};
  for (const Numbers& each : collection.numbers) request.fields.push_back(each.field);
  return request;
}

CatalogRequest Collections::index_request(const Collection& collection, Time now) const {
  CatalogRequest request{CatalogRequest::Kind::indexes, collection.ns};
  for (const Guard& guard : collection.guards) {
    const WatchedRule& rule = rules_[guard.rule];
    // The command is for people, who do not need it if the proxy makes the index.
    const bool makes = rule.unique_index == UniqueIndex::create && !rule.repeats;
    const bool advises =
        !makes && !guard.listed && (!rule.reserve || rule.unique_index != UniqueIndex::warn);
    if (guard.offer_due <= now && advises) request.advise.push_back(unique_field(rule));
    request.is_anew = request.is_anew || (guard.shared != nullptr && collection.is_anew);
  }
  request.epoch = collection.epoch;
  request.at = now;
  return request;
}

std::optional<CatalogRequest> Collections::next_index(Time now) {
  if (makes_.due() > now) return std::nullopt;
  Collection& first = collections_.find(makes_.first())->second;
  const auto guard = std::ranges::find_if(
      first.guards, [&](const Guard& each) { return !each.absent && each.make_due <= now; });
  CatalogRequest request = make_request(first, *guard, now);
  schedule(first);
  return request;
}

CatalogRequest Collections::make_request(const Collection& collection, Guard& guard, Time now) {
  guard.make_due = kNever;
  guard.making = true;
  guard.make_begun = now;
  const auto kind = guard.yields ? CatalogRequest::Kind::yield : CatalogRequest::Kind::make_index;
  return {kind, collection.ns, unique_field(rules_[guard.rule])};
}

CatalogRequest Collections::request_for(std::shared_ptr<ids::IndexRoom> room) const {
  CatalogRequest request{CatalogRequest::Kind::make_room, {room->in().db, room->in().collection}};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const WatchedRule& rule = rules_[i];
    const bool makes = demands_index(rule) && rule.unique_index == UniqueIndex::create;
    if (!makes || rule.repeats || rule_of(rules_, request.ns.text(), rule.field) != i) continue;
    request.made.push_back(unique_field(rule));
  }
  request.room = std::move(room);
  return request;
}

Collections::Time Collections::due(Asks asks) const {
  const bool is_awaited = !awaited_.empty() || !lookups_.empty();
  if (asks != Asks::make_index && is_awaited) return not_before_;
  if (asks == Asks::awaited) return kNever;
  const bool looks = asks == Asks::looks;
  const Time first =
      looks ? std::min({databases_due_, looks_at_databases_.due(), looks_.due()}) : makes_.due();
  return std::max(first, not_before_);
}

void Collections::schedule(const std::string& db, Database& database) {
  looks_at_databases_.put(db, database.listed, database.look.due);
}

/// Call it whenever one of these times may have changed.
void Collections::schedule(Collection& collection) {
  const bool waits = !changes_.empty() && is_changing(collection);
  const Time look = std::min(collection.indexes.due, collection.documents.due);
  Time make = kNever;
  for (const Guard& guard : collection.guards) {
    if (!guard.absent) make = std::min(make, guard.make_due);
  }
  const std::string name = collection.ns.text();
  looks_.put(name, collection.listed, waits ? kNever : look);
  makes_.put(name, collection.listed_to_make, waits ? kNever : make);
}

/// How long a response is good for that nobody waits for.
Collections::Time Collections::round() const {
  return Time(kRound) * std::max<std::size_t>(1, collections_.size() / kMostCollections);
}

}  // namespace idproxy::id_store
