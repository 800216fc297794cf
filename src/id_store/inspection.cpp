#include "id_store/inspection.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/glob.hpp"

namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::Readiness;
using AnswerKind = ServerAnswer::Kind;

// How often to check how full the spaces of random numbers are.
constexpr auto kFillRound = 5s;
// The pause after an unreachable server, beside the second that it takes to find that out.
constexpr auto kRest = 250ms;

/// True if the collections in which the rule demands an index are found by their names.
bool lists_collections(const WatchedRule& rule) {
  return has_wildcards(rule.ns) && demands_index(rule);
}

bool is_in(const WatchedRule& rule, const std::string& db) {
  return globs_overlap(rule.ns, db + ".*");
}

}  // namespace

// ---- the rules ---------------------------------------------------------------------------------

Inspection::Inspection(std::vector<WatchedRule> rules, Time now, const Inspection* before) {
  around_->rules = std::move(rules);
  if (before != nullptr) take_over(*before, now);
  for (std::size_t rule = 0; rule < around_->rules.size(); ++rule) pin(rule, now);
  for (auto& [name, each] : around_->databases) each.is_of_the_first = !each.is_checked();
  for (auto& [ns, each] : watches_) each.is_of_the_first = !each.is_checked();
  for (const WatchedRule& rule : around_->rules) {
    const bool is_new =
        before == nullptr || std::ranges::find(before->rules(), rule) == before->rules().end();
    if (is_new) list_all(rule);
  }
}

void Inspection::pin(std::size_t index, Time now) {
  const WatchedRule& rule = around_->rules[index];
  const Namespace ns = split_namespace(rule.ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) return;
  database(ns.db).is_pinned = true;
  if (has_wildcards(ns.collection)) return;
  CollectionWatch& known = watch(ns);
  known.is_pinned = true;
  if (rule.field == "_id") {
    known.list_indexes(now);
  } else {
    known.index(index, now);
  }
  if (rule.counts_documents) known.space(rule.field, now);
}

/// Has all collections of the rule that exist checked in the background, so that the first write
/// into each of them rarely waits. Once: later ones come up with their first write.
void Inspection::list_all(const WatchedRule& rule) {
  if (!lists_collections(rule)) return;
  const Namespace ns = split_namespace(rule.ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) {
    all_databases_due_ = Time{};
  } else {
    database(ns.db).lists_all = true;
  }
  around_->has_news = true;
}

void Inspection::take_over(const Inspection& before, Time now) {
  const ServerState& kept = *before.around_;
  static_cast<ServerState&>(*around_) = kept;
  was_down_ = around_->down.has_value();
  asked_ = before.asked_;
  sweep_databases_at_ = before.sweep_databases_at_;
  sweep_collections_at_ = before.sweep_collections_at_;
  for (const auto& [name, known] : before.around_->databases) {
    const auto touches = [&](const WatchedRule& rule) { return is_in(rule, name); };
    if (std::ranges::none_of(around_->rules, touches)) continue;
    DatabaseWatch& taken = around_->databases.emplace(name, known).first->second;
    taken.is_pinned = false;
    taken.collections.resume(true, now);
    plan(name, taken);
  }
  for (const auto& [ns, known] : before.watches_) {
    CollectionWatch taken(known, *around_, now);
    if (taken.indexes().empty() && taken.spaces().empty()) continue;
    watches_.emplace(ns, std::move(taken));
  }
  around_->collections = watches_.size();
}

// ---- questions ---------------------------------------------------------------------------------

Readiness Inspection::readiness(std::size_t rule_index, std::string_view db, std::string_view name,
                                Time now) {
  const DatabaseWatch& in = database(db);
  if (const auto found = in.left_alone.find(name); found != in.left_alone.end()) {
    return {Readiness::Kind::left_alone, {}, found->second == LeftAlone::time_series};
  }
  CollectionWatch& known = watch({std::string(db), std::string(name)});
  Readiness readiness;
  if (around_->rules[rule_index].field == "_id") {  // whose unique index is always there
    known.list_indexes(now);
  } else {
    const IndexWatch& its = known.asked_for(rule_index, now);
    if (!its.is_ready()) readiness = {Readiness::Kind::not_ready, *its.obstacle};
  }
  readiness.watched = known.lent();
  return readiness;
}

std::shared_ptr<ids::Guard> Inspection::guard(std::size_t rule_index, std::string_view db,
                                              std::string_view name, Time now) {
  if (!demands_index(around_->rules[rule_index])) return nullptr;
  return watch({std::string(db), std::string(name)}).asked_for(rule_index, now).shared;
}

void Inspection::look_up(std::shared_ptr<ids::FreeValues> values) {
  lookups_.push_back(std::move(values));
  around_->has_news = true;
}

