#include "id_store/reservation_workers.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/observability/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::Errc;
using ids::Reservation;

constexpr std::size_t kReservingThreads = 4;
// The sweeper rests as long as it works, and this long at most.
constexpr std::chrono::nanoseconds kLongestSweepRest = std::chrono::seconds(1);

}  // namespace

ReservationWorkers::ReservationWorkers(const mongo::Pool& pool, const Clock& clock,
                                       StoreMetrics& metrics,
                                       ReservationCollection::Missing missing, Sweeper sweeper)
    : pool_(pool), clock_(clock), metrics_(metrics), missing_(missing), sweeper_(sweeper) {}

ReservationWorkers::~ReservationWorkers() {
  (void)stop(std::chrono::milliseconds(0));
  for (std::thread& thread : threads_) thread.join();
}

// ---- collections -------------------------------------------------------------------------------

void ReservationWorkers::use(const std::vector<ids::ReserveSpec>& specs, std::uint64_t watch) {
  const Lock lock(mutex_);
  newest_watch_ = std::max(newest_watch_, watch);
  for (const ids::ReserveSpec& spec : specs) (void)get(spec, watch);
  std::erase_if(collections_, [&](const auto& item) {
    const bool is_old = item.second->watch < watch;
    if (is_old) retire(item.second);
    return is_old;
  });
  std::erase_if(retired_, [](const Shared& old) {
    return old->queue.use_count() == 1 && old->queue->idle();
  });
  ++version_;
}

std::shared_ptr<ids::Reservations> ReservationWorkers::reservations(const ids::ReserveSpec& spec,
                                                                    std::uint64_t watch) {
  const Lock lock(mutex_);
  return get(spec, watch)->queue;
}

ReservationWorkers::Shared ReservationWorkers::get(const ids::ReserveSpec& spec,
                                                   std::uint64_t watch) {
  Shared& collection = collections_[spec.ns()];
  const bool is_newer = collection && watch > collection->watch;
  if (!collection || (is_newer && collection->documents.spec() != spec)) {
    if (collection) retire(collection);
    collection = make(spec);
    ++version_;
    start_threads();
    changed_.notify_all();
  } else if (is_newer) {
    collection->look_at = clock_.monotonic();  // the operator may have removed the cause
    changed_.notify_all();
  }
  collection->watch = std::max(collection->watch, watch);
  return collection;
}

ReservationWorkers::Shared ReservationWorkers::make(const ids::ReserveSpec& spec) {
  auto collection = std::make_shared<Collection>(
      Collection{ReservationCollection(spec, missing_, clock_, metrics_),
                 ReservationSweeper(spec, clock_, metrics_)});
  collection->queue = std::make_shared<ReservationQueue>(
      spec, [this, weak = std::weak_ptr(collection)] { wake(weak); });
  collection->look_at = clock_.monotonic();
  collection->sweep_at = clock_.monotonic() + at_random(kFirstSweepWithin);
  collection->obstacle =
      CounterWorkers::Obstacle{{Errc::unavailable, "the collection of reservations, " + spec.ns() +
                                                       ", has not been looked at yet"},
                               true};
  if (stopping_) collection->queue->stop();
  return collection;
}

void ReservationWorkers::retire(const Shared& collection) {
  retired_.push_back(collection);
}

std::vector<ReservationWorkers::Shared> ReservationWorkers::all() const {
  const Lock lock(mutex_);
  std::vector<Shared> found = retired_;
  for (const auto& [ns, collection] : collections_) found.push_back(collection);
  return found;
}

ReservationWorkers::Time ReservationWorkers::at_random(Time within) {
  return Time(std::uniform_int_distribution<std::int64_t>(0, within.count())(random_));
}

void ReservationWorkers::await_looks(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  looked_.wait_for(lock, limit, [this] {
    return stopping_ ||
           std::ranges::all_of(collections_, [](const auto& item) { return item.second->looked; });
  });
}

std::optional<CounterWorkers::Obstacle> ReservationWorkers::obstacle(
    const ids::ReserveSpec& spec) const {
  const Lock lock(mutex_);
  const auto found = collections_.find(spec.ns());
  // Rules of an older watch: nobody looks any more.
  if (found == collections_.end() || found->second->documents.spec() != spec) return std::nullopt;
  return found->second->obstacle;
}

std::vector<CounterWorkers::NotReady> ReservationWorkers::not_ready() const {
  const Lock lock(mutex_);
  std::vector<CounterWorkers::NotReady> found;
  for (const auto& [ns, collection] : collections_) {
    if (!collection->obstacle) continue;
    const ids::ReserveSpec& spec = collection->documents.spec();
    found.push_back({*collection->obstacle, {{spec.parent_ns, spec.parent_field, {}}}});
  }
  return found;
}

std::size_t ReservationWorkers::waiting() const {
  std::size_t waiting = 0;
  for (const Shared& collection : all()) waiting += collection->queue->waiting();
  return waiting;
}

// ---- the threads that reserve ------------------------------------------------------------------

void ReservationWorkers::start_threads() {
  if (!threads_.empty() || stopping_) return;
  running_ = kReservingThreads;
  for (std::size_t i = 0; i < kReservingThreads; ++i) threads_.emplace_back([this] { run(); });
  if (sweeper_ == Sweeper::off) return;
  ++running_;
  threads_.emplace_back([this] { run_sweeper(); });
}

void ReservationWorkers::wake(const std::weak_ptr<Collection>& weak) {
  const Shared collection = weak.lock();
  if (!collection) return;
  const Lock lock(mutex_);
  enqueue(collection);
}

void ReservationWorkers::enqueue(const Shared& collection) {
  if (std::exchange(collection->queued, true)) return;
  queue_.push_back(collection);
  changed_.notify_all();
}

