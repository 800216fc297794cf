#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

/// `count` numbers: first, first + step, … The step is the counter's.
struct Range {
  std::int64_t first;
  std::uint64_t count;
  friend bool operator==(const Range&, const Range&) = default;
};

/// Whom granted numbers return to if nobody takes them. Thread-safe.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void take_back(const std::vector<Range>& ranges) = 0;
  virtual void cancel(std::uint64_t ticket) = 0;
};

/// Numbers that one waiter has been given. What is not taken out returns to where it came from, so
/// that a client that has gone leaves no gap. Movable to any thread.
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
    if (lender_ && !ranges_.empty()) lender_->take_back(ranges_);
  }

  /// The numbers are the caller's now.
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

/// Waits for numbers. Answered at most once, on any thread; must not block it.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void answered(Result<Grant> grant) = 0;
};

/// A place in the queue; giving it up leaves the queue, though an answer may be under way already.
class Ticket {
 public:
  Ticket() = default;
  Ticket(std::weak_ptr<Lender> lender, std::uint64_t number)
      : lender_(std::move(lender)), number_(number) {}
  Ticket(Ticket&& other) noexcept = default;
  Ticket& operator=(Ticket&& other) noexcept {
    leave();
    lender_ = std::move(other.lender_);
    number_ = other.number_;
    return *this;
  }
  ~Ticket() { leave(); }

 private:
  void leave() {
    if (const auto lender = lender_.lock()) lender->cancel(number_);
    lender_.reset();
  }

  std::weak_ptr<Lender> lender_;
  std::uint64_t number_ = 0;
};

}  // namespace idproxy::ids
