#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "idproxy/ids/block_cache.hpp"
#include "ids/block_cache_lock.hpp"

// What the store uses. What strategies use: block_cache.cpp.
namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;

}  // namespace

std::string handed_out_up_to(std::int64_t max) {
  return "all numbers up to max, " + std::to_string(max) + ", have been handed out";
}

std::optional<CounterJob> BlockCache::begin() {
  const auto lock = locked(mutex_);
  woken_ = false;
  if (out_) return std::nullopt;
  const Time now = clock_.monotonic();
  note_demand(now);
  out_ = next_job(now);
  if (!out_) watch_idle(now);
  rearm();
  return out_;
}

std::optional<CounterJob> BlockCache::next_job(Time now) {
  if (stopped_) {
    if (const auto unused = returnable()) return give_back(*unused);
    return std::nullopt;
  }
  const bool demand = !waiting_.empty() || now - demand_at_ <= kDemandLasts;
  const bool fetches_ahead = !failed_;
  if (wants_refill() && may_ask(now) && (demand || fetches_ahead)) return refill(now);
  // Nobody wants numbers any more: the next one who does starts it again.
  if (retry_at_ && now >= *retry_at_) retry_at_.reset();
  if (!lies_idle(now)) return std::nullopt;
  return give_back(*returnable());
}

/// While the store is down, who would wait is not there to be seen.
bool BlockCache::wants_refill() const {
  return heal_ || down_ || !waiting_.empty() || (!resting_ && free_.count() < pace_.threshold());
}

bool BlockCache::may_ask(Time now) const {
  if (exhausted_until_ && now < *exhausted_until_) return false;
  if (!retry_at_ || now >= *retry_at_) return true;
  return !waiting_.empty() && !down_;  // what failed was only fetched ahead
}

CounterJob BlockCache::refill(Time now) {
  pace_.started(now, taken_);
  CounterJob job{heal_ ? CounterJob::Kind::heal : CounterJob::Kind::allocate};
  job.count = pace_.size();
  if (needed_ > free_.count()) job.count = std::max(job.count, needed_ - free_.count());
  job.lost = lost_;
  if (!end_) return job;
  job.beyond = static_cast<std::int64_t>(
      std::clamp<Int128>(*end_ - steps_.step(), Int64::min(), Int64::max()));
  const std::uint64_t left = steps_.count(*end_, spec_.max);
  if (left > 0) job.count = std::min(job.count, left);
  return job;
}

void BlockCache::request_job(Time now, After& after) {
  if (out_ || woken_ || stopped_ || !may_ask(now)) return;
  woken_ = true;
  trigger_ = 0;
  after.wake = true;
}

/// The store is woken by the rest going down, unless it comes anyway or has no use for that.
void BlockCache::rearm() {
  const bool quiet =
      out_ || woken_ || stopped_ || resting_ || heal_ || retry_at_ || exhausted_until_;
  trigger_ = quiet ? 0 : pace_.threshold();
}

void BlockCache::note_demand(Time now) {
  if (taken_ != seen_taken_ || !waiting_.empty()) demand_at_ = now;
  seen_taken_ = taken_;
}

std::optional<Range> BlockCache::returnable() const {
  if (!spec_.block.give_back || !end_ || others_went_on_) return std::nullopt;
  const auto last = free_.last();
  if (!last || steps_.end(*last) != *usable_end_) return std::nullopt;
  return last;
}

/// take() does not look at the clock: idle is what nobody has taken from between two looks.
void BlockCache::watch_idle(Time now) {
  constexpr int kLooks = 8;
  if (stopped_ || !returnable()) {
    idle_check_.reset();
    return;
  }
  if (!idle_check_ || taken_ != idle_taken_) {
    idle_since_ = now;
    idle_taken_ = taken_;
  }
  const Time idle = spec_.block.idle;
  idle_check_ = std::min(now + std::max<Time>(idle / kLooks, 1ms), idle_since_ + idle);
}

bool BlockCache::lies_idle(Time now) {
  return idle_check_ && taken_ == idle_taken_ && now - idle_since_ >= spec_.block.idle &&
         returnable().has_value();
}

CounterJob BlockCache::give_back(Range unused) {
  free_.drop_last();
  idle_check_.reset();
  // Up to the counter's value, which lies beyond max if the store went too far.
  const auto count = static_cast<std::uint64_t>((*end_ - unused.first) / steps_.step());
  CounterJob job{CounterJob::Kind::give_back, count};
  job.unused = {unused.first, count};
  return job;
}

