#include "idproxy/ids/block_cache.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;

bool is_auto(const CounterSpec& spec) {
  return !spec.block.size;
}

bool heals(const CounterSpec& spec) {
  return spec.heal.mode != CounterSpec::Heal::Mode::off;
}

}  // namespace

BlockCache::BlockCache(const CounterSpec& spec, const Clock& clock, std::function<void()> wake)
    : clock_(clock),
      wake_(std::move(wake)),
      spec_(spec),
      pace_(spec_.block),
      held_(spec_.step, spec_.max),
      heal_(spec_.heal.at_start && heals(spec_) ? Heal::due : Heal::none) {
  threshold_ = threshold();
}

template <class Event>
void BlockCache::handle(const Event& event) {
  After after;
  {
    const auto lock = locked(mutex_);
    event(clock_.monotonic(), after);
    threshold_ = threshold();
    assert(held_.check());
  }
  after.run(wake_);
}

// ---- requests ----------------------------------------------------------------------------------

bool BlockCache::has(std::uint64_t n) const {
  return n <= held_.count() && waiting_.empty() && !stopped_;
}

Draw BlockCache::take(std::uint64_t n, std::vector<Range>& out) {
  auto lock = locked(mutex_);
  if (has(n)) [[likely]] {
    held_.take(n, out);
    if (held_.count() >= threshold_) [[likely]]
      return {};
    state_ = State::woken;
    threshold_ = 0;
    lock.unlock();
    wake_();
    return {};
  }
  if (n == 0) return {};
  After after;
  auto refusal = why_useless(clock_.monotonic(), after);
  threshold_ = threshold();
  lock.unlock();
  after.run(wake_);
  return refusal ? Draw(*std::move(refusal)) : Draw::need();
}

Ticket BlockCache::ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) {
  std::uint64_t ticket = 0;
  handle([&](Time now, After& after) {
    if (has(n)) {
      const bool takes = waiter->takes();
      return after.answer(std::move(waiter), grant(n, takes));
    }
    if (auto refusal = why_useless(now, after)) {
      return after.answer(std::move(waiter), *std::move(refusal));
    }
    ticket = waiting_.add(n, std::move(waiter), after);
    if (ticket != 0) request(now, after);
  });
  return {weak_from_this(), ticket};
}

void BlockCache::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  handle([&](Time /*now*/, After& after) {
    gone = waiting_.remove(ticket);
    if (gone) serve(after);  // the requests behind it may need fewer numbers
  });
}

/// For a request for more numbers than are held: the refusal if it is useless to wait.
std::optional<Error> BlockCache::why_useless(Time now, After& after) {
  demand_at_ = now;
  if (stopped_) return Error{Errc::unavailable, "the proxy ends"};
  if (store_ == Store::exhausted && now < exhausted_until_) {
    after.wake = !std::exchange(refused_, true);
    return why_;
  }
  const bool waits = spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait;
  if (store_ != Store::down || waits || now - failed_at_ >= kFailureLasts) return std::nullopt;
  request(now, after);
  return why_;
}

/// Empty if the waiter does not take the numbers.
Grant BlockCache::grant(std::uint64_t n, bool takes) {
  if (!takes) return {};
  std::vector<Range> ranges;
  held_.take(n, ranges);
  return {shared_from_this(), std::move(ranges)};
}

void BlockCache::serve(After& after) {
  while (!waiting_.empty() && waiting_.first() <= held_.count()) {
    waiting_.answer_first(grant(waiting_.first(), waiting_.first_takes()), after);
  }
}

/// Answers every waiting request: with numbers if enough are held.
void BlockCache::refuse_all(const Error& error, After& after) {
  const auto answer = [&](std::uint64_t n, bool takes) {
    const bool enough = n <= held_.count() && !stopped_;
    return enough ? Result<Grant>(grant(n, takes)) : Result<Grant>(error);
  };
  waiting_.answer_all(answer, after);
}