std::optional<ids::UniqueIndexes> Inspection::unique_indexes(std::string_view ns, Time now) {
  CollectionWatch& known = watch(split_namespace(ns));
  if (!known.unique_indexes()) known.list_indexes(now);
  return known.unique_indexes();
}

std::vector<ids::NotReady> Inspection::not_ready(std::size_t most_per_rule) const {
  const std::vector<WatchedRule>& rules = around_->rules;
  std::vector<ids::NotReady> found;
  std::vector<std::size_t> counts(rules.size());
  const auto add = [&](std::size_t rule, const std::string& ns, Readiness readiness) {
    if (counts[rule]++ < most_per_rule) found.push_back({rule, ns, std::move(readiness)});
  };
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    const std::string& ns = rules[rule].ns;
    if (around_->is_left_alone(split_namespace(ns))) {
      add(rule, ns, {Readiness::Kind::left_alone, {}});
    }
  }
  for (const auto& [ns, watch] : watches_) {
    if (around_->is_left_alone(watch.ns())) continue;
    for (const IndexWatch& each : watch.indexes()) {
      if (each.is_ready() || !each.is_asked_for) continue;
      add(each.rule, ns, {Readiness::Kind::not_ready, *each.obstacle});
    }
    for (const SpaceWatch& each : watch.spaces()) {
      const std::string why = why_full(each.fill->seen());
      const auto rule = around_->rule_of(ns, each.field);
      if (why.empty() || !rule) continue;
      add(*rule, ns, {Readiness::Kind::not_ready, {ids::Errc::exhausted, why}});
    }
  }
  return found;
}

std::map<std::size_t, MissingIndex> Inspection::lack_index() const {
  std::map<std::size_t, MissingIndex> found;
  for (const auto& [ns, watch] : watches_) {
    if (around_->is_left_alone(watch.ns())) continue;
    for (const IndexWatch& each : watch.indexes()) {
      if (!each.lacks) continue;
      if (const auto first = found.find(each.rule); first != found.end()) {
        ++first->second.collections;
        continue;
      }
      found.try_emplace(each.rule, MissingIndex{ns, watch.command_for(each), each.why_not});
    }
  }
  return found;
}

std::vector<ids::RuleNumbers> Inspection::spaces() const {
  std::vector<ids::RuleNumbers> found;
  for (const auto& [ns, watch] : watches_) {
    if (around_->is_left_alone(watch.ns())) continue;
    for (const SpaceWatch& each : watch.spaces()) {
      const ids::Fill::Seen seen = each.fill->seen();
      const auto rule = around_->rule_of(ns, each.field);
      if (!rule || !seen.limits) continue;
      found.push_back({*rule, ns,
                       ids::SpaceUse{seen.documents, std::min(seen.fraction, 1.0),
                                     seen.limits->max_fill, seen.limits->space}});
    }
  }
  return found;
}

bool Inspection::is_checked() const {
  const auto done = [](const auto& item) {
    return !item.second.is_of_the_first || item.second.is_checked();
  };
  return was_down_ ||
         (std::ranges::all_of(around_->databases, done) && std::ranges::all_of(watches_, done));
}

std::vector<LogEvent> Inspection::take_log_events(Time now) {
  if (now >= around_->fills_due) {
    around_->fills_due = now + kFillRound;
    for (auto& [ns, watch] : watches_) watch.judge_spaces(now);
  }
  return std::exchange(around_->log_events, {});
}

// ---- memory ------------------------------------------------------------------------------------

DatabaseWatch& Inspection::database(std::string_view db) {
  auto& all = around_->databases;
  auto found = all.find(db);
  if (found == all.end()) {
    if (all.size() >= sweep_databases_at_) {
      sweep_collections();
      // A database is used as long as one of its collections is known.
      sweep(all, sweep_databases_at_, {&databases_}, [this](const auto& item) {
        const auto first = watches_.lower_bound(item.first + ".");
        return first != watches_.end() && first->first.starts_with(item.first + ".");
      });
    }
    found = all.emplace(db, DatabaseWatch()).first;
    plan(found->first, found->second);
  }
  found->second.asked = ++asked_;
  around_->has_news = around_->has_news || found->second.collections.is_open;
  return found->second;
}

CollectionWatch& Inspection::watch(const Namespace& ns) {
  const std::string name = ns.text();
  auto found = watches_.find(name);
  if (found == watches_.end()) {
    if (watches_.size() >= sweep_collections_at_) sweep_collections();
    found = watches_.emplace(name, CollectionWatch(ns, *around_)).first;
    around_->collections = watches_.size();
  }
  found->second.asked = ++asked_;
  return found->second;
}

