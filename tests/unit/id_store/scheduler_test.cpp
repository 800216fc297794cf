#include "id_store/scheduler.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/fake_clock.hpp"

namespace idproxy::id_store {
namespace scheduler_test {

using namespace std::chrono_literals;
using Task = Scheduler::Task;
using Time = Scheduler::Time;

constexpr std::chrono::milliseconds kLong = 60s;  // never reached unless something is wrong

class SchedulerTest : public testing::Test {
 protected:
  ::idproxy::test::FakeClock clock;
};

Scheduler::Shared task_of(Task::Run run, std::size_t most_at_once = 1) {
  return std::make_shared<Task>(Lane::counters, std::move(run), most_at_once);
}

TEST_F(SchedulerTest, ATaskThatIsWokenWhileItRunsRunsOnceMoreInOneThreadAtATime) {
  Scheduler scheduler(clock, {4});
  std::latch begun(1);
  std::latch go_on(1);
  std::atomic<int> runs = 0;
  std::atomic<int> at_once = 0;
  const auto task = task_of([&]() -> std::optional<Time> {
    EXPECT_EQ(++at_once, 1);
    if (++runs == 1) {
      begun.count_down();
      go_on.wait();
    }
    --at_once;
    return std::nullopt;
  });
  scheduler.wake(task);
  begun.wait();
  for (int i = 0; i < 3; ++i) scheduler.wake(task);
  EXPECT_FALSE(scheduler.is_idle(*task));
  go_on.count_down();
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(scheduler.is_idle(*task));
}

TEST_F(SchedulerTest, ATaskRunsInAsManyThreadsAsItAllows) {
  Scheduler scheduler(clock, {4});
  std::latch both(2);
  std::atomic<int> at_once = 0;
  std::atomic<int> runs = 0;
  Scheduler::Shared task;
  task = task_of(
      [&]() -> std::optional<Time> {
        EXPECT_LE(++at_once, 2);
        if (++runs <= 2) {
          scheduler.wake(task);
          both.arrive_and_wait();  // never returns unless two threads are here
        }
        --at_once;
        return std::nullopt;
      },
      2);
  scheduler.wake(task);
  both.wait();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(runs, 3) << "the second one asked for it while no further thread might run it";
}

TEST_F(SchedulerTest, ALaneThatIsFullLeavesTheOthersTheirThreads) {
  Scheduler scheduler(clock, {2, 1});
  std::latch full(2);
  std::latch go_on(1);
  std::atomic<std::size_t> at_once = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto held = [&]() -> std::optional<Time> {
    EXPECT_LE(++at_once, 2U);
    {
      const std::scoped_lock lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    if (full.try_wait()) {
      --at_once;
      return std::nullopt;
    }
    full.count_down();
    go_on.wait();
    --at_once;
    return std::nullopt;
  };
  for (int i = 0; i < 2; ++i) scheduler.wake(task_of(held));
  full.wait();
  for (int i = 0; i < 20; ++i) scheduler.wake(task_of(held));
  std::promise<void> ran;
  scheduler.wake(std::make_shared<Task>(Lane::ranges, [&]() -> std::optional<Time> {
    ran.set_value();
    return std::nullopt;
  }));
  ran.get_future().wait();
  scheduler.await_woken({Lane::ranges}, kLong);
  EXPECT_EQ(at_once, 2U);
  go_on.count_down();
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_LE(threads.size(), 3U) << "one for each task that may run";
}

TEST_F(SchedulerTest, ATaskRunsAgainWhenItIsDue) {
  Scheduler scheduler(clock, {1});
  std::promise<void> third;
  int runs = 0;
  const auto task = task_of([&]() -> std::optional<Time> {
    if (++runs == 3) {
      third.set_value();
      return std::nullopt;
    }
    clock.advance(1ms);
    return clock.monotonic();
  });
  scheduler.wake_at(task, clock.monotonic() + 1ms);
  clock.advance(1ms);
  third.get_future().wait();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(runs, 3);
}

TEST_F(SchedulerTest, ATaskIsDueWhateverAnotherOneWaitsFor) {
  Scheduler scheduler(clock, {2});
  std::latch begun(1);
  std::latch ran(1);
  const auto waits = task_of([&]() -> std::optional<Time> {
    begun.count_down();
    ran.wait();
    return std::nullopt;
  });
  const auto due = task_of([&]() -> std::optional<Time> {
    ran.count_down();
    return std::nullopt;
  });
  scheduler.wake_at(due, clock.monotonic() + 1ms);
  scheduler.wake(waits);
  begun.wait();
  clock.advance(1ms);
  ran.wait();
  EXPECT_TRUE(scheduler.stop(kLong));
}

TEST_F(SchedulerTest, WhatIsAskedForWhileATaskRunsHoldsBesideWhatItSays) {
  Scheduler scheduler(clock, {1});
  std::promise<void> second;
  int runs = 0;
  Scheduler::Shared task;
  task = task_of([&]() -> std::optional<Time> {
    if (++runs == 1) scheduler.wake_at(task, clock.monotonic());
    if (runs == 2) second.set_value();
    return runs == 1 ? std::optional<Time>(clock.monotonic() + 1h) : std::nullopt;
  });
  scheduler.wake(task);
  second.get_future().wait();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(runs, 2);
}

TEST_F(SchedulerTest, ATaskThatIsForgottenRunsOnlyWhenItIsWoken) {
  Scheduler scheduler(clock, {1});
  std::atomic<int> runs = 0;
  const auto nothing = task_of([] { return std::nullopt; });
  const auto task = task_of([&]() -> std::optional<Time> {
    ++runs;
    return std::nullopt;
  });
  scheduler.wake_at(task, clock.monotonic() + 1h);
  scheduler.forget(task);
  EXPECT_EQ(task.use_count(), 1);
  scheduler.wake(nothing);
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_EQ(runs, 0);
  scheduler.wake(task);
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_EQ(runs, 1);
}

TEST_F(SchedulerTest, WhatIsWokenAsTheLastWaitsForTheOthers) {
  Scheduler scheduler(clock, {1});
  std::latch go_on(1);
  std::vector<int> order;
  const auto push = [&](int n) {
    return task_of([&order, n]() -> std::optional<Time> {
      order.push_back(n);
      return std::nullopt;
    });
  };
  const auto first = task_of([&]() -> std::optional<Time> {
    go_on.wait();
    return std::nullopt;
  });
  scheduler.wake(first);
  const auto promoted = push(3);
  for (const auto& last : {push(4), promoted, push(5)}) {
    scheduler.wake(last, Scheduler::Order::last);
  }
  scheduler.wake(push(2), Scheduler::Order::soon);
  scheduler.wake(promoted, Scheduler::Order::soon);
  scheduler.wake(promoted, Scheduler::Order::last);
  scheduler.wake(push(1));
  go_on.count_down();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4, 5}));
}

