#include "idproxy/ids/gapless_queue.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::ids {
namespace {

/// True if the transaction has used numbers of another sequence. It has used none of this one.
bool has_numbers_of_others(const std::string& transaction, const TransactionSequences* sequences,
                           const Clock& clock) {
  return !transaction.empty() && sequences != nullptr &&
         sequences->has(transaction, clock.monotonic());
}

Result<Range> numbers_from(Int128 next, std::uint64_t n, std::int64_t max) {
  if (next + static_cast<Int128>(n) - 1 > max) {
    return Error{Errc::exhausted, "the numbers up to " + std::to_string(max) +
                                      " do not suffice, and larger ones do not fit the rule's "
                                      "output"};
  }
  return Range{static_cast<std::int64_t>(next), n};
}

void answer(WaitList& waiters, std::uint64_t ticket, const Result<Range>& numbers, After& after) {
  auto waiter = waiters.remove(ticket);
  if (!waiter) return;
  // A turn's numbers return with its end.
  after.answer(std::move(waiter), numbers ? Result<Grant>(Grant(nullptr, {*numbers}))
                                          : Result<Grant>(numbers.error()));
}

}  // namespace

GaplessQueue::GaplessQueue(const GaplessSpec& spec, const Clock& clock, std::function<void()> wake,
                           std::shared_ptr<TransactionSequences> transactions)
    : spec_(spec),
      clock_(clock),
      wake_(std::move(wake)),
      sequences_in_transactions_(std::move(transactions)) {}

template <class Event>
void GaplessQueue::handle(const Event& event) {
  locked(mutex_, wake_, [&](After& after) { event(clock_.monotonic(), after); });
}

// ---- for writes --------------------------------------------------------------------------------

std::uint64_t GaplessQueue::enter(TurnTaker::Takes takes) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t ticket = waiters_.new_ticket();
  if (takes == TurnTaker::Takes::several) have_others_.insert(ticket);
  return ticket;
}

/// True if the write that has the turn may be waiting in the server for the end of a transaction:
/// of one that has used numbers of this sequence, or of another one that the write needs, too. A
/// transaction on which others may wait in that way must not wait for such a write.
bool GaplessQueue::may_wait_in_server(Time now) const {
  return holder_ != 0 && (have_others_.contains(holder_) || transactions_.any(now));
}

std::optional<Error> GaplessQueue::refusal(Time now) const {
  if (stopped_) return Error{Errc::unavailable, "the proxy ends"};
  // Writes come when there is an index. The reading may be older.
  const bool lasts =
      failure_ && failure_->code != Errc::unguarded && now - failed_at_ < kFailureLasts;
  return lasts && !next_ ? failure_ : std::nullopt;
}

/// Gives the turn with the numbers.
Result<Range> GaplessQueue::grant(std::uint64_t ticket, std::uint64_t n) {
  auto granted = numbers_from(*next_, n, spec_.max);
  if (!granted) return granted;
  holder_ = ticket;
  is_used_ = true;
  return granted;
}

std::optional<Result<Range>> GaplessQueue::take(std::uint64_t ticket, std::uint64_t n,
                                                const std::string& transaction) {
  const bool is_awaited =
      has_numbers_of_others(transaction, sequences_in_transactions_.get(), clock_);
  const std::scoped_lock lock(mutex_);
  const Time now = clock_.monotonic();
  if (!is_awaited || !may_wait_in_server(now)) return take_turn(ticket, n, now);
  if (auto refused = refusal(now)) return *std::move(refused);
  if (!next_ || !is_sure_) return std::nullopt;
  return numbers_from(*next_, n, spec_.max);
}

std::optional<Result<Range>> GaplessQueue::take_turn(std::uint64_t ticket, std::uint64_t n,
                                                     Time now) {
  if (holder_ == ticket) return std::nullopt;
  if (auto refused = refusal(now)) return *std::move(refused);
  if (holder_ != 0 || !queue_.empty() || !next_) return std::nullopt;
  return grant(ticket, n);
}