/// Forgets what nobody uses.
template <class Watches, class IsUsed>
void Inspection::sweep(Watches& all, std::size_t& at, std::initializer_list<Agenda*> agendas,
                       const IsUsed& is_used) {
  std::erase_if(all, [&](const auto& item) {
    const Remembered& each = item.second;
    const bool is_recent = each.asked + kMostUnused / 2 >= asked_;
    if (each.is_pinned || is_recent || is_used(item)) return false;
    for (Agenda* agenda : agendas) agenda->put(item.first, kNever);
    return true;
  });
  at = std::max(kMostUnused, 2 * all.size());
}

void Inspection::sweep_collections() {
  sweep(watches_, sweep_collections_at_, {&around_->checks, &around_->makings},
        [](const auto& item) { return item.second.is_used(); });
  around_->collections = watches_.size();
}

// ---- requests ----------------------------------------------------------------------------------

std::optional<InspectionRequest> Inspection::next(Asks asks, Time now) {
  if (now < around_->not_before) return std::nullopt;
  if (asks == Asks::indexes) {
    if (around_->makings.due() > now) return std::nullopt;
    return watches_.find(around_->makings.first())->second.next_making(now);
  }
  auto awaited = next_awaited(now);
  return awaited || asks == Asks::awaited ? awaited : next_of_all(now);
}

std::optional<InspectionRequest> Inspection::next_awaited(Time now) {
  while (!around_->awaited.empty()) {
    const auto found = watches_.find(around_->awaited.front());
    around_->awaited.pop_front();
    if (found == watches_.end()) continue;
    if (auto request = found->second.next_check(now)) return request;
  }
  if (lookups_.empty()) return std::nullopt;
  LookUpValues request{std::move(lookups_.front())};
  lookups_.pop_front();
  return request;
}

/// Databases come first: a view gets no further request.
std::optional<InspectionRequest> Inspection::next_of_all(Time now) {
  if (databases_.due() <= now) {
    const std::string name = databases_.first();
    DatabaseWatch& first = around_->databases.find(name)->second;
    (void)first.collections.take(now);
    plan(name, first);
    return ListCollections{name, first.lists_all};
  }
  if (all_databases_due_ <= now) {
    all_databases_due_ = kNever;
    return ListDatabases();
  }
  while (around_->checks.due() <= now) {
    CollectionWatch& first = watches_.find(around_->checks.first())->second;
    if (auto request = first.next_check(now)) return request;
  }
  return std::nullopt;
}

MakeRoom Inspection::request_for(std::shared_ptr<ids::IndexRoom> room) const {
  MakeRoom request{{room->in().db, room->in().collection}, {}, std::move(room)};
  for (std::size_t i = 0; i < around_->rules.size(); ++i) {
    const WatchedRule& rule = around_->rules[i];
    if (!makes_index(rule) || around_->rule_of(request.ns.text(), rule.field) != i) continue;
    request.made.push_back(unique_field(rule));
  }
  return request;
}

Inspection::Time Inspection::due(Asks asks) const {
  const bool is_awaited = !around_->awaited.empty() || !lookups_.empty();
  if (asks != Asks::indexes && is_awaited) return around_->not_before;
  if (asks == Asks::awaited) return kNever;
  const Time first = asks == Asks::indexes
                         ? around_->makings.due()
                         : std::min({all_databases_due_, databases_.due(), around_->checks.due()});
  return std::max(first, around_->not_before);
}

void Inspection::plan(const std::string& db, const DatabaseWatch& database) {
  databases_.put(db, database.collections.due);
}

// ---- answers -----------------------------------------------------------------------------------

/// When a server can be reached again, all failed requests are due at once.
void Inspection::reached(const ServerAnswer& answer, Time now) {
  around_->has_user = answer.has_user;
  if (answer.kind == AnswerKind::unreachable) {
    around_->not_before = now + kRest;
    was_down_ = true;
    if (around_->down) return;
    around_->down = answer.reason;
    around_->down_told = answer.told;
    around_->log_events.push_back(
        {log::Level::warning,
         "inspection_failing",
         "the id store cannot be used: the proxy cannot check collections",
         {{"reason", answer.reason}}});
    for (auto& [ns, watch] : watches_) watch.go_down();
    return;
  }
  if (!around_->down) return;
  around_->down.reset();
  around_->not_before = {};
  for (auto& [name, database] : around_->databases) {
    database.collections.retry(now);
    plan(name, database);
  }
  for (auto& [ns, watch] : watches_) watch.retry(now);
  around_->log_events.push_back({log::Level::info, "inspection_again",
                                 "the id store answers again: the proxy checks collections again"});
}

