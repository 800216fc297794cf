#include "id_store/inspection.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/glob.hpp"

namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::Readiness;
using AnswerKind = ServerAnswer::Kind;
using Time = Inquiry::Time;

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

/// Forgets what nobody uses, and nobody has asked for lately. Returns with how many to do so again.
std::size_t sweep(auto& all, std::uint64_t asked, std::initializer_list<Agenda*> agendas,
                  const auto& is_used) {
  std::erase_if(all, [&](const auto& item) {
    const Remembered& each = item.second;
    const bool is_recent = each.asked + kMostUnused / 2 >= asked;
    if (each.is_pinned || is_recent || is_used(item)) return false;
    for (Agenda* agenda : agendas) agenda->put(item.first, Inquiry::kNever);
    return true;
  });
  return std::max(kMostUnused, 2 * all.size());
}

void forget_changed(auto& watches, const ids::CatalogChange& change, Inquiry::Time now) {
  const std::string prefix =
      change.db.empty() ? std::string() : change.db + "." + change.collection;
  auto next = watches.lower_bound(prefix);
  for (; next != watches.end() && next->first.starts_with(prefix); ++next) {
    CollectionWatch& each = next->second;
    if (!change.includes(each.ns().db, each.ns().collection)) continue;
    each.forget("a command has changed the collection or its indexes", now);
  }
}

void sweep_collections(InspectionState& state) {
  state.sweep_collections_at = sweep(state.watches, state.asked, {&state.checks, &state.makings},
                                     [](const auto& item) { return item.second.is_used(); });
  state.collections = state.watches.size();
}

DatabaseWatch& database_of(InspectionState& state, std::string_view db) {
  auto& all = state.databases;
  auto found = all.find(db);
  if (found == all.end()) {
    if (all.size() >= state.sweep_databases_at) {
      sweep_collections(state);
      // A database is used as long as one of its collections is known.
      state.sweep_databases_at =
          sweep(all, state.asked, {&state.databases_due}, [&state](const auto& item) {
            const auto first = state.watches.lower_bound(item.first + ".");
            return first != state.watches.end() && first->first.starts_with(item.first + ".");
          });
    }
    found = all.emplace(db, DatabaseWatch()).first;
    state.databases_due.put(found->first, found->second.collections.due);
  }
  found->second.asked = ++state.asked;
  state.has_news = state.has_news || found->second.collections.is_open;
  return found->second;
}

CollectionWatch& watch_of(InspectionState& state, const Namespace& ns) {
  const std::string name = ns.text();
  auto found = state.watches.find(name);
  if (found == state.watches.end()) {
    if (state.watches.size() >= state.sweep_collections_at) sweep_collections(state);
    found = state.watches.emplace(name, CollectionWatch(ns, state)).first;
    state.collections = state.watches.size();
  }
  found->second.asked = ++state.asked;
  return found->second;
}

