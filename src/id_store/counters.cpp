#include "id_store/counters.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "id_store/counter_commands.hpp"
#include "id_store/numbers.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using ReplyKind = ids::CounterReply::Kind;

// With more counters than this, sweep() also forgets those that hold no numbers, and with them how
// far they had come. This bounds memory, since clients can invent names of collections.
constexpr std::size_t kMostCounters = 10'000;
// How often to check a store that is down, whatever the number of counters.
constexpr std::chrono::seconds kLookAfter{1};
// How often to read the counters that are in use.
constexpr std::chrono::seconds kWatchEvery{4};
// For a replaced counter: it gives back at once the numbers that nobody waits for.
constexpr ids::CounterSpec::Block kNothingHeld{.size = 1, .prefetch = 0, .idle = {}};

/// Two specs with the same name share one counter. Those that hide its numbers in different ways do
/// not: while a reload replaces one by the other, each must get numbers for its own key only.
std::string name_of(const ids::CounterSpec& spec) {
  const ids::CounterPlace& place = spec.place;
  std::string name(1, "tdf"[static_cast<std::size_t>(place.key_is)]);
  for (const std::string* part :
       {&place.db, &place.collection, &place.key_field, &place.key, &place.value_field,
        &place.filter, &spec.seal.fpe, &spec.seal.space}) {
    name += std::to_string(part->size()) + ":" + *part;
  }
  return name;
}

// A key may have 400 bytes and more, and a command must stay below 16 MiB.
constexpr std::int32_t kMostInOneFind = 1000;

using ByKey = std::multimap<std::string_view, const WatchedCounter*>;

/// Everything but the key.
auto family_of(const ids::CounterPlace& place) {
  return std::tie(place.db, place.collection, place.key_field, place.value_field, place.filter);
}
using Family = decltype(family_of({}));

/// Finds the counters from `next` on, as many as fit, and advances it.
Document find_next(ByKey::const_iterator& next, ByKey::const_iterator end) {
  const ids::CounterPlace& place = next->second->spec.place;
  Array keys;
  for (std::int32_t n = 0; n < kMostInOneFind && next != end; ++n, ++next) {
    const ids::CounterPlace& each = next->second->spec.place;
    if (each.has_document_key()) {
      keys.push(Document(as_bytes(each.key)));
    } else {
      keys.push(each.key);
    }
  }
  const Document filter{{place.key_field, {"$in", keys}}, Document(as_bytes(place.filter))};
  return {
      {"find", place.collection}, {"filter", filter}, {"batchSize", kMostInOneFind}};  // no getMore
}

using Found = std::set<const WatchedCounter*>;

void tell(const ByKey& family, Bytes document, Found& there) {
  const ids::CounterPlace& place = family.begin()->second->spec.place;
  const auto key = bson::find(document, place.key_field);
  const StoredValue value = stored_value(document, place.value_field);
  if (!key) return;
  const bool is_text = key->type == bson::Type::string;
  if (!is_text && key->type != bson::Type::document) return;
  // Other programs may have written a number of the scope as another type.
  const auto scope = place.is_scope() ? ids::as_scope(key->value) : std::nullopt;
  const auto [begin, end] = family.equal_range(scope     ? *scope
                                               : is_text ? key->text()
                                                         : as_text(key->value));
  for (auto counter = begin; counter != end; ++counter) {
    const WatchedCounter& watched = *counter->second;
    there.insert(&watched);
    if (!value.is_number()) continue;
    const auto next = Numbers(watched.spec).first_at(value.number);
    if (next) watched.cache->watched(next, watched.mark);
  }
}

/// Of counters that were read, and are not there. A range is not made again.
void tell_missing(ByKey::const_iterator from, ByKey::const_iterator to, const Found& there) {
  for (; from != to; ++from) {
    const WatchedCounter& watched = *from->second;
    if (watched.spec.place.is_range() || there.contains(&watched)) continue;
    watched.cache->watched(std::nullopt, watched.mark);
  }
}

/// Logs what is lost, and whether the cache refuses requests; CounterDocument logs what the store
/// refuses.
void report_counter(auto& counter) {
  CounterEvents& events = counter.document->events();
  if (const auto why = counter.cache->refusal()) events.gives_no_numbers(*why);
  const std::vector<ids::Range> lost = counter.cache->take_lost();
  if (!lost.empty()) events.numbers_lost(lost);
}

