#include "idproxy/ids/index_room.hpp"

#include <utility>

namespace idproxy::ids {

IndexRoom::IndexRoom(CatalogChange in, Bytes indexes, Tell tell)
    : in_(std::move(in)), indexes_(as_text(indexes)), tell_(std::move(tell)) {}

Ticket IndexRoom::ask(std::size_t /*n*/, std::unique_ptr<Waiter> waiter) {
  After after;
  std::uint64_t ticket = 0;
  {
    const std::scoped_lock lock(mutex_);
    ticket = waiting_.add(1, std::move(waiter), after);
  }
  if (tell_) {
    tell_(shared_from_this());
  } else {
    answer(Error{Errc::unavailable, "nobody makes room"});
  }
  after.run({});
  return {weak_from_this(), ticket};
}

void IndexRoom::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  gone = waiting_.remove(ticket);
}

bool IndexRoom::is_awaited() const {
  const std::scoped_lock lock(mutex_);
  return !waiting_.empty();
}

void IndexRoom::answer(const Result<void>& made) {
  After after;
  {
    const std::scoped_lock lock(mutex_);
    waiting_.answer_all(
        [&](std::uint64_t /*n*/) {
          return made ? Result<Grant>(Grant()) : Result<Grant>(made.error());
        },
        after);
  }
  after.run({});
}

}  // namespace idproxy::ids
