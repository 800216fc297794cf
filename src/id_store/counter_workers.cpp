#include "id_store/counter_workers.hpp"

#include <algorithm>

#include "id_store/counter_commands.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::id_store {
namespace {

using ReplyKind = ids::CounterReply::Kind;

// How many counters can send commands at once. More threads would not make one counter faster.
constexpr std::size_t kThreads = 4;
// The number of counters from which on sweep() looks for ones to forget.
constexpr std::size_t kSweepAt = 1024;
// With more counters than this, sweep() also forgets those that hold no numbers, and with them how
// far they had come. This bounds memory, since clients can invent names of collections.
constexpr std::size_t kMostCounters = 10'000;
// How often to check a store that is down, whatever the number of counters.
constexpr std::chrono::seconds kLookAfter{1};
// How often to read the counters that are in use.
constexpr std::chrono::seconds kWatchEvery{10};
// For a replaced counter: it gives back at once the numbers that nobody waits for.
constexpr ids::CounterSpec::Block kNothingHeld{.size = 1, .prefetch = 0, .idle = {}};

/// Of an announced counter before its first check.
CounterWorkers::Obstacle not_checked() {
  return {{ids::Errc::unavailable, "the counter has not been checked yet"}, true};
}

/// Two specs with the same name share one document.
std::string name_of(const ids::CounterPlace& place) {
  std::string name(1, "tdf"[static_cast<std::size_t>(place.key_is)]);
  for (const std::string* part :
       {&place.db, &place.collection, &place.key_field, &place.key, &place.filter}) {
    name += std::to_string(part->size()) + ":" + *part;
  }
  return name;
}

}  // namespace

CounterWorkers::CounterWorkers(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                               CollectionScans& scans)
    : pool_(pool), clock_(clock), metrics_(metrics), scans_(scans), sweep_at_(kSweepAt) {}