/// `down_why`: why the store is down; null: it is up.
std::optional<ids::Error> why_not_ready(const auto& counter, const std::string* down_why) {
  constexpr const char* kButThose = "no numbers but those in memory: ";
  ids::CounterStatistics cache = counter.cache->statistics();
  if (cache.exhausted) return std::move(cache.why);
  if (cache.held > 0) {
    // Inserts still get these, but whoever can mend it learns it before they do not.
    if (!counter.obstacle || !counter.obstacle->by_server) return std::nullopt;
    ids::Error why = *counter.obstacle;
    why.reason.insert(0, kButThose);
    if (why.advice) {
      Reason advice = *why.advice;
      advice.text.insert(0, kButThose);
      why.advice = std::make_shared<const Reason>(std::move(advice));
    }
    return why;
  }
  if (down_why != nullptr && counter.announced) {
    return ids::Error{ids::Errc::unavailable, "the id store " + *down_why};
  }
  return counter.obstacle;
}

void wake_counter(Scheduler& scheduler, const auto& counter) {
  using Order = Scheduler::Order;
  const ids::BlockCache& cache = *counter->cache;
  const Order order = !cache.is_new()      ? Order::first
                      : cache.is_awaited() ? Order::soon
                                           : Order::last;
  scheduler.wake({counter, &counter->task}, order);
}

void count_job(StoreMetrics& metrics, const CounterEvents& events, const ids::CounterJob& job,
               const ids::CounterReply& reply, ids::BlockOutcome outcome) {
  if (reply.kind == ReplyKind::given_back) metrics.numbers_returned += job.unused.count;
  if (outcome == ids::BlockOutcome::went_back) events.went_backwards();
  if (reply.kind != ReplyKind::allocated) return;
  if (job.kind == ids::CounterJob::Kind::heal) ++metrics.heals;
  if (outcome == ids::BlockOutcome::used) {
    ++metrics.blocks;
    metrics.numbers_allocated += reply.range.count;
    return;
  }
  ++metrics.blocks_dropped;
  if (outcome == ids::BlockOutcome::dropped) {
    events.block_dropped("they had been handed out before");
  }
}

}  // namespace

Counters::Counter::Counter(Counters& owner, const ids::CounterSpec& its)
    : spec(its), task(Lane::counters, [this, &owner] { return owner.run(*this); }) {}

Counters::Counters(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                   CollectionScans& scans, Scheduler& scheduler)
    : pool_(pool), clock_(clock), metrics_(metrics), scans_(scans), scheduler_(scheduler) {}

std::shared_ptr<ids::BlockCache> Counters::counter(const ids::CounterSpec& spec, Fields fields,
                                                   std::uint64_t watch) {
  const std::scoped_lock lock(counters_.mutex);
  auto cache = get(spec, fields, watch)->cache;  // in use now: not swept
  if (counters_.are_many()) sweep();
  return cache;
}

std::shared_ptr<ids::BlockCache> Counters::announce(const ids::CounterSpec& spec, Fields fields,
                                                    std::uint64_t watch) {
  const std::scoped_lock lock(counters_.mutex);
  const Shared counter = get(spec, fields, watch);
  counter->announced = true;
  if (!counter->obstacle && counter->cache->is_new()) {
    counter->obstacle = ids::Error{.code = ids::Errc::unavailable,
                                   .reason = "the counter has not been checked yet",
                                   .is_transient = true};
  }
  counter->check_at = clock_.monotonic();
  wake_counter(scheduler_, counter);
  return counter->cache;
}

/// What stood in the way may have been an index of those fields.
void Counters::rules_are_made(std::uint64_t watch) {
  counters_.rules_are_made(watch, [this](const Shared& counter) {
    if (counter->announced) counter->check_at = clock_.monotonic();
    wake_counter(scheduler_, counter);
  });
}

Counters::Shared Counters::get(const ids::CounterSpec& spec, Fields fields, std::uint64_t watch) {
  if (watch > newest_watch_) sweep();  // a reload may have left unused counters
  newest_watch_ = std::max(newest_watch_, watch);
  const Shared counter =
      counters_
          .get(
              name_of(spec), watch, [&](const Shared& known) { return renew(known, spec); },
              [&] { return make(spec); })
          .first;
  for (const ids::CounterField& field : fields) counter->add_field(field, watch);
  return counter;
}

