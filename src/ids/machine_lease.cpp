#include "idproxy/ids/machine_lease.hpp"

#include <algorithm>
#include <utility>

#include "ids/ascending_time.hpp"
#include "ids/decoding.hpp"

namespace idproxy::ids {
namespace {

std::int64_t wall_of(const Clock& clock) {
  return static_cast<std::int64_t>(milliseconds_of(clock));
}

/// Nobody waits long enough for more, and all others would wait behind it.
std::uint64_t most_in_time(const SnowflakeLayout& layout) {
  const auto units = StoreSource::kPatience / std::chrono::milliseconds(layout.unit) + 1;
  return static_cast<std::uint64_t>(units * (layout.sequence_mask() + 1));
}

Error stops() {
  return {Errc::unavailable, "the proxy ends"};
}

Error why_none(const std::optional<Error>& failure, std::optional<std::int32_t> number,
               const std::string& lost) {
  Error error = failure.value_or(Error{Errc::unavailable, "no machine number is claimed yet"});
  if (number) {
    error.reason = "the lease on machine number " + std::to_string(*number) +
                   " is lost, since it could not be renewed: " + error.reason;
  } else if (!lost.empty()) {
    error.reason = lost + (failure ? "; " + error.reason : "");
  }
  return error;
}

std::int64_t start_of(const SnowflakeLayout& layout, const auto& positions, std::int64_t unit,
                      RandomSource& random) {
  const std::int64_t now = unit * (layout.sequence_mask() + 1);
  const bool is_set = positions.is_set && !positions.waiting.empty();
  if (is_set || now <= positions.next) return positions.next;
  if (!layout.random_start) return now;
  const auto lower_half = static_cast<std::uint64_t>(layout.sequence_mask() / 2 + 1);
  return now + static_cast<std::int64_t>(uniform(random, lower_half));
}

void refuse_all(auto& positions, const Error& error, After& after) {
  for (auto& [layout, each] : positions) each.waiting.refuse_all(error, after);
}

}  // namespace

MachineLease::MachineLease(LeaseSpec spec, const Sources& sources, std::function<void()> wake,
                           std::shared_ptr<std::atomic<std::int64_t>> process_used)
    : sources_(sources),
      wake_(std::move(wake)),
      process_used_(std::move(process_used)),
      spec_(std::move(spec)) {
  if (!is_leased()) number_ = spec_.id;
}

void MachineLease::share(const LeaseSpec& spec, Rules rules) {
  handle([&](After& after) {
    LeaseSpec shared = spec;
    if (rules == Rules::more) {
      shared.numbers = std::min(shared.numbers, spec_.numbers);
      shared.ttl = std::min(shared.ttl, spec_.ttl);
    }
    if (shared == spec_) return;
    spec_ = std::move(shared);
    next_try_ = {};
    after.wake = true;
  });
}

void MachineLease::announce() {
  handle([&](After& after) {
    ++users_;
    after.wake = true;
  });
}

// ---- for requests

std::optional<Result<std::int64_t>> MachineLease::take(const SnowflakeLayout& layout,
                                                       std::uint64_t n) {
  if (n > most_in_time(layout)) {
    return Error{Errc::exhausted, "so many ids at once take longer than 2 s: ask for at most " +
                                      std::to_string(most_in_time(layout)) + " in one command"};
  }
  const auto lock = locked(mutex_);
  Positions& positions = positions_of(layout);
  if (!positions.waiting.empty()) return std::nullopt;
  return try_take(layout, positions, n);
}

Ticket MachineLease::ask(const SnowflakeLayout& layout, std::uint64_t n,
                         std::unique_ptr<Waiter> waiter) {
  std::uint64_t ticket = 0;
  handle([&](After& after) {
    Positions& positions = positions_of(layout);
    WaitList& waiting = positions.waiting;
    if (stopping_) return after.answer(std::move(waiter), stops());
    if (waiting.size() == WaitList::kMost) {
      return after.answer(std::move(waiter), Error{Errc::unavailable, "too many requests wait"});
    }
    ticket = ++last_ticket_;
    waiting.add(ticket, n, std::move(waiter));
    positions.layout = layout;
    serve(after);
    if (!is_good()) next_try_ = {};
    after.wake = !waiting.empty();
  });
  return {weak_from_this(), ticket};
}

void MachineLease::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  for (auto& [layout, positions] : positions_) {
    if (!gone) gone = positions.waiting.remove(ticket);
  }
}

