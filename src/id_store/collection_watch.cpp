#include "id_store/collection_watch.hpp"

#include <utility>

namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::UniqueIndex;
using AnswerKind = ServerAnswer::Kind;
using Time = Inquiry::Time;

// Nobody says that an index was dropped past the proxy: the indexes of each collection are listed
// every kSoon, or less often if there are so many that this would be more than ten a second.
constexpr auto kPerListing = 100ms;
// When to ask again for a rule that is not ready.
constexpr auto kNotReadyRound = 2s;
// How long an IndexOffer is good for: finding one may read many documents.
constexpr auto kOfferRound = 10min;

/// The effects of missing privileges.
constexpr std::pair<std::string_view, std::string_view> kConsequences[] = {
    {"listCollections",
     "views and time-series collections of this database are not known: rules apply to them as to "
     "ordinary collections"},
    {"listIndexes", "the proxy cannot check for unique indexes"},
    {"find",
     "the proxy cannot see which documents have a value, and takes all of them for numbers in use"},
    {"dropIndex", "the proxy's own unique index stays beside the application's"},
    {"collStats",
     "the proxy cannot count documents, and estimates from duplicates alone how many numbers are "
     "in "
     "use"},
    {"createIndex", "the proxy cannot make unique indexes"}};

/// Nothing if the answer does not tell, or the collection has yet to be made.
std::optional<ids::UniqueIndexes> unique_indexes_in(const IndexList& answer) {
  if (answer.kind != AnswerKind::answered) return std::nullopt;
  ids::UniqueIndexes found;
  for (const Index& index : answer.indexes) {
    std::vector<std::string> fields;
    fields.reserve(index.keys.size());
    for (const Index::Key& key : index.keys) fields.push_back(key.field);
    const bool is_on_id = fields.size() == 1 && fields.front() == "_id";
    if (index.unique && !is_on_id) found.push_back(std::move(fields));
  }
  return found;
}

std::shared_ptr<ids::Guard> new_guard(std::size_t rule, const Namespace& ns,
                                      const Surroundings& around) {
  return std::make_shared<ids::Guard>(rule, ns.db, ns.collection, around.tell);
}

std::shared_ptr<ids::FreeValues> new_values(const SpaceWatch& space, const Namespace& ns,
                                            const Surroundings& around) {
  return std::make_shared<ids::FreeValues>(ns.db, ns.collection, space.field, space.fill,
                                           around.look_up);
}

InspectionRequest make_request(IndexWatch& index, const Namespace& ns, const Surroundings& around,
                               Time now) {
  index.make_due = Inquiry::kNever;
  index.is_making = true;
  index.make_begun = now;
  const UniqueField field = unique_field(around.rules[index.rule]);
  if (index.state == IndexState::guarded_twice) return YieldIndex{ns, field};
  return MakeIndex{ns, field};
}

}  // namespace

// ---- surroundings ------------------------------------------------------------------------------

std::optional<std::size_t> Surroundings::rule_of(std::string_view ns,
                                                 std::string_view field) const {
  const auto found = std::ranges::find_if(
      rules, [&](const WatchedRule& rule) { return rule.field == field && rule.matches(ns); });
  if (found == rules.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules.begin());
}

bool Surroundings::is_left_alone(const Namespace& ns) const {
  const auto in = databases.find(ns.db);
  return in != databases.end() && in->second.left_alone.contains(ns.collection);
}

bool Surroundings::is_changing(const Namespace& ns) const {
  return std::ranges::any_of(changes, [&](const ids::CatalogChange& change) {
    return change.includes(ns.db, ns.collection);
  });
}

Time Surroundings::round() const {
  return Time(kRound) * std::max<std::size_t>(1, collections / kMostUnused);
}

std::string Surroundings::may_not(std::string_view privilege) const {
  const char* who = has_user ? "the id store's user" : "the id store, which logs in as no user,";
  return std::string(who) + " may not " + std::string(privilege);
}

