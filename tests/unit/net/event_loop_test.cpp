#include "net/event_loop.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace idproxy::net {
namespace event_loop_test {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    ours = FileDescriptor(fds[0]);
    theirs = FileDescriptor(fds[1]);
  }
  void send() { EXPECT_EQ(::write(theirs.get(), "x", 1), 1); }

  FileDescriptor ours;
  FileDescriptor theirs;
};

struct Watching final : EventLoop::Watcher {
  void ready(std::uint32_t events) override {
    seen.push_back(events);
    if (then) then();
  }
  std::vector<std::uint32_t> seen;
  std::function<void()> then;
};

/// Runs until the timer's call, which nothing but it ends.
void run_for(EventLoop& loop, std::chrono::milliseconds time) {
  EventLoop::Guard guard = loop.guard();
  Timer timer(loop);
  timer.start(time, [&] { guard.reset(); });
  loop.run();
}

TEST(EventLoop, RunsWhatWasPostedInItsOrderAndReturns) {
  EventLoop loop;
  std::vector<int> done;
  loop.post([&] {
    done.push_back(1);
    loop.post([&done] { done.push_back(3); });
  });
  loop.post([&done, owned = std::make_unique<int>(2)] { done.push_back(*owned); });
  loop.run();
  EXPECT_EQ(done, (std::vector{1, 2, 3}));
}

TEST(EventLoop, RunsWhatOtherThreadsPostAsLongAsThereIsAGuard) {
  EventLoop loop;
  constexpr int kEach = 1000;
  int done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, guard = loop.guard()]() mutable {
      for (int each = 0; each < kEach; ++each) loop.post([&done] { ++done; });
      const EventLoop::Guard last(std::move(guard));
    });
  }
  loop.run();
  EXPECT_EQ(done, 4 * kEach);
  for (std::thread& each : threads) each.join();
}

TEST(EventLoop, LetsAnExceptionOutAndGoesOnAfterIt) {
  EventLoop loop;
  bool later = false;
  loop.post([] { throw std::runtime_error("of a handler"); });
  EXPECT_THROW(loop.run(), std::runtime_error);
  loop.post([&] { later = true; });
  loop.run();
  EXPECT_TRUE(later);
}

TEST(EventLoop, TellsOnceOfEachArrival) {
  EventLoop loop;
  Pipe pipe;
  Watching watching;
  loop.watch(pipe.ours.get(), EPOLLIN, watching);
  loop.poll();
  EXPECT_TRUE(watching.seen.empty());
  pipe.send();
  loop.poll();
  loop.poll();
  EXPECT_EQ(watching.seen, std::vector<std::uint32_t>{EPOLLIN}) << "nothing was read";
  pipe.send();
  loop.poll();
  EXPECT_EQ(watching.seen.size(), 2U);
  Watching other;
  loop.rewatch(pipe.ours.get(), EPOLLIN | EPOLLOUT, other);
  loop.poll();
  EXPECT_EQ(other.seen, std::vector<std::uint32_t>{EPOLLIN | EPOLLOUT});
  loop.unwatch(pipe.ours.get(), other);
  pipe.send();
  loop.poll();
  EXPECT_EQ(watching.seen.size() + other.seen.size(), 3U);
}

/// A reload, for example, and a request that was sent after it.
TEST(EventLoop, RunsWhatWasPostedBeforeWhatArrivedLater) {
  EventLoop loop;
  loop.poll();
  Pipe pipe;
  Watching watching;
  loop.watch(pipe.ours.get(), EPOLLIN, watching);
  bool posted = false;
  bool was_posted = false;
  watching.then = [&] { was_posted = posted; };
  loop.post([&] { posted = true; });
  pipe.send();
  loop.poll();
  EXPECT_EQ(watching.seen.size(), 1U);
  EXPECT_TRUE(was_posted);
}

/// Events of both have been fetched when the first one's handler closes the other.
TEST(EventLoop, TellsNothingMoreToAWatcherThatIsForgotten) {
  EventLoop loop;
  std::array<Pipe, 2> pipes;
  std::array<Watching, 2> watching;
  for (std::size_t i = 0; i < 2; ++i) {
    loop.watch(pipes[i].ours.get(), EPOLLIN, watching[i]);
    watching[i].then = [&, other = 1 - i] {
      loop.forget(watching[other]);
      pipes[other].ours.close();
    };
    pipes[i].send();
  }
  loop.poll();
  EXPECT_EQ(watching[0].seen.size() + watching[1].seen.size(), 1U);
}

