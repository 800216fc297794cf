#include "id_store/inspector_collections.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::Readiness;
using ids::UniqueIndex;

// How often to check how full the spaces of random numbers are.
constexpr auto kFillRound = 5s;

bool has_wildcard(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

/// A database's name has no dot, a collection's may.
std::pair<std::string_view, std::string_view> split(std::string_view ns) {
  const std::size_t dot = std::min(ns.find('.'), ns.size());
  return {ns.substr(0, dot), ns.substr(std::min(dot + 1, ns.size()))};
}

}  // namespace

Repeats repeats_of(const WatchedRule& rule) {
  return {rule.scope, rule.repeats};
}

Collections::Collections(std::vector<WatchedRule> rules, Time now) : rules_(std::move(rules)) {
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) pin(rule, now);
  begin_first_look();
  for (const WatchedRule& rule : rules_) list_all(rule);
}

void Collections::begin_first_look() {
  for (auto& [name, database] : databases_) database.awaited = !database.looked();
  for (auto& [ns, collection] : collections_) collection.awaited = !collection.looked();
}

void Collections::pin(std::size_t rule, Time now) {
  const auto [db, name] = split(rules_[rule].ns);
  if (has_wildcard(db) || name.empty()) return;
  database(db).pinned = true;
  if (has_wildcard(name)) return;
  Collection& known = collection(db, name);
  known.pinned = true;
  if (rules_[rule].field != "_id") guard(known, rule, now);
  if (rules_[rule].counts_documents) numbers(known, rules_[rule].field, now);
}

/// True if the collections in which the rule demands an index are found by their names.
bool Collections::lists(const WatchedRule& rule) {
  return has_wildcard(rule.ns) && demands_index(rule.unique_index) && rule.field != "_id";
}

/// Has all collections of the rule that exist looked at in the background, so that the first write
/// into each of them rarely waits. Once: later ones come up with their first write.
void Collections::list_all(const WatchedRule& rule) {
  if (!lists(rule)) return;
  const auto [db, name] = split(rule.ns);
  if (has_wildcard(db) || name.empty()) {
    databases_due_ = Time{};
  } else {
    database(db).lists_all = true;
  }
  news_ = true;
}

Readiness Collections::readiness(std::size_t rule_index, std::string_view db, std::string_view name,
                                 Time now) {
  Database& in = database(db);
  if (const auto found = in.left_alone.find(name); found != in.left_alone.end()) {
    return {Readiness::Kind::left_alone, {}, found->second == LeftAlone::time_series};
  }
  if (rules_[rule_index].field == "_id") return {};  // whose unique index is always there
  return readiness_of(asked_guard(collection(db, name), rule_index, now));
}

std::shared_ptr<ids::Guard> Collections::guard(std::size_t rule_index, std::string_view db,
                                               std::string_view name, Time now) {
  const WatchedRule& rule = rules_[rule_index];
  if (rule.field == "_id" || !demands_index(rule.unique_index)) return nullptr;
  return asked_guard(collection(db, name), rule_index, now).shared;
}

std::shared_ptr<ids::Fill> Collections::fill(std::string_view ns, std::string_view field,
                                             Time now) {
  const auto [db, name] = split(ns);
  return numbers(collection(db, name), field, now).fill;
}

std::shared_ptr<ids::FreeValues> Collections::free_values(std::string_view ns,
                                                          std::string_view field, Time now) {
  const auto [db, name] = split(ns);
  return numbers(collection(db, name), field, now).free;
}

std::shared_ptr<ids::FreeValues> Collections::free_values(const Collection& collection,
                                                          const Numbers& numbers) const {
  return std::make_shared<ids::FreeValues>(collection.db, collection.name, numbers.field,
                                           numbers.fill, look_up_);
}

void Collections::look_up(std::shared_ptr<ids::FreeValues> values) {
  lookups_.push_back(std::move(values));
  news_ = true;
}

std::optional<ids::UniqueIndexes> Collections::unique_indexes(std::string_view ns, Time now) {
  const auto [db, name] = split(ns);
  Collection& known = collection(db, name);
  if (!known.unique_indexes && known.indexes_due == kNever && !known.indexes_open) {
    known.indexes_due = now;
    known.indexes_open = true;
    news_ = true;
  }
  return known.unique_indexes;
}

