#include "idproxy/ids/gapless_sequence.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::ids {

// ---- writes ------------------------------------------------------------------------------------

std::optional<Error> GaplessSequence::refusal(Time now) const {
  if (stopped_) return Error{Errc::unavailable, "the proxy ends"};
  // Writes come when there is an index. The look may be older.
  const bool lasts = !is_unguarded_ && now - failed_at_ < kFailureLasts;
  if (failure_ && !next_ && lasts) return failure_;
  return std::nullopt;
}

Result<Range> GaplessSequence::numbers(std::uint64_t n) const {
  if (*next_ + static_cast<Int128>(n) - 1 > spec_.max) {
    return Error{Errc::exhausted, "the numbers up to " + std::to_string(spec_.max) +
                                      " do not suffice, and larger ones do not fit the rule's "
                                      "output"};
  }
  return Range{static_cast<std::int64_t>(*next_), n};
}

/// Gives the turn with the numbers.
Result<Range> GaplessSequence::grant(std::uint64_t ticket, std::uint64_t n) {
  auto granted = numbers(n);
  if (!granted) return granted;
  holder_ = ticket;
  is_used_ = true;
  return granted;
}

std::optional<Result<Range>> GaplessSequence::take_ahead(std::uint64_t n, Time now) const {
  if (auto refused = refusal(now)) return *std::move(refused);
  if (!next_ || !is_sure_) return std::nullopt;
  return numbers(n);
}

std::optional<Result<Range>> GaplessSequence::take(std::uint64_t ticket, std::uint64_t n,
                                                   Time now) {
  if (holder_ == ticket) return std::nullopt;
  if (auto refused = refusal(now)) return *std::move(refused);
  if (holder_ != 0 || !queue_.empty() || !next_) return std::nullopt;
  return grant(ticket, n);
}

GaplessSequence::Action GaplessSequence::ask(std::uint64_t ticket, std::uint64_t n,
                                             GaplessLook look, Time now, Haste haste) {
  Action action;
  asked_meanwhile_ = asked_meanwhile_ || state_ == State::asking;
  if (auto refused = refusal(now)) {
    action.answers.push_back({ticket, *std::move(refused)});
  } else if (holder_ == ticket) {
    next_.reset();
    wants_ = n;
    look_ = look;
    request(action);
  } else if (auto taken = take(ticket, n, now)) {
    action.answers.push_back({ticket, *std::move(taken)});
  } else if (queue_.size() == kMostWaiting) {
    action.answers.push_back({ticket, Error{Errc::unavailable, "too many writes wait"}});
  } else {
    const auto behind = std::ranges::upper_bound(queue_, haste, {}, &Waiting::haste);
    queue_.insert(behind, {ticket, n, haste});
    serve(action);
  }
  return action;
}

void GaplessSequence::cancel(std::uint64_t ticket) {
  if (holder_ == ticket) {
    wants_.reset();
  } else {
    std::erase_if(queue_, [&](const Waiting& each) { return each.ticket == ticket; });
  }
}

void GaplessSequence::end_turn() {
  holder_ = 0;
  wants_.reset();
  is_stale_ = true;
}

GaplessSequence::Action GaplessSequence::leave(std::uint64_t ticket) {
  Action action;
  if (holder_ != ticket) {
    cancel(ticket);
    return action;
  }
  end_turn();
  if (!is_sure_) next_.reset();
  serve(action);
  return action;
}

GaplessSequence::Action GaplessSequence::stored(std::uint64_t ticket, std::int64_t last, Time now) {
  Action action;
  if (holder_ != ticket) {
    cancel(ticket);
    return action;
  }
  end_turn();
  next_ = Int128{last} + 1;
  is_sure_ = true;
  note_highest(last, now, action);
  serve(action);
  return action;
}

GaplessSequence::Action GaplessSequence::unknown(std::uint64_t ticket) {
  Action action;
  if (holder_ != ticket) {
    cancel(ticket);
    return action;
  }
  end_turn();
  next_.reset();
  serve(action);
  return action;
}

/// Does not affect a write that has the turn: the server tells it whether its numbers are taken.
GaplessSequence::Action GaplessSequence::forget() {
  Action action;
  if (holder_ != 0) return action;
  next_.reset();
  serve(action);
  return action;
}

/// Answers the write that comes next.
void GaplessSequence::serve(Action& action) {
  if (holder_ != 0 && wants_ && next_) {
    action.answers.push_back({holder_, grant(holder_, *wants_)});
    wants_.reset();
  }
  while (next_ && !queue_.empty()) {
    const bool ahead = holder_ != 0 && is_sure_ && goes_ahead();
    if (holder_ != 0 && !ahead) break;
    const Waiting first = queue_.front();
    queue_.pop_front();
    action.answers.push_back(
        {first.ticket, ahead ? numbers(first.n) : grant(first.ticket, first.n)});
  }
  request(action);
}

