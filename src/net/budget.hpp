#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace idproxy::net {

/// The bytes that all messages together may have that are held whole (limits.buffered_messages). A
/// message is admitted by its announced length before it is read; who finds no room waits, first
/// come, first served, and holds nothing meanwhile. Thread-safe; while there is room, an atomic
/// subtraction.
class Budget {
 public:
  /// Bytes that somebody has. Gives them back.
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
  /// Called on the thread that has given bytes back; must only pass the share on.
  using Granted = std::function<void(Share share)>;
  using Ticket = std::uint64_t;

  explicit Budget(std::uint64_t limit) : limit_(static_cast<std::int64_t>(limit)), free_(limit_) {}

  /// What was asked for, if there is room now and nobody waits; else a share of nothing. `bytes` is
  /// not 0. What is more than the limit has room when nobody has anything.
  [[nodiscard]] Share take(std::uint64_t bytes);
  /// Calls `granted` once there is room: perhaps before it returns.
  [[nodiscard]] Ticket wait(std::uint64_t bytes, Granted granted);
  /// It may have been called meanwhile.
  void leave(Ticket ticket);
  /// At once, though there may be no room: for what cannot wait because it holds a share already.
  [[nodiscard]] Share overdraw(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t limit() const { return static_cast<std::uint64_t>(limit_); }
  [[nodiscard]] std::uint64_t used() const {
    return static_cast<std::uint64_t>(limit_ - free_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// How often somebody had to wait, since the start.
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  /// There is little room: who begins to read should read little.
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