void pin(InspectionState& state, std::size_t index, Time now) {
  const WatchedRule& rule = state.rules[index];
  const Namespace ns = split_namespace(rule.ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) return;
  database_of(state, ns.db).is_pinned = true;
  if (has_wildcards(ns.collection)) return;
  CollectionWatch& known = watch_of(state, ns);
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
void list_all(InspectionState& state, const WatchedRule& rule) {
  if (!lists_collections(rule)) return;
  const Namespace ns = split_namespace(rule.ns);
  if (has_wildcards(ns.db) || ns.collection.empty()) {
    state.all_databases_due = Time{};
  } else {
    database_of(state, ns.db).lists_all = true;
  }
  state.has_news = true;
}

void take_over(InspectionState& state, const InspectionState& before, Time now) {
  const ServerState& kept = before;
  static_cast<ServerState&>(state) = kept;
  state.was_down = state.down.has_value();
  state.asked = before.asked;
  state.sweep_databases_at = before.sweep_databases_at;
  state.sweep_collections_at = before.sweep_collections_at;
  for (const auto& [name, known] : before.databases) {
    const auto touches = [&](const WatchedRule& rule) { return is_in(rule, name); };
    if (std::ranges::none_of(state.rules, touches)) continue;
    DatabaseWatch& taken = state.databases.emplace(name, known).first->second;
    taken.is_pinned = false;
    taken.collections.resume(true, now);
    state.databases_due.put(name, taken.collections.due);
  }
  for (const auto& [ns, known] : before.watches) {
    CollectionWatch taken(known, state, now);
    if (taken.indexes().empty() && taken.spaces().empty()) continue;
    state.watches.emplace(ns, std::move(taken));
  }
  state.collections = state.watches.size();
}

std::optional<InspectionRequest> next_awaited(InspectionState& state, Time now) {
  while (!state.awaited.empty()) {
    const auto found = state.watches.find(state.awaited.front());
    state.awaited.pop_front();
    if (found == state.watches.end()) continue;
    if (auto request = found->second.next_check(now)) return request;
  }
  if (state.lookups.empty()) return std::nullopt;
  LookUpValues request{std::move(state.lookups.front())};
  state.lookups.pop_front();
  return request;
}

/// Databases come first: a view gets no further request.
std::optional<InspectionRequest> next_of_all(InspectionState& state, Time now) {
  if (state.databases_due.due() <= now) {
    const std::string name = state.databases_due.first();
    DatabaseWatch& first = state.databases.find(name)->second;
    (void)first.collections.take(now);
    state.databases_due.put(name, first.collections.due);
    return ListCollections{name, first.lists_all};
  }
  if (state.all_databases_due <= now) {
    state.all_databases_due = Inquiry::kNever;
    return ListDatabases();
  }
  while (state.checks.due() <= now) {
    CollectionWatch& first = state.watches.find(state.checks.first())->second;
    if (auto request = first.next_check(now)) return request;
  }
  return std::nullopt;
}

void learn_views(InspectionState& state, DatabaseWatch& database, const std::string& db,
                 const CollectionList& answer, Time now) {
  const bool not_permitted = answer.kind == AnswerKind::not_permitted;
  if (not_permitted) state.miss("listCollections", {db, {}});
  if (answer.kind == AnswerKind::answered || not_permitted) {
    database.failing_since.reset();
  } else if (!database.failing_since) {
    database.failing_since = now;
  }
  const Time round = database.failing_since ? Time(kSoon) : state.round();
  database.collections.answered(answer, now + round);
  // Old knowledge expires.
  if (database.failing_since && now - *database.failing_since < kRound) return;
  if (database.left_alone == answer.left_alone) return;
  const auto before = std::exchange(database.left_alone, answer.left_alone);
  ++state.version;
  for (auto& [ns, watch] : state.watches) {
    const bool was_left_alone = before.contains(watch.ns().collection);
    if (watch.ns().db != db || was_left_alone == state.is_left_alone(watch.ns())) continue;
    watch.forget("the collection has not been looked at yet", now);
  }
}

}  // namespace

// ---- the rules ---------------------------------------------------------------------------------

Inspection::Inspection(std::vector<WatchedRule> rules, Time now, const Inspection* before) {
  state_->rules = std::move(rules);
  if (before != nullptr) take_over(*state_, *before->state_, now);
  for (std::size_t rule = 0; rule < state_->rules.size(); ++rule) pin(*state_, rule, now);
  for (auto& [name, each] : state_->databases) each.is_of_the_first = !each.is_checked();
  for (auto& [ns, each] : state_->watches) each.is_of_the_first = !each.is_checked();
  for (const WatchedRule& rule : state_->rules) {
    const bool is_new =
        before == nullptr || std::ranges::find(before->rules(), rule) == before->rules().end();
    if (is_new) list_all(*state_, rule);
  }
}

// ---- questions ---------------------------------------------------------------------------------

