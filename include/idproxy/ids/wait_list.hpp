#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "idproxy/ids/grant.hpp"

namespace idproxy::ids {

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Locks `mutex`, which threads hold for some ten nanoseconds. Passing it from one processor to
/// another takes ten times as long, and waking a thread a hundred times. A thread that finds it
/// locked, which is rare unless it is locked nearly all the time, keeps away from its cache line
/// for a while, longer each time. The holder continues undisturbed, and two threads together are as
/// fast as one alone (0.97 of it; half with short waits).
inline std::unique_lock<std::mutex> locked(std::mutex& mutex) {
  constexpr int kLongest = 4096;  // pauses of 40 to 140 cycles; the first wait is some 15 us
  for (int pauses = 1024; pauses <= kLongest; pauses *= 2) {
    if (std::unique_lock lock(mutex, std::try_to_lock); lock) return lock;
    for (int i = 0; i < pauses; ++i) pause();
  }
  return std::unique_lock(mutex);
}

/// Calls `use` under the lock, and returns its result.
template <class Use>
auto locked(std::mutex& mutex, const Use& use) {
  const std::scoped_lock lock(mutex);
  return use();
}

/// Effects that an object defers until it has released its lock, because a waiter that gets its
/// answer may call the object.
struct After {
  bool wake = false;  ///< the store
  std::vector<std::pair<std::unique_ptr<Waiter>, Result<Grant>>> answers{};

  void answer(std::unique_ptr<Waiter> waiter, Result<Grant> grant) {
    answers.emplace_back(std::move(waiter), std::move(grant));
  }
  void run(const std::function<void()>& wake_store) {
    if (wake && wake_store) wake_store();
    for (auto& [waiter, grant] : answers) waiter->answered(std::move(grant));
  }
};

/// Calls event(after) under the lock, and carries out the effects without it.
template <class Event>
void locked(std::mutex& mutex, const std::function<void()>& wake_store, const Event& event) {
  After after;
  locked(mutex, [&] { event(after); });
  after.run(wake_store);
}

/// Requests that wait for a number of something, in the order of their tickets. Not thread-safe:
/// its owner has a lock, and calls After::run() without it.
class WaitList {
 public:
  static constexpr std::size_t kMost = 65'536;

  /// A ticket behind all others.
  [[nodiscard]] std::uint64_t new_ticket() { return ++tickets_; }
  /// The request waits. It replaces one with the same ticket.
  void add(std::uint64_t ticket, std::uint64_t n, std::unique_ptr<Waiter> waiter);
  /// The same with a new ticket, which it returns. If kMost requests wait already, answers this one
  /// with an error instead, and returns 0.
  [[nodiscard]] std::uint64_t add(std::uint64_t n, std::unique_ptr<Waiter> waiter, After& after);
  /// The request leaves. Null: it has gone already. Destroy the waiter without the lock.
  [[nodiscard]] std::unique_ptr<Waiter> remove(std::uint64_t ticket);

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }
  /// The sum of `n` over all requests.
  [[nodiscard]] std::uint64_t needed() const { return needed_; }
  /// `n` of the first request. Only if there is one.
  [[nodiscard]] std::uint64_t first() const { return waiting_.begin()->second.n; }

  /// Waiter::takes() of it.
  [[nodiscard]] bool first_takes() const { return waiting_.begin()->second.waiter->takes(); }

  void answer_first(Result<Grant> grant, After& after);
  /// Answers each with `grant(n, takes)`, in their order.
  template <class MakeGrant>
  void answer_all(const MakeGrant& grant, After& after) {
    needed_ = 0;
    for (auto& [ticket, request] : std::exchange(waiting_, {})) {
      const bool takes = request.waiter->takes();
      after.answer(std::move(request.waiter), grant(request.n, takes));
    }
  }
  /// Answers each with the error.
  void refuse_all(const Error& error, After& after) {
    answer_all([&](std::uint64_t /*n*/, bool /*takes*/) { return Result<Grant>(error); }, after);
  }

 private:
  struct Request {
    std::uint64_t n;
    std::unique_ptr<Waiter> waiter;
  };
  std::map<std::uint64_t, Request> waiting_;  // by ticket
  std::uint64_t tickets_ = 0;
  std::uint64_t needed_ = 0;
};

/// A WaitList with its lock: the base of what requests wait for. Thread-safe.
class Waiters : public Queue {
 public:
  void cancel(std::uint64_t ticket) override {
    // Destroyed without the lock.
    const auto gone = locked(mutex_, [&] { return waiting_.remove(ticket); });
  }
  /// True if a request waits.
  [[nodiscard]] bool is_awaited() const {
    return locked(mutex_, [&] { return !waiting_.empty(); });
  }

 protected:
  mutable std::mutex mutex_;  // guards waiting_, and what the derived class says
  WaitList waiting_;
};

}  // namespace idproxy::ids
