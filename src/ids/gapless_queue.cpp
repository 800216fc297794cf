#include "idproxy/ids/gapless_queue.hpp"

namespace idproxy::ids {

GaplessQueue::GaplessQueue(const GaplessSpec& spec, const Clock& clock, std::function<void()> wake,
                           std::shared_ptr<TransactionSequences> transactions)
    : spec_(spec),
      clock_(clock),
      wake_(std::move(wake)),
      sequences_in_transactions_(std::move(transactions)),
      sequence_(spec) {}

template <class Event>
void GaplessQueue::handle(const Event& event) {
  After after;
  {
    const std::scoped_lock lock(mutex_);
    const GaplessSequence::Action action = event();
    after.wake = action.wake;
    for (const auto& [ticket, numbers] : action.answers) {
      auto waiter = waiters_.remove(ticket);
      if (!waiter) continue;
      // A turn's numbers return with its end.
      after.answer(std::move(waiter), numbers ? Result<Grant>(Grant(nullptr, {*numbers}))
                                              : Result<Grant>(numbers.error()));
    }
  }
  after.run(wake_);
}

// ---- for writes --------------------------------------------------------------------------------

std::uint64_t GaplessQueue::enter(TurnTaker::Takes takes) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t ticket = waiters_.new_ticket();
  if (takes == TurnTaker::Takes::several) have_others_.insert(ticket);
  return ticket;
}

/// True if the transaction has used numbers of another sequence. It has used none of this one.
bool GaplessQueue::has_numbers_of_others(const std::string& transaction) const {
  return !transaction.empty() && sequences_in_transactions_ != nullptr &&
         sequences_in_transactions_->has(transaction, clock_.monotonic());
}

/// True if the write that has the turn may be waiting in the server for the end of a transaction:
/// of one that has used numbers of this sequence, or of another one that the write needs, too. A
/// transaction on which others may wait in that way must not wait for such a write.
bool GaplessQueue::may_wait_in_server() const {
  const std::uint64_t holder = sequence_.holder();
  return holder != 0 && (have_others_.contains(holder) || transactions_.any(clock_.monotonic()));
}

std::optional<Result<Range>> GaplessQueue::take(std::uint64_t ticket, std::uint64_t n,
                                                const std::string& transaction) {
  const bool is_awaited = has_numbers_of_others(transaction);
  const std::scoped_lock lock(mutex_);
  const auto now = clock_.monotonic();
  return is_awaited && may_wait_in_server() ? sequence_.take_ahead(n, now)
                                            : sequence_.take(ticket, n, now);
}

Ticket GaplessQueue::ask(std::uint64_t ticket, std::uint64_t n, GaplessLook look,
                         const std::string& transaction, std::unique_ptr<Waiter> waiter) {
  using Haste = GaplessSequence::Haste;
  const bool is_awaited = has_numbers_of_others(transaction);
  handle([&] {
    waiters_.add(ticket, n, std::move(waiter));
    const Haste haste = !is_awaited            ? Haste::none
                        : may_wait_in_server() ? Haste::ahead
                                               : Haste::first;
    return sequence_.ask(ticket, n, look, clock_.monotonic(), haste);
  });
  return {weak_from_this(), ticket};
}

void GaplessQueue::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  gone = waiters_.remove(ticket);
  if (gone) sequence_.cancel(ticket);
}

void GaplessQueue::leave(std::uint64_t ticket) {
  handle([&] {
    have_others_.erase(ticket);
    return sequence_.leave(ticket);
  });
}

void GaplessQueue::stored(std::uint64_t ticket, std::int64_t last) {
  handle([&] {
    have_others_.erase(ticket);
    return sequence_.stored(ticket, last, clock_.monotonic());
  });
}

void GaplessQueue::unknown(std::uint64_t ticket) {
  handle([&] {
    have_others_.erase(ticket);
    return sequence_.unknown(ticket);
  });
}

// ---- transactions ------------------------------------------------------------------------------

std::optional<std::int64_t> GaplessQueue::last_of(const std::string& transaction) const {
  const std::scoped_lock lock(mutex_);
  const std::int64_t* last = transactions_.find(transaction, clock_.monotonic());
  return last != nullptr ? std::optional(*last) : std::nullopt;
}

void GaplessQueue::note(const std::string& transaction, std::int64_t last) {
  const auto now = clock_.monotonic();
  {
    const std::scoped_lock lock(mutex_);
    transactions_.note(transaction, now) = last;
  }
  if (sequences_in_transactions_) {
    sequences_in_transactions_->note(transaction, weak_from_this(), now);
  }
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

void GaplessQueue::let_go() {
  handle([&] { return sequence_.let_go(clock_.monotonic()); });
}

bool GaplessQueue::idle() const {
  const std::scoped_lock lock(mutex_);
  return sequence_.idle() && !transactions_.any(clock_.monotonic());
}

GaplessStatistics GaplessQueue::statistics() const {
  const std::scoped_lock lock(mutex_);
  const Error* failure = sequence_.failure();
  return {sequence_.next(), sequence_.waiting(),
          failure != nullptr ? std::optional(*failure) : std::nullopt, sequence_.is_unguarded()};
}

}  // namespace idproxy::ids