Readiness Inspection::readiness(std::size_t rule_index, std::string_view db, std::string_view name,
                                Time now) {
  const DatabaseWatch& in = database_of(*state_, db);
  if (const auto found = in.left_alone.find(name); found != in.left_alone.end()) {
    return {Readiness::Kind::left_alone, {}, found->second == LeftAlone::time_series};
  }
  CollectionWatch& known = watch_of(*state_, {std::string(db), std::string(name)});
  Readiness readiness;
  if (state_->rules[rule_index].field == "_id") {  // whose unique index is always there
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
  if (!demands_index(state_->rules[rule_index])) return nullptr;
  return watch_of(*state_, {std::string(db), std::string(name)}).asked_for(rule_index, now).shared;
}

const SpaceWatch& Inspection::space(std::string_view ns, std::string_view field, Time now) {
  return watch_of(*state_, split_namespace(ns)).space(field, now);
}

void Inspection::look_up(std::shared_ptr<ids::FreeValues> values) {
  state_->lookups.push_back(std::move(values));
  state_->has_news = true;
}

std::optional<ids::UniqueIndexes> Inspection::unique_indexes(std::string_view ns, Time now) {
  CollectionWatch& known = watch_of(*state_, split_namespace(ns));
  if (!known.unique_indexes()) known.list_indexes(now);
  return known.unique_indexes();
}

std::vector<ids::NotReady> Inspection::not_ready(std::size_t most_per_rule) const {
  const std::vector<WatchedRule>& rules = state_->rules;
  std::vector<ids::NotReady> found;
  std::vector<std::size_t> counts(rules.size());
  const auto add = [&](std::size_t rule, const std::string& ns, Readiness readiness) {
    if (counts[rule]++ < most_per_rule) found.push_back({rule, ns, std::move(readiness)});
  };
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    const std::string& ns = rules[rule].ns;
    if (state_->is_left_alone(split_namespace(ns))) {
      add(rule, ns, {Readiness::Kind::left_alone, {}});
    }
  }
  for (const auto& [ns, watch] : state_->watches) {
    if (state_->is_left_alone(watch.ns())) continue;
    for (const IndexWatch& each : watch.indexes()) {
      if (each.is_ready() || !each.is_asked_for) continue;
      add(each.rule, ns, {Readiness::Kind::not_ready, *each.obstacle});
    }
    for (const SpaceWatch& each : watch.spaces()) {
      const std::string why = why_full(each.fill->seen());
      const auto rule = state_->rule_of(ns, each.field);
      if (why.empty() || !rule) continue;
      add(*rule, ns, {Readiness::Kind::not_ready, {ids::Errc::exhausted, why}});
    }
  }
  return found;
}

