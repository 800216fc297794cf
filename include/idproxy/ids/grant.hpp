#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

/// `count` numbers: first, first + step, … with the counter's step.
struct Range {
  std::int64_t first;
  std::uint64_t count;
  friend bool operator==(const Range&, const Range&) = default;
};

/// Takes back granted numbers that were not used. Thread-safe.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void take_back(const std::vector<Range>& ranges) = 0;
};

/// The answer to one waiter: numbers, or something that only its lender knows. The destructor
/// returns it to the lender unless take() was called, so that a client that has disconnected leaves
/// no gap. May be moved to any thread.
class Grant {
 public:
  Grant() = default;
  Grant(std::shared_ptr<Lender> lender, std::vector<Range> ranges)
      : lender_(std::move(lender)), ranges_(std::move(ranges)) {}
  Grant(Grant&& other) noexcept = default;
  Grant& operator=(Grant&& other) noexcept {
    Grant(std::move(other)).swap(*this);
    return *this;
  }
  ~Grant() {
    if (lender_) lender_->take_back(ranges_);
  }

  /// Passes the numbers to the caller.
  [[nodiscard]] std::vector<Range> take() {
    lender_.reset();
    return std::exchange(ranges_, {});
  }

 private:
  void swap(Grant& other) noexcept {
    std::swap(lender_, other.lender_);
    std::swap(ranges_, other.ranges_);
  }

  std::shared_ptr<Lender> lender_;
  std::vector<Range> ranges_;
};

/// Waits for numbers. Gets at most one answer, on any thread, which it must not block.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void answered(Result<Grant> grant) = 0;
  /// False if it only wants the numbers to be there: it may get an empty grant.
  [[nodiscard]] virtual bool takes() const { return true; }
};

/// Waits for numbers that somebody else is going to draw.
class Nobody final : public Waiter {
  void answered(Result<Grant> /*grant*/) override {}
  [[nodiscard]] bool takes() const override { return false; }
};

/// A queue of waiters. Thread-safe.
class Queue {
 public:
  virtual ~Queue() = default;
  /// The holder of the ticket does not wait any more.
  virtual void cancel(std::uint64_t ticket) = 0;
};

/// A place in a queue. The destructor leaves the queue, though an answer may already be under way.
class Ticket {
 public:
  Ticket() = default;
  /// 0: nobody waits.
  Ticket(std::weak_ptr<Queue> queue, std::uint64_t number)
      : queue_(std::move(queue)), number_(number) {}
  Ticket(Ticket&& other) noexcept = default;
  Ticket& operator=(Ticket&& other) noexcept {
    leave();
    queue_ = std::move(other.queue_);
    number_ = other.number_;
    return *this;
  }
  ~Ticket() { leave(); }

 private:
  void leave() {
    if (number_ == 0) return;
    if (const auto queue = queue_.lock()) queue->cancel(number_);
    queue_.reset();
  }

  std::weak_ptr<Queue> queue_;
  std::uint64_t number_ = 0;
};

}  // namespace idproxy::ids
