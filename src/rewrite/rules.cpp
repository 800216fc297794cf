#include "idproxy/rewrite/rules.hpp"

#include <algorithm>

#include "idproxy/base/glob.hpp"

namespace idproxy::rewrite {
namespace {

// A client can name any number of namespaces, so the number that is remembered is limited.
constexpr std::size_t kRemembered = 4096;
// The same of namespaces into which some client may insert: so many that were used last, or up to
// twice as many. Each thread has its own.
constexpr std::size_t kRecent = 65'536;
// mongod refuses longer names: a database's has at most 63 bytes, a namespace 255.
constexpr std::size_t kLongestNamespace = 512;
// The version where there is no store.
const ids::Store::Version kNever{0};

std::string ns_of(std::string_view db, std::string_view collection) {
  std::string ns(db);
  return ns.append(".").append(collection);
}

std::vector<std::string> segments(std::string_view field) {
  std::vector<std::string> path;
  for (std::size_t dot = 0; (dot = field.find('.')) != std::string_view::npos;) {
    path.emplace_back(field.substr(0, dot));
    field.remove_prefix(dot + 1);
  }
  path.emplace_back(field);
  return path;
}

bool starts_with(const std::vector<std::string>& path, const std::vector<std::string>& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

/// The plan together with the rules that it points into; null if the plan is empty.
std::shared_ptr<const Plan> keeping(const std::shared_ptr<const RuleSet>& rules, Plan plan) {
  struct Kept {
    std::shared_ptr<const RuleSet> rules;
    Plan plan;
  };
  if (plan.empty()) return nullptr;
  const auto kept = std::make_shared<const Kept>(Kept{rules, std::move(plan)});
  return {kept, &kept->plan};
}

}  // namespace

Plan::Plan(std::vector<Assignment> all, Is is) : all_(std::move(all)), is_(is) {
  for (const Assignment& each : all_) {
    takes_turns_ = takes_turns_ || each.in_turn;
    reserves_ = reserves_ || each.reservations != nullptr;
    is_guarded_ = is_guarded_ || each.guard != nullptr;
    may_depend_on_time_ = may_depend_on_time_ || each.may_depend_on_time();
    can_lose_values_ = can_lose_values_ || !each.is_id();
  }
}

RuleSet::RuleSet(std::vector<Rule> rules, std::string store_db, std::shared_ptr<ids::Store> store,
                 const RuleSet* before)
    : store_(std::move(store)),
      version_(store_ == nullptr ? &kNever : &store_->version()),
      rules_(std::move(rules)),
      outcomes_(rules_.size()),
      store_db_(std::move(store_db)) {
  if (before != nullptr) take_over(*before);
  for (auto& outcomes : outcomes_) {
    if (outcomes == nullptr) outcomes = std::make_shared<RuleOutcomes>();
  }
  for (const Rule& rule : rules_) {
    const ids::RuleSource::About& about = rule.strategy->about();
    follows_transactions_ = follows_transactions_ || about.gapless;
    if (about.counter) store_namespaces_.push_back(about.counter->place.ns());
    if (store_ != nullptr) rule.strategy->announce(*store_);
  }
  prepare_reservations();
}

void RuleSet::prepare_reservations() {
  reservations_.resize(rules_.size());
  id_rules_.resize(rules_.size());
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (!rule.reserve) continue;
    store_namespaces_.push_back(rule.reserve->ns());
    if (store_ != nullptr) reservations_[i] = store_->reservations(*rule.reserve);
    id_rules_[i].ns = rule.ns;
    id_rules_[i].field = "_id";
    id_rules_[i].strategy_name = "objectid";
    id_rules_[i].strategy = rule.id_strategy;
  }
}

void RuleSet::take_over(const RuleSet& before) {
  std::vector<bool> taken(before.rules_.size());
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].source.empty()) continue;
    for (std::size_t j = 0; j < taken.size(); ++j) {
      if (taken[j] || before.rules_[j].source != rules_[i].source) continue;
      rules_[i].strategy = before.rules_[j].strategy;
      outcomes_[i] = before.outcomes_[j];
      taken[j] = true;
      break;
    }
  }
}

bool RuleSet::is_untouchable(std::string_view db, std::string_view collection,
                             const std::string& ns) const {
  return db.empty() || db == "admin" || db == "local" || db == "config" || db == store_db_ ||
         collection.empty() || collection.starts_with("system.") || collection.starts_with("$") ||
         std::ranges::find(store_namespaces_, ns) != store_namespaces_.end();
}

