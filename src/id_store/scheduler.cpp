#include "id_store/scheduler.hpp"

#include <algorithm>
#include <numeric>

#include "id_store/library.hpp"
#include "idproxy/threads/threads.hpp"

namespace idproxy::id_store {

Scheduler::Scheduler(const Clock& clock, const LaneLimits& limits) : clock_(clock) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    lanes_[i].most = limits[i];
    lanes_[i].is_long = i >= static_cast<std::size_t>(Lane::sweeps);
  }
  threads_.reserve(1 + std::accumulate(limits.begin(), limits.end(), std::size_t{0}));
}

void Scheduler::join() {
  (void)stop(std::chrono::milliseconds(0));
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Scheduler::wake(const Shared& task, Order order) {
  const Lock lock(mutex_);
  enqueue(task, order);
}

void Scheduler::wake_at(const Shared& task, Time time) {
  const Lock lock(mutex_);
  if (task->due_ && *task->due_ <= time) return;
  set_due(task, time);
  start_thread();
}

void Scheduler::forget(const Shared& task) {
  const Lock lock(mutex_);
  set_due(task, std::nullopt);
}

bool Scheduler::starves(Lane lane) {
  const Lock lock(mutex_);
  enqueue_due();  // perhaps no thread is free to do it
  if (refused_) start_thread();
  const LaneState& its = lanes_[static_cast<std::size_t>(lane)];
  const bool waits = threads_.empty() || (its.waiting() > 0 && its.running == 0);
  return (refused_ && waits) || mongo::waits_for_thread();
}

bool Scheduler::is_idle(const Task& task) const {
  const Lock lock(mutex_);
  return !task.queued_ && task.running_ == 0;
}

void Scheduler::await_woken(std::initializer_list<Lane> lanes, std::chrono::milliseconds limit) {
  // Outlives the lock: it may have the last pointers to the tasks' owners.
  std::vector<std::pair<Shared, std::uint64_t>> awaited;
  Lock lock(mutex_);
  for (const Shared& task : active_) {
    if (std::ranges::find(lanes, task->lane_) == lanes.end()) continue;
    const bool once_more = task->queued_ || task->woken_;
    awaited.emplace_back(task, task->runs_ + task->running_ + (once_more ? 1 : 0));
  }
  done_.wait_for(lock, limit, [&] {
    const auto has_run = [](const auto& item) { return item.first->runs_ >= item.second; };
    return stopping_ || std::ranges::all_of(awaited, has_run);
  });
}

bool Scheduler::is_stopping() const {
  const Lock lock(mutex_);
  return stopping_;
}

bool Scheduler::pause(Time time) {
  Lock lock(mutex_);
  return !done_.wait_for(lock, time, [this] { return stopping_; });
}

bool Scheduler::stop(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  done_.notify_all();
  return done_.wait_for(lock, limit, [this] { return alive_ == 0; });
}

// ---- under the lock ----------------------------------------------------------------------------

/// Starts more if those that wait for work do not suffice: one for each task that may run, and one
/// that sees when another task is due, or stays free beside those that may take hours.
void Scheduler::start_thread() {
  std::size_t wanted = 0;
  bool one_more = !due_.empty();
  for (const LaneState& lane : lanes_) {
    wanted += lane.runnable();
    one_more = one_more || (lane.is_long && lane.runnable() > 0);
  }
  wanted += one_more ? 1 : 0;
  refused_ = false;
  while (!stopping_ && wanted > alive_ - busy_) {
    std::thread thread;
    refused_ = !threads::start(thread, [this] { run(); });  // which waits for the lock
    if (refused_) return;
    threads_.push_back(std::move(thread));
    ++alive_;
  }
}

void Scheduler::enqueue(const Shared& task, Order order) {
  if (task->running_ == task->most_at_once_) {
    task->woken_ = true;
    return;
  }
  const bool stays = task->queued_ && order >= task->order_;
  if (stays && !refused_) return;
  if (!stays) {
    auto& queues = lane_of(*task).queues;
    if (task->queued_) std::erase(queues[static_cast<std::size_t>(task->order_)], task);
    task->queued_ = true;
    task->order_ = order;
    active_.insert(task);
    queues[static_cast<std::size_t>(order)].push_back(task);
  }
  start_thread();
  work_.notify_one();
}

void Scheduler::set_due(const Shared& task, std::optional<Time> due) {
  if (task->due_) due_.erase({*task->due_, task});
  task->due_ = due;
  if (!due) return;
  due_.emplace(*due, task);
  // Idle threads sleep until what was due first before.
  if (due_.begin()->second == task) work_.notify_one();
}

void Scheduler::enqueue_due() {
  const Time now = clock_.monotonic();
  while (!stopping_ && !due_.empty() && due_.begin()->first <= now) {
    const Shared task = due_.begin()->second;
    set_due(task, std::nullopt);
    enqueue(task);
  }
}

/// Waits for the next task; null if the thread must end.
Scheduler::Shared Scheduler::next(Lock& lock) {
  for (;;) {
    enqueue_due();
    Shared task = take();
    if (task || stopping_) return task;
    if (due_.empty()) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, due_.begin()->first - clock_.monotonic());
    }
  }
}

/// From the first lane, in turn, that has a task and room; null if there is none.
Scheduler::Shared Scheduler::take() {
  for (std::size_t left = lanes_.size(); left > 0; --left) {
    LaneState& lane = lanes_[turn_++ % lanes_.size()];
    const bool is_last_thread = alive_ - busy_ == 1 && !stopping_;
    if (lane.runnable() == 0 || (lane.is_long && is_last_thread)) continue;
    auto& queue =
        *std::ranges::find_if(lane.queues, [](const auto& each) { return !each.empty(); });
    Shared task = std::move(queue.front());
    queue.pop_front();
    task->queued_ = false;
    set_due(task, std::nullopt);  // it says anew
    ++task->running_;
    ++lane.running;
    ++busy_;
    start_thread();
    return task;
  }
  return nullptr;
}

void Scheduler::run() {
  Lock lock(mutex_);
  while (Shared task = next(lock)) {
    lock.unlock();
    const auto due = task->run_();
    lock.lock();
    const bool again = ran(task, due);
    LaneState& lane = lane_of(*task);
    if (!again) {
      lock.unlock();
      task.reset();  // perhaps the last pointer to its owner, which is destroyed as part of the run
      lock.lock();
    }
    --lane.running;
    --busy_;
    if (again) enqueue(task);
  }
  --alive_;
  done_.notify_all();
}

/// True if it must run again. `due`: the run's result. A time that was asked for meanwhile is kept,
/// too, if it is earlier.
bool Scheduler::ran(const Shared& task, std::optional<Time> due) {
  --task->running_;
  ++task->runs_;
  if (due && task->due_) due = std::min(*due, *task->due_);
  if (due) set_due(task, due);
  const bool again = std::exchange(task->woken_, false);
  if (task->running_ == 0 && !task->queued_ && !again) active_.erase(task);
  done_.notify_all();
  return again;
}

}  // namespace idproxy::id_store