Ticket GaplessQueue::ask(std::uint64_t ticket, std::uint64_t n, GaplessRead how,
                         const std::string& transaction, std::unique_ptr<Waiter> waiter) {
  const bool is_awaited =
      has_numbers_of_others(transaction, sequences_in_transactions_.get(), clock_);
  handle([&](Time now, After& after) {
    waiters_.add(ticket, n, std::move(waiter));
    asked_meanwhile_ = asked_meanwhile_ || state_ == State::asking;
    if (auto refused = refusal(now)) {
      answer(waiters_, ticket, *std::move(refused), after);
    } else if (holder_ == ticket) {
      next_.reset();
      wants_ = n;
      how_ = how;
      request(after);
    } else if (auto taken = take_turn(ticket, n, now)) {
      answer(waiters_, ticket, *taken, after);
    } else if (queue_.size() == kMostWaiting) {
      answer(waiters_, ticket, Error{Errc::unavailable, "too many writes wait"}, after);
    } else {
      const Haste haste = !is_awaited               ? Haste::none
                          : may_wait_in_server(now) ? Haste::ahead
                                                    : Haste::first;
      const auto behind = std::ranges::upper_bound(queue_, haste, {}, &Waiting::haste);
      queue_.insert(behind, {ticket, n, haste});
      serve(after);
    }
  });
  return {weak_from_this(), ticket};
}

void GaplessQueue::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  gone = waiters_.remove(ticket);
  if (gone) stop_waiting(ticket);
}

void GaplessQueue::stop_waiting(std::uint64_t ticket) {
  if (holder_ == ticket) {
    wants_.reset();
  } else {
    std::erase_if(queue_, [&](const Waiting& each) { return each.ticket == ticket; });
  }
}

/// False if the write does not have the turn.
bool GaplessQueue::end_turn(std::uint64_t ticket) {
  have_others_.erase(ticket);
  stop_waiting(ticket);
  if (holder_ != ticket) return false;
  holder_ = 0;
  is_stale_ = true;
  return true;
}

void GaplessQueue::leave(std::uint64_t ticket) {
  handle([&](Time /*now*/, After& after) {
    if (!end_turn(ticket)) return;
    if (!is_sure_) next_.reset();
    serve(after);
  });
}

void GaplessQueue::stored(std::uint64_t ticket, std::int64_t last) {
  handle([&](Time now, After& after) {
    if (!end_turn(ticket)) return;
    next_ = Int128{last} + 1;
    is_sure_ = true;
    note_highest(last, now, after);
    serve(after);
  });
}

void GaplessQueue::unknown(std::uint64_t ticket) {
  handle([&](Time /*now*/, After& after) {
    if (!end_turn(ticket)) return;
    next_.reset();
    serve(after);
  });
}

/// Answers the write that comes next.
void GaplessQueue::serve(After& after) {
  if (holder_ != 0 && wants_ && next_) {
    answer(waiters_, holder_, grant(holder_, *wants_), after);
    wants_.reset();
  }
  while (next_ && !queue_.empty()) {
    const bool ahead = holder_ != 0 && is_sure_ && goes_ahead();
    if (holder_ != 0 && !ahead) break;
    const Waiting first = queue_.front();
    queue_.pop_front();
    answer(waiters_, first.ticket,
           ahead ? numbers_from(*next_, first.n, spec_.max) : grant(first.ticket, first.n), after);
  }
  request(after);
}

void GaplessQueue::refuse_all(const Error& error, After& after) {
  if (wants_) answer(waiters_, holder_, error, after);
  wants_.reset();
  for (const Waiting& each : queue_) answer(waiters_, each.ticket, error, after);
  queue_.clear();
}

// ---- transactions ------------------------------------------------------------------------------

std::optional<std::int64_t> GaplessQueue::last_of(const std::string& transaction) const {
  const std::scoped_lock lock(mutex_);
  const InTransaction* used = transactions_.find(transaction, clock_.monotonic());
  return used != nullptr ? std::optional(used->last) : std::nullopt;
}

void GaplessQueue::note(const TurnTaker& taker, std::int64_t last) {
  const Time now = clock_.monotonic();
  {
    const std::scoped_lock lock(mutex_);
    InTransaction& used = transactions_.note(taker.transaction, now);
    used.last = last;
    if (used.client == nullptr) {
      used.client = std::make_shared<NumberHolder>(taker.connection, taker.application, now);
    }
  }
  if (sequences_in_transactions_) {
    sequences_in_transactions_->note(taker.transaction, weak_from_this(), now);
  }
}

std::shared_ptr<const NumberHolder> GaplessQueue::held_by(const std::string& transaction) const {
  const std::scoped_lock lock(mutex_);
  const Time now = clock_.monotonic();
  if (!transactions_.any_other(transaction, now)) return nullptr;
  const InTransaction* first =
      transactions_.first(now, [](const InTransaction& a, const InTransaction& b) {
        return a.client->since < b.client->since;
      });
  return first->client;
}

/// Does not affect a write that has the turn: the server tells it whether its numbers are taken.
void GaplessQueue::transaction_ended(const std::string& transaction, bool is_durable) {
  handle([&](Time now, After& after) {
    const InTransaction* const used = transactions_.find(transaction, now);
    if (is_durable && used != nullptr) note_highest(used->last, now, after);
    if (!transactions_.end(transaction) || holder_ != 0) return;
    next_.reset();
    serve(after);
  });
}