Counters::Shared Counters::make(const ids::CounterSpec& spec) {
  auto counter = std::make_shared<Counter>(*this, spec);
  counter->cache =
      std::make_shared<ids::BlockCache>(spec, clock_, [this, weak = std::weak_ptr(counter)] {
        if (const Shared woken = weak.lock()) wake_counter(scheduler_, woken);
      });
  return counter;
}

/// False if it retires. Rules that still use it go on to get numbers from it.
bool Counters::renew(const Shared& counter, const ids::CounterSpec& spec) {
  counter->announced = false;
  if (counter->spec == spec) {
    counter->cache->ask_again();
    return true;
  }
  const bool fits = counter->spec.place == spec.place && counter->spec.step == spec.step;
  if (fits) {
    counter->spec = spec;
    counter->renew_document = true;
  } else {
    counter->spec.block = kNothingHeld;
    counters_.forget_retired_if(
        [this](const Shared& old) { return is_unused(old) && old->cache->is_empty(); });
  }
  counter->cache->change(counter->spec);
  wake_counter(scheduler_, counter);
  return fits;
}

void Counters::add_to(StoreStatistics& statistics) const {
  const std::scoped_lock lock(counters_.mutex);
  statistics.up = !looking_;
  statistics.down_reason = down_why_;
  for (const Shared& counter : counters_.all()) {
    if (counter->spec.place.is_family()) continue;
    const ids::CounterStatistics cache = counter->cache->statistics();
    statistics.counters += 1;
    const bool counts = cache.exhausted && !counter->spec.place.is_range();
    statistics.counters_exhausted += counts && cache.why.at_end ? 1 : 0;
    statistics.counters_refused += counts && !cache.why.at_end ? 1 : 0;
    // The only request for a range's numbers is that of its RangeSet.
    if (!counter->spec.place.is_range()) statistics.requests_waiting += cache.waiting;
    statistics.numbers_held += cache.held;
    statistics.numbers_of_blocks += cache.block_size;
  }
}

std::vector<NotReadyReport> Counters::not_ready() const {
  const bool starves = scheduler_.starves(Lane::counters) || scheduler_.starves(Lane::scans);
  return counters_.not_ready([&](const Counter& counter) -> std::optional<ids::Error> {
    if (counter.spec.place.is_range()) return std::nullopt;
    // Of a rule that a reload has replaced, such as one with a wrong key.
    if (counter.announced && counter.watch < newest_watch_) return std::nullopt;
    if (starves) return no_thread();
    const bool is_of_rule = counter.obstacle && counter.obstacle->by_server;
    const bool is_of_many = counter.spec.place.has_document_key() && !counter.announced;
    return is_of_many && !is_of_rule ? std::nullopt
                                     : why_not_ready(counter, looking_ ? &down_why_ : nullptr);
  });
}

std::vector<InUse> Counters::in_use() const {
  const std::scoped_lock lock(counters_.mutex);
  std::vector<InUse> found;
  for (const auto& [name, counter] : counters_.in_force()) {
    if (counter->spec.place.is_range() || counter->spec.place.is_family()) continue;
    const ids::CounterStatistics cache = counter->cache->statistics();
    ids::CounterNumbers numbers{cache.next, cache.held, cache.left};
    if (!cache.left && counter->checked.first) {
      const std::int64_t next = *counter->checked.first;
      numbers.next = next;
      numbers.left = ids::Steps(counter->spec.step).count(next, counter->spec.max);
      numbers.reads_all = counter->checked.reads_all;
    }
    found.push_back({numbers, counter->fields});
    if (counter->spec.place.has_document_key()) {
      found.back().sequence = key_text(counter->spec.place);
      found.back().period = bson::text_in(as_bytes(counter->spec.place.key), "p");
    }
    found.back().count(counter->spec.start, counter->spec.step, counter->spec.max);
  }
  return found;
}

/// Forgets unused counters that never had a number; nothing is lost with them.
void Counters::sweep() {
  const auto forget = [this](auto is_needless) {
    counters_.forget_if([&](const Shared& counter) {
      const bool needless = is_unused(counter) && is_needless(*counter->cache);
      if (needless) scheduler_.forget({counter, &counter->task});
      return needless;
    });
  };
  forget([](const ids::BlockCache& cache) { return cache.forgettable(); });
  if (counters_.in_force().size() > kMostCounters) {
    forget([](const ids::BlockCache& cache) { return cache.is_empty(); });
  }
}

bool Counters::is_unused(const Shared& counter) const {
  return scheduler_.is_idle(counter->task) && counter->cache.use_count() == 1 &&
         counter != looking_;
}