void Surroundings::miss(std::string_view privilege, const Namespace& ns) {
  // Clients can make the proxy remember at most this many: six privileges per database.
  if (missed.size() >= 6 * kMostUnused) return;
  if (!missed.insert(std::string(privilege) + " " + ns.db).second) return;
  const auto* const effect =
      std::ranges::find(kConsequences, privilege, [](const auto& each) { return each.first; });
  log_events.push_back(
      {log::Level::warning,
       "missing_privilege",
       may_not(privilege) + " in " + ns.db + ": " + std::string(effect->second),
       {{"privilege", std::string(privilege)}, {"db", ns.db}, {"collection", ns.collection}}});
}

// ---- beginning ---------------------------------------------------------------------------------

CollectionWatch::CollectionWatch(Namespace ns, Surroundings& around)
    : around_(&around), ns_(std::move(ns)) {}

/// Of another space of random numbers, draws and duplicates say nothing, but the number of
/// documents still holds.
CollectionWatch::CollectionWatch(const CollectionWatch& before, Surroundings& around, Time now)
    : CollectionWatch(before) {
  around_ = &around;
  is_pinned = false;
  indexes_.clear();
  spaces_.clear();
  const std::string ns = ns_.text();
  for (std::size_t rule = 0; rule < around.rules.size(); ++rule) {
    const WatchedRule& wanted = around.rules[rule];
    if (around.rule_of(ns, wanted.field) != rule) continue;
    const auto same = std::ranges::find_if(before.indexes_, [&](const IndexWatch& each) {
      const WatchedRule& was = before.around_->rules[each.rule];
      return was.unique_index == wanted.unique_index && was.value_type == wanted.value_type &&
             unique_field(was) == unique_field(wanted);
    });
    if (same != before.indexes_.end()) {
      IndexWatch& taken = indexes_.emplace_back(*same);
      taken.rule = rule;
      if (taken.shared) taken.shared = new_guard(rule, ns_, *around_);
      publish(taken);
    } else if (wanted.field != "_id") {
      index(rule, now);
    }
    if (!wanted.counts_documents) continue;
    const auto found = std::ranges::find(before.spaces_, wanted.field, &SpaceWatch::field);
    const auto was = before.around_->rule_of(ns, wanted.field);
    if (found != before.spaces_.end() && was && before.around_->rules[*was].space == wanted.space) {
      SpaceWatch& taken = spaces_.emplace_back(*found);
      taken.free = new_values(taken, ns_, *around_);
      around.fills_due = std::min(around.fills_due, now);
      continue;
    }
    const SpaceWatch& added = space(wanted.field, now);
    if (found == before.spaces_.end()) continue;
    if (const auto counted = found->fill->seen().documents) added.fill->counted(*counted);
  }
  listing_.resume(!indexes_.empty(), now);
  counting_.resume(!spaces_.empty(), now);
  plan();
}

IndexWatch& CollectionWatch::index(std::size_t rule, Time now) {
  const auto found = std::ranges::find(indexes_, rule, &IndexWatch::rule);
  if (found != indexes_.end()) return *found;
  IndexWatch added{rule};
  if (demands_index(around_->rules[rule])) {
    added.obstacle =
        not_yet(around_->down ? kCannotCheck + around_->down_told
                              : "whether a unique index guards the field has not been checked yet");
    added.shared = new_guard(rule, ns_, *around_);
    publish(added);
  }
  indexes_.push_back(std::move(added));
  listing_.begin(now);
  plan_news();
  return indexes_.back();
}

IndexWatch& CollectionWatch::asked_for(std::size_t rule, Time now) {
  IndexWatch& its = index(rule, now);
  if (!std::exchange(its.is_asked_for, true) && !its.is_ready()) {
    listing_.hurry(now);
    plan_news();
  }
  return its;
}

SpaceWatch& CollectionWatch::space(std::string_view field, Time now) {
  const auto found = std::ranges::find(spaces_, field, &SpaceWatch::field);
  if (found != spaces_.end()) return *found;
  SpaceWatch added{std::string(field)};
  added.free = new_values(added, ns_, *around_);
  added.age_due = now + kRound;
  spaces_.push_back(std::move(added));
  counting_.begin(now);
  plan_news();
  around_->fills_due = std::min<Time>(around_->fills_due, now + 1s);
  return spaces_.back();
}

void CollectionWatch::list_indexes(Time now) {
  if (listing_.due != Inquiry::kNever || listing_.is_open) return;
  listing_.begin(now);
  plan_news();
}