Outcome BlockCache::finish(CounterReply reply) {
  using Kind = CounterReply::Kind;
  Outcome outcome = Outcome::used;
  After after;
  {
    const auto lock = locked(mutex_);
    if (!out_) return Outcome::dropped;
    const Time now = clock_.monotonic();
    const CounterJob job = *std::exchange(out_, std::nullopt);
    note_demand(now);
    if (job.kind == CounterJob::Kind::give_back) {
      gave_back(job, reply.kind);
      serve(after);
    } else if (reply.kind == Kind::allocated) {
      outcome = allocated(job, reply.range, now, after);
    } else if (reply.kind == Kind::not_healed) {
      not_healed(job, std::move(reply.reason), now, after);
    } else if (reply.kind == Kind::exhausted) {
      answers_again();
      exhausted(std::move(reply.reason), now, after);
    } else {
      failed(std::move(reply.reason), now, after);
    }
    watch_idle(now);
    rearm();
    if (wants_refill()) request_job(now, after);
  }
  after.run(*this);
  return outcome;
}

Outcome BlockCache::allocated(const CounterJob& job, Range range, Time now, After& after) {
  const bool healed = job.kind == CounterJob::Kind::heal;
  const bool behind = end_ && steps_.before(range.first, *end_);
  if (range.count == 0 || (healed && behind)) {
    failed("the store gave numbers that had been handed out before", now, after);
    return Outcome::dropped;
  }
  answers_again();
  if (behind) return went_back(now, after);
  if (!end_ || healed) valid_from_ = range.first;
  end_ = steps_.end(range);
  usable_end_ = end_;
  others_went_on_ = false;
  if (healed) {
    heal_ = false;
    lost_ = false;
    aside_.clear();
  }
  pace_.succeeded(now);
  if (heal_) {  // decided upon while this job was out: the counter had not been raised yet
    valid_from_ = *end_;
    return Outcome::dropped;
  }
  use(range, now, after);
  return Outcome::used;
}

void BlockCache::use(Range range, Time now, After& after) {
  resting_ = false;
  range.count = std::min(range.count, steps_.count(range.first, spec_.max));
  usable_end_ = steps_.end(range);
  if (range.count > 0) free_.put({range});
  serve(after);
  if (steps_.count(*end_, spec_.max) > 0) return;
  exhausted(handed_out_up_to(spec_.max), now, after);
}

Outcome BlockCache::went_back(Time now, After& after) {
  decide_to_heal();
  aside_.clear();
  lost_ = spec_.heal.mode != CounterSpec::Heal::Mode::off;
  heal_ = lost_;
  if (!lost_) {
    exhausted("the counter has gone back behind numbers that were handed out, and heal.mode is off",
              now, after);
  }
  return Outcome::went_back;
}

/// What was not given back is lost after a failure: nobody knows whether the counter was set back.
void BlockCache::gave_back(const CounterJob& job, CounterReply::Kind kind) {
  if (kind == CounterReply::Kind::kept || kind == CounterReply::Kind::not_sent) {
    others_went_on_ = kind == CounterReply::Kind::kept || stopped_;
    const std::uint64_t count = steps_.count(job.unused.first, spec_.max);
    const Range unused{job.unused.first, std::min(job.unused.count, count)};
    (heal_ ? aside_ : free_).put({unused});
    return;
  }
  // Perhaps the counter stands there now, and that is no step back then.
  end_ = job.unused.first;
  usable_end_ = end_;
  if (steps_.before(*end_, valid_from_)) valid_from_ = *end_;
  others_went_on_ = kind != CounterReply::Kind::given_back;
  resting_ = true;
}

void BlockCache::exhausted(std::string reason, Time now, After& after) {
  exhausted_until_ = now + kExhaustedFor;
  reason_ = std::move(reason);
  refused_ = refused_ || !waiting_.empty();
  serve_or_refuse({Errc::exhausted, reason_}, after);
}

void BlockCache::failed(std::string reason, Time now, After& after) {
  failed_ = true;
  retry_at_ = now + kRetryAfter;
  failed_at_ = now;
  if (waiting_.empty()) return;
  down_ = true;
  exhausted_until_.reset();  // whether it still is will be seen
  refused_ = false;
  reason_ = std::move(reason);
  if (spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait) return;
  serve_or_refuse({Errc::unavailable, reason_}, after);
}