void BlockCache::take_back(const std::vector<Range>& ranges) {
  std::vector<Range> sorted = ranges;
  std::ranges::sort(sorted, [this](const Range& a, const Range& b) {
    return held_.steps().before(a.first, b.first);
  });
  handle([&](Time now, After& after) {
    if (!held_.end()) return;
    held_.put_back(std::move(sorted));
    serve(after);
    // There are numbers that may have to go back, but nobody will look: begin() schedules that.
    const bool is_scheduled = is_auto(spec_) ? over_at_.has_value() : idle_check_.has_value();
    const bool may_go_back = is_auto(spec_) ? held_.count() > 0 : held_.unused_end().has_value();
    if (may_go_back && !is_scheduled) request(now, after);
  });
}

/// Starts a heal after as many in a row as the rule says, or at once. Those from before the last
/// heal do not count.
void BlockCache::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  handle([&](Time now, After& after) {
    if (!heals(spec_) || heal_ != Heal::none || !held_.end()) return;
    const auto valid = static_cast<std::uint64_t>(std::ranges::count_if(
        numbers, [this](std::int64_t number) { return held_.is_valid(number); }));
    collisions_in_a_row_ += valid;
    if (valid == 0 || (!heal_at_once && collisions_in_a_row_ < spec_.heal.after)) return;
    if (heal_not_before_ && now < *heal_not_before_) return;
    decide_to_heal(Heal::due);
    held_.set_aside();
    demand_at_ = now;
    request(now, after);
  });
}

void BlockCache::let_go() {
  handle([&](Time now, After& after) {
    if (held_.count() == 0) return;
    let_go_ = true;
    request(now, after);
  });
}

// ---- jobs --------------------------------------------------------------------------------------

void BlockCache::request(Time now, After& after) {
  if (state_ != State::idle || stopped_ || !may_ask(now)) return;
  state_ = State::woken;
  after.wake = true;
}

/// While the store is down, requests may be refused instead of waiting, so that those that wait do
/// not show the demand.
bool BlockCache::wants_refill() const {
  const bool low = !resting_ && held_.count() < pace_.threshold();
  return heal_ != Heal::none || store_ == Store::down || !waiting_.empty() || low;
}

bool BlockCache::may_ask(Time now) const {
  if (store_ == Store::exhausted && now < exhausted_until_) return false;
  if (!retry_at_ || now >= *retry_at_) return true;
  // Otherwise only fetching ahead has failed.
  return !waiting_.empty() && store_ != Store::down && store_ != Store::prepares;
}

std::optional<CounterJob> BlockCache::begin() {
  std::optional<CounterJob> job;
  handle([&](Time now, After& /*after*/) {
    if (state_ == State::asking) return;
    note_demand(now);
    job = next_job(now);
    if (older_over_at_ && now >= *older_over_at_) {
      older_over_at_.reset();
      held_.lose_older();
    }
    state_ = job ? State::asking : State::idle;
    if (!job) return schedule_return(now);
    changed_ = false;
    job_ = *job;
    if (job->kind == CounterJob::Kind::heal) job->held = held_.aside();
  });
  return job;
}

std::optional<CounterJob> BlockCache::next_job(Time now) {
  if (stopped_) return give_back();
  const bool goes = std::exchange(let_go_, false) && waiting_.empty() && heal_ == Heal::none;
  if (goes) return give_back();
  const bool demand = !waiting_.empty() || now - demand_at_ <= kDemandLasts;
  const bool ahead = fetches_ahead_ && held_.end();  // a counter that nobody has used is left alone
  if (wants_refill() && may_ask(now) && (demand || ahead)) return refill(now);
  if (suspect_ && may_ask(now)) {
    suspect_ = false;
    return CounterJob{CounterJob::Kind::confirm};
  }
  // There is no demand any more: the next request starts the retries again.
  if (retry_at_ && now >= *retry_at_) retry_at_.reset();
  return is_over(now) ? give_back() : std::nullopt;
}

