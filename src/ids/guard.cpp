#include "idproxy/ids/guard.hpp"

#include <utility>

namespace idproxy::ids {
namespace {

GuardState doubtful(std::string why) {
  return {GuardState::Kind::unknown, {Errc::unavailable, std::move(why)}, {}};
}

Result<Grant> verdict(const GuardState& state) {
  if (state.kind == GuardState::Kind::unguarded) return state.error;
  return Grant();
}

}  // namespace

Guard::Guard(std::size_t rule, std::string db, std::string collection,
             std::shared_ptr<const Tell> tell)
    : rule_(rule), db_(std::move(db)), collection_(std::move(collection)), tell_(std::move(tell)) {}

void Guard::tell(Need need) const {
  if (tell_ && *tell_) (*tell_)(*this, need);
}

// ---- writes ------------------------------------------------------------------------------------

GuardState Guard::state(std::chrono::nanoseconds now) {
  bool renews = false;
  GuardState found = locked(mutex_, [&] {
    const auto age = now - inspected_at_;
    if (state_.kind == GuardState::Kind::guarded && age >= kRenewed) {
      renews = !std::exchange(is_renewed_, true);
      if (age >= kBelieved) state_ = doubtful("the collection has not been looked at for 10 s");
    }
    return state_;
  });
  if (renews) tell(Need::inspect);
  return found;
}

void Guard::gone(const CollectionUuid& uuid) {
  {
    const std::scoped_lock lock(mutex_);
    if (state_.kind != GuardState::Kind::guarded || state_.uuid != uuid) return;  // known already
    state_ = doubtful("the collection has been dropped, made anew or renamed");
  }
  tell(Need::anew);
}

void Guard::takes_no_uuid() {
  const std::scoped_lock lock(mutex_);
  state_.uuid.reset();
}

Ticket Guard::ask(std::size_t /*n*/, std::unique_ptr<Waiter> waiter) {
  std::uint64_t ticket = 0;
  const auto wake_store = [this] { tell(Need::inspect); };
  locked(mutex_, wake_store, [&](After& after) {
    after.wake = state_.kind == GuardState::Kind::unknown;
    if (!after.wake) return after.answer(std::move(waiter), verdict(state_));
    ticket = waiting_.add(1, std::move(waiter), after);
  });
  return {weak_from_this(), ticket};
}

// ---- the store ---------------------------------------------------------------------------------

void Guard::set(GuardState state, std::chrono::nanoseconds inspected_at) {
  const std::scoped_lock lock(mutex_);
  state_ = std::move(state);
  inspected_at_ = inspected_at;
  is_renewed_ = false;
}

void Guard::answer() {
  locked(mutex_, {}, [&](After& after) {
    if (state_.kind == GuardState::Kind::unknown) return;
    waiting_.answer_all([&](std::uint64_t /*n*/, bool /*takes*/) { return verdict(state_); },
                        after);
  });
}

}  // namespace idproxy::ids