TEST_F(SchedulerTest, AfterStopTasksThatAreWokenRunButNoneThatIsDue) {
  Scheduler scheduler(clock, {1});
  std::latch begun(1);
  std::latch go_on(1);
  int runs = 0;
  const auto task = task_of([&]() -> std::optional<Time> {
    if (++runs == 1) {
      begun.count_down();
      go_on.wait();
      EXPECT_TRUE(scheduler.is_stopping());
      EXPECT_FALSE(scheduler.pause(1h));
    }
    return clock.monotonic();
  });
  scheduler.wake(task);
  begun.wait();
  scheduler.wake(task);
  EXPECT_FALSE(scheduler.stop(0ms));
  go_on.count_down();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(runs, 2);
}

TEST_F(SchedulerTest, TheLastPointerToATaskGoesWithoutTheLock) {
  Scheduler scheduler(clock, {1, 1});
  std::promise<void> woken;
  std::promise<void> gone;
  const auto other = std::make_shared<Task>(Lane::ranges, [&]() -> std::optional<Time> {
    woken.set_value();
    return std::nullopt;
  });
  struct Owner {
    Scheduler& scheduler;
    Scheduler::Shared other;
    std::promise<void>& woken;
    std::promise<void>& gone;
    Task task{Lane::counters, [] { return std::nullopt; }};
    ~Owner() {
      scheduler.wake(other);
      const auto ran = woken.get_future().wait_for(kLong);
      EXPECT_EQ(ran, std::future_status::ready) << "this thread is not free for it";
      gone.set_value();
    }
  };
  auto owner = std::shared_ptr<Owner>(new Owner{scheduler, other, woken, gone});
  Task& task = owner->task;
  scheduler.wake({std::move(owner), &task});
  gone.get_future().wait();
  EXPECT_TRUE(scheduler.stop(kLong));
}

/// Until it is destroyed the system refuses all threads: their stacks would be too large.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47U);
    pthread_setattr_default_np(&huge);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_{};
};

/// What a task does that only counts how often it runs.
auto counting(std::atomic<int>& runs) {
  return [&runs]() -> std::optional<Time> {
    ++runs;
    return std::nullopt;
  };
}

TEST_F(SchedulerTest, ATaskWaitsForAThreadThatTheSystemRefuses) {
  std::atomic<int> runs = 0;
  const auto task = task_of(counting(runs));
  Scheduler scheduler(clock, {1});
  {
    const NoThreads refused;
    scheduler.wake(task);
    EXPECT_TRUE(scheduler.starves(Lane::counters));
    EXPECT_FALSE(scheduler.is_idle(*task));
  }
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(scheduler.starves(Lane::counters));  // which has tried again
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(scheduler.is_idle(*task));
}

