#include "idproxy/ids/gapless_sequence.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::ids {

// ---- writes ------------------------------------------------------------------------------------

std::optional<Error> GaplessSequence::refusal(Time now) const {
  if (stopped_) return Error{Errc::unavailable, "the proxy ends"};
  if (failure_ && !next_ && now - failed_at_ < kFailureLasts) return failure_;
  return std::nullopt;
}

/// Gives the turn with the numbers.
Result<Range> GaplessSequence::grant(std::uint64_t ticket, std::uint64_t n) {
  if (*next_ + static_cast<Int128>(n) - 1 > spec_.max) {
    return Error{Errc::exhausted, "the numbers up to " + std::to_string(spec_.max) +
                                      " do not suffice, and larger ones do not fit the rule's "
                                      "output"};
  }
  holder_ = ticket;
  is_used_ = true;
  return Range{static_cast<std::int64_t>(*next_), n};
}

std::optional<Result<Range>> GaplessSequence::take(std::uint64_t ticket, std::uint64_t n,
                                                   Time now) {
  if (holder_ == ticket) return std::nullopt;
  if (auto refused = refusal(now)) return *std::move(refused);
  if (holder_ != 0 || !queue_.empty() || !next_) return std::nullopt;
  return grant(ticket, n);
}

GaplessSequence::Action GaplessSequence::ask(std::uint64_t ticket, std::uint64_t n,
                                             GaplessLook look, Time now) {
  Action action;
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
    queue_.push_back({ticket, n});
    request(action);
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

/// A write that has the turn learns itself whether its numbers are taken.
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
  while (holder_ == 0 && next_ && !queue_.empty()) {
    const Waiting first = queue_.front();
    queue_.pop_front();
    action.answers.push_back({first.ticket, grant(first.ticket, first.n)});
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
  return !stopped_ && !next_ && (wants_ || (holder_ == 0 && !queue_.empty()));
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
  is_stale_ = false;
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
    const bool refused = reply.kind == GaplessReply::Kind::refused;
    failure_ = Error{refused ? Errc::exhausted : Errc::unavailable, reply.reason};
    failed_at_ = now;
    refuse_all(*failure_, action);
  }
  serve(action);
  return action;
}

/// A quick look is good only for the write that wanted it: another one may go to another server.
void GaplessSequence::found(std::optional<std::int64_t> most, Time now, Action& action) {
  failure_.reset();
  announced_ = false;
  const bool is_sure = job_.look == GaplessLook::sure;
  if (is_sure && most) note_highest(*most, now, action);
  if (is_stale_ && !is_sure) return;
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

std::optional<std::int64_t> GaplessSequence::next() const {
  if (!next_ || *next_ > spec_.max) return std::nullopt;
  return static_cast<std::int64_t>(*next_);
}

}  // namespace idproxy::ids