void BlockCache::answers_again() {
  down_ = false;
  failed_ = false;
  retry_at_.reset();
  exhausted_until_.reset();
  refused_ = false;
}

/// Numbers of before are handed out no more, unless there is no heal after all.
void BlockCache::decide_to_heal() {
  heal_ = true;
  resting_ = false;
  in_a_row_ = 0;
  aside_ = std::exchange(free_, NumberRanges(steps_));
  aside_valid_from_ = valid_from_;
  if (end_) valid_from_ = *end_;
}

/// The counter goes on: what collides is cured document by document.
void BlockCache::not_healed(const CounterJob& job, std::string reason, Time now, After& after) {
  answers_again();
  if (job.lost) return exhausted(std::move(reason), now, after);
  heal_not_before_ = now + kNoHealFor;
  put_back_aside();
  serve(after);
}

void BlockCache::put_back_aside() {
  heal_ = false;
  free_ = std::exchange(aside_, NumberRanges(steps_));
  valid_from_ = aside_valid_from_;
}

std::optional<std::chrono::nanoseconds> BlockCache::due() const {
  const auto lock = locked(mutex_);
  if (out_ || stopped_) return std::nullopt;
  if (!retry_at_ || !idle_check_) return retry_at_ ? retry_at_ : idle_check_;
  return std::min(*retry_at_, *idle_check_);
}

void BlockCache::stop() {
  After after;
  {
    const auto lock = locked(mutex_);
    stopped_ = true;
    trigger_ = 0;
    if (heal_ && !lost_) put_back_aside();
    serve_or_refuse({Errc::unavailable, "the proxy ends"}, after);
  }
  after.run(*this);
}

void BlockCache::change(const CounterSpec& spec) {
  const auto lock = locked(mutex_);
  if (spec_.block != spec.block) pace_.change(spec.block);
  spec_ = spec;
  clip(free_);
  clip(aside_);
  take_what_was_beyond_max();
  exhausted_until_.reset();
  refused_ = false;
  heal_not_before_.reset();
  rearm();
}

void BlockCache::ask_again() {
  const auto lock = locked(mutex_);
  exhausted_until_.reset();
  refused_ = false;
  rearm();
}

/// Takes out what lies beyond max; it can only be at the end.
void BlockCache::clip(NumberRanges& numbers) {
  while (const auto last = numbers.last()) {
    const std::uint64_t count = std::min(last->count, steps_.count(last->first, spec_.max));
    if (count == last->count) return;
    const Range usable{last->first, count};
    if (steps_.end(*last) == usable_end_) usable_end_ = steps_.end(usable);
    numbers.drop_last();
    if (count > 0) numbers.put({usable});
  }
}

bool BlockCache::forgettable() const {
  const auto lock = locked(mutex_);
  return !end_ && waiting_.empty() && !out_;
}

bool BlockCache::is_new() const {
  const auto lock = locked(mutex_);
  return !end_;
}

bool BlockCache::is_empty() const {
  const auto lock = locked(mutex_);
  return free_.count() == 0 && waiting_.empty() && !out_ && !heal_ && !woken_;
}

/// Numbers up to end_ are ours, whatever the old max was.
void BlockCache::take_what_was_beyond_max() {
  if (!end_ || !steps_.before(*usable_end_, *end_)) return;
  const auto first = static_cast<std::int64_t>(*usable_end_);
  const auto ours = static_cast<std::uint64_t>((*end_ - first) / steps_.step());
  const Range usable{first, std::min(ours, steps_.count(first, spec_.max))};
  if (usable.count == 0) return;
  (heal_ ? aside_ : free_).put({usable});
  usable_end_ = steps_.end(usable);
}

std::optional<std::string> BlockCache::refusal() const {
  const auto lock = locked(mutex_);
  return refused_ ? std::optional(reason_) : std::nullopt;
}

BlockCache::Figures BlockCache::figures() const {
  const auto lock = locked(mutex_);
  const bool exhausted = free_.count() == 0 && exhausted_until_.has_value();
  return {.held = free_.count(),
          .block_size = pace_.size(),
          .waiting = waiting_.size(),
          .exhausted = exhausted,
          .reason = exhausted ? reason_ : std::string()};
}

}  // namespace idproxy::ids
