#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "net/file_descriptor.hpp"

namespace idproxy::net {

class EventLoop;

/// Has the processor fetch what is needed in a moment. With a thousand connections that is in none
/// of its caches, and a system call before it takes longer than all of these. Null: nothing.
inline void fetch_ahead(const void* memory, std::size_t bytes) {
  if (memory == nullptr) return;
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(memory) + at);
  }
}

/// Calls a function once, at a time or after a while. Lives on its loop's thread, no longer than
/// the loop.
class Timer : public boost::intrusive::set_base_hook<
                  boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Timer(EventLoop& loop) : loop_(loop) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Replaces an earlier start. `then` is destroyed after it was called or cancelled, though not
  /// within cancel(): it may own what calls that.
  void start(std::chrono::nanoseconds delay, std::function<void()> then) {
    start_at(Clock::now() + delay, std::move(then));
  }
  void start_at(Clock::time_point time, std::function<void()> then);
  void cancel();
  [[nodiscard]] bool runs() const { return is_linked(); }

  friend bool operator<(const Timer& a, const Timer& b) { return a.time_ < b.time_; }

 private:
  friend EventLoop;

  EventLoop& loop_;
  Clock::time_point time_;
  std::function<void()> then_;
};

/// The event loop of one thread: tells those who watch a descriptor that it is ready
/// (edge-triggered epoll), runs timers, and runs what other threads post. Only post() and the
/// guards may be used by other threads. A descriptor tells it of timers, too: otherwise each turn
/// would look at the clock twice.
///
/// Asio's loop costs each message a recv() that finds nothing or an epoll_ctl(), because it watches
/// a socket for one operation at a time (docs/decisions.md). So it stays where no message passes:
/// it serves HTTP (admin/http_server.hpp), signals and the control thread
/// (app/control.hpp). Here it has only the addresses of sockets, and name lookups need no loop
/// (net/lookups.hpp).
///
/// A Stream needs no more of it than watch(), rewatch(), unwatch(), forget() and call_later(). An
/// engine that tells of completed reads in place of readable sockets would replace these five.
class EventLoop {
 public:
  /// Something that watches one descriptor.
  class Watcher {
   public:
    /// `events`: as in epoll_event, what the descriptor is ready for. There may be nothing to read
    /// or write all the same.
    virtual void ready(std::uint32_t events) = 0;

   protected:
    ~Watcher() = default;
  };

  /// Keeps run() from returning while it exists. Any thread may destroy it.
  struct Unguard {
    void operator()(EventLoop* loop) const { loop->unguard(); }
  };
  using Guard = std::unique_ptr<EventLoop, Unguard>;
  [[nodiscard]] Guard guard();

  /// Throws std::system_error if the kernel gives no epoll instance.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs until nothing is posted and no guard is left. An exception of a handler comes out, and
  /// run() may be called again.
  void run();
  /// Handles what is due without waiting, perhaps in several turns. For tests.
  void poll();
  /// As poll(), as if `time` had passed for the timers. For tests, which need not wait then.
  void elapse(Timer::Clock::duration time);

  /// A number that changes with each turn: what is looked up once in a turn need not be looked up
  /// for each of its events.
  [[nodiscard]] std::uint64_t turns() const { return turns_; }

  /// Calls `work()`, which may be move-only, on the loop's thread, after what was posted before.
  template <class Work>
  void post(Work work) {
    add(std::make_unique<PostedWork<Work>>(std::move(work)));
  }

  /// Watches `fd` for `events` (EPOLLIN, EPOLLOUT, …), edge-triggered. A ready descriptor is told
  /// of at once. unwatch() ends that.
  void watch(int fd, std::uint32_t events, Watcher& watcher);
  /// Replaces what a watched descriptor is watched for, and by whom.
  void rewatch(int fd, std::uint32_t events, Watcher& watcher);
  /// The watcher hears nothing more of the descriptor, if it has watched it. Call before closing
  /// it: the kernel goes on telling of a socket that is open elsewhere, in another process.
  void unwatch(int fd, const Watcher& watcher);
  /// The watcher hears nothing of events that have been fetched.
  void forget(const Watcher& watcher);

  /// Calls `then`, which may come back for more, once this turn has handled its events: in the
  /// order of these calls and those of destroy_later().
  void call_later(std::function<void()> then) { later_.push_back({std::move(then), true}); }
  /// Destroys `callback` then: what it owns may be what is running.
  void destroy_later(std::function<void()> callback) {
    later_.push_back({std::move(callback), false});
  }

 private:
  friend Timer;

  struct Posted {
    virtual ~Posted() = default;
    virtual void run() = 0;
  };
  template <class Work>
  struct PostedWork final : Posted {
    explicit PostedWork(Work posted) : work(std::move(posted)) {}
    void run() override { work(); }
    Work work;
  };
  struct Later {
    std::function<void()> function;
    bool is_called;  // before it is destroyed
  };
  using PostedList = std::vector<std::unique_ptr<Posted>>;
  using Timers = boost::intrusive::multiset<Timer, boost::intrusive::constant_time_size<false>>;

  void add(std::unique_ptr<Posted> work);
  void unguard();
  [[nodiscard]] bool turn(int most_milliseconds);
  void fetch(int most_milliseconds);
  [[nodiscard]] PostedList take_posted();
  void wake();
  void run_posted();
  void run_timers(Timer::Clock::time_point now);
  void run_later();
  [[nodiscard]] bool is_over();
  void set_alarm();
  void control(int operation, int fd, std::uint32_t events, void* data);

  // Many connections share a turn; others are not kept waiting for long.
  static constexpr std::size_t kEventsPerTurn = 64;
  static constexpr std::size_t kFetchedAhead = 832;

  FileDescriptor epoll_;
  // Each has its own address in the data of its events; a watcher's events have the watcher's.
  FileDescriptor wakeup_;                                                  // an eventfd
  FileDescriptor alarm_;                                                   // a timerfd
  Timer::Clock::time_point alarm_time_ = Timer::Clock::time_point::max();  // when it goes off
  std::array<epoll_event, kEventsPerTurn> events_{};  // null in their data: forgotten
  std::size_t next_event_ = 0;                        // events before it have been handled
  std::size_t event_count_ = 0;
  std::vector<Later> later_;
  std::vector<Later> running_;  // of later_
  Timers timers_;
  bool look_at_posted_ = true;
  std::uint64_t turns_ = 1;

  std::mutex mutex_;  // guards:
  PostedList posted_;
  std::size_t guards_ = 0;
};

/// Gives many connections the same time limit with a single timer: a list in the order in which
/// their times began. No timer runs while the list is empty. Lives on one io thread.
class Deadlines {
 public:
  class Place;
  /// Called when a place's time is over, after it has left the list.
  using Expired = void (*)(Place& place);

  /// A connection's place. It is in one list at a time: start() removes it from any other.
  class Place : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    [[nodiscard]] bool runs() const { return is_linked(); }
    void stop() {
      if (is_linked()) unlink();
    }

   private:
    friend Deadlines;
    Expired expired_ = nullptr;
    std::chrono::steady_clock::time_point end_;
  };

  Deadlines(EventLoop& loop, std::chrono::milliseconds time) : time_(time), timer_(loop) {}

  void start(Place& place, Expired expired);

 private:
  void wait();
  void expire();

  using List = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

  std::chrono::milliseconds time_;
  Timer timer_;
  List places_;
};

}  // namespace idproxy::net