/// For each field, the first rule that matches, before the store has been asked.
std::vector<Assignment> RuleSet::matching(std::string_view db, std::string_view collection,
                                          const std::string& ns) const {
  std::vector<Assignment> plan;
  if (is_untouchable(db, collection, ns)) return plan;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i].matches(ns)) continue;
    auto path = segments(rules_[i].field);
    const bool taken = std::any_of(plan.begin(), plan.end(), [&](const Assignment& earlier) {
      return starts_with(path, earlier.path) || starts_with(earlier.path, path);
    });
    if (taken) continue;
    plan.push_back({&rules_[i], outcomes_[i].get(), i, std::move(path), ns});
  }
  return plan;
}

Plan RuleSet::plan(std::string_view db, std::string_view collection) const {
  const std::string ns = ns_of(db, collection);
  std::vector<Assignment> plan = matching(db, collection, ns);
  for (Assignment& assignment : plan) {
    const std::size_t i = assignment.rule_index;
    if (store_ != nullptr) {
      ids::Readiness readiness = store_->readiness(i, db, collection);
      if (readiness.kind == ids::Readiness::Kind::left_alone) return {};
      if (readiness.kind == ids::Readiness::Kind::not_ready) {
        assignment.not_ready = std::move(readiness.error);
      }
      assignment.guard = store_->guard(i, db, collection);
      assignment.watched = std::move(readiness.watched);
    }
    ids::RuleSource::Bound bound = rules_[i].strategy->bind(ns, store_.get());
    assignment.source = std::move(bound.source);
    assignment.sequences = std::move(bound.sequences);
    assignment.in_turn = rules_[i].strategy->about().gapless.has_value();
    assignment.reservations = reservations_[i].get();
    assignment.store = store_.get();
  }
  add_id(plan);
  return Plan(std::move(plan));
}

Plan RuleSet::outline(std::string_view db, std::string_view collection) const {
  std::vector<Assignment> plan = matching(db, collection, ns_of(db, collection));
  const bool is_known = std::ranges::all_of(plan, [](const Assignment& each) {
    return !has_wildcards(each.rule->ns) && !each.rule->strategy->about().gapless;
  });
  if (store_ == nullptr || is_known) return this->plan(db, collection);
  for (Assignment& assignment : plan) {
    assignment.in_turn = assignment.rule->strategy->about().gapless.has_value();
    assignment.reservations = reservations_[assignment.rule_index].get();
  }
  add_id(plan);
  return Plan(std::move(plan), Plan::Is::outline);
}

Plan RuleSet::bypassed(std::string_view db, std::string_view collection) const {
  if (store_ == nullptr) return {};
  std::vector<Assignment> plan = matching(db, collection, ns_of(db, collection));
  const bool is_time_series =
      !plan.empty() && store_->readiness(plan.front().rule_index, db, collection).is_time_series;
  return is_time_series ? Plan(std::move(plan)) : Plan();
}

/// A reservation names its document by `_id`, so documents without one get it here, also those that
/// do not fulfil the conditions of a rule for it.
void RuleSet::add_id(std::vector<Assignment>& plan) const {
  const auto reserving = std::ranges::find_if(
      plan, [](const Assignment& each) { return each.reservations != nullptr; });
  if (reserving == plan.end()) return;
  const auto always_gives = [](const Assignment& each) {
    return each.path.front() == "_id" && each.rule->when.empty();
  };
  if (std::ranges::any_of(plan, always_gives)) return;
  const std::size_t i = reserving->rule_index;
  Assignment id{&id_rules_[i], id_outcomes_.get(), i, {"_id"}, reserving->ns};
  id.source = id_rules_[i].strategy->bind({}, nullptr).source;
  id.implied = true;
  plan.push_back(std::move(id));
}

bool RuleSet::possible(std::string_view collection) const {
  // A '*' or '?' in the collection's name can only cause a needless "yes".
  const std::string any_db = "*." + std::string(collection);
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const Rule& rule) { return globs_overlap(rule.ns, any_db); });
}

bool RuleSet::concerns(const ids::CatalogChange& change) const {
  const std::string db = change.db.empty() ? "*" : change.db;
  const std::string any = db + "." + (change.collection.empty() ? "*" : change.collection);
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return globs_overlap(rule.ns, any); });
}

