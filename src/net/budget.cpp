#include "net/budget.hpp"

#include <algorithm>

#include "idproxy/wire/messages.hpp"

namespace idproxy::net {

// An elder's room is that of the largest message, or most of a limit that is not larger.
Budget::Budget(std::uint64_t limit)
    : limit_(static_cast<std::int64_t>(limit)),
      for_small_(limit_ / 8),
      for_an_elder_(std::min<std::int64_t>(wire::kMaxMessageSize, limit_ * 3 / 4)),
      free_(limit_),
      for_elder_(for_an_elder_) {}

/// Takes the bytes if as many as are `kept` for others stay free.
bool Budget::take(std::int64_t bytes, std::int64_t kept) {
  std::int64_t free = free_.load();
  while (free - kept >= bytes) {
    if (free_.compare_exchange_weak(free, free - bytes)) return true;
  }
  return false;
}

bool Budget::grow(Share& share, const Need& need) {
  if (share.bytes_ >= need.bytes) return true;
  const std::uint64_t more = need.at_once() - share.bytes_;
  if (!grow_elder(share, need)) {
    const bool small = need.is_small();
    const bool others_wait = (small ? waiting_ - large_waiting_ : large_waiting_.load()) > 0;
    const std::int64_t kept = small ? 0 : kept_from_large();
    if (others_wait || !take(static_cast<std::int64_t>(more), kept)) return false;
  }
  share.join({*this, more});
  return true;
}

bool Budget::grow_ahead(Share& share, std::uint64_t bytes) {
  if (share.bytes_ >= bytes) return true;
  const auto more = static_cast<std::int64_t>(bytes - share.bytes_);
  const std::int64_t kept = std::max(limit_ / 2, kept_from_large());
  if (share.elder_ != 0 || waiting_ > 0 || !take(more, kept)) return false;
  share.join({*this, bytes - share.bytes_});
  return true;
}

/// False if the share is not the elder's, or no longer.
bool Budget::grow_elder(const Share& share, const Need& need) {
  if (share.elder_ == 0) return false;
  {
    const std::lock_guard lock(mutex_);
    if (share.elder_ != elder_) return false;
    free_.fetch_sub(static_cast<std::int64_t>(need.at_once() - share.bytes_));
    elder_lacks(static_cast<std::int64_t>(need.whole - need.at_once()));
  }
  if (waiting_.load() > 0) serve();  // the next one may be the elder
  return true;
}

void Budget::elder_lacks(std::int64_t bytes) {
  elder_is_whole_ = bytes == 0;
  for_elder_ = elder_is_whole_ ? for_an_elder_ : bytes;
}

Budget::Share Budget::overdraw(std::uint64_t bytes) {
  free_.fetch_sub(static_cast<std::int64_t>(bytes));
  return {*this, bytes};
}

Budget::Ticket Budget::wait(const Share& share, const Need& need, Granted granted) {
  waits_.fetch_add(1, std::memory_order_relaxed);
  const bool small = need.is_small();
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++last_ticket_;
    (small ? small_ : large_)
        .push_back({ticket, static_cast<std::int64_t>(need.at_once() - share.bytes_),
                    static_cast<std::int64_t>(need.whole - need.at_once()), std::move(granted)});
    ++waiting_;
    if (!small) ++large_waiting_;
  }
  serve();  // bytes given back between the caller's grow() and here woke nobody
  return ticket;
}

void Budget::leave(Ticket ticket) {
  Queue left;
  {
    const std::lock_guard lock(mutex_);
    for (Queue* queue : {&small_, &large_}) {
      const auto found = std::ranges::find(*queue, ticket, &Waiting::ticket);
      if (found == queue->end()) continue;
      queue->splice(queue->begin(), *queue, found);
      move_first(*queue, left);
      break;
    }
  }
  if (!left.empty()) serve();  // the next request may fit
}

/// Returns the bytes before it looks for waiting requests. wait() does the reverse, so that one of
/// the two sees the other.
void Budget::give_back(std::uint64_t bytes, Ticket elder) {
  free_.fetch_add(static_cast<std::int64_t>(bytes));
  if (elder != 0) {
    const std::lock_guard lock(mutex_);
    if (elder == elder_) {
      elder_ = 0;
      for_elder_ = for_an_elder_;
    }
  }
  if (waiting_.load() > 0) serve();
}

void Budget::move_first(Queue& from, Queue& to) {
  to.splice(to.end(), from, from.begin());
  --waiting_;
  if (&from == &large_) --large_waiting_;
}

/// Takes what `large`, the first of its kind, needs now; as the elder if there is no other room.
bool Budget::admit(Waiting& large) {
  if (take(large.bytes, kept_from_large())) return true;
  const bool fits = free_.load() - for_small_ >= large.bytes + large.rest;
  if (elder_ != 0 && !(elder_is_whole_ && fits)) return false;
  large.is_elder = true;
  elder_ = large.ticket;
  free_.fetch_sub(large.bytes);
  elder_lacks(large.rest);
  return true;
}

void Budget::serve() {
  Queue served;
  {
    const std::lock_guard lock(mutex_);
    while (!small_.empty() && take(small_.front().bytes, 0)) move_first(small_, served);
    while (!large_.empty() && admit(large_.front())) move_first(large_, served);
  }
  for (Waiting& each : served) {
    each.granted({*this, static_cast<std::uint64_t>(each.bytes), each.is_elder ? each.ticket : 0});
  }
}

}  // namespace idproxy::net
