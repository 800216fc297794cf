#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"

namespace idproxy::id_store {

/// What is left of a limit that several steps share.
class TimeLeft {
 public:
  explicit TimeLeft(std::chrono::milliseconds limit) : end_(Clock::now() + limit) {}
  /// Rounded up; not below 0.
  [[nodiscard]] std::chrono::milliseconds get() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

/// Kinds of tasks, which do not take each other's threads. From `sweeps` on, one run may take
/// hours: such a task begins only if another thread stays free for the rest.
enum class Lane : std::uint8_t {
  counters,
  ranges,
  sequences,
  reservations,
  inspector,
  sweeps,
  indexes,
  scans
};
/// How many tasks of each Lane may run at the same time.
using LaneLimits = std::array<std::size_t, 8>;

/// Threads that run tasks: each one when it is woken and when it is due. Starts a thread when a
/// task of a lane that has room finds none idle; if the system refuses it, the task waits for one.
/// Thread-safe. Does not hold its lock while a task runs, so that a task may call it, and others
/// may call it under locks that tasks take.
class Scheduler {
 public:
  using Time = std::chrono::nanoseconds;  // of the clock, monotonic
  enum class Order : std::uint8_t { first, soon, last };
  static constexpr LaneLimits kLimits{
      16,  // more would not make one counter faster, but servers write the journal for many
           // commands at the same time
      1,
      32,  // a reading mostly waits for the servers' majority, and an insert can need many
           // sequences
      4,
      6,  // checks 1, what writes wait for 3, other proxies 1, the lease of scans 1
      1,
      2,
      2,
  };

  /// Work that is done again and again. A task is usually a member of the object that it works on:
  /// the pointer with which others wake it keeps that object alive.
  class Task {
   public:
    /// Does what there is to do now. Returns when to run again even if nobody wakes the task
    /// before; nothing: only then.
    using Run = std::function<std::optional<Time>()>;
    /// `most_at_once`: the number of threads that may run it at the same time. A run that leaves
    /// something to do for another one wakes the task.
    Task(Lane lane, Run run, std::size_t most_at_once = 1)
        : lane_(lane), run_(std::move(run)), most_at_once_(most_at_once) {}

   private:
    friend class Scheduler;
    const Lane lane_;
    const Run run_;
    const std::size_t most_at_once_;
    // Under the scheduler's lock.
    std::size_t running_ = 0;  // threads that run it
    bool queued_ = false;
    Order order_{};       // of queued_
    bool woken_ = false;  // while no further thread might run it
    std::uint64_t runs_ = 0;
    std::optional<Time> due_;  // the time in Scheduler::due_
  };
  using Shared = std::shared_ptr<Task>;

  /// `clock` must outlive it.
  explicit Scheduler(const Clock& clock, const LaneLimits& limits = kLimits);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { join(); }

  /// Has a thread run the task; if it is running, once more after that. `soon`: when no task that
  /// was woken as the first waits for a thread; `last`: when no other one does.
  void wake(const Shared& task, Order order = Order::first);
  /// The same at `time`, if it is not due earlier.
  void wake_at(const Shared& task, Time time);
  /// From now on, the task runs only when it is woken.
  void forget(const Shared& task);
  /// True if there is something to do in the lane and no thread for it, since the system refuses
  /// one. Tries again to start it, as each wake does.
  [[nodiscard]] bool starves(Lane lane);
  /// True if no thread runs the task or is about to.
  [[nodiscard]] bool is_idle(const Task& task) const;
  /// Waits until all tasks of these lanes that have been woken have run, at most for `limit`.
  void await_woken(std::initializer_list<Lane> lanes, std::chrono::milliseconds limit);

  /// For tasks: true once stop() has been called.
  [[nodiscard]] bool is_stopping() const;
  /// For tasks: waits. False if stop() has been called.
  [[nodiscard]] bool pause(Time time);

  /// Runs the tasks that have been woken, but no others any more, and ends the threads. False if
  /// one still runs after `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);
  /// The same, and waits as long as it takes.
  void join();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct LaneState {
    std::size_t most = 0;
    std::size_t running = 0;
    bool is_long = false;
    std::array<std::deque<Shared>, 3> queues{};  // tasks that have been woken, by Order
    [[nodiscard]] std::size_t waiting() const {
      return queues[0].size() + queues[1].size() + queues[2].size();
    }
    [[nodiscard]] std::size_t runnable() const { return std::min(waiting(), most - running); }
  };

  void run();
  // Under the lock.
  [[nodiscard]] Shared next(Lock& lock);
  [[nodiscard]] Shared take();
  void start_thread();
  [[nodiscard]] LaneState& lane_of(const Task& task) {
    return lanes_[static_cast<std::size_t>(task.lane_)];
  }
  void enqueue(const Shared& task, Order order = Order::first);
  void enqueue_due();
  void set_due(const Shared& task, std::optional<Time> due);
  [[nodiscard]] bool ran(const Shared& task, std::optional<Time> due);

  const Clock& clock_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable work_;
  std::condition_variable done_;  // a task has run, a thread has ended, stop()
  std::array<LaneState, std::tuple_size_v<LaneLimits>> lanes_;
  std::size_t turn_ = 0;  // the lane that is asked first for a task
  std::set<std::pair<Time, Shared>> due_;
  std::set<Shared> active_;  // queued or running
  std::vector<std::thread> threads_;
  std::size_t alive_ = 0;  // threads that have not ended
  std::size_t busy_ = 0;   // threads that run a task
  bool refused_ = false;   // the system has refused a thread that is wanted
  bool stopping_ = false;
};

}  // namespace idproxy::id_store