/// Waits for something to do; nothing if the thread must end.
std::optional<ReservationWorkers::Task> ReservationWorkers::next(Lock& lock) {
  while (true) {
    const Time now = clock_.monotonic();
    std::optional<Time> due;
    for (const auto& [ns, collection] : collections_) {
      if (stopping_ || collection->looking) continue;
      if (collection->look_at <= now) {
        collection->looking = true;
        return Task{Task::Kind::look, collection};
      }
      due = std::min(due.value_or(collection->look_at), collection->look_at);
    }
    if (!queue_.empty()) {
      Shared collection = std::move(queue_.front());
      queue_.pop_front();
      collection->queued = false;
      return Task{Task::Kind::queue, std::move(collection)};
    }
    if (stopping_) return std::nullopt;
    if (due) {
      changed_.wait_for(lock, *due - now);
    } else {
      changed_.wait(lock);
    }
  }
}

void ReservationWorkers::run() {
  Lock lock(mutex_);
  while (const auto task = next(lock)) {
    if (task->kind == Task::Kind::look) {
      look(lock, task->collection);
    } else {
      lock.unlock();
      do_job(task->collection);
      lock.lock();
    }
  }
  --running_;
  changed_.notify_all();
}

void ReservationWorkers::do_job(const Shared& shared) {
  Collection& collection = *shared;
  auto job = collection.queue->begin();
  if (!job) return;
  // Others begin what else there is meanwhile.
  if (collection.queue->has_work()) wake(shared);
  mongo::Client client = pool_.client(&metrics_.round_trips);
  const std::vector<Reservation*> items = job->items();
  if (!job->release.empty()) {
    const auto failure = collection.documents.release(client, items);
    return collection.queue->finish(*std::move(job), failure);
  }
  const auto failure = collection.documents.make(client, items);
  collection.queue->finish(*std::move(job), failure);
  if (!failure) return;
  // Perhaps it is not possible any more.
  const Lock lock(mutex_);
  collection.look_at = std::min(collection.look_at, clock_.monotonic() + Time(kLookAfterFailure));
  changed_.notify_all();
}

void ReservationWorkers::look(Lock& lock, const Shared& collection) {
  lock.unlock();
  std::optional<ids::Error> error;
  {
    mongo::Client client = pool_.client(&metrics_.round_trips);
    error = collection->documents.look(client);
  }
  lock.lock();
  collection->looking = false;
  const bool was_ready = collection->looked && !collection->obstacle;
  collection->looked = true;
  collection->look_at = clock_.monotonic() + (error ? Time(kLookAgain) : Time(kLookEvery));
  // While the servers do not answer, requests say so themselves.
  const bool stays = was_ready && error && error->code == Errc::unavailable;
  if (!stays) {
    const std::string before = collection->obstacle ? collection->obstacle->error.reason : "";
    collection->obstacle.reset();
    if (error) collection->obstacle = CounterWorkers::Obstacle{*std::move(error), false};
    const bool is_same = collection->obstacle && collection->obstacle->error.reason == before;
    if (!is_same && (collection->obstacle || !before.empty())) ++version_;
  }
  looked_.notify_all();
  changed_.notify_all();
}

// ---- the sweeper -------------------------------------------------------------------------------

void ReservationWorkers::run_sweeper() {
  Lock lock(mutex_);
  while (!stopping_) {
    const Time now = clock_.monotonic();
    Shared first;
    for (const auto& [ns, collection] : collections_) {
      if (!first || collection->sweep_at < first->sweep_at) first = collection;
    }
    if (!first) {
      changed_.wait(lock);
    } else if (first->sweep_at > now) {
      changed_.wait_for(lock, first->sweep_at - now);
    } else {
      sweep(lock, first);
    }
  }
  --running_;
  changed_.notify_all();
}

void ReservationWorkers::sweep(Lock& lock, const Shared& collection) {
  const bool is_ready = collection->looked && !collection->obstacle;
  ReservationSweeper::Swept swept;
  if (is_ready) {
    lock.unlock();
    {
      mongo::Client reader = pool_.client();
      mongo::Client writer = pool_.client();
      swept = collection->sweeper.pass(reader, writer, [&](Time took) {
        Lock inner(mutex_);
        changed_.wait_for(inner, std::min(took, kLongestSweepRest), [this] { return stopping_; });
        return !stopping_;
      });
    }
    tell(*collection, swept);
    lock.lock();
  }
  const bool soon = !is_ready || !swept.failure.empty();
  const Time interval = soon ? Time(kSweepAgain) : Time(collection->sweeper.interval());
  // Between three quarters of it and five quarters.
  collection->sweep_at = clock_.monotonic() + 3 * interval / 4 + at_random(interval / 2);
}

void ReservationWorkers::tell(Collection& collection, const ReservationSweeper::Swept& swept) {
  const std::string ns = collection.documents.spec().ns();
  if (swept.deleted > 0) {
    log::event(log::Level::info, "reservations_swept",
               "reservations whose documents are not stored have been deleted",
               {{"collection", ns}, {"count", swept.deleted}, {"read", swept.read}});
  }
  const std::string before = std::exchange(collection.sweep_failure, swept.failure);
  if (swept.failure.empty() || swept.failure == before) return;
  log::event(log::Level::warning, "reservations_not_swept",
             "reservations whose documents are not stored cannot be deleted now",
             {{"collection", ns}, {"reason", swept.failure}});
}

bool ReservationWorkers::stop(std::chrono::milliseconds limit) {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  const std::vector<Shared> collections = all();
  for (const Shared& collection : collections) collection->queue->stop();
  Lock lock(mutex_);
  changed_.notify_all();
  looked_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return running_ == 0; });
}

}  // namespace idproxy::id_store