/// A request has come up.
void CollectionWatch::plan_news() {
  around_->has_news = true;
  plan();
}

bool CollectionWatch::is_checked() const {
  const auto is_open = [](const IndexWatch& each) {
    return each.is_transient() && (each.is_making || each.make_due != Inquiry::kNever);
  };
  return !listing_.is_open && !counting_.is_open && std::ranges::none_of(indexes_, is_open);
}

/// The free values of a space hold its fill, too.
bool CollectionWatch::is_used() const {
  const auto lends_guard = [](const IndexWatch& each) {
    return each.is_making || each.shared.use_count() > 1;
  };
  const auto lends_numbers = [](const SpaceWatch& each) {
    return each.fill.use_count() > 2 || each.free.use_count() > 1;
  };
  return lent_.use_count() > 1 || std::ranges::any_of(indexes_, lends_guard) ||
         std::ranges::any_of(spaces_, lends_numbers);
}

// ---- requests ----------------------------------------------------------------------------------

/// Puts its requests into the agendas.
void CollectionWatch::plan() {
  const bool waits = around_->is_changing(ns_);
  Time check = std::min(listing_.due, counting_.due);
  Time making = Inquiry::kNever;
  for (const IndexWatch& each : indexes_) {
    if (each.state != IndexState::no_collection) making = std::min(making, each.make_due);
  }
  const std::string name = ns_.text();
  around_->checks.put(name, waits ? Inquiry::kNever : check);
  around_->makings.put(name, waits ? Inquiry::kNever : making);
}

std::optional<InspectionRequest> CollectionWatch::next_check(Time now) {
  auto request = check(now);
  plan();
  return request;
}

std::optional<InspectionRequest> CollectionWatch::check(Time now) {
  if (around_->is_left_alone(ns_)) {
    // Asks again later: the view may be replaced by an ordinary collection.
    for (Inquiry* each : {&listing_, &counting_}) {
      if (each->due <= now) each->due = now + around_->round();
      each->is_open = false;
    }
    for (const IndexWatch& each : indexes_) publish(each);
    return std::nullopt;
  }
  if (!around_->is_changing(ns_)) {
    const auto made = std::ranges::find_if(indexes_, [&](const IndexWatch& each) {
      return each.state == IndexState::no_collection && each.make_due <= now;
    });
    if (made != indexes_.end()) return make_request(*made, ns_, *around_, now);
    if (listing_.take(now)) return list_request(now);
  }
  if (!counting_.take(now)) return std::nullopt;
  CountDocuments request{ns_};
  for (const SpaceWatch& each : spaces_) request.fields.push_back(each.field);
  return request;
}

std::optional<InspectionRequest> CollectionWatch::next_making(Time now) {
  const auto found = std::ranges::find_if(indexes_, [&](const IndexWatch& each) {
    return each.state != IndexState::no_collection && each.make_due <= now;
  });
  std::optional<InspectionRequest> request;
  if (found != indexes_.end()) request = make_request(*found, ns_, *around_, now);
  plan();
  return request;
}

ListIndexes CollectionWatch::list_request(Time now) const {
  ListIndexes request{.ns = ns_, .epoch = epoch_, .at = now};
  for (const IndexWatch& each : indexes_) {
    const WatchedRule& rule = around_->rules[each.rule];
    // The command is for people, who do not need it if the proxy makes the index.
    const bool advises = !makes_index(rule) && each.is_asked_for &&
                         (!rule.reserve || rule.unique_index != UniqueIndex::warn);
    if (each.offer_due <= now && advises) request.advise.push_back(unique_field(rule));
    request.identifies = request.identifies || (each.shared != nullptr && is_anew_);
  }
  return request;
}

// ---- answers -----------------------------------------------------------------------------------