CounterWorkers::~CounterWorkers() {
  (void)stop(std::chrono::milliseconds(0));
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ids::BlockCache> CounterWorkers::counter(const ids::CounterSpec& spec,
                                                         const ids::CounterField& field,
                                                         std::uint64_t watch) {
  const std::scoped_lock lock(mutex_);
  auto cache = get(spec, field, watch)->cache;  // in use now: not swept
  if (all_.size() >= sweep_at_) sweep();
  return cache;
}

std::shared_ptr<ids::BlockCache> CounterWorkers::announce(const ids::CounterSpec& spec,
                                                          const ids::CounterField& field,
                                                          std::uint64_t watch) {
  const std::scoped_lock lock(mutex_);
  const Shared counter = get(spec, field, watch);
  counter->announced = true;
  if (!counter->obstacle && counter->cache->is_new()) counter->obstacle = not_checked();
  counter->check_at = clock_.monotonic();
  enqueue(counter);
  return counter->cache;
}

CounterWorkers::Shared CounterWorkers::get(const ids::CounterSpec& spec,
                                           const ids::CounterField& field, std::uint64_t watch) {
  if (watch > newest_watch_) sweep();  // a reload may have left unused counters
  newest_watch_ = std::max(newest_watch_, watch);
  Shared& counter = all_[name_of(spec.place)];
  if (!counter) {
    counter = make(spec);
    start_threads();
  }
  if (watch > counter->watch) change(counter, spec);
  counter->watch = std::max(counter->watch, watch);
  std::vector<ids::CounterField>& fields = counter->fields;
  const bool is_old = watch < counter->watch;  // its rules are about to end, and their fields too
  if (!is_old && std::ranges::find(fields, field) == fields.end()) fields.push_back(field);
  return counter;
}

void CounterWorkers::await_checks(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  checked_.wait_for(lock, limit, [this] {
    return stopping_ || looking_ || std::ranges::none_of(all_, [this](const auto& item) {
             return item.second->announced && item.second->check_at &&
                    *item.second->check_at <= clock_.monotonic();
           });
  });
}

CounterWorkers::Shared CounterWorkers::make(const ids::CounterSpec& spec) {
  auto counter = std::make_shared<Counter>();
  counter->spec = spec;
  counter->cache = std::make_shared<ids::BlockCache>(
      spec, clock_, [this, weak = std::weak_ptr(counter)] { wake(weak); });
  if (stopping_) counter->cache->stop();
  return counter;
}

void CounterWorkers::change(Shared& counter, const ids::CounterSpec& spec) {
  counter->fields.clear();
  counter->announced = false;
  if (counter->spec == spec) return counter->cache->ask_again();
  if (counter->spec.place != spec.place || counter->spec.step != spec.step) {
    retire(counter);
    counter = make(spec);
    return;
  }
  counter->spec = spec;
  counter->renew_document = true;
  counter->cache->change(spec);
  enqueue(counter);
}

/// Rules that still use the counter go on to get numbers from it.
void CounterWorkers::retire(const Shared& counter) {
  counter->spec.block = kNothingHeld;
  counter->cache->change(counter->spec);
  std::erase_if(retired_, [this](const Shared& old) { return is_unused(old) && !old->due; });
  retired_.push_back(counter);
  enqueue(counter);
}

std::vector<CounterWorkers::Shared> CounterWorkers::all_and_retired() const {
  std::vector<Shared> all = retired_;
  for (const auto& [name, counter] : all_) all.push_back(counter);
  return all;
}

void CounterWorkers::add_to(StoreStatistics& statistics) const {
  const std::scoped_lock lock(mutex_);
  statistics.up = !looking_;
  statistics.down_reason = down_why_;
  for (const Shared& counter : all_and_retired()) {
    if (is_family(*counter)) continue;
    const ids::CounterStatistics cache = counter->cache->statistics();
    statistics.counters += 1;
    const bool counts = cache.exhausted && !counter->spec.place.is_range();
    statistics.counters_exhausted += counts && cache.at_max ? 1 : 0;
    statistics.counters_refused += counts && !cache.at_max ? 1 : 0;
    // The only request for a range's numbers is that of its RangeSet.
    if (!counter->spec.place.is_range()) statistics.requests_waiting += cache.waiting;
    statistics.numbers_held += cache.held;
    statistics.numbers_of_blocks += cache.block_size;
  }
}

bool CounterWorkers::is_sequence(const Counter& counter) {
  return counter.spec.place.key_is == ids::CounterPlace::KeyIs::document;
}

bool CounterWorkers::is_family(const Counter& counter) {
  return counter.spec.place.key_is == ids::CounterPlace::KeyIs::family;
}

std::vector<CounterWorkers::NotReady> CounterWorkers::not_ready() const {
  const std::scoped_lock lock(mutex_);
  std::vector<NotReady> found;
  for (const auto& [name, counter] : all_) {
    if (counter->spec.place.is_range()) continue;
    const bool is_of_rule = counter->obstacle && counter->obstacle->by_server;
    if (is_sequence(*counter) && !counter->announced && !is_of_rule) continue;
    if (auto obstacle = why_not_ready(*counter)) {
      found.push_back({*std::move(obstacle), counter->fields});
    }
  }
  return found;
}

std::optional<CounterWorkers::Obstacle> CounterWorkers::why_not_ready(
    const Counter& counter) const {
  ids::CounterStatistics cache = counter.cache->statistics();
  if (cache.exhausted) return Obstacle{{ids::Errc::exhausted, std::move(cache.reason)}};
  if (cache.held > 0) return std::nullopt;
  if (looking_ && counter.announced) {
    return Obstacle{{ids::Errc::unavailable, "the id store " + down_why_}};
  }
  return counter.obstacle;
}

std::vector<CounterWorkers::InUse> CounterWorkers::in_use() const {
  const std::scoped_lock lock(mutex_);
  std::vector<InUse> found;
  for (const auto& [name, counter] : all_) {
    if (counter->spec.place.is_range() || is_family(*counter)) continue;
    const ids::CounterStatistics cache = counter->cache->statistics();
    ids::CounterNumbers numbers{cache.next, cache.held, cache.left};
    if (!cache.left && counter->checked.first) {
      const std::int64_t next = *counter->checked.first;
      numbers.next = next;
      numbers.left = ids::Steps(counter->spec.step).count(next, counter->spec.max);
      numbers.reads_all = counter->checked.reads_all;
    }
    found.push_back({numbers, counter->fields,
                     is_sequence(*counter) ? key_text(counter->spec.place) : std::string()});
    found.back().count(counter->spec.start, counter->spec.step, counter->spec.max);
  }
  return found;
}

void CounterWorkers::InUse::count(std::int64_t start, std::int64_t step, std::int64_t max) {
  const ids::Steps steps(step);
  numbers.all = steps.count(start, max);
  if (!numbers.next || step < 0) return;
  for (const ids::CounterField& field : fields) {
    const std::uint32_t pad = field.format.pad;
    if (field.format.output != ids::NumberFormat::Output::string || pad == 0 || pad > 18) continue;
    std::int64_t end = 1;  // the first number that is wider
    for (std::uint32_t i = 0; i < pad; ++i) end *= 10;
    if (end > max) continue;
    const ids::CounterNumbers::Width width{steps.count(*numbers.next, end - 1),
                                           steps.count(start, end - 1)};
    if (!numbers.width || width.left < numbers.width->left) numbers.width = width;
  }
}

void CounterWorkers::start_threads() {
  if (!threads_.empty() || stopping_) return;
  running_ = kThreads;
  for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
}

/// Forgets unused counters that never had a number; nothing is lost with them.
void CounterWorkers::sweep() {
  const auto forget = [this](auto is_needless) {
    std::erase_if(all_, [&](const auto& item) {
      const bool needless = is_unused(item.second) && is_needless(*item.second->cache);
      if (needless) set_due(item.second, std::nullopt);
      return needless;
    });
  };
  forget([](const ids::BlockCache& cache) { return cache.forgettable(); });
  if (all_.size() > kMostCounters) {
    forget([](const ids::BlockCache& cache) { return cache.is_empty(); });
  }
  sweep_at_ = std::max(kSweepAt, 2 * all_.size());
}

bool CounterWorkers::is_unused(const Shared& counter) const {
  return !counter->queued && !counter->running && counter->cache.use_count() == 1 &&
         counter != looking_;
}

void CounterWorkers::wake(const std::weak_ptr<Counter>& weak) {
  const Shared counter = weak.lock();
  if (!counter) return;
  const std::scoped_lock lock(mutex_);
  enqueue(counter);
}

void CounterWorkers::enqueue(const Shared& counter) {
  if (counter->running) {
    counter->woken_meanwhile = true;
  } else if (!counter->queued) {
    counter->queued = true;
    (counter->cache->is_new() ? new_ : queue_).push_back(counter);
    changed_.notify_one();
  }
}

void CounterWorkers::set_due(const Shared& counter, std::optional<Time> due) {
  if (counter->due) due_.erase({*counter->due, counter});
  counter->due = due;
  if (!due) return;
  due_.emplace(*due, counter);
  // Waiting threads sleep until what was due first before.
  if (due_.begin()->second == counter) changed_.notify_one();
}

void CounterWorkers::enqueue_due() {
  const Time now = clock_.monotonic();
  while (!due_.empty() && due_.begin()->first <= now) {
    const Shared counter = due_.begin()->second;
    set_due(counter, std::nullopt);
    enqueue(counter);
  }
}

/// Waits for the next counter with work; null if the thread must end.
CounterWorkers::Shared CounterWorkers::next(std::unique_lock<std::mutex>& lock) {
  while (true) {
    if (!stopping_) enqueue_due();
    if (!stopping_ && watch_at_ && *watch_at_ <= clock_.monotonic()) {
      watch(lock);
      continue;
    }
    if (!(queue_.empty() && new_.empty()) && !giving_up_) break;
    if (ending_) return nullptr;
    wait(lock);
  }
  std::deque<Shared>& queue = queue_.empty() ? new_ : queue_;
  Shared counter = std::move(queue.front());
  queue.pop_front();
  counter->queued = false;
  counter->running = true;
  return counter;
}

/// Until something changes or is due.
void CounterWorkers::wait(std::unique_lock<std::mutex>& lock) {
  std::optional<Time> until = watch_at_;
  if (!due_.empty()) until = std::min(until.value_or(due_.begin()->first), due_.begin()->first);
  if (stopping_ || !until) {
    changed_.wait(lock);
  } else {
    changed_.wait_for(lock, *until - clock_.monotonic());
  }
}

/// Reads the counters without the lock. What they hold of it may change meanwhile: see
/// BlockSupply::watched.
void CounterWorkers::watch(std::unique_lock<std::mutex>& lock) {
  watch_at_ = clock_.monotonic() + kWatchEvery;
  if (looking_) return;
  std::vector<WatchedCounter> watched;
  for (const auto& [name, counter] : all_) {
    const auto mark = counter->cache->watch_mark();
    if (mark) watched.push_back({counter->cache, counter->spec, *mark});
  }
  if (watched.empty()) {
    watch_at_.reset();  // the next job sets it
    return;
  }
  lock.unlock();
  {
    mongo::Client client = pool_.client(&metrics_.round_trips);
    read_counters(client, watched);
  }
  watched.clear();  // a counter that nobody else uses is destroyed without the lock
  lock.lock();
}

void CounterWorkers::run() {
  std::unique_lock lock(mutex_);
  while (const Shared counter = next(lock)) {
    const std::vector<ids::CounterField> fields = counter->fields;
    if (std::exchange(counter->renew_document, false)) {
      counter->document.emplace(counter->spec, metrics_, scans_);
    }
    const Turn turn = turn_of(counter);
    // Under the lock, so that a later change() affects only the next job and its document.
    const auto job = counter->cache->begin();
    lock.unlock();
    const bool done = do_job(counter, job, turn, fields);
    const auto due = counter->cache->due();
    lock.lock();
    counter->running = false;
    if (job && !watch_at_) watch_at_ = clock_.monotonic() + kWatchEvery;
    set_due(counter, next_turn(counter, due));
    const bool woken = std::exchange(counter->woken_meanwhile, false);
    if (woken || (stopping_ && done)) enqueue(counter);  // after stop() the cache wakes nobody
  }
  --running_;
  changed_.notify_all();
}

CounterWorkers::Turn CounterWorkers::turn_of(const Shared& counter) const {
  if (stopping_) return Turn::job;
  const Time now = clock_.monotonic();
  if (looking_) return counter == looking_ && now >= look_at_ ? Turn::job_or_look : Turn::job;
  return counter->check_at && now >= *counter->check_at ? Turn::job_or_check : Turn::job;
}

/// `due` is that of the counter's cache. While the store is down, no other counter is checked: that
/// would keep the threads waiting for it.
std::optional<CounterWorkers::Time> CounterWorkers::next_turn(const Shared& counter,
                                                              std::optional<Time> due) const {
  if (counter == looking_) due = std::min(due.value_or(look_at_), look_at_);
  if (!counter->check_at) return due;
  const Time check = looking_ ? clock_.monotonic() + kLookAfter : *counter->check_at;
  return std::min(due.value_or(check), check);
}

bool CounterWorkers::do_job(const Shared& counter, const std::optional<ids::CounterJob>& job,
                            Turn turn, const std::vector<ids::CounterField>& fields) {
  if (!job) {
    tell_refusal(*counter);
    tell_lost(*counter);
  }
  if (!job && turn == Turn::job) return false;
  if (!job && turn == Turn::job_or_check) {
    check(counter, fields);
    return false;
  }
  mongo::Client client = pool_.client(&metrics_.round_trips);
  if (!job) {
    counter->document->look(client);
    note_reached(counter);
    return false;
  }
  ids::CounterReply reply = counter->document->run(client, *job, fields);
  note_reached(counter);
  note_demand(counter, reply);
  note(counter, *job, reply);
  const ids::BlockOutcome outcome = counter->cache->finish(reply);
  count(*counter, *job, reply, outcome);
  tell_refusal(*counter);
  tell_lost(*counter);
  return true;
}

/// An insert waits for numbers, or has been refused.
void CounterWorkers::note_demand(const Shared& counter, const ids::CounterReply& reply) {
  const std::scoped_lock lock(mutex_);
  counter->demanded = counter->demanded || reply.kind == ReplyKind::pending;
  counter->refused_by_job = reply.by_server;
  counter->checks_end = clock_.monotonic() + kChecksLast;
}

/// Its commands do not count as those of counters.
void CounterWorkers::check(const Shared& counter, const std::vector<ids::CounterField>& fields) {
  ids::CounterJob job = kAnyNumber;
  auto demand = CounterDocument::Demand::none;
  {
    const std::scoped_lock lock(mutex_);
    job = counter->refused_job;
    if (counter->demanded) demand = CounterDocument::Demand::waits;
  }
  mongo::Client client = pool_.client();
  const auto checked = counter->document->check(client, fields, job, demand);
  note_reached(counter);
  {
    const std::scoped_lock lock(mutex_);
    counter->checked = checked ? *checked : CounterDocument::Checked{};
    if (checked && leave_to_job(*counter)) return;
  }
  if (checked) counter->document->events().ready_again();
  note(counter, job, checked ? ids::CounterReply{.kind = ReplyKind::allocated} : checked.error());
}

/// True if the server refused a job that the check could not try: the next insert does. Call it
/// under the lock.
bool CounterWorkers::leave_to_job(Counter& counter) {
  if (!counter.obstacle || !counter.obstacle->by_server || !counter.refused_by_job) return false;
  counter.cache->ask_again();
  counter.check_at = clock_.monotonic() + kCheckAgain;
  return true;
}

/// Notes what the reply to the job, or to its check, says of the counter's readiness.
void CounterWorkers::note(const Shared& counter, const ids::CounterJob& job,
                          const ids::CounterReply& reply) {
  const std::scoped_lock lock(mutex_);
  const Time now = clock_.monotonic();
  if (counter->spec.place.is_range()) return note_range(*counter, reply);
  if (reply.kind == ReplyKind::allocated || reply.kind == ReplyKind::kept) {
    note_ready(*counter);
  } else if (reply.kind == ReplyKind::exhausted || reply.kind == ReplyKind::pending) {
    const bool is_pending = reply.kind == ReplyKind::pending;
    const auto code = is_pending ? ids::Errc::unavailable : ids::Errc::exhausted;
    // The next insert gets the new reason.
    if (counter->obstacle && counter->obstacle->error.reason != reply.reason) {
      counter->cache->ask_again();
    }
    counter->obstacle = Obstacle{{code, reply.reason}, is_pending, reply.by_server};
    counter->refused_job = job;
    counter->refused_job.held.clear();  // it goes on with them
    const bool in_force = counter->announced && counter->watch == newest_watch_;
    const bool goes_on = in_force || is_pending || now < counter->checks_end;
    const Time pause = is_pending ? Time(kCheckPending) : Time(kCheckAgain);
    counter->check_at = goes_on ? std::optional(now + pause) : std::nullopt;
  } else if (counter->check_at) {
    if (reply.kind == ReplyKind::failed) {
      counter->obstacle = Obstacle{{ids::Errc::unavailable, reply.reason}};
    }
    counter->check_at = now + kCheckAgain;
  }
  checked_.notify_all();
}

/// What one range met, all of its collection would.
void CounterWorkers::note_range(const Counter& range, const ids::CounterReply& reply) {
  if (reply.by_server) refused_ranges_.insert_or_assign(range.spec.place.ns(), reply.reason);
  if (reply.kind == ReplyKind::allocated) refused_ranges_.erase(range.spec.place.ns());
}

std::optional<std::string> CounterWorkers::why_ranges_refused(const std::string& collection) const {
  const std::scoped_lock lock(mutex_);
  const auto found = refused_ranges_.find(collection);
  return found == refused_ranges_.end() ? std::nullopt : std::optional(found->second);
}

/// A counter that gave no numbers is asked again at once.
void CounterWorkers::note_ready(Counter& counter) {
  if (counter.obstacle) counter.cache->ask_again();
  counter.obstacle.reset();
  counter.check_at.reset();
  counter.demanded = false;
  counter.refused_job = kAnyNumber;
}

void CounterWorkers::tell_lost(Counter& counter) {
  const std::vector<ids::Range> lost = counter.cache->take_lost();
  if (!lost.empty()) counter.document->events().numbers_lost(lost);
}

/// Logs if the cache refuses requests; CounterDocument logs what the store refuses.
void CounterWorkers::tell_refusal(Counter& counter) {
  if (const auto reason = counter.cache->refusal())
    counter.document->events().gives_no_numbers(*reason);
}

void CounterWorkers::count(Counter& counter, const ids::CounterJob& job,
                           const ids::CounterReply& reply, ids::BlockOutcome outcome) {
  if (reply.kind == ReplyKind::given_back) metrics_.numbers_returned += job.unused.count;
  if (outcome == ids::BlockOutcome::went_back) counter.document->events().went_backwards();
  if (reply.kind != ReplyKind::allocated) return;
  if (job.kind == ids::CounterJob::Kind::heal) ++metrics_.heals;
  if (outcome == ids::BlockOutcome::used) {
    ++metrics_.blocks;
    metrics_.numbers_allocated += reply.range.count;
    return;
  }
  ++metrics_.blocks_dropped;
  if (outcome == ids::BlockOutcome::dropped) {
    counter.document->events().block_dropped("they had been handed out before");
  }
}

/// Notes whether the counter's last command reached the store, and logs a change.
void CounterWorkers::note_reached(const Shared& counter) {
  const bool reached = counter->document->reached();
  const std::string& why = counter->document->unreached();
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_ && !reached) giving_up_ = true;
    if (counter == looking_) look_at_ = clock_.monotonic() + kLookAfter;
    down_why_ = why;
    if (!looking_ == reached) return;
    looking_ = reached ? nullptr : counter;
    look_at_ = clock_.monotonic() + kLookAfter;
    checked_.notify_all();
  }
  if (reached) {
    log::event(log::Level::info, "store_up", "the id store answers again");
  } else {
    log::event(log::Level::error, "store_down",
               "the id store cannot be used: counters give out only the numbers that they hold",
               {{"reason", why}});
  }
}

bool CounterWorkers::stop(std::chrono::milliseconds limit) {
  std::vector<Shared> all;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    giving_up_ = looking_ != nullptr;
    all = all_and_retired();
  }
  for (const Shared& counter : all) counter->cache->stop();
  std::unique_lock lock(mutex_);
  for (const Shared& counter : all) enqueue(counter);
  ending_ = true;
  changed_.notify_all();
  checked_.notify_all();
  const bool ended = changed_.wait_for(lock, limit, [this] { return running_ == 0; });
  giving_up_ = true;
  for (const Shared& counter : all) {
    const std::vector<ids::Range> lost = counter->cache->lose_all();
    if (!lost.empty()) CounterEvents(counter->spec).numbers_lost(lost);
  }
  return ended;
}

}  // namespace idproxy::id_store
