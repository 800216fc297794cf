#include "net/budget.hpp"

#include <algorithm>

namespace idproxy::net {

/// Takes the bytes if there is room.
bool Budget::fits(std::int64_t bytes) {
  const std::int64_t before = free_.fetch_sub(bytes);
  if (before >= bytes || before == limit_) return true;
  free_.fetch_add(bytes);
  return false;
}

Budget::Share Budget::take(std::uint64_t bytes) {
  if (waiting_.load() > 0 || !fits(static_cast<std::int64_t>(bytes))) return {};
  return {*this, bytes};
}

Budget::Share Budget::overdraw(std::uint64_t bytes) {
  free_.fetch_sub(static_cast<std::int64_t>(bytes));
  return {*this, bytes};
}

Budget::Ticket Budget::wait(std::uint64_t bytes, Granted granted) {
  waits_.fetch_add(1, std::memory_order_relaxed);
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++last_ticket_;
    queue_.push_back({ticket, static_cast<std::int64_t>(bytes), std::move(granted)});
    ++waiting_;
  }
  serve();  // bytes given back between the caller's take() and here woke nobody
  return ticket;
}

void Budget::leave(Ticket ticket) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(queue_, ticket, &Waiting::ticket);
    if (found == queue_.end()) return;
    queue_.erase(found);
    --waiting_;
  }
  serve();  // the next request may fit
}

/// Returns the bytes before it looks for waiting requests. wait() does the reverse, so that one of
/// the two sees the other.
void Budget::give_back(std::uint64_t bytes) {
  free_.fetch_add(static_cast<std::int64_t>(bytes));
  if (waiting_.load() > 0) serve();
}

void Budget::serve() {
  std::list<Waiting> served;
  {
    const std::lock_guard lock(mutex_);
    while (!queue_.empty() && fits(queue_.front().bytes)) {
      served.splice(served.end(), queue_, queue_.begin());
      --waiting_;
    }
  }
  for (Waiting& each : served) each.granted({*this, static_cast<std::uint64_t>(each.bytes)});
}

}  // namespace idproxy::net