template <class Item>
Item& Collections::recall(std::map<std::string, Item, std::less<>>& items, std::string_view name,
                          std::size_t most) {
  auto found = items.find(name);
  if (found == items.end()) {
    if (items.size() >= most) {
      const auto oldest = std::min_element(items.begin(), items.end(), [](auto& a, auto& b) {
        return std::pair(a.second.pinned, a.second.asked) <
               std::pair(b.second.pinned, b.second.asked);
      });
      if (!oldest->second.pinned) {
        items.erase(oldest);
        ++version_;  // so that plans with its guards get new ones
      }
    }
    found = items.emplace(name, Item{}).first;
  }
  found->second.asked = ++asked_;
  return found->second;
}

Collections::Database& Collections::database(std::string_view db) {
  Database& known = recall(databases_, db, kMostDatabases);
  news_ = news_ || known.open;
  return known;
}

Collections::Collection& Collections::collection(std::string_view db, std::string_view name) {
  Collection& known =
      recall(collections_, std::string(db) + "." + std::string(name), kMostCollections);
  if (known.db.empty()) {
    known.db = db;
    known.name = name;
  }
  return known;
}

Collections::Guard& Collections::guard(Collection& collection, std::size_t rule, Time now) {
  const auto found = std::find_if(collection.guards.begin(), collection.guards.end(),
                                  [&](const Guard& known) { return known.rule == rule; });
  if (found != collection.guards.end()) return *found;
  Guard& added = collection.guards.emplace_back();
  added.rule = rule;
  if (const Repeats repeats = repeats_of(rules_[rule]); repeats.any()) {
    added.offer = {IndexForm::existing, {}, repeats};
  }
  if (!demands_index(rules_[rule].unique_index)) {
    added.state = Guard::State::ready;
  } else {
    added.reason = down_ ? kCannotCheck + down_told_
                         : "whether a unique index guards the field has not been checked yet";
    added.shared = std::make_shared<ids::Guard>(rule, collection.db, collection.name, tell_);
    publish(collection, added);
  }
  collection.indexes_due = now;
  collection.indexes_open = true;
  news_ = true;
  return added;
}

/// The guard that a write asks: from now on it matters whether there is an index.
Collections::Guard& Collections::asked_guard(Collection& collection, std::size_t rule, Time now) {
  Guard& its = guard(collection, rule, now);
  if (!std::exchange(its.listed, false) || its.state == Guard::State::ready) return its;
  if (collection.indexes_due != kNever) collection.indexes_due = now;
  news_ = true;
  return its;
}

Collections::Numbers& Collections::numbers(Collection& collection, std::string_view field,
                                           Time now) {
  const auto found = std::find_if(collection.numbers.begin(), collection.numbers.end(),
                                  [&](const Numbers& known) { return known.field == field; });
  if (found != collection.numbers.end()) return *found;
  Numbers& added = collection.numbers.emplace_back();
  added.field = field;
  added.fill = std::make_shared<ids::Fill>();
  added.free = free_values(collection, added);
  added.age_due = now + kRound;
  collection.documents_due = now;
  collection.documents_open = true;
  news_ = true;
  fills_due_ = std::min(fills_due_, now + 1s);
  return added;
}

bool Collections::is_left_alone(std::string_view ns) const {
  const auto [db, name] = split(ns);
  const auto in = databases_.find(db);
  return in != databases_.end() && in->second.left_alone.contains(name);
}

std::optional<CatalogRequest> Collections::next(Asks asks, Time now) {
  if (now < not_before_) return std::nullopt;
  switch (asks) {
    case Asks::looks:
      return next_look(now);
    case Asks::awaited:
      return next_awaited(now);
    case Asks::make_index:
      break;
  }
  return next_index(now);
}

/// Looks that writes wait for come first, then databases: a view gets no further request.
std::optional<CatalogRequest> Collections::next_look(Time now) {
  if (auto request = next_awaited(now)) return request;
  for (auto& [name, database] : databases_) {
    if (database.due > now) continue;
    database.due = kNever;
    CatalogRequest request{CatalogRequest::Kind::left_alone, name, {}, {}};
    request.lists_all = database.lists_all;
    return request;
  }
  if (databases_due_ <= now) {
    databases_due_ = kNever;
    return CatalogRequest{CatalogRequest::Kind::databases, {}, {}, {}};
  }
  for (auto& [ns, collection] : collections_) {
    if (auto request = next_look_at(collection, now)) return request;
  }
  return std::nullopt;
}

std::optional<CatalogRequest> Collections::next_awaited(Time now) {
  while (!awaited_.empty()) {
    const auto found = collections_.find(awaited_.front());
    awaited_.pop_front();
    if (found == collections_.end()) continue;
    if (auto request = next_look_at(found->second, now)) return request;
  }
  if (lookups_.empty()) return std::nullopt;
  std::shared_ptr<ids::FreeValues> values = std::move(lookups_.front());
  lookups_.pop_front();
  CatalogRequest request{CatalogRequest::Kind::values, values->db(), values->collection(), {}};
  request.values = std::move(values);
  return request;
}