std::optional<std::size_t> RuleSet::index_maker(const ids::CatalogChange& in) const {
  const std::string ns = ns_of(in.db, in.collection);
  const auto found = std::ranges::find_if(rules_, [&](const Rule& rule) {
    return rule.unique_index == ids::UniqueIndex::create && rule.field != "_id" && rule.matches(ns);
  });
  if (found == rules_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules_.begin());
}

/// True for an outline whose namespace has been admitted since.
bool Namespaces::may_be_bound(const Known& known, std::string_view db,
                              std::string_view collection) const {
  return known.plan != nullptr && !known.plan->is_bound() &&
         rules_->admitted().has(ns_of(db, collection));
}

const Namespaces::Known& Namespaces::known(std::string_view db, std::string_view collection) {
  // As views: compilers call a function to compare one with a string.
  const bool is_last = last_ != nullptr && rules_->version() == version_ &&
                       db == std::string_view(last_db_) &&
                       collection == std::string_view(last_collection_);
  return is_last && !may_be_bound(*last_, db, collection) ? *last_ : other(db, collection);
}

/// Not the last one, or more can be known now.
const Namespaces::Known& Namespaces::other(std::string_view db, std::string_view collection) {
  static const Known kNone;
  if (db.size() + collection.size() > kLongestNamespace) return kNone;
  if (const std::uint64_t now = rules_->version(); now != version_) {
    version_ = now;
    forget();
  }
  // No name contains a NUL, so "a.b" "c" and "a" "b.c" have different keys.
  key_.assign(db).append(1, '\0').append(collection);
  last_ = nullptr;
  const Known* found = find(db, collection);
  last_ = found != nullptr ? found : &add(look_up(db, collection));
  last_db_ = db;
  last_collection_ = collection;
  return *last_;
}

/// By key_. Null: it is not known, or more can be known now.
const Namespaces::Known* Namespaces::find(std::string_view db, std::string_view collection) {
  if (const auto outline = outlines_.find(key_); outline != outlines_.end()) {
    if (!may_be_bound(outline->second, db, collection)) return &outline->second;
    outlines_.erase(outline);
    return nullptr;
  }
  if (const auto recent = recent_.find(key_); recent != recent_.end()) return &recent->second;
  auto older = older_.extract(key_);
  return older.empty() ? nullptr : &add(std::move(older.mapped()));
}

/// Under key_. Drops all outlines at once, since they cost little, but of plans only those that
/// nobody has used for long.
const Namespaces::Known& Namespaces::add(Known known) {
  const bool has_store = rules_->store() != nullptr;
  const bool is_outline = known.plan == nullptr || !known.plan->is_bound() || !has_store;
  if (is_outline && outlines_.size() >= kRemembered) outlines_.clear();
  if (!is_outline && recent_.size() >= kRecent) older_ = std::exchange(recent_, {});
  return (is_outline ? outlines_ : recent_).insert_or_assign(key_, std::move(known)).first->second;
}

Namespaces::Known Namespaces::look_up(std::string_view db, std::string_view collection) const {
  if (!rules_->admitted().has(ns_of(db, collection))) {
    return {.plan = keeping(rules_, rules_->outline(db, collection))};
  }
  Known known{.plan = keeping(rules_, rules_->plan(db, collection))};
  if (known.plan != nullptr) return known;
  known.time_series = keeping(rules_, rules_->bypassed(db, collection));
  if (known.time_series == nullptr) return known;
  for (const Assignment& each : *known.time_series) {
    known.bypassed.push_back({.assignment = &each,
                              .reason = ForwardReason::time_series,
                              .upserts = 1,
                              .past_the_rules = true});
  }
  return known;
}

void Namespaces::admit(std::string_view db, std::string_view collection) {
  if (db.size() + collection.size() > kLongestNamespace) return;
  rules_->admitted().add(ns_of(db, collection));
}

void Namespaces::forget() {
  for (Plans* plans : {&outlines_, &recent_, &older_}) plans->clear();
  last_ = nullptr;
}

bool Namespaces::possible(std::string_view collection) {
  const bool is_last = last_ != nullptr && collection == std::string_view(last_collection_);
  if (is_last && last_->plan != nullptr) return true;
  key_.assign(collection);
  auto found = collections_.find(key_);
  if (found == collections_.end()) {
    if (collections_.size() >= kRemembered) collections_.clear();
    found = collections_.emplace(key_, rules_->possible(collection)).first;
  }
  return found->second;
}

}  // namespace idproxy::rewrite