std::string MachineLease::why_waiting() const {
  return locked(mutex_, [&] {
    return is_good() ? "more ids are wanted than this machine number has in the time"
                     : why_none(failure_, number_, lost_).reason;
  });
}

// ---- for the store

std::optional<LeaseJob> MachineLease::begin() {
  std::optional<LeaseJob> job;
  handle([&](After& after) {
    if (working_) return;
    is_at_ceiling_ = false;  // who needs more still waits, unless the ceiling has been raised since
    serve(after);
    working_ = job = next_job();
  });
  return job;
}

void MachineLease::finish(const LeaseReply& reply) {
  using Kind = LeaseReply::Kind;
  handle([&](After& after) {
    const LeaseJob job = *std::exchange(working_, std::nullopt);
    const Time now = sources_.clock.monotonic();
    failure_.reset();
    if (reply.kind == Kind::held) {
      number_ = reply.number;
      ceiling_ = reply.ceiling;
      good_until_ = job.begun + job.spec.ttl - job.spec.ttl / 10;
      next_try_ = job.spec == spec_ ? job.begun + job.spec.ttl / 3 : Time();
      lost_.clear();
      if (job.kind == LeaseJob::Kind::claim) {
        used_ = reply.floor;
        for (auto& [layout, positions] : positions_) begin_behind_used(layout, positions);
      }
      return serve(after);
    }
    next_try_ = {};
    if (reply.kind == Kind::gone) {
      number_.reset();
      lost_ = "the lease on machine number " + std::to_string(job.number) +
              " is lost: another proxy has it, since this one did not renew it in time";
    }
    if (reply.kind != Kind::none && reply.kind != Kind::failed) return;
    failure_ = reply.error;
    failed_at_ = now;
    next_try_ = now + (number_ ? Time(kRenewAgain) : Time(kClaimAgain));
    if (!is_good()) refuse_all(positions_, why_none(failure_, number_, lost_), after);
  });
}

std::optional<MachineLease::Time> MachineLease::due() const {
  const std::scoped_lock lock(mutex_);
  std::optional<Time> due;
  if (is_leased() && !stopping_ && (number_ || users_ > 0)) due = next_try_;
  if (!is_good()) return due;
  for (const auto& [layout, positions] : positions_) {
    if (!positions.is_set || positions.waiting.empty()) continue;
    const auto last = positions.next + static_cast<std::int64_t>(positions.waiting.first()) - 1;
    const std::chrono::milliseconds at(layout.time_of(last >> layout.sequence_bits));
    if (failure_ && at.count() > ceiling_) continue;
    const Time in = std::max<Time>(at - sources_.clock.wall(), std::chrono::microseconds(100));
    due = std::min(due.value_or(Time::max()), sources_.clock.monotonic() + in);
  }
  return due;
}

void MachineLease::stop() {
  handle([&](After& after) {
    stopping_ = after.wake = true;
    refuse_all(positions_, stops(), after);
  });
}

void MachineLease::let_go() {
  handle([&](After& after) {
    --users_;
    after.wake = true;
  });
}

std::optional<std::int32_t> MachineLease::number() const {
  return locked(mutex_, [&] { return is_good() ? number_ : std::nullopt; });
}

std::optional<Error> MachineLease::failure() const {
  return locked(mutex_, [&]() -> std::optional<Error> {
    if (is_good() || (!failure_ && lost_.empty())) return std::nullopt;
    return why_none(failure_, number_, lost_);
  });
}

// ---- under the lock ----------------------------------------------------------------------------

bool MachineLease::is_good() const {
  return number_ && !stopping_ && sources_.clock.monotonic() < good_until_;
}

MachineLease::Positions& MachineLease::positions_of(const SnowflakeLayout& layout) {
  const auto [found, is_new] = positions_.try_emplace(layout);
  if (is_new) begin_behind_used(layout, found->second);
  return found->second;
}

