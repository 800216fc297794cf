#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::id_store {

/// The reservations that requests ask for in one collection, and those to release. Decides what the
/// store does next; the store's threads carry it out. Thread-safe: one lock, held for a handful of
/// instructions. Answers requests and wakes the store after it has released the lock.
class ReservationQueue final : public ids::Reservations,
                               public ids::Queue,
                               public std::enable_shared_from_this<ReservationQueue> {
 public:
  /// The most reservations of several requests that go into one command.
  static constexpr std::size_t kGroup = 1000;
  /// The most that requests wait for. Then others are refused.
  static constexpr std::size_t kMostWaitingBytes = std::size_t{256} * 1024 * 1024;
  /// The largest total size of the reservations that wait for their release. The sweeper deletes
  /// further ones.
  static constexpr std::size_t kMostReleasingBytes = std::size_t{64} * 1024 * 1024;

  /// `wake` makes the store call begin() soon; it must be callable from any thread and never block.
  ReservationQueue(ids::ReserveSpec spec, std::function<void()> wake);

  [[nodiscard]] const ids::ReserveSpec& spec() const { return spec_; }

  // ---- for requests

  [[nodiscard]] ids::Ticket reserve(std::shared_ptr<ids::ReservationBatch> batch,
                                    std::unique_ptr<ids::Waiter> waiter) override;
  void release(ids::ReservationBatch made) noexcept override;
  void cancel(std::uint64_t ticket) override;

  // ---- for the store

  struct Ask {
    std::uint64_t ticket = 0;
    ids::ReservationBatch items{};  ///< of the batch; returns there with the answer
    std::size_t bytes = 0;
    std::shared_ptr<ids::ReservationBatch> batch{};
  };
  /// Either reservations to make, or some to release.
  struct Job {
    std::vector<std::unique_ptr<Ask>> asks{};
    ids::ReservationBatch release{};
    [[nodiscard]] std::vector<ids::Reservation*> items();
  };
  /// The next job; nothing: there is none. Any number of jobs may be under way, and each must be
  /// finished.
  [[nodiscard]] std::optional<Job> begin();
  /// With a failure, requests with a reservation that is still `wanted` get that.
  void finish(Job job, const std::optional<ids::Error>& failure);
  [[nodiscard]] bool has_work() const {
    return ids::locked(mutex_, [&] { return !waiting_.empty() || !releasing_.empty(); });
  }
  /// True if nobody waits, and nothing is under way or to be released.
  [[nodiscard]] bool idle() const {
    return ids::locked(mutex_,
                       [&] { return waiting_.empty() && releasing_.empty() && jobs_ == 0; });
  }
  /// Refuses requests from now on, also those that wait. Releases are still carried out.
  void stop();
  /// Requests that wait, also for what is under way.
  [[nodiscard]] std::size_t waiting() const {
    return ids::locked(mutex_, [&] { return waiters_.size(); });
  }

 private:
  // Under the lock.
  void finish(Ask& ask, const std::optional<ids::Error>& failure, ids::After& after);
  void release_made(ids::ReservationBatch& items);

  const ids::ReserveSpec spec_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;                  // guards all that follows
  ids::WaitList waiters_;                     // also of what is under way
  std::deque<std::unique_ptr<Ask>> waiting_;  // in the order of their tickets
  std::size_t waiting_bytes_ = 0;
  std::size_t jobs_ = 0;  // under way
  std::deque<ids::Reservation> releasing_;
  std::size_t releasing_bytes_ = 0;
  bool released_last_ = false;  // the last job
  bool stopping_ = false;
};

}  // namespace idproxy::id_store