void GaplessSequence::refuse_all(const Error& error, Action& action) {
  if (wants_) action.answers.push_back({holder_, error});
  wants_.reset();
  for (const Waiting& each : queue_) action.answers.push_back({each.ticket, error});
  queue_.clear();
}

// ---- the store ---------------------------------------------------------------------------------

bool GaplessSequence::wants_look() const {
  if (stopped_) return false;
  if (goes_ahead() && !(next_ && is_sure_)) return true;
  return !next_ && (wants_ || (holder_ == 0 && !queue_.empty()));
}

void GaplessSequence::request(Action& action) {
  if (state_ != State::idle || !wants_look()) return;
  state_ = State::woken;
  action.wake = true;
}

std::optional<GaplessJob> GaplessSequence::begin(Time now) {
  if (state_ == State::asking) return std::nullopt;
  state_ = State::idle;
  const bool again = !failure_ || now - failed_at_ >= kLookAgain;
  const bool looks_ahead = announced_ && !stopped_ && !next_ && holder_ == 0 && again;
  if (wants_look() || looks_ahead) {
    job_ = {GaplessJob::Kind::look, wants_ ? look_ : GaplessLook::sure};
  } else if (keep_at_ && (stopped_ || now >= *keep_at_)) {
    job_ = {GaplessJob::Kind::keep, GaplessLook::sure, *highest_};
  } else {
    return std::nullopt;
  }
  state_ = State::asking;
  is_stale_ = asked_meanwhile_ = false;
  return job_;
}

GaplessSequence::Action GaplessSequence::finish(const GaplessReply& reply, Time now) {
  Action action;
  state_ = State::idle;
  if (job_.kind == GaplessJob::Kind::keep) {
    if (reply.kind == GaplessReply::Kind::kept) kept_ = job_.floor;
    keep_at_.reset();
    if (kept_ != highest_) keep_at_ = now + kKeepEvery;
  } else if (reply.kind == GaplessReply::Kind::found) {
    found(reply.most, now, action);
  } else {
    const bool failed = reply.kind == GaplessReply::Kind::failed;
    is_unguarded_ = reply.kind == GaplessReply::Kind::unguarded;
    const Errc code = is_unguarded_ ? Errc::unguarded : Errc::exhausted;
    failure_ = Error{failed ? Errc::unavailable : code, reply.reason};
    failed_at_ = now;
    // Writes come once there is an index, which may have been made since the look began.
    if (!is_unguarded_ || !asked_meanwhile_) refuse_all(*failure_, action);
  }
  serve(action);
  return action;
}

/// A quick look is good only for the write that wanted it: another one may go to another server. If
/// a turn ended during the look, the numbers that it has stored are newer than the look's.
void GaplessSequence::found(std::optional<std::int64_t> most, Time now, Action& action) {
  failure_.reset();
  announced_ = false;
  const bool is_sure = job_.look == GaplessLook::sure;
  if (is_sure && most) note_highest(*most, now, action);
  if (is_stale_ && (!is_sure || next_)) return;
  if (spec_.floor && highest_) most = std::max(most.value_or(*highest_), *highest_);
  next_ = spec_.start;
  if (most) next_ = std::max(*next_, Int128{*most} + 1);
  is_sure_ = is_sure;
}

/// A process that gives out no numbers writes no floor.
void GaplessSequence::note_highest(std::int64_t number, Time now, Action& action) {
  highest_ = std::max(highest_.value_or(number), number);
  if (!spec_.floor || !is_used_ || keep_at_ || kept_ == highest_) return;
  keep_at_ = now + kKeepEvery;
  action.wake = true;
}

std::optional<GaplessSequence::Time> GaplessSequence::due() const {
  if (state_ == State::asking || stopped_) return std::nullopt;
  if (!announced_ || next_ || !failure_) return keep_at_;
  const Time look = failed_at_ + kLookAgain;
  return std::min(keep_at_.value_or(look), look);
}

// ---- the process -------------------------------------------------------------------------------

GaplessSequence::Action GaplessSequence::announce() {
  Action action;
  announced_ = !next_;
  action.wake = announced_;
  return action;
}

GaplessSequence::Action GaplessSequence::stop() {
  Action action;
  stopped_ = true;
  refuse_all({Errc::unavailable, "the proxy ends"}, action);
  return action;
}

GaplessSequence::Action GaplessSequence::let_go(Time now) {
  Action action;
  if (keep_at_) keep_at_ = std::min(*keep_at_, now);
  action.wake = true;
  return action;
}

std::optional<std::int64_t> GaplessSequence::next() const {
  if (!next_ || *next_ > spec_.max) return std::nullopt;
  return static_cast<std::int64_t>(*next_);
}

}  // namespace idproxy::ids