void CollectionWatch::learn(const ListIndexes& request, const IndexList& answer, Time now) {
  const bool lacks_uuid =
      answer.kind == AnswerKind::answered && is_anew_ && !request.identifies &&
      std::ranges::any_of(indexes_, [](const auto& each) { return each.shared != nullptr; });
  if (request.epoch != epoch_ || lacks_uuid) {
    if (listing_.due == Inquiry::kNever) listing_.due = now;
    return plan();
  }
  const bool is_missed = answer.kind == AnswerKind::not_permitted && !indexes_.empty();
  if (is_missed) around_->miss("listIndexes", ns_);
  identify(request, answer);
  unique_indexes_ = unique_indexes_in(answer);
  bool all_well = true;
  bool others_build = false;
  for (IndexWatch& each : indexes_) {
    const auto offer = answer.offers.find(around_->rules[each.rule].field);
    if (offer != answer.offers.end()) {
      each.offer = offer->second;
      each.offer_due = now + kOfferRound;
    }
    judge(each, answer, now);
    publish(each);
    all_well = all_well && (!each.is_asked_for || each.is_ready());
    others_build = others_build || (each.state == IndexState::building && !each.is_making &&
                                    each.is_transient() && answer.kind == AnswerKind::answered);
  }
  const auto all = static_cast<std::int64_t>(around_->collections);
  const Time round = answer.kind == AnswerKind::unreachable ? Time(kSoon)
                     : all_well ? std::clamp<Time>(all * kPerListing, kSoon, around_->round())
                     : others_build && std::ranges::any_of(indexes_, &IndexWatch::is_awaited)
                         ? Time(kAwaitedRound)
                         : Time(kNotReadyRound);
  listing_.answered(answer, now + round);
  plan();
}

/// Notes which collection it is. Its UUID was read before its indexes: if it has been replaced in
/// between, the server refuses writes with that UUID.
void CollectionWatch::identify(const ListIndexes& request, const IndexList& answer) {
  const bool is_there = answer.kind == AnswerKind::answered;
  if (is_there || answer.kind == AnswerKind::no_collection) listed_at_ = request.at;
  if (request.identifies && is_there) {
    uuid_ = answer.uuid;
    is_anew_ = false;
  } else if (answer.kind == AnswerKind::no_collection) {
    uuid_.reset();
    is_anew_ = true;
  }
  const auto database = around_->databases.find(ns_.db);
  if (!answer.left_alone || database == around_->databases.end()) return;
  LeftAloneByName& names = database->second.left_alone;
  if (names.emplace(ns_.collection, *answer.left_alone).second) ++around_->version;
}

// ---- events ------------------------------------------------------------------------------------

void CollectionWatch::need(std::size_t rule, ids::Guard::Need need, Time now) {
  IndexWatch& its = asked_for(rule, now);
  if (need == ids::Guard::Need::anew) {
    forget("the collection has been dropped, made anew or renamed", now);
  }
  const bool waits = its.state == IndexState::no_collection && !its.is_making;
  if (waits && its.make_due == Inquiry::kNever) its.make_due = now;
  listing_.hurry(now);
  plan_news();
  around_->awaited.push_back(ns_.text());
}

void CollectionWatch::forget(std::string_view why, Time now) {
  ++epoch_;
  is_anew_ = true;
  uuid_.reset();
  if (!indexes_.empty() || unique_indexes_) listing_.due = now;
  unique_indexes_.reset();
  for (IndexWatch& each : indexes_) {
    if (!each.shared) continue;
    each.obstacle = not_yet(std::string(why));
    if (each.state == IndexState::guarded_twice) each.make_due = Inquiry::kNever;
    each.state = IndexState::unchecked;
    each.tries_again = false;
    publish(each);
  }
  plan();
  if (std::ranges::any_of(indexes_, &IndexWatch::is_awaited))
    around_->awaited.push_back(ns_.text());
  around_->has_news = true;
}

/// Other unchecked rules get the reason at once, without a request of their own.
void CollectionWatch::go_down() {
  for (IndexWatch& each : indexes_) {
    if (!each.is_transient() || each.is_making) continue;
    set(each, not_yet(kCannotCheck + around_->down_told));
    publish(each);
  }
}

void CollectionWatch::retry(Time now) {
  listing_.retry(now);
  counting_.retry(now);
  plan();
}

void CollectionWatch::say(log::Level level, std::string_view event, std::string message,
                          const std::string& field, std::string_view name, std::string value) {
  around_->log_events.push_back({level,
                                 event,
                                 std::move(message),
                                 {{"ns", ns_.text()}, {"field", field}, {name, std::move(value)}}});
}

}  // namespace idproxy::id_store
