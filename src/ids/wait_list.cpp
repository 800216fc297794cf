#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

void WaitList::add(std::uint64_t ticket, std::uint64_t n, std::unique_ptr<Waiter> waiter) {
  Request& request = waiting_[ticket];
  needed_ += n - request.n;
  request = {n, std::move(waiter)};
}

std::uint64_t WaitList::add(std::uint64_t n, std::unique_ptr<Waiter> waiter, After& after) {
  if (waiting_.size() == kMost) {
    after.answer(std::move(waiter), Error{Errc::unavailable, "too many requests wait"});
    return 0;
  }
  const std::uint64_t ticket = new_ticket();
  waiting_.emplace_hint(waiting_.end(), ticket, Request{n, std::move(waiter)});
  needed_ += n;
  return ticket;
}

std::unique_ptr<Waiter> WaitList::remove(std::uint64_t ticket) {
  auto request = waiting_.extract(ticket);
  if (request.empty()) return nullptr;
  needed_ -= request.mapped().n;
  return std::move(request.mapped().waiter);
}

void WaitList::answer_first(Result<Grant> grant, After& after) {
  auto request = waiting_.extract(waiting_.begin());
  needed_ -= request.mapped().n;
  after.answer(std::move(request.mapped().waiter), std::move(grant));
}

}  // namespace idproxy::ids
