#include "id_store/reservation_queue.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "id_store/reservation_collection.hpp"

namespace idproxy::id_store {
namespace {

using ids::Errc;
using ids::Error;
using ids::Grant;
using ids::Reservation;
using ids::ReservationBatch;
using State = Reservation::State;

/// Releases the reservations of a grant that nobody took.
class Granted final : public ids::Lender {
 public:
  Granted(std::weak_ptr<ReservationQueue> queue, std::shared_ptr<ReservationBatch> batch)
      : queue_(std::move(queue)), batch_(std::move(batch)) {}
  void take_back(const std::vector<ids::Range>& /*ranges*/) override {
    if (const auto queue = queue_.lock()) queue->release(std::move(*batch_));
  }

 private:
  std::weak_ptr<ReservationQueue> queue_;
  std::shared_ptr<ReservationBatch> batch_;
};

bool is_complete(const ReservationBatch& items) {
  return std::ranges::none_of(items,
                              [](const Reservation& item) { return item.state == State::wanted; });
}

}  // namespace

ReservationQueue::ReservationQueue(ids::ReserveSpec spec, std::function<void()> wake)
    : spec_(std::move(spec)), wake_(std::move(wake)) {}

std::vector<Reservation*> ReservationQueue::Job::items() {
  std::vector<Reservation*> all;
  for (const auto& ask : asks) {
    for (Reservation& item : ask->items) all.push_back(&item);
  }
  for (Reservation& item : release) all.push_back(&item);
  return all;
}

// ---- for requests ------------------------------------------------------------------------------

ids::Ticket ReservationQueue::reserve(std::shared_ptr<ReservationBatch> batch,
                                      std::unique_ptr<ids::Waiter> waiter) {
  auto ask = std::make_unique<Ask>();
  ask->items = std::move(*batch);
  for (const Reservation& item : ask->items) ask->bytes += bytes_of(item);
  ask->batch = std::move(batch);
  std::uint64_t ticket = 0;
  ids::locked(mutex_, wake_, [&](ids::After& after) {
    const bool is_full = !waiting_.empty() && waiting_bytes_ + ask->bytes > kMostWaitingBytes;
    if (stopping_ || is_full) {
      const char* why = stopping_ ? "the proxy ends" : "too many inserts wait for reservations";
      after.answer(std::move(waiter), Error{Errc::unavailable, why});
    } else if (ticket = waiters_.add(ask->items.size(), std::move(waiter), after); ticket != 0) {
      ask->ticket = ticket;
      waiting_bytes_ += ask->bytes;
      waiting_.push_back(std::move(ask));
      after.wake = true;
    }
  });
  return {weak_from_this(), ticket};
}

/// Reservations that are being made are released once they are.
void ReservationQueue::cancel(std::uint64_t ticket) {
  std::unique_ptr<Ask> gone;  // destroyed without the lock
  std::unique_ptr<ids::Waiter> waiter;
  const std::scoped_lock lock(mutex_);
  waiter = waiters_.remove(ticket);
  const auto found = std::ranges::lower_bound(
      waiting_, ticket, {}, [](const std::unique_ptr<Ask>& ask) { return ask->ticket; });
  if (found == waiting_.end() || (*found)->ticket != ticket) return;
  gone = std::move(*found);
  waiting_bytes_ -= gone->bytes;
  waiting_.erase(found);
}

void ReservationQueue::release(ReservationBatch made) noexcept {
  try {
    {
      const std::scoped_lock lock(mutex_);
      release_made(made);
    }
    wake_();
  } catch (const std::exception& error) {
    // There is no memory.
    (void)std::fprintf(stderr, "mongo-idproxy: reservations are left to the sweeper: %s\n",
                       error.what());
  }
}

void ReservationQueue::release_made(ReservationBatch& items) {
  for (Reservation& item : items) {
    if (item.state != State::made) continue;
    const std::size_t bytes = bytes_of(item);
    if (releasing_bytes_ + bytes > kMostReleasingBytes) return;
    releasing_bytes_ += bytes;
    releasing_.push_back(std::move(item));
  }
}

// ---- for the store -----------------------------------------------------------------------------

std::optional<ReservationQueue::Job> ReservationQueue::begin() {
  Job job;
  const std::scoped_lock lock(mutex_);
  if (waiting_.empty() && releasing_.empty()) return std::nullopt;
  ++jobs_;
  const bool releases = !releasing_.empty() && (waiting_.empty() || !released_last_);
  released_last_ = releases;
  if (releases) {
    while (!releasing_.empty() && job.release.size() < kGroup) {
      releasing_bytes_ -= bytes_of(releasing_.front());
      job.release.push_back(std::move(releasing_.front()));
      releasing_.pop_front();
    }
    return job;
  }
  std::size_t count = 0;
  do {
    std::unique_ptr<Ask>& ask = waiting_.front();
    count += ask->items.size();
    waiting_bytes_ -= ask->bytes;
    job.asks.push_back(std::move(ask));
    waiting_.pop_front();
  } while (!waiting_.empty() && count + waiting_.front()->items.size() <= kGroup);
  return job;
}

void ReservationQueue::finish(Job job, const std::optional<Error>& failure) {
  ids::locked(mutex_, wake_, [&](ids::After& after) {
    --jobs_;
    for (auto& ask : job.asks) finish(*ask, failure, after);
    // The rest would fail too, and nobody waits for that.
    if (failure && stopping_ && !job.release.empty()) {
      releasing_.clear();
      releasing_bytes_ = 0;
    }
    after.wake = !releasing_.empty();
  });
}

void ReservationQueue::finish(Ask& ask, const std::optional<Error>& failure, ids::After& after) {
  auto waiter = waiters_.remove(ask.ticket);  // null: it has left
  const bool is_granted = is_complete(ask.items);
  if (!waiter || !is_granted) release_made(ask.items);
  if (!waiter) return;
  if (!is_granted) {
    return after.answer(std::move(waiter),
                        failure.value_or(Error{Errc::unavailable, "not reserved"}));
  }
  *ask.batch = std::move(ask.items);
  after.answer(std::move(waiter),
               Grant(std::make_shared<Granted>(weak_from_this(), std::move(ask.batch)), {}));
}

void ReservationQueue::stop() {
  std::deque<std::unique_ptr<Ask>> gone;
  ids::locked(mutex_, {}, [&](ids::After& after) {
    stopping_ = true;
    gone.swap(waiting_);
    waiting_bytes_ = 0;
    for (const auto& ask : gone) {
      after.answer(waiters_.remove(ask->ticket), Error{Errc::unavailable, "the proxy ends"});
    }
  });
}

}  // namespace idproxy::id_store
