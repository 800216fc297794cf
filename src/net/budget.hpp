#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace idproxy::net {

/// Limits the total size of the messages that are held whole (limits.buffered_messages). A message
/// takes room for what has been received of it, step by step, not for what it announces, unless the
/// connection has sent as large ones before and most memory is free. Where there is no room for the
/// next step, its connection waits, holds what it has, and is not read.
///
/// So that small messages need not wait for large ones, an eighth is kept for them. Each kind is
/// served first come, first served, and no halves wait for each other:
/// - A small message takes room for all of it at once. So none that holds some waits for more.
/// - Of the large ones, the one that has waited longest is the elder, for which room for one of the
///   largest is kept. It never waits again: it goes on, if need be beyond the limit, until it has
///   given everything back. Once it has room for all of it, another one can be the elder that has
///   room for all of it within the limit.
/// So whoever waits, waits for some that hold all they need, or for the elder; that is, for a
/// server's reply, or for a client that moves on or loses its connection (ConnectionPair).
///
/// Thread-safe; as long as there is room, taking it costs one atomic subtraction.
class Budget {
 public:
  /// Up to this length, a message is a small one.
  static constexpr std::size_t kSmall = std::size_t{64} * 1024;
  using Ticket = std::uint64_t;

  /// Owns a number of the budget's bytes; gives them back when destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          elder_(std::exchange(other.elder_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      if (this == &other) return *this;
      reset();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      elder_ = std::exchange(other.elder_, 0);
      return *this;
    }
    ~Share() { reset(); }
    void reset() {
      if (budget_ == nullptr) return;
      std::exchange(budget_, nullptr)
          ->give_back(std::exchange(bytes_, 0), std::exchange(elder_, 0));
    }
    /// Takes over the bytes of `more`, of the same budget.
    void join(Share more) {
      budget_ = more.budget_ == nullptr ? budget_ : more.budget_;
      bytes_ += more.bytes_;
      elder_ = std::max(elder_, more.elder_);
      more.budget_ = nullptr;
    }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

   private:
    friend Budget;
    Share(Budget& budget, std::uint64_t bytes, Ticket elder = 0)
        : budget_(&budget), bytes_(bytes), elder_(elder) {}
    Budget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
    Ticket elder_ = 0;  // with which it became the elder, last; 0: it never has
  };
  /// What a message needs.
  struct Need {
    std::uint64_t bytes;  ///< in all, from now on
    std::uint64_t whole;  ///< what it may grow to, as it announces; a small one stays small

    [[nodiscard]] bool is_small() const { return whole <= kSmall; }
    /// What the message takes room for.
    [[nodiscard]] std::uint64_t at_once() const { return is_small() ? whole : bytes; }
  };
  /// The budget calls this on the thread that gave bytes back, with what the share lacks; it must
  /// only pass that on.
  using Granted = std::function<void(Share more)>;

  explicit Budget(std::uint64_t limit);

  /// Has `share` grow to what is needed. False if there is no room now, or others wait for it.
  [[nodiscard]] bool grow(Share& share, const Need& need);
  /// Has `share` grow to so many bytes, which are not needed yet, if nobody waits, and half of the
  /// limit stays free.
  [[nodiscard]] bool grow_ahead(Share& share, std::uint64_t bytes);
  /// After grow(): calls `granted` once there is room, which may be before wait() returns.
  [[nodiscard]] Ticket wait(const Share& share, const Need& need, Granted granted);
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
    std::int64_t bytes;  // more
    std::int64_t rest;   // that it may need after them
    Granted granted;
    bool is_elder = false;
  };
  using Queue = std::list<Waiting>;

  void give_back(std::uint64_t bytes, Ticket elder);
  [[nodiscard]] bool take(std::int64_t bytes, std::int64_t kept);
  [[nodiscard]] std::int64_t kept_from_large() const { return for_small_ + for_elder_.load(); }
  [[nodiscard]] bool grow_elder(const Share& share, const Need& need);
  void elder_lacks(std::int64_t bytes);
  [[nodiscard]] bool admit(Waiting& large);
  void move_first(Queue& from, Queue& to);
  void serve();

  const std::int64_t limit_;
  const std::int64_t for_small_;
  const std::int64_t for_an_elder_;  // while there is none that lacks something
  std::atomic<std::int64_t> free_;   // below 0: overdrawn
  std::atomic<std::int64_t> for_elder_;
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> large_waiting_{0};
  std::atomic<std::uint64_t> waits_{0};
  std::mutex mutex_;  // guards:
  Queue small_;
  Queue large_;
  Ticket elder_ = 0;  // 0: there is none
  bool elder_is_whole_ = false;
  Ticket last_ticket_ = 0;
};

}  // namespace idproxy::net