/// A task: reads the counters that are in use. The numbers that caches hold may change meanwhile:
/// see BlockCache::watched.
std::optional<Counters::Time> Counters::watch() {
  std::vector<WatchedCounter> watched;
  {
    const std::scoped_lock lock(counters_.mutex);
    const Time next = clock_.monotonic() + kWatchEvery;
    if (looking_) return next;
    for (const auto& [name, counter] : counters_.in_force()) {
      const auto mark = counter->cache->watch_mark();
      if (mark) watched.push_back({counter->cache, counter->spec, *mark});
    }
    is_watching_ = !watched.empty();  // else the next job has it begin again
    if (!is_watching_) return std::nullopt;
  }
  mongo::Client client = pool_.client(&metrics_.round_trips);
  read_counters(client, watched);
  return clock_.monotonic() + kWatchEvery;
}

std::optional<Counters::Time> Counters::run(Counter& counter) {
  std::unique_lock lock(counters_.mutex);
  if (giving_up_ || (counters_.is_stopping() && looking_)) return std::nullopt;
  const std::vector<ids::CounterField> fields = counter.fields;
  if (std::exchange(counter.renew_document, false)) {
    counter.document.emplace(counter.spec, metrics_, scans_);
  }
  const Time now = clock_.monotonic();
  const bool looks = !counters_.is_stopping() && &counter == looking_.get() && now >= look_at_;
  const bool checks =
      !counters_.is_stopping() && !looking_ && counter.check_at && now >= *counter.check_at;
  // Under the lock, so that a later renew() affects only the next job and its document.
  const auto job = counter.cache->begin();
  lock.unlock();
  if (job) do_job(counter, *job, fields);
  report_counter(counter);
  if (!job && looks) {
    mongo::Client client = pool_.client(&metrics_.round_trips);
    counter.document->probe(client);
    note_reached(counter);
  } else if (!job && checks) {
    check(counter, fields);
  }
  const auto due = counter.cache->due();
  lock.lock();
  if (job && !std::exchange(is_watching_, true)) {
    scheduler_.wake_at(watch_, clock_.monotonic() + kWatchEvery);
  }
  if (counters_.is_stopping() && job)
    wake_counter(scheduler_, counter.shared_from_this());  // after stop() the cache wakes nobody
  return next_turn(counter, due);
}

/// `due` is that of the counter's cache. While the store is down, no other counter is checked: that
/// would keep the threads waiting for it.
std::optional<Counters::Time> Counters::next_turn(const Counter& counter,
                                                  std::optional<Time> due) const {
  if (&counter == looking_.get()) due = std::min(due.value_or(look_at_), look_at_);
  if (!counter.check_at) return due;
  const Time check = looking_ ? clock_.monotonic() + kLookAfter : *counter.check_at;
  return std::min(due.value_or(check), check);
}

void Counters::do_job(Counter& counter, const ids::CounterJob& job,
                      const std::vector<ids::CounterField>& fields) {
  mongo::Client client = pool_.client(&metrics_.round_trips);
  ids::CounterReply reply = counter.document->run(client, job, fields);
  note_reached(counter);
  {
    const std::scoped_lock lock(counters_.mutex);
    // An insert waits for numbers, or has been refused.
    counter.demanded = counter.demanded || reply.kind == ReplyKind::pending;
    counter.refused_by_job = reply.why.by_server && !counter.document->met_by_check();
    counter.checks_end = clock_.monotonic() + kChecksLast;
    note(counter, job, reply);
  }
  const ids::BlockOutcome outcome = counter.cache->finish(reply);
  count_job(metrics_, counter.document->events(), job, reply, outcome);
}

/// Its commands do not count as those of counters.
void Counters::check(Counter& counter, const std::vector<ids::CounterField>& fields) {
  ids::CounterJob job = kAnyNumber;
  auto demand = CounterDocument::Demand::none;
  {
    const std::scoped_lock lock(counters_.mutex);
    job = counter.refused_job;
    if (counter.demanded) demand = CounterDocument::Demand::waits;
  }
  mongo::Client client = pool_.client();
  const auto checked = counter.document->check(client, fields, job, demand);
  note_reached(counter);
  {
    const std::scoped_lock lock(counters_.mutex);
    counter.checked = checked ? *checked : CounterDocument::Checked{};
    // The server refused a job that the check could not try: the next insert does.
    const bool is_refused = counter.obstacle && counter.obstacle->by_server;
    if (checked && is_refused && counter.refused_by_job) {
      counter.cache->ask_again();
      counter.check_at = clock_.monotonic() + kCheckAgain;
      return;
    }
  }
  if (checked) counter.document->events().ready_again();
  const std::scoped_lock lock(counters_.mutex);
  note(counter, job, checked ? ids::CounterReply(ReplyKind::allocated) : checked.error());
}