/// Only numbers up to the counter's value can go back. All others lie before numbers that somebody
/// else got, and would make the order worse the longer they are kept.
std::optional<CounterJob> BlockCache::give_back() {
  over_at_.reset();
  older_over_at_.reset();
  idle_check_.reset();
  const auto unused = held_.take_unused_end();
  if (!unused) {
    resting_ = true;
    return std::nullopt;
  }
  ++gives_back_;
  CounterJob job{CounterJob::Kind::give_back, unused->count};
  job.unused = *unused;
  return job;
}

CounterJob BlockCache::refill(Time now) {
  pace_.started(now, held_.used());
  suspect_ = false;  // an allocation shows where the counter stands
  CounterJob job{heal_ == Heal::none ? CounterJob::Kind::allocate : CounterJob::Kind::heal};
  job.count = pace_.size();
  const std::uint64_t needed = waiting_.needed();
  if (needed > held_.count()) job.count = std::max(job.count, needed - held_.count());
  job.lost = heal_ == Heal::due_after_loss;
  if (!held_.end()) return job;
  job.beyond = static_cast<std::int64_t>(
      std::clamp<Int128>(*held_.end() - step(), Int64::min(), Int64::max()));
  const std::uint64_t left = held_.beyond();
  if (left > 0) job.count = std::min(job.count, left);
  return job;
}

void BlockCache::note_demand(Time now) {
  if (held_.taken() != seen_taken_ || !waiting_.empty()) demand_at_ = now;
  seen_taken_ = held_.taken();
  pace_.note(now, held_.used());
}

/// Says when to look whether numbers must go back.
void BlockCache::schedule_return(Time now) {
  constexpr int kLooks = 8;
  const bool by_age = is_auto(spec_) && !stopped_ && held_.count() > 0;
  if (!by_age) {
    over_at_.reset();
    older_over_at_.reset();
  } else if (!over_at_) {
    over_at_ = now + RefillPace::kBlockLasts;
  }
  // take() does not read the clock: numbers are idle if none is taken between two checks.
  if (is_auto(spec_) || stopped_ || !held_.unused_end()) return idle_check_.reset();
  if (!idle_check_ || held_.taken() != idle_taken_) {
    idle_since_ = now;
    idle_taken_ = held_.taken();
  }
  const Time idle = spec_.block.idle;
  idle_check_ = std::min(now + std::max<Time>(idle / kLooks, 1ms), idle_since_ + idle);
}

/// True if the held numbers must go back.
bool BlockCache::is_over(Time now) const {
  if (is_auto(spec_)) return over_at_ && now >= *over_at_ && held_.count() > 0;
  return idle_check_ && held_.taken() == idle_taken_ && now - idle_since_ >= spec_.block.idle &&
         held_.unused_end();
}

/// 0 if begin() will come anyway, or has no use for it.
std::uint64_t BlockCache::threshold() const {
  const bool quiet = state_ != State::idle || stopped_ || resting_ || heal_ != Heal::none ||
                     retry_at_ || store_ == Store::exhausted;
  return quiet ? 0 : pace_.threshold();
}

std::optional<BlockCache::Time> BlockCache::due() const {
  const auto lock = locked(mutex_);
  if (state_ == State::asking || stopped_) return std::nullopt;
  std::optional<Time> first;
  for (const auto& at : {retry_at_, idle_check_, over_at_, older_over_at_}) {
    if (at && (!first || *at < *first)) first = at;
  }
  return first;
}

// ---- results of jobs ---------------------------------------------------------------------------

BlockOutcome BlockCache::finish(CounterReply reply) {
  BlockOutcome outcome = BlockOutcome::dropped;
  handle([&](Time now, After& after) {
    if (state_ != State::asking) return;
    state_ = State::idle;
    note_demand(now);
    outcome = use(reply, now, after);
    serve(after);
    pace_.note(now, held_.used());
    schedule_return(now);
    if (wants_refill() || suspect_ || let_go_) request(now, after);
  });
  return outcome;
}

