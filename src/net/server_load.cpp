#include "net/server_load.hpp"

namespace idproxy::net {

void ServerLoad::requested(Connection& connection, Reply reply, std::chrono::nanoseconds now) {
  // Behind a reply that may wait, nobody knows when the server begins with the next request.
  const bool all_timed = connection.timed_ == connection.owed_;
  ++connection.owed_;
  if (reply == Reply::may_wait) return stop_timing(connection);
  if (!all_timed) return;
  timed_begun_.add();
  if (silent_since_.load(std::memory_order_relaxed) == 0) {
    silent_since_.store(now.count(), std::memory_order_relaxed);
  }
  if (++connection.timed_ > 1) return;
  connection.since_ = now;
  waiting_.push_back(connection);
  if (&waiting_.front() == &connection) note_oldest();
}

std::optional<std::chrono::nanoseconds> ServerLoad::answered(Connection& connection,
                                                             std::chrono::nanoseconds now) {
  replies.add();
  heard(now);
  if (connection.owed_ > 0) --connection.owed_;
  if (connection.timed_ == 0) return std::nullopt;
  const std::chrono::nanoseconds took = now - connection.since_;
  reply_time.observe(took);
  timed_ended_.add();
  const bool was_oldest = &waiting_.front() == &connection;
  connection.unlink();
  if (--connection.timed_ > 0) {
    connection.since_ = now;
    waiting_.push_back(connection);
  }
  if (was_oldest) note_oldest();
  return took;
}

void ServerLoad::ended(Connection& connection) {
  stop_timing(connection);
  connection.owed_ = 0;
}

void ServerLoad::stop_timing(Connection& connection) {
  if (connection.timed_ == 0) return;
  timed_ended_.add(connection.timed_);
  connection.timed_ = 0;
  connection.unlink();
  note_oldest();
}

void ServerLoad::note_oldest() {
  oldest_.store(waiting_.empty() ? 0 : waiting_.front().since_.count(), std::memory_order_relaxed);
}

void ServerLoad::heard(std::chrono::nanoseconds now) {
  last_heard_.store(now.count(), std::memory_order_relaxed);
  silent_since_.store(0, std::memory_order_relaxed);
}

std::chrono::nanoseconds ServerLoad::last_heard() const {
  return std::chrono::nanoseconds(last_heard_.load(std::memory_order_relaxed));
}

std::optional<std::chrono::nanoseconds> ServerLoad::silent_since() const {
  const std::int64_t since = silent_since_.load(std::memory_order_relaxed);
  return since == 0 ? std::nullopt : std::optional(std::chrono::nanoseconds(since));
}

std::uint64_t ServerLoad::in_flight() const {
  // In this order: the difference is never negative, whatever the thread does meanwhile.
  const std::uint64_t ended = timed_ended_.value();
  const std::uint64_t begun = timed_begun_.value();
  return begun > ended ? begun - ended : 0;
}

std::optional<std::chrono::nanoseconds> ServerLoad::oldest() const {
  const std::int64_t since = oldest_.load(std::memory_order_relaxed);
  return since == 0 ? std::nullopt : std::optional(std::chrono::nanoseconds(since));
}

}  // namespace idproxy::net