/// Notes whether the counter is ready, by the reply to a job or to its check.
void Counters::note(Counter& counter, const ids::CounterJob& job, const ids::CounterReply& reply) {
  const Time now = clock_.monotonic();
  if (counter.spec.place.is_range()) {
    // A server that refuses one range refuses all of its collection.
    const std::string collection = counter.spec.place.ns();
    if (reply.why.by_server) refused_ranges_.insert_or_assign(collection, reply.why.reason);
    if (reply.kind == ReplyKind::allocated) refused_ranges_.erase(collection);
  } else if (reply.kind == ReplyKind::allocated || reply.kind == ReplyKind::kept) {
    if (counter.obstacle) counter.cache->ask_again();  // asked again at once
    counter.obstacle.reset();
    counter.check_at.reset();
    counter.demanded = false;
    counter.refused_job = kAnyNumber;
  } else if (reply.kind == ReplyKind::exhausted || reply.kind == ReplyKind::pending) {
    const bool is_pending = reply.kind == ReplyKind::pending;
    // The next insert gets the new reason.
    if (counter.obstacle && counter.obstacle->reason != reply.why.reason) {
      counter.cache->ask_again();
    }
    counter.obstacle = reply.why;
    counter.refused_job = job;
    counter.refused_job.held.clear();  // it goes on with them
    const bool in_force = counter.announced && counter.watch == newest_watch_;
    const bool goes_on = in_force || is_pending || now < counter.checks_end;
    const Time pause = is_pending ? Time(kCheckPending) : Time(kCheckAgain);
    counter.check_at = goes_on ? std::optional(now + pause) : std::nullopt;
  } else if (counter.check_at) {
    if (reply.kind == ReplyKind::failed) counter.obstacle = reply.why;
    counter.check_at = now + kCheckAgain;
  }
}

std::optional<std::string> Counters::why_ranges_refused(const std::string& collection) const {
  const std::scoped_lock lock(counters_.mutex);
  const auto found = refused_ranges_.find(collection);
  return found == refused_ranges_.end() ? std::nullopt : std::optional(found->second);
}

/// Notes whether the counter's last command reached the store, and logs a change.
void Counters::note_reached(Counter& counter) {
  const bool reached = counter.document->reached();
  const std::string& why = counter.document->unreached();
  {
    const std::scoped_lock lock(counters_.mutex);
    if (&counter == looking_.get()) look_at_ = clock_.monotonic() + kLookAfter;
    down_why_ = why;
    if (!looking_ == reached) return;
    looking_ = reached ? nullptr : counter.shared_from_this();
    look_at_ = clock_.monotonic() + kLookAfter;
  }
  if (reached) {
    log::event(log::Level::info, "store_up", "the id store answers again");
  } else {
    log::event(store_down(why), {{"reason", why}});
  }
}

void Counters::stop() {
  counters_.stop([this](const Shared& counter) { wake_counter(scheduler_, counter); });
}

void Counters::lose_rest() {
  const std::scoped_lock lock(counters_.mutex);
  giving_up_ = true;
  for (const Shared& counter : counters_.all()) {
    const std::vector<ids::Range> lost = counter->cache->lose_all();
    if (!lost.empty()) CounterEvents(counter->spec).numbers_lost(lost);
  }
}

void read_counters(mongo::Client& client, std::span<const WatchedCounter> counters) {
  std::map<Family, ByKey> families;
  for (const WatchedCounter& counter : counters) {
    families[family_of(counter.spec.place)].emplace(counter.spec.place.key, &counter);
  }
  for (const auto& [place, family] : families) {
    for (auto next = family.begin(); next != family.end();) {
      const auto from = next;
      Found there;
      const auto reply =
          client.read_all(std::get<0>(place), find_next(next, family.end()), [&](Bytes document) {
            tell(family, document, there);
            return true;
          });
      if (reply.ok()) tell_missing(from, next, there);
    }
  }
}

}  // namespace idproxy::id_store