TEST(EventLoop, CallsTimersInTheOrderOfTheirTimesAndNeverEarly) {
  EventLoop loop;
  std::vector<int> called;
  std::array<Timer, 3> timers{Timer(loop), Timer(loop), Timer(loop)};
  const auto began = Timer::Clock::now();
  timers[0].start(3ms, [&] { called.push_back(3); });
  timers[1].start(1ms, [&] { called.push_back(1); });
  timers[2].start(2ms, [&] { called.push_back(2); });
  timers[2].start(1h, [&] { called.push_back(0); });
  EXPECT_TRUE(timers[2].runs());
  timers[2].cancel();
  EXPECT_FALSE(timers[2].runs());
  while (called.size() < 2) loop.poll();
  EXPECT_GE(Timer::Clock::now() - began, 3ms);
  EXPECT_EQ(called, (std::vector{1, 3}));
}

TEST(EventLoop, SleepsUntilATimersTime) {
  EventLoop loop;
  const auto began = Timer::Clock::now();
  run_for(loop, 5ms);
  EXPECT_GE(Timer::Clock::now() - began, 5ms);
}

/// Among them the end of a timer's time.
TEST(EventLoop, TellsAfterAnExceptionOfWhatWasFetchedWithIt) {
  EventLoop loop;
  std::array<Pipe, 2> pipes;
  std::array<Watching, 2> watching;
  for (std::size_t i = 0; i < 2; ++i) {
    loop.watch(pipes[i].ours.get(), EPOLLIN, watching[i]);
    watching[i].then = [] { throw std::runtime_error("of a handler"); };
    pipes[i].send();
  }
  bool called = false;
  Timer timer(loop);
  timer.start(0ms, [&] { called = true; });
  EXPECT_THROW(loop.poll(), std::runtime_error);
  EXPECT_THROW(loop.poll(), std::runtime_error);
  run_for(loop, 1ms);
  EXPECT_EQ(watching[0].seen.size() + watching[1].seen.size(), 2U);
  EXPECT_TRUE(called);
}

TEST(EventLoop, CallsATimerBeforeOneThatWasStartedEarlier) {
  EventLoop loop;
  Timer late(loop);
  late.start(1h, [] { FAIL(); });
  loop.poll();
  run_for(loop, 1ms);
  Timer cancelled(loop);
  cancelled.start(1ms, [] { FAIL(); });
  loop.poll();
  cancelled.cancel();
  run_for(loop, 5ms);
  EXPECT_TRUE(late.runs());
}

TEST(EventLoop, CallsTheTimersThatFollowOneThatThrows) {
  EventLoop loop;
  Timer first(loop);
  first.start(0ms, [] { throw std::runtime_error("of a timer"); });
  Timer second(loop);
  bool called = false;
  second.start(1ms, [&] { called = true; });
  EXPECT_THROW(run_for(loop, 1h), std::runtime_error);
  run_for(loop, 2ms);
  EXPECT_TRUE(called);
}

/// What a connection does that its own timer closes.
TEST(EventLoop, ATimersFunctionMayOwnTheTimerThatItCancels) {
  struct Owner {
    explicit Owner(EventLoop& loop) : timer(loop) {}
    Timer timer;
    int after_cancel = 0;
  };
  EventLoop loop;
  auto owner = std::make_shared<Owner>(loop);
  const std::weak_ptr<Owner> watched = owner;
  owner->timer.start(1h, [owner] {});
  Owner& raw = *owner;
  owner.reset();
  raw.timer.cancel();
  raw.after_cancel = 1;
  EXPECT_FALSE(watched.expired());
  loop.poll();
  EXPECT_TRUE(watched.expired());

  owner = std::make_shared<Owner>(loop);
  const std::weak_ptr<Owner> second = owner;
  owner->timer.start(0ms, [owner] { owner->timer.start(1h, [owner] {}); });
  owner.reset();
  run_for(loop, 1ms);
  EXPECT_FALSE(second.expired()) << "started again";
}

/// Among it an owner of a timer that waits for nothing but its own function.
TEST(EventLoop, DestroysWhatStillWaits) {
  const auto counted = std::make_shared<int>(0);
  {
    EventLoop loop;
    struct Owner {
      explicit Owner(EventLoop& of, std::shared_ptr<int> held)
          : loop(of), timer(of), count(std::move(held)) {}
      ~Owner() {
        loop.post([held = count] {});
      }
      EventLoop& loop;
      Timer timer;
      std::shared_ptr<int> count;
    };
    auto owner = std::make_shared<Owner>(loop, counted);
    owner->timer.start(1h, [owner] {});
    loop.post([held = counted] {});
    loop.destroy_later([held = counted] {});
  }
  EXPECT_EQ(counted.use_count(), 1);
}

}  // namespace event_loop_test
}  // namespace idproxy::net