std::map<std::size_t, MissingIndex> Inspection::lack_index() const {
  std::map<std::size_t, MissingIndex> found;
  for (const auto& [ns, watch] : state_->watches) {
    if (state_->is_left_alone(watch.ns())) continue;
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
  for (const auto& [ns, watch] : state_->watches) {
    if (state_->is_left_alone(watch.ns())) continue;
    for (const SpaceWatch& each : watch.spaces()) {
      const ids::Fill::Seen seen = each.fill->seen();
      const auto rule = state_->rule_of(ns, each.field);
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
  return state_->was_down || (std::ranges::all_of(state_->databases, done) &&
                              std::ranges::all_of(state_->watches, done));
}

std::vector<LogEvent> Inspection::take_log_events(Time now) {
  if (now >= state_->fills_due) {
    state_->fills_due = now + kFillRound;
    for (auto& [ns, watch] : state_->watches) watch.judge_spaces(now);
  }
  return std::exchange(state_->log_events, {});
}

// ---- requests ----------------------------------------------------------------------------------

std::optional<InspectionRequest> Inspection::next(Asks asks, Time now) {
  if (now < state_->not_before) return std::nullopt;
  if (asks == Asks::indexes) {
    if (state_->makings.due() > now) return std::nullopt;
    return state_->watches.find(state_->makings.first())->second.next_making(now);
  }
  auto awaited = next_awaited(*state_, now);
  return awaited || asks == Asks::awaited ? awaited : next_of_all(*state_, now);
}

MakeRoom Inspection::request_for(std::shared_ptr<ids::IndexRoom> room) const {
  MakeRoom request{{room->in().db, room->in().collection}, {}, std::move(room)};
  for (std::size_t i = 0; i < state_->rules.size(); ++i) {
    const WatchedRule& rule = state_->rules[i];
    if (!makes_index(rule) || state_->rule_of(request.ns.text(), rule.field) != i) continue;
    request.made.push_back(unique_field(rule));
  }
  return request;
}

Inspection::Time Inspection::due(Asks asks) const {
  const bool is_awaited = !state_->awaited.empty() || !state_->lookups.empty();
  if (asks != Asks::indexes && is_awaited) return state_->not_before;
  if (asks == Asks::awaited) return kNever;
  const Time first = asks == Asks::indexes
                         ? state_->makings.due()
                         : std::min({state_->all_databases_due, state_->databases_due.due(),
                                     state_->checks.due()});
  return std::max(first, state_->not_before);
}

// ---- answers -----------------------------------------------------------------------------------

/// When a server can be reached again, all failed requests are due at once.
void Inspection::reached(const ServerAnswer& answer, Time now) {
  state_->has_user = answer.has_user;
  if (answer.kind == AnswerKind::unreachable) {
    state_->not_before = now + kRest;
    state_->was_down = true;
    if (state_->down) return;
    state_->down = answer.reason;
    state_->down_told = answer.told;
    state_->log_events.push_back({log::Level::warning,
                                  "inspection_failing",
                                  "the id store cannot be used: the proxy cannot check collections",
                                  {{"reason", answer.reason}}});
    for (auto& [ns, watch] : state_->watches) watch.go_down();
    return;
  }
  if (!state_->down) return;
  state_->down.reset();
  state_->not_before = {};
  for (auto& [name, database] : state_->databases) {
    database.collections.retry(now);
    state_->databases_due.put(name, database.collections.due);
  }
  for (auto& [ns, watch] : state_->watches) watch.retry(now);
  state_->log_events.push_back({log::Level::info, "inspection_again",
                                "the id store answers again: the proxy checks collections again"});
}

void Inspection::note(const ListDatabases& /*request*/, const DatabaseList& answer, Time now) {
  if (answer.kind != AnswerKind::answered) {
    if (answer.kind == AnswerKind::unreachable) state_->all_databases_due = now + kSoon;
    return;
  }
  for (const std::string& name : answer.names) {
    const bool is_touched = std::ranges::any_of(state_->rules, [&](const WatchedRule& rule) {
      return lists_collections(rule) && is_in(rule, name);
    });
    // Half of the room is for what writes name.
    if (!is_touched || state_->databases.size() >= kMostUnused / 2) continue;
    DatabaseWatch& found = database_of(*state_, name);
    found.lists_all = true;
    found.collections.hurry(now);
    state_->databases_due.put(name, found.collections.due);
  }
}

void Inspection::note(const ListCollections& request, const CollectionList& answer, Time now) {
  if (const auto its = state_->databases.find(request.db); its != state_->databases.end()) {
    learn_views(*state_, its->second, request.db, answer, now);
    if (request.lists_all && answer.kind != AnswerKind::unreachable) its->second.lists_all = false;
    state_->databases_due.put(request.db, its->second.collections.due);
  }
  if (!request.lists_all) return;
  // Begins to check the collections that exist.
  for (const std::string& name : answer.others) {
    const Namespace ns{request.db, name};
    for (std::size_t rule = 0; rule < state_->rules.size(); ++rule) {
      const WatchedRule& its = state_->rules[rule];
      if (!lists_collections(its) || state_->rule_of(ns.text(), its.field) != rule) continue;
      if (state_->watches.size() >= kMostUnused / 2 || state_->watches.contains(ns.text()))
        continue;
      watch_of(*state_, ns).index(rule, now).is_asked_for = false;
    }
  }
}

void Inspection::note(const MakeRoom& request, const DroppedIndex& answer, Time /*now*/) {
  if (answer.kind == AnswerKind::not_permitted) state_->miss("dropIndex", request.ns);
  if (answer.index.empty()) return;
  state_->log_events.push_back(
      {log::Level::info,
       "guard_makes_room",
       "the proxy has replaced its own unique index by another one, since the "
       "server refused an index of the application because of it",
       {{"ns", request.ns.text()}, {"index", answer.index}}});
}

// ---- guards and changes ------------------------------------------------------------------------

void Inspection::tell(ids::Guard::Tell tell, ids::FreeValues::Tell look_up) {
  *state_->tell = std::move(tell);
  *state_->look_up = std::move(look_up);
}

void Inspection::need(const ids::Guard& guard, ids::Guard::Need need, Time now) {
  watch_of(*state_, {guard.db(), guard.collection()}).need(guard.rule(), need, now);
}

void Inspection::begin_change(const ids::CatalogChange& change, Time now) {
  state_->changes.push_back(change);
  forget_changed(state_->watches, change, now);
}

void Inspection::end_change(const ids::CatalogChange& change, Time now) {
  auto& changes = state_->changes;
  const auto under_way = std::ranges::find(changes, change);
  if (under_way == changes.end()) return;
  changes.erase(under_way);
  forget_changed(state_->watches, change, now);
  // It may have made a view, or dropped one.
  for (auto& [name, database] : state_->databases) {
    if (!change.db.empty() && change.db != name) continue;
    database.collections.hurry(now);
    state_->databases_due.put(name, database.collections.due);
  }
  state_->has_news = true;
}

}  // namespace idproxy::id_store
