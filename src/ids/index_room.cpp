#include "idproxy/ids/index_room.hpp"

#include <utility>

namespace idproxy::ids {

IndexRoom::IndexRoom(CatalogChange in, Bytes indexes, Tell tell)
    : in_(std::move(in)), indexes_(as_text(indexes)), tell_(std::move(tell)) {}

Ticket IndexRoom::ask(std::size_t /*n*/, std::unique_ptr<Waiter> waiter) {
  After after;
  const std::uint64_t ticket =
      locked(mutex_, [&] { return waiting_.add(1, std::move(waiter), after); });
  if (tell_) {
    tell_(shared_from_this());
  } else {
    answer(Error{Errc::unavailable, "nobody makes room"});
  }
  after.run({});
  return {weak_from_this(), ticket};
}

void IndexRoom::answer(const Result<void>& made) {
  const auto grant = [&](std::uint64_t /*n*/, bool /*takes*/) {
    return made ? Result<Grant>(Grant()) : Result<Grant>(made.error());
  };
  locked(mutex_, {}, [&](After& after) { waiting_.answer_all(grant, after); });
}

}  // namespace idproxy::ids
