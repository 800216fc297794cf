#include "idproxy/ids/gapless_queue.hpp"

namespace idproxy::ids {

GaplessQueue::GaplessQueue(const GaplessSpec& spec, const Clock& clock, std::function<void()> wake)
    : spec_(spec), clock_(clock), wake_(std::move(wake)), sequence_(spec) {}

/// Finds the waiters of the answers.
void GaplessQueue::keep(GaplessSequence::Action& action, After& after) {
  after.wake = action.wake;
  for (GaplessSequence::Answer& answer : action.answers) {
    auto waiter = waiters_.extract(answer.ticket);
    if (waiter.empty()) continue;
    Result<Grant> grant = answer.numbers ? Result<Grant>(Grant(nullptr, {*answer.numbers}))
                                         : Result<Grant>(answer.numbers.error());
    after.answers.emplace_back(std::move(waiter.mapped()), std::move(grant));
  }
}

void GaplessQueue::run(After& after) const {
  if (after.wake) wake_();
  for (auto& [waiter, grant] : after.answers) waiter->answered(std::move(grant));
}

template <class Event>
void GaplessQueue::handle(const Event& event) {
  After after;
  {
    const std::scoped_lock lock(mutex_);
    GaplessSequence::Action action = event();
    keep(action, after);
  }
  run(after);
}

// ---- for writes --------------------------------------------------------------------------------

std::uint64_t GaplessQueue::enter() {
  const std::scoped_lock lock(mutex_);
  return ++tickets_;
}

std::optional<Result<Range>> GaplessQueue::take(std::uint64_t ticket, std::uint64_t n) {
  const std::scoped_lock lock(mutex_);
  return sequence_.take(ticket, n, clock_.monotonic());
}

Ticket GaplessQueue::ask(std::uint64_t ticket, std::uint64_t n, GaplessLook look,
                         std::unique_ptr<Waiter> waiter) {
  handle([&] {
    waiters_.insert_or_assign(ticket, std::move(waiter));
    return sequence_.ask(ticket, n, look, clock_.monotonic());
  });
  return {weak_from_this(), ticket};
}

void GaplessQueue::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  const auto waiter = waiters_.find(ticket);
  if (waiter == waiters_.end()) return;
  gone = std::move(waiter->second);
  waiters_.erase(waiter);
  sequence_.cancel(ticket);
}

void GaplessQueue::leave(std::uint64_t ticket) {
  handle([&] { return sequence_.leave(ticket); });
}

void GaplessQueue::stored(std::uint64_t ticket, std::int64_t last) {
  handle([&] { return sequence_.stored(ticket, last, clock_.monotonic()); });
}

void GaplessQueue::unknown(std::uint64_t ticket) {
  handle([&] { return sequence_.unknown(ticket); });
}

// ---- transactions ------------------------------------------------------------------------------

std::optional<std::int64_t> GaplessQueue::last_of(const std::string& transaction) const {
  const std::scoped_lock lock(mutex_);
  return transactions_.last_of(transaction, clock_.monotonic());
}

void GaplessQueue::note(const std::string& transaction, std::int64_t last) {
  const std::scoped_lock lock(mutex_);
  transactions_.note(transaction, last, clock_.monotonic());
}

void GaplessQueue::transaction_ended(const std::string& transaction) {
  handle([&] {
    return transactions_.end(transaction) ? sequence_.forget() : GaplessSequence::Action();
  });
}

// ---- for the store -----------------------------------------------------------------------------

std::optional<GaplessJob> GaplessQueue::begin() {
  const std::scoped_lock lock(mutex_);
  return sequence_.begin(clock_.monotonic());
}

void GaplessQueue::finish(const GaplessReply& reply) {
  handle([&] { return sequence_.finish(reply, clock_.monotonic()); });
}

std::optional<std::chrono::nanoseconds> GaplessQueue::due() const {
  const std::scoped_lock lock(mutex_);
  return sequence_.due();
}

void GaplessQueue::announce() {
  handle([&] { return sequence_.announce(); });
}

void GaplessQueue::stop() {
  handle([&] { return sequence_.stop(); });
}

bool GaplessQueue::idle() const {
  const std::scoped_lock lock(mutex_);
  return sequence_.idle() && transactions_.size() == 0;
}

GaplessStatistics GaplessQueue::statistics() const {
  const std::scoped_lock lock(mutex_);
  const Error* failure = sequence_.failure();
  return {sequence_.next(), sequence_.waiting(),
          failure != nullptr ? std::optional(*failure) : std::nullopt};
}

}  // namespace idproxy::ids