void MachineLease::begin_behind_used(const SnowflakeLayout& layout, Positions& positions) {
  if (!has_made_ids_) others_used_ = *process_used_;
  positions.clock = layout.unit_at(std::max(used_, others_used_));
  positions.next = (positions.clock + 1) * (layout.sequence_mask() + 1);
  positions.is_set = false;
}

/// Nothing: not yet. While the clock is behind, nobody waits for it.
std::optional<Result<std::int64_t>> MachineLease::try_take(const SnowflakeLayout& layout,
                                                           Positions& positions, std::uint64_t n) {
  if (stopping_) return stops();
  if (!is_good()) {
    const bool has_failed = failure_ && sources_.clock.monotonic() - failed_at_ < kFailureLasts;
    return has_failed ? std::optional<Result<std::int64_t>>(why_none(failure_, number_, lost_))
                      : std::nullopt;
  }
  // The number of a layout with more bits: another one is about to be claimed.
  if (*number_ >> layout.machine_bits != 0) return std::nullopt;
  const std::int64_t now = layout.unit_at(wall_of(sources_.clock));
  positions.clock = std::max(positions.clock, now);
  const std::int64_t start = start_of(layout, positions, now, sources_.random);
  const std::int64_t end = start + static_cast<std::int64_t>(n);
  const std::int64_t last = (end - 1) >> layout.sequence_bits;
  if (start < 0) return Error{Errc::unavailable, "this host's clock is before the ids' epoch"};
  if (last > layout.last_unit()) {
    return Error{Errc::exhausted,
                 "the ids' time ended at " +
                     time_text(std::chrono::milliseconds(layout.time_of(layout.last_unit())))};
  }
  positions.is_set = !positions.waiting.empty();
  if (positions.is_set) positions.next = start;
  if (last > now && now == positions.clock) return std::nullopt;
  if (layout.time_of(last) > ceiling_) {
    is_at_ceiling_ = true;
    return std::nullopt;
  }
  positions.next = end;
  has_made_ids_ = true;
  used_ = std::max(used_, layout.time_of(last));
  for (std::int64_t before = *process_used_;
       before < used_ && !process_used_->compare_exchange_weak(before, used_);) {
  }
  return layout.id(start, *number_);
}

void MachineLease::serve(After& after) {
  for (auto& [key, positions] : positions_) {
    WaitList& waiting = positions.waiting;
    while (!waiting.empty()) {
      const std::uint64_t n = waiting.first();
      const auto taken = try_take(positions.layout, positions, n);
      if (!taken) break;
      if (!*taken) {
        waiting.answer_first(taken->error(), after);
      } else if (waiting.first_takes()) {
        waiting.answer_first(Grant(nullptr, {{**taken, n}}), after);
      } else {
        positions.next -= static_cast<std::int64_t>(n);
        waiting.answer_first(Grant(), after);
      }
    }
  }
}

std::optional<LeaseJob> MachineLease::next_job() {
  using Kind = LeaseJob::Kind;
  if (!is_leased()) return std::nullopt;
  const Time now = sources_.clock.monotonic();
  const std::int64_t wall = wall_of(sources_.clock);
  LeaseJob job{Kind::claim,         spec_,
               number_.value_or(0), std::max(wall, others_used_) + spec_.ttl.count(),
               wall + kMostAhead,   now};
  const bool is_wanted = users_ > 0 && !stopping_;
  if (!number_) return is_wanted && now >= next_try_ ? std::optional(job) : std::nullopt;
  // The clock went back, and time that was borrowed since has come to its end.
  const bool is_stuck = is_at_ceiling_ && job.ceiling <= ceiling_;
  if (is_stuck) {
    lost_ = "the lease on machine number " + std::to_string(*number_) +
            " is lost: its ids are ahead of this host's clock, up to " +
            time_text(std::chrono::milliseconds(ceiling_));
  }
  if (!is_wanted || is_stuck || !spec_.may_have(*number_)) {
    job.kind = Kind::release;
    job.ceiling = used_;
    number_.reset();
    return job;
  }
  if (now < next_try_ && (failure_ || !is_at_ceiling_)) return std::nullopt;
  job.kind = Kind::renew;
  return job;
}

}  // namespace idproxy::ids