// ---- for the store -----------------------------------------------------------------------------

bool GaplessQueue::wants_read() const {
  if (stopped_) return false;
  if (goes_ahead() && !(next_ && is_sure_)) return true;
  return !next_ && (wants_ || (holder_ == 0 && !queue_.empty()));
}

void GaplessQueue::request(After& after) {
  if (state_ != State::idle || !wants_read()) return;
  state_ = State::woken;
  after.wake = true;
}

std::optional<GaplessJob> GaplessQueue::begin() {
  const std::scoped_lock lock(mutex_);
  const Time now = clock_.monotonic();
  if (state_ == State::asking) return std::nullopt;
  state_ = State::idle;
  const bool again = !failure_ || now - failed_at_ >= kReadAgain;
  const bool reads_ahead = announced_ && !stopped_ && !next_ && holder_ == 0 && again;
  if (wants_read() || reads_ahead) {
    job_ = {GaplessJob::Kind::read, wants_ ? how_ : GaplessRead::sure};
  } else if (keep_at_ && (stopped_ || now >= *keep_at_)) {
    job_ = {GaplessJob::Kind::keep, GaplessRead::sure, *highest_};
  } else {
    return std::nullopt;
  }
  state_ = State::asking;
  is_stale_ = asked_meanwhile_ = false;
  return job_;
}

void GaplessQueue::finish(const GaplessReply& reply) {
  handle([&](Time now, After& after) {
    state_ = State::idle;
    if (job_.kind == GaplessJob::Kind::keep) {
      if (reply) kept_ = job_.floor;
      keep_at_.reset();
      if (kept_ != highest_) keep_at_ = now + kKeepEvery;
    } else if (reply) {
      found(*reply, now, after);
    } else {
      failure_ = reply.error();
      failed_at_ = now;
      // Writes come once there is an index, which may have been made since the reading began.
      if (failure_->code != Errc::unguarded || !asked_meanwhile_) refuse_all(*failure_, after);
    }
    serve(after);
  });
}

/// A quick reading is good only for the write that wanted it: another one may go to another server.
/// If a turn ended during the reading, the numbers that it has stored are newer than those read.
void GaplessQueue::found(std::optional<std::int64_t> most, Time now, After& after) {
  failure_.reset();
  announced_ = false;
  const bool is_sure = job_.how == GaplessRead::sure;
  if (is_sure && most) note_highest(*most, now, after);
  if (is_stale_ && (!is_sure || next_)) return;
  if (spec_.floor && highest_) most = std::max(most.value_or(*highest_), *highest_);
  next_ = spec_.start;
  if (most) next_ = std::max(*next_, Int128{*most} + 1);
  is_sure_ = is_sure;
}

/// A process that gives out no numbers writes no floor.
void GaplessQueue::note_highest(std::int64_t number, Time now, After& after) {
  highest_ = std::max(highest_.value_or(number), number);
  if (!spec_.floor || !is_used_ || keep_at_ || kept_ == highest_) return;
  keep_at_ = now + kKeepEvery;
  after.wake = true;
}

std::optional<GaplessQueue::Time> GaplessQueue::due() const {
  const std::scoped_lock lock(mutex_);
  if (state_ == State::asking || stopped_) return std::nullopt;
  if (!announced_ || next_ || !failure_) return keep_at_;
  const Time next = failed_at_ + kReadAgain;
  return std::min(keep_at_.value_or(next), next);
}

void GaplessQueue::announce() {
  handle([&](Time /*now*/, After& after) { after.wake = announced_ = !next_; });
}

void GaplessQueue::stop() {
  handle([&](Time /*now*/, After& after) {
    stopped_ = true;
    refuse_all({Errc::unavailable, "the proxy ends"}, after);
  });
}

void GaplessQueue::let_go() {
  handle([&](Time now, After& after) {
    if (keep_at_) keep_at_ = std::min(*keep_at_, now);
    after.wake = true;
  });
}

bool GaplessQueue::idle() const {
  const std::scoped_lock lock(mutex_);
  return holder_ == 0 && waiting() == 0 && state_ == State::idle && !keep_at_ &&
         !transactions_.any(clock_.monotonic());
}

GaplessStatistics GaplessQueue::statistics() const {
  const std::scoped_lock lock(mutex_);
  const bool has_next = next_ && *next_ <= spec_.max;
  return {has_next ? std::optional(static_cast<std::int64_t>(*next_)) : std::nullopt, waiting(),
          failure_};
}

}  // namespace idproxy::ids