BlockOutcome BlockCache::use(CounterReply& reply, Time now, After& after) {
  using Kind = CounterReply::Kind;
  if (job_.kind == CounterJob::Kind::confirm) return confirmed(reply, now, after);
  if (job_.kind == CounterJob::Kind::give_back) {
    gave_back(reply.kind);
  } else if (reply.kind == Kind::allocated) {
    return allocated(reply.range, now, after);
  } else if (reply.kind == Kind::kept) {
    answers_again();
    heal_ = Heal::none;
    held_.restore(reply.taken);
  } else if (reply.kind == Kind::not_healed) {
    answers_again();
    if (job_.lost) {
      exhaust(std::move(reply.why), now, after);
    } else {  // inserts replace duplicates document by document
      heal_not_before_ = now + kNoHealFor;
      heal_ = Heal::none;
      held_.restore();
    }
  } else if (reply.kind == Kind::exhausted) {
    answers_again();
    // With the changed rule it may have numbers: ask again.
    if (!changed_) exhaust(std::move(reply.why), now, after);
  } else if (reply.kind == Kind::pending) {  // requests go on waiting
    answers_again();
    store_ = Store::prepares;
    why_ = std::move(reply.why);
    fetches_ahead_ = false;
    retry_at_ = now + kNotYetFor;
  } else {
    failed(std::move(reply.why), now, after);
  }
  return BlockOutcome::used;
}

BlockOutcome BlockCache::allocated(Range range, Time now, After& after) {
  const bool healed = job_.kind == CounterJob::Kind::heal;
  const bool behind = held_.end() && held_.steps().before(range.first, *held_.end());
  if (range.count == 0 || (healed && behind)) {
    failed({Errc::unavailable, "the store gave numbers that had been handed out before"}, now,
           after);
    return BlockOutcome::dropped;
  }
  answers_again();
  if (behind) return went_back(now, after);
  if (healed) heal_ = Heal::none;
  pace_.succeeded(now, range.count);
  if (heal_ != Heal::none) {
    // The heal was decided while this job was under way: what becomes of the held numbers becomes
    // of these, too.
    held_.add(range);
    return BlockOutcome::used;
  }
  resting_ = false;
  older_over_at_ = held_.count() > 0 ? over_at_ : std::nullopt;
  over_at_ = now + RefillPace::kBlockLasts;
  if (healed) held_.begin_at(range.first);
  held_.add(range);
  if (held_.beyond() == 0) exhaust(handed_out_up_to(spec_.max), now, after);
  return BlockOutcome::used;
}

BlockOutcome BlockCache::went_back(Time now, After& after) {
  held_.drop();
  decide_to_heal(heals(spec_) ? Heal::due_after_loss : Heal::none);
  if (heals(spec_)) {
    held_.set_aside();
  } else {
    exhaust({Errc::exhausted,
             "the counter has gone back behind numbers that were handed out, and heal.mode is off"},
            now, after);
  }
  return BlockOutcome::went_back;
}

/// After a failure the numbers are gone: the counter may or may not have been set back.
void BlockCache::gave_back(CounterReply::Kind kind) {
  using Kind = CounterReply::Kind;
  if (kind == Kind::not_sent && !stopped_) return held_.keep(job_.unused);
  resting_ = true;
  if (kind != Kind::not_sent && kind != Kind::overtaken) return held_.cut(job_.unused.first);
  held_.lose(job_.unused);
}

/// No other job was under way: what this process knows of the counter has not changed since the
/// store was asked.
BlockOutcome BlockCache::confirmed(CounterReply& reply, Time now, After& after) {
  using Kind = CounterReply::Kind;
  if (reply.kind == Kind::failed) {
    failed(std::move(reply.why), now, after);
    return BlockOutcome::used;
  }
  answers_again();
  const bool stands = reply.kind == Kind::stands && held_.end();
  const bool is_gone =
      reply.kind == Kind::gone && held_.end() && heals(spec_);  // else the next job makes it
  const bool behind = is_gone || (stands && held_.steps().before(reply.range.first, *held_.end()));
  return behind ? went_back(now, after) : BlockOutcome::used;
}