void Inspection::note(const ListDatabases& /*request*/, const DatabaseList& answer, Time now) {
  if (answer.kind != AnswerKind::answered) {
    if (answer.kind == AnswerKind::unreachable) all_databases_due_ = now + kSoon;
    return;
  }
  for (const std::string& name : answer.names) {
    const bool is_touched = std::ranges::any_of(around_->rules, [&](const WatchedRule& rule) {
      return lists_collections(rule) && is_in(rule, name);
    });
    // Half of the room is for what writes name.
    if (!is_touched || around_->databases.size() >= kMostUnused / 2) continue;
    DatabaseWatch& found = database(name);
    found.lists_all = true;
    found.collections.hurry(now);
    plan(name, found);
  }
}

void Inspection::note(const ListCollections& request, const CollectionList& answer, Time now) {
  if (const auto its = around_->databases.find(request.db); its != around_->databases.end()) {
    learn_views(its->second, request.db, answer, now);
    if (request.lists_all && answer.kind != AnswerKind::unreachable) its->second.lists_all = false;
    plan(request.db, its->second);
  }
  if (!request.lists_all) return;
  // Begins to check the collections that exist.
  for (const std::string& name : answer.others) {
    const Namespace ns{request.db, name};
    for (std::size_t rule = 0; rule < around_->rules.size(); ++rule) {
      const WatchedRule& its = around_->rules[rule];
      if (!lists_collections(its) || around_->rule_of(ns.text(), its.field) != rule) continue;
      if (watches_.size() >= kMostUnused / 2 || watches_.contains(ns.text())) continue;
      watch(ns).index(rule, now).is_asked_for = false;
    }
  }
}

void Inspection::learn_views(DatabaseWatch& database, const std::string& db,
                             const CollectionList& answer, Time now) {
  const bool not_permitted = answer.kind == AnswerKind::not_permitted;
  if (not_permitted) around_->miss("listCollections", {db, {}});
  if (answer.kind == AnswerKind::answered || not_permitted) {
    database.failing_since.reset();
  } else if (!database.failing_since) {
    database.failing_since = now;
  }
  const Time round = database.failing_since ? Time(kSoon) : around_->round();
  database.collections.answered(answer, now + round);
  // Old knowledge expires.
  if (database.failing_since && now - *database.failing_since < kRound) return;
  if (database.left_alone == answer.left_alone) return;
  const auto before = std::exchange(database.left_alone, answer.left_alone);
  ++around_->version;
  for (auto& [ns, watch] : watches_) {
    const bool was_left_alone = before.contains(watch.ns().collection);
    if (watch.ns().db != db || was_left_alone == around_->is_left_alone(watch.ns())) continue;
    watch.forget("the collection has not been looked at yet", now);
  }
}

void Inspection::note(const MakeRoom& request, const DroppedIndex& answer, Time /*now*/) {
  if (answer.kind == AnswerKind::not_permitted) around_->miss("dropIndex", request.ns);
  if (answer.index.empty()) return;
  around_->log_events.push_back(
      {log::Level::info,
       "guard_makes_room",
       "the proxy has replaced its own unique index by another one, since the "
       "server refused an index of the application because of it",
       {{"ns", request.ns.text()}, {"index", answer.index}}});
}

// ---- guards and changes ------------------------------------------------------------------------

void Inspection::tell(ids::Guard::Tell tell, ids::FreeValues::Tell look_up) {
  *around_->tell = std::move(tell);
  *around_->look_up = std::move(look_up);
}

void Inspection::need(const ids::Guard& guard, ids::Guard::Need need, Time now) {
  watch({guard.db(), guard.collection()}).need(guard.rule(), need, now);
}

void Inspection::begin_change(const ids::CatalogChange& change, Time now) {
  around_->changes.push_back(change);
  forget_changed(change, now);
}

void Inspection::forget_changed(const ids::CatalogChange& change, Time now) {
  const std::string prefix =
      change.db.empty() ? std::string() : change.db + "." + change.collection;
  auto next = watches_.lower_bound(prefix);
  for (; next != watches_.end() && next->first.starts_with(prefix); ++next) {
    CollectionWatch& each = next->second;
    if (!change.includes(each.ns().db, each.ns().collection)) continue;
    each.forget("a command has changed the collection or its indexes", now);
  }
}

void Inspection::end_change(const ids::CatalogChange& change, Time now) {
  auto& changes = around_->changes;
  const auto under_way = std::ranges::find(changes, change);
  if (under_way == changes.end()) return;
  changes.erase(under_way);
  forget_changed(change, now);
  // It may have made a view, or dropped one.
  for (auto& [name, database] : around_->databases) {
    if (!change.db.empty() && change.db != name) continue;
    database.collections.hurry(now);
    plan(name, database);
  }
  around_->has_news = true;
}

}  // namespace idproxy::id_store
