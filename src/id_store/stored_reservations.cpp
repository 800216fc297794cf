#include "id_store/stored_reservations.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/log/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::Errc;
using ids::Reservation;

constexpr std::size_t kReservingThreads = 4;
// The sweeper rests as long as it works, and this long at most.
constexpr std::chrono::nanoseconds kLongestSweepRest = std::chrono::seconds(1);

void report_sweep(auto& collection, const ReservationSweeper::Swept& swept) {
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

Scheduler::Time at_random(std::minstd_rand& random, Scheduler::Time within) {
  using Count = std::uniform_int_distribution<std::int64_t>;
  return Scheduler::Time(Count(0, within.count())(random));
}

}  // namespace

StoredReservations::Collection::Collection(StoredReservations& owner, const ids::ReserveSpec& spec)
    : documents(spec, owner.missing_, owner.clock_, owner.metrics_),
      sweeper(spec, owner.clock_, owner.metrics_),
      obstacle(not_looked_at("the collection of reservations, " + spec.ns() + ", has")),
      reserves(
          Lane::reservations,
          [this, &owner] {
            owner.reserve(*this);
            return std::nullopt;
          },
          kReservingThreads),
      looks(Lane::reservations, [this, &owner] { return owner.prepare(*this); }),
      sweeps(Lane::sweeps, [this, &owner] { return owner.sweep(*this); }) {}

StoredReservations::StoredReservations(const mongo::Pool& pool, const Clock& clock,
                                       StoreMetrics& metrics, ids::Store::Version& version,
                                       Scheduler& scheduler, ReservationCollection::Missing missing,
                                       Sweeper sweeper)
    : pool_(pool),
      clock_(clock),
      metrics_(metrics),
      version_(version),
      scheduler_(scheduler),
      missing_(missing),
      sweeper_(sweeper) {}

void StoredReservations::use(const std::vector<ids::ReserveSpec>& specs, std::uint64_t watch) {
  const std::scoped_lock lock(collections_.mutex);
  for (const ids::ReserveSpec& spec : specs) (void)get(spec, watch);
  collections_.retire_older(watch);
  collections_.forget_retired_if(
      [](const Shared& old) { return old->queue.use_count() == 1 && old->queue->idle(); });
  ++version_;
}

std::shared_ptr<ids::Reservations> StoredReservations::reservations(const ids::ReserveSpec& spec,
                                                                    std::uint64_t watch) {
  const std::scoped_lock lock(collections_.mutex);
  return get(spec, watch);
}

std::shared_ptr<ReservationQueue> StoredReservations::get(const ids::ReserveSpec& spec,
                                                          std::uint64_t watch) {
  const auto make = [&] {
    auto made = std::make_shared<Collection>(*this, spec);
    made->queue = std::make_shared<ReservationQueue>(spec, [this, weak = std::weak_ptr(made)] {
      const Shared woken = weak.lock();
      if (woken) scheduler_.wake({woken, &woken->reserves});
    });
    return made;
  };
  const auto [collection, got] = collections_.get(
      spec.ns(), watch, [&](const Shared& known) { return known->documents.spec() == spec; }, make);
  collection->add_field({spec.parent_ns, spec.parent_field, {}}, watch);
  if (got == decltype(collections_)::Got::made) ++version_;
  // Again for newer rules: the operator may have removed the cause.
  if (got != decltype(collections_)::Got::known) scheduler_.wake({collection, &collection->looks});
  return collection->queue;
}

std::optional<ids::Error> StoredReservations::obstacle(const ids::ReserveSpec& spec) const {
  const std::scoped_lock lock(collections_.mutex);
  const auto found = collections_.in_force().find(spec.ns());
  // Rules of an older watch: nobody looks any more.
  if (found == collections_.in_force().end() || found->second->documents.spec() != spec) return {};
  return found->second->obstacle;
}

std::vector<NotReadyReport> StoredReservations::not_ready() const {
  const bool starves = scheduler_.starves(Lane::reservations) || scheduler_.starves(Lane::sweeps);
  return collections_.not_ready(
      [&](const Collection& each) { return starves ? no_thread() : each.obstacle; });
}

std::size_t StoredReservations::waiting() const {
  const std::scoped_lock lock(collections_.mutex);
  std::size_t waiting = 0;
  for (const Shared& collection : collections_.all()) waiting += collection->queue->waiting();
  return waiting;
}

void StoredReservations::stop() {
  collections_.stop(
      [this](const Shared& collection) { scheduler_.wake({collection, &collection->reserves}); });
}

// ---- the tasks ---------------------------------------------------------------------------------

void StoredReservations::reserve(Collection& collection) {
  auto job = collection.queue->begin();
  if (!job) return;
  // Others begin what else there is meanwhile.
  if (collection.queue->has_work()) {
    scheduler_.wake({collection.shared_from_this(), &collection.reserves});
  }
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
  scheduler_.wake_at({collection.shared_from_this(), &collection.looks},
                     clock_.monotonic() + Scheduler::Time(kLookAfterFailure));
}

std::optional<Scheduler::Time> StoredReservations::prepare(Collection& collection) {
  {
    const std::scoped_lock lock(collections_.mutex);
    if (!is_in_force(collection) || collections_.is_stopping()) return std::nullopt;
  }
  mongo::Client client = pool_.client(&metrics_.round_trips);
  const auto error = collection.documents.prepare(client);
  const std::scoped_lock lock(collections_.mutex);
  const bool was_ready = !collection.obstacle;
  // While the servers do not answer, requests say so themselves.
  const bool stays = was_ready && error && error->code == Errc::unavailable;
  if (!stays) {
    const std::string before = collection.obstacle ? collection.obstacle->reason : "";
    collection.obstacle = error;
    if (before != (error ? error->reason : "")) ++version_;
  }
  if (!was_ready && !error && sweeper_ == Sweeper::on) {
    const auto at = clock_.monotonic() + at_random(random_, kFirstSweepWithin);
    scheduler_.wake_at({collection.shared_from_this(), &collection.sweeps}, at);
  }
  return clock_.monotonic() + Scheduler::Time(error ? kLookAgain : kLookEvery);
}

std::optional<Scheduler::Time> StoredReservations::sweep(Collection& collection) {
  if (scheduler_.is_stopping()) return std::nullopt;
  {
    const std::scoped_lock lock(collections_.mutex);
    // prepare() asks for the next sweep when values can be reserved again.
    if (!is_in_force(collection) || collection.obstacle) return std::nullopt;
  }
  mongo::Client reader = pool_.client();
  mongo::Client writer = pool_.client();
  const auto swept = collection.sweeper.sweep(reader, writer, [&](Scheduler::Time took) {
    return scheduler_.pause(std::min(took, kLongestSweepRest));
  });
  report_sweep(collection, swept);
  const Scheduler::Time interval =
      swept.failure.empty() ? collection.sweeper.interval() : kSweepAgain;
  const std::scoped_lock lock(collections_.mutex);
  // Between three quarters of it and five quarters.
  return clock_.monotonic() + 3 * interval / 4 + at_random(random_, interval / 2);
}

}  // namespace idproxy::id_store
