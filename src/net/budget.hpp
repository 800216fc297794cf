#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace idproxy::net {

/// Limits the total size of the messages that are held whole (limits.buffered_messages). A message
/// is admitted by the length in its header, before it is read. If there is no room, its connection
/// waits, first come, first served, and holds nothing meanwhile. Thread-safe; as long as there is
/// room, taking a share costs one atomic subtraction.
class Budget {
 public:
  /// Owns a number of the budget's bytes; gives them back when destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      reset();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Share() { reset(); }
    void reset() {
      if (budget_ != nullptr) std::exchange(budget_, nullptr)->give_back(std::exchange(bytes_, 0));
    }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

   private:
    friend Budget;
    Share(Budget& budget, std::uint64_t bytes) : budget_(&budget), bytes_(bytes) {}
    Budget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };
  /// The budget calls this on the thread that gave bytes back; it must only pass the share on.
  using Granted = std::function<void(Share share)>;
  using Ticket = std::uint64_t;

  explicit Budget(std::uint64_t limit) : limit_(static_cast<std::int64_t>(limit)), free_(limit_) {}

  /// Takes `bytes`, more than 0, if there is room now and nobody waits; else returns an empty
  /// share. A request larger than the limit has room while no other share exists.
  [[nodiscard]] Share take(std::uint64_t bytes);
  /// Calls `granted` once there is room, which may be before wait() returns.
  [[nodiscard]] Ticket wait(std::uint64_t bytes, Granted granted);
  /// Withdraws the request. `granted` may already have been called.
  void leave(Ticket ticket);
  /// Takes `bytes` even without room, for callers that must not wait because they hold a share.
  [[nodiscard]] Share overdraw(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t limit() const { return static_cast<std::uint64_t>(limit_); }
  [[nodiscard]] std::uint64_t used() const {
    return static_cast<std::uint64_t>(limit_ - free_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// How many requests had to wait since the start.
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  /// True if there is little room: connections should then read little at once.
  [[nodiscard]] bool is_scarce() const {
    return waiting() > 0 || free_.load(std::memory_order_relaxed) < limit_ / 8;
  }

 private:
  struct Waiting {
    Ticket ticket;
    std::int64_t bytes;
    Granted granted;
  };

  void give_back(std::uint64_t bytes);
  [[nodiscard]] bool fits(std::int64_t bytes);
  void serve();

  const std::int64_t limit_;
  std::atomic<std::int64_t> free_;
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint64_t> waits_{0};
  std::mutex mutex_;  // guards:
  std::list<Waiting> queue_;
  Ticket last_ticket_ = 0;
};

}  // namespace idproxy::net
