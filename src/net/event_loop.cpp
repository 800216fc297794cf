#include "net/event_loop.hpp"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

namespace idproxy::net {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// As ::epoll_wait(), without its announcement to pthread_cancel(): see Stream.
int wait_for_events(int epoll, std::span<epoll_event> events, int milliseconds) {
#ifdef IDPROXY_SANITIZED
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), milliseconds);
#else
  // Without a mask of signals; not all architectures have epoll_wait itself.
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, epoll, events.data(), events.size(), milliseconds, nullptr, 0));
#endif
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      alarm_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!epoll_.is_open()) fail("epoll_create1");
  if (!wakeup_.is_open()) fail("eventfd");
  if (!alarm_.is_open()) fail("timerfd_create");
  // Edge-triggered, so that nobody has to read them.
  control(EPOLL_CTL_ADD, wakeup_.get(), EPOLLIN, &wakeup_);
  control(EPOLL_CTL_ADD, alarm_.get(), EPOLLIN, &alarm_);
}

/// Destroys what waits. That may own what owns a timer, and may post, wake or cancel in turn.
EventLoop::~EventLoop() {
  while (true) {
    while (!timers_.empty()) timers_.begin()->cancel();
    const PostedList posted = take_posted();
    const auto later = std::exchange(later_, {});
    if (posted.empty() && later.empty()) return;
  }
}

// ---- turns -----------------------------------------------------------------------------------

void EventLoop::run() {
  while (true) {
    if (look_at_posted_) {
      run_posted();
      if (is_over()) return;
    }
    static_cast<void>(turn(later_.empty() ? -1 : 0));
  }
}

void EventLoop::poll() {
  bool busy = true;
  while (busy) {
    if (look_at_posted_) run_posted();
    busy = turn(0) || !later_.empty() || look_at_posted_;
  }
}

void EventLoop::elapse(Timer::Clock::duration time) {
  run_timers(Timer::Clock::now() + time);
  poll();
}

/// True if there was an event.
bool EventLoop::turn(int most_milliseconds) {
  // A handler that threw has left the events behind its own, and nobody tells of them again.
  if (next_event_ == event_count_) fetch(most_milliseconds);
  const bool any = event_count_ > 0;
  bool timers_due = false;
  while (next_event_ < event_count_) {
    const epoll_event& event = events_[next_event_++];
    // A Stream and what its ConnectionPair has around it.
    if (next_event_ < event_count_) fetch_ahead(events_[next_event_].data.ptr, kFetchedAhead);
    if (event.data.ptr == nullptr) continue;  // forgotten
    if (event.data.ptr == &wakeup_) {
      // At once: what arrives after a reload was posted must find it done.
      run_posted();
      look_at_posted_ = true;
    } else if (event.data.ptr == &alarm_) {
      timers_due = true;
      alarm_time_ = Timer::Clock::time_point::max();
    } else {
      static_cast<Watcher*>(event.data.ptr)->ready(event.events);
    }
  }
  if (timers_due) run_timers(Timer::Clock::now());
  if (!later_.empty()) run_later();
  return any;
}

void EventLoop::fetch(int most_milliseconds) {
  set_alarm();
  const int count = wait_for_events(epoll_.get(), events_, most_milliseconds);
  if (count < 0 && errno != EINTR) fail("epoll_wait");
  ++turns_;
  next_event_ = 0;
  event_count_ = static_cast<std::size_t>(std::max(count, 0));
}

void EventLoop::run_later() {
  running_.swap(later_);
  for (const Later& each : running_) {
    if (each.is_called) each.function();
  }
  running_.clear();
}

bool EventLoop::is_over() {
  if (!later_.empty()) {
    look_at_posted_ = true;  // look again after the next turn
    return false;
  }
  const std::lock_guard lock(mutex_);
  return guards_ == 0 && posted_.empty();
}

// ---- from other threads ----------------------------------------------------------------------

void EventLoop::add(std::unique_ptr<Posted> work) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(work));
  if (posted_.size() == 1) wake();
}

EventLoop::Guard EventLoop::guard() {
  const std::lock_guard lock(mutex_);
  ++guards_;
  return Guard(this);
}

void EventLoop::unguard() {
  // Within the lock: run() may return as soon as it is released, and the loop be destroyed.
  const std::lock_guard lock(mutex_);
  if (--guards_ == 0) wake();
}

void EventLoop::wake() {
  // Fails only if the counter is full, and then the loop has been woken.
  static_cast<void>(::eventfd_write(wakeup_.get(), 1));
}

EventLoop::PostedList EventLoop::take_posted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(posted_, {});
}

void EventLoop::run_posted() {
  look_at_posted_ = false;
  for (const auto& each : take_posted()) each->run();
}

// ---- timers ----------------------------------------------------------------------------------

void EventLoop::run_timers(Timer::Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->time_ <= now) {
    Timer& timer = *timers_.begin();
    timers_.erase(timers_.begin());
    const auto then = std::exchange(timer.then_, nullptr);
    then();
  }
}

/// Has the alarm go off at the time of the first timer, or before: a timer that is cancelled leaves
/// it as it is.
void EventLoop::set_alarm() {
  if (timers_.empty() || timers_.begin()->time_ >= alarm_time_) return;
  const Timer::Clock::time_point time = timers_.begin()->time_;
  const auto since_boot = std::max(time.time_since_epoch(), Timer::Clock::duration(1));  // 0: never
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  itimerspec at{};
  at.it_value.tv_sec = seconds.count();
  at.it_value.tv_nsec = (since_boot - seconds).count();
  if (::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &at, nullptr) != 0)
    fail("timerfd_settime");
  alarm_time_ = time;
}

void Timer::start_at(Clock::time_point time, std::function<void()> then) {
  cancel();
  time_ = time;
  then_ = std::move(then);
  loop_.timers_.insert(*this);
}

void Timer::cancel() {
  if (!is_linked()) return;
  unlink();
  loop_.destroy_later(std::exchange(then_, nullptr));
}

// ---- descriptors -----------------------------------------------------------------------------

void EventLoop::control(int operation, int fd, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.ptr = data;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) fail("epoll_ctl");
}

void EventLoop::watch(int fd, std::uint32_t events, Watcher& watcher) {
  control(EPOLL_CTL_ADD, fd, events, &watcher);
}

void EventLoop::rewatch(int fd, std::uint32_t events, Watcher& watcher) {
  control(EPOLL_CTL_MOD, fd, events, &watcher);
}

void EventLoop::unwatch(int fd, const Watcher& watcher) {
  // Fails only if nobody watches it.
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr));
  forget(watcher);
}

void EventLoop::forget(const Watcher& watcher) {
  for (std::size_t i = next_event_; i < event_count_; ++i) {
    if (events_[i].data.ptr == &watcher) events_[i].data.ptr = nullptr;
  }
}

void Deadlines::start(Place& place, Expired expired) {
  place.stop();
  place.expired_ = expired;
  place.end_ = std::chrono::steady_clock::now() + time_;
  places_.push_back(place);
  if (!timer_.runs()) wait();
}

void Deadlines::wait() {
  timer_.start_at(places_.front().end_, [this] { expire(); });
}

void Deadlines::expire() {
  const auto now = std::chrono::steady_clock::now();
  while (!places_.empty() && places_.front().end_ <= now) {
    Place& place = places_.front();
    places_.pop_front();
    place.expired_(place);
  }
  if (!places_.empty()) wait();
}

}  // namespace idproxy::net