TEST_F(SchedulerTest, ATaskThatIsDueWaitsForAThreadToo) {
  std::atomic<int> runs = 0;
  const auto task = task_of(counting(runs));
  Scheduler scheduler(clock, {1});
  {
    const NoThreads refused;
    scheduler.wake_at(task, clock.monotonic());
    EXPECT_TRUE(scheduler.starves(Lane::counters));
  }
  scheduler.wake(task);  // tries again
  scheduler.await_woken({Lane::counters}, kLong);
  EXPECT_EQ(runs, 1);
}

TEST_F(SchedulerTest, ALaneStarvesWhileAnotherOneHasTheOnlyThread) {
  Scheduler scheduler(clock, {1, 1});
  std::latch begun(1);
  std::latch go_on(1);
  scheduler.wake(task_of([&]() -> std::optional<Time> {
    begun.count_down();
    go_on.wait();
    return std::nullopt;
  }));
  begun.wait();
  std::atomic<int> runs = 0;
  {
    const NoThreads refused;
    scheduler.wake_at(std::make_shared<Task>(Lane::ranges, counting(runs)), clock.monotonic());
    EXPECT_TRUE(scheduler.starves(Lane::ranges));
    EXPECT_FALSE(scheduler.starves(Lane::counters));
    go_on.count_down();
    scheduler.await_woken({Lane::ranges}, kLong);
    EXPECT_EQ(runs, 1) << "in the thread that is there";
    EXPECT_FALSE(scheduler.starves(Lane::ranges));
  }
}

TEST_F(SchedulerTest, WhatMayTakeHoursLeavesTheOthersAThread) {
  Scheduler scheduler(clock, Scheduler::kLimits);
  std::atomic<int> runs = 0;
  const auto task = task_of(counting(runs));
  scheduler.wake(task);
  scheduler.await_woken({Lane::counters}, kLong);
  std::latch go_on(1);
  std::atomic<int> long_runs = 0;
  std::promise<void> begun;
  const auto sweep = std::make_shared<Task>(Lane::sweeps, [&]() -> std::optional<Time> {
    ++long_runs;
    begun.set_value();
    go_on.wait();
    return std::nullopt;
  });
  const auto scan = std::make_shared<Task>(Lane::scans, counting(long_runs));
  // So that it is known how many threads are idle: none, until two more are started.
  std::promise<void> held;
  const auto holder = std::make_shared<Task>(Lane::ranges, [&]() -> std::optional<Time> {
    held.set_value();
    go_on.wait();
    return std::nullopt;
  });
  const auto expect_served = [&] {
    const int before = runs;
    scheduler.wake(task);
    scheduler.await_woken({Lane::counters}, kLong);
    EXPECT_EQ(runs, before + 1);
  };
  {
    const NoThreads refused;
    scheduler.wake(sweep);
    EXPECT_TRUE(scheduler.starves(Lane::sweeps));
    expect_served();
    EXPECT_EQ(long_runs, 0);
    scheduler.wake(holder);
    held.get_future().wait();
  }
  EXPECT_FALSE(scheduler.starves(Lane::sweeps));  // which has tried again
  begun.get_future().wait();
  {
    const NoThreads refused;
    scheduler.wake(scan);
    EXPECT_TRUE(scheduler.starves(Lane::scans));
    expect_served();
    EXPECT_EQ(long_runs, 1);
  }
  go_on.count_down();
  EXPECT_TRUE(scheduler.stop(kLong));
  EXPECT_EQ(long_runs, 2);
}

TEST_F(SchedulerTest, ManyThreadsWakeManyTasksAndNoRunIsLost) {
  Scheduler scheduler(clock, {3});
  constexpr std::size_t kTasks = 20;
  std::vector<std::atomic<int>> asked(kTasks);
  std::vector<std::atomic<int>> seen(kTasks);
  std::vector<Scheduler::Shared> tasks;
  for (std::size_t i = 0; i < kTasks; ++i) {
    tasks.push_back(task_of([&, i]() -> std::optional<Time> {
      seen[i] = asked[i].load();
      return std::nullopt;
    }));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t n = 0; n < 500; ++n) {
        ++asked[n % kTasks];
        scheduler.wake(tasks[n % kTasks]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(scheduler.stop(kLong));
  for (std::size_t i = 0; i < kTasks; ++i) EXPECT_EQ(seen[i], asked[i]);
}

}  // namespace scheduler_test
}  // namespace idproxy::id_store