std::optional<CatalogRequest> Collections::next_look_at(Collection& collection, Time now) {
  const auto made = std::ranges::find_if(
      collection.guards, [&](const Guard& guard) { return guard.absent && guard.make_due <= now; });
  if (is_left_alone(collection.ns())) {
    leave_alone(collection, now);
  } else if (made != collection.guards.end() && !is_changing(collection)) {
    return make_request(collection, *made, now);
  } else if (collection.indexes_due <= now && !is_changing(collection)) {
    CatalogRequest request = index_request(collection, now);
    collection.indexes_due = kNever;
    return request;
  } else if (collection.documents_due <= now) {
    collection.documents_due = kNever;
    CatalogRequest request{CatalogRequest::Kind::documents, collection.db, collection.name, {}};
    for (const Numbers& each : collection.numbers) request.fields.push_back(each.field);
    return request;
  }
  return std::nullopt;
}

CatalogRequest Collections::index_request(const Collection& collection, Time now) const {
  CatalogRequest request{CatalogRequest::Kind::indexes, collection.db, collection.name, {}};
  for (const Guard& guard : collection.guards) {
    const WatchedRule& rule = rules_[guard.rule];
    // The command is for people, who do not need it if the proxy makes the index.
    const bool makes = rule.unique_index == UniqueIndex::create && !repeats_of(rule).and_more;
    const bool advises =
        !makes && !guard.listed && (!rule.reserve || rule.unique_index != UniqueIndex::warn);
    if (guard.offer_due <= now && advises) {
      request.advise.push_back({rule.field, value_type_of(rule.value_type), repeats_of(rule)});
    }
    request.is_anew = request.is_anew || (guard.shared != nullptr && collection.is_anew);
  }
  request.epoch = collection.epoch;
  request.at = now;
  return request;
}

/// Asks again later: the view may be replaced by an ordinary collection.
void Collections::leave_alone(Collection& collection, Time now) {
  if (collection.indexes_due <= now) collection.indexes_due = now + kRound;
  if (collection.documents_due <= now) collection.documents_due = now + kRound;
  collection.indexes_open = collection.documents_open = false;
  publish(collection);
}

std::optional<CatalogRequest> Collections::next_index(Time now) {
  for (auto& [ns, collection] : collections_) {
    for (Guard& guard : collection.guards) {
      if (guard.make_due > now || guard.absent || is_changing(collection)) continue;
      return make_request(collection, guard, now);
    }
  }
  return std::nullopt;
}

CatalogRequest Collections::make_request(const Collection& collection, Guard& guard, Time now) {
  guard.make_due = kNever;
  guard.making = true;
  guard.make_begun = now;
  const WatchedRule& rule = rules_[guard.rule];
  return {CatalogRequest::Kind::make_index, collection.db,   collection.name, rule.field,
          value_type_of(rule.value_type),   repeats_of(rule)};
}

Collections::Time Collections::due(Asks asks) const {
  Time first = kNever;
  const bool is_awaited = !awaited_.empty() || !lookups_.empty();
  if (asks != Asks::make_index && is_awaited) return not_before_;
  if (asks == Asks::awaited) return kNever;
  if (asks == Asks::looks) first = databases_due_;
  for (const auto& [name, database] : databases_) {
    if (asks == Asks::looks) first = std::min(first, database.due);
  }
  for (const auto& [ns, collection] : collections_) {
    if (!changes_.empty() && is_changing(collection)) continue;
    if (asks == Asks::looks) {
      first = std::min({first, collection.indexes_due, collection.documents_due});
    } else {
      for (const Guard& guard : collection.guards) {
        if (!guard.absent) first = std::min(first, guard.make_due);
      }
    }
  }
  return std::max(first, not_before_);
}

bool Collections::Collection::looked() const {
  const auto is_open = [](const Guard& guard) {
    return guard.state == Guard::State::unchecked && (guard.making || guard.make_due != kNever);
  };
  return !indexes_open && !documents_open && std::none_of(guards.begin(), guards.end(), is_open);
}

bool Collections::looked() const {
  const auto done = [](const auto& item) { return !item.second.awaited || item.second.looked(); };
  return was_down_ || (std::all_of(databases_.begin(), databases_.end(), done) &&
                       std::all_of(collections_.begin(), collections_.end(), done));
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

}  // namespace idproxy::id_store