void BlockCache::exhaust(Error why, Time now, After& after) {
  store_ = Store::exhausted;
  exhausted_until_ = now + kExhaustedFor;
  why_ = std::move(why);
  refused_ = refused_ || waiting_.needed() > held_.count();
  refuse_all(why_, after);
}

void BlockCache::failed(Error why, Time now, After& after) {
  fetches_ahead_ = false;
  retry_at_ = now + kRetryAfter;
  failed_at_ = now;
  if (waiting_.empty()) return;
  store_ = Store::down;  // if it was exhausted, the next answer shows whether it still is
  refused_ = false;
  why_ = std::move(why);
  if (spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait) return;
  refuse_all(why_, after);
}

void BlockCache::answers_again() {
  store_ = Store::answers;
  fetches_ahead_ = true;
  retry_at_.reset();
  refused_ = false;
}

void BlockCache::decide_to_heal(Heal heal) {
  heal_ = heal;
  resting_ = false;
  collisions_in_a_row_ = 0;
}

// ---- watching ----------------------------------------------------------------------------------

/// Nothing while a heal is due or numbers are on their way back: then the counter may rightly stand
/// behind.
std::optional<WatchMark> BlockCache::watch_mark() {
  const auto lock = locked(mutex_);
  const Time now = clock_.monotonic();
  note_demand(now);
  const bool gives_back = state_ == State::asking && job_.kind == CounterJob::Kind::give_back;
  const bool in_use = held_.count() > 0 || now - demand_at_ <= kWatchedFor;
  const bool says_something = !stopped_ && !gives_back && heal_ == Heal::none && held_.end();
  if (!heals(spec_) || !in_use || !says_something) return std::nullopt;
  return WatchMark{*held_.end(), gives_back_};
}

void BlockCache::watched(std::optional<std::int64_t> next, const WatchMark& mark) {
  handle([&](Time now, After& after) {
    const bool is_valid = !stopped_ && heal_ == Heal::none && mark.gives_back == gives_back_;
    if (!is_valid || (next && !held_.steps().before(*next, mark.end))) return;
    suspect_ = true;
    request(now, after);
  });
}

// ---- the process -------------------------------------------------------------------------------

void BlockCache::stop() {
  handle([&](Time /*now*/, After& after) {
    stopped_ = true;
    if (heal_ == Heal::due) {
      heal_ = Heal::none;
      held_.restore();
    }
    refuse_all({Errc::unavailable, "the proxy ends"}, after);
  });
}

void BlockCache::change(const CounterSpec& spec) {
  const auto lock = locked(mutex_);
  if (spec_.block != spec.block) pace_.change(spec.block);
  spec_ = spec;
  held_.change_max(spec.max);
  heal_not_before_.reset();
  changed_ = true;
  if (store_ == Store::exhausted) store_ = Store::answers;
  refused_ = false;
  threshold_ = threshold();
}

void BlockCache::ask_again() {
  const auto lock = locked(mutex_);
  if (store_ == Store::exhausted) store_ = Store::answers;
  refused_ = false;
  threshold_ = threshold();
}

// ---- state -------------------------------------------------------------------------------------

std::vector<Range> BlockCache::lose_all() {
  const auto lock = locked(mutex_);
  held_.lose_all();
  return held_.take_lost();
}

CounterStatistics BlockCache::statistics() const {
  const auto lock = locked(mutex_);
  const std::uint64_t held = held_.count();
  const std::uint64_t beyond = held_.beyond();
  const bool exhausted = held == 0 && store_ == Store::exhausted;
  CounterStatistics result{.held = held,
                           .next = held_.next(),
                           .left = std::nullopt,
                           .block_size = pace_.size(),
                           .waiting = waiting_.size(),
                           .exhausted = exhausted,
                           .why = exhausted ? why_ : Error()};
  if (!result.next && beyond > 0) result.next = static_cast<std::int64_t>(*held_.end());
  // There are 2^64 int64 numbers, one more than fits.
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  if (held_.end()) result.left = held + std::min(beyond, kMost - held);
  return result;
}

}  // namespace idproxy::ids
