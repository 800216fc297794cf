#include "idproxy/ids/block_supply.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;

}  // namespace

BlockSupply::BlockSupply(const CounterSpec& spec, HeldNumbers& stock)
    : stock_(stock),
      steps_(spec.step),
      spec_(spec),
      pace_(spec_.block),
      heal_(spec_.heal.at_start && spec_.heal.mode != CounterSpec::Heal::Mode::off ? Heal::due
                                                                                   : Heal::none) {}

// ---- events of the stock and of inserts --------------------------------------------------------

SupplyAction BlockSupply::wanted(const Moment& at) {
  SupplyAction action;
  demand_at_ = at.now;
  if (stopped_) {
    action.refusal = {Errc::unavailable, "the proxy ends"};
  } else if (store_ == Store::exhausted && at.now < exhausted_until_) {
    action.wake = !std::exchange(refused_, true);
    action.refusal = {Errc::exhausted, reason_};
  } else if (refuses(at.now)) {
    request(at, action);
    action.refusal = {Errc::unavailable, reason_};
  }
  return action;
}

/// True if requests must fail at once because the store is down.
bool BlockSupply::refuses(Time now) const {
  const bool waits = spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait;
  return store_ == Store::down && !waits && now - failed_at_ < kFailureLasts;
}

SupplyAction BlockSupply::queued(const Moment& at) {
  SupplyAction action;
  request(at, action);
  return action;
}

SupplyAction BlockSupply::put_back(const Moment& at) {
  SupplyAction action;
  // There are numbers that may have to go back, but nobody will look: begin() schedules that.
  const bool is_scheduled = is_auto() ? over_at_.has_value() : idle_check_.has_value();
  const bool may_go_back = is_auto() ? stock_.count() > 0 : stock_.unused_end().has_value();
  if (may_go_back && !is_scheduled) request(at, action);
  return action;
}

SupplyAction BlockSupply::settled(const Moment& at) {
  SupplyAction action;
  pace_.note(at.now, stock_.used());
  schedule_return(at);
  if (has_work(at)) request(at, action);
  return action;
}

SupplyAction BlockSupply::collided(std::uint64_t numbers, bool heal_at_once, const Moment& at) {
  SupplyAction action;
  const bool off = spec_.heal.mode == CounterSpec::Heal::Mode::off;
  if (off || heal_ != Heal::none || !stock_.end()) return action;
  collisions_in_a_row_ += numbers;
  if (numbers == 0 || (!heal_at_once && collisions_in_a_row_ < spec_.heal.after)) return action;
  if (heal_not_before_ && at.now < *heal_not_before_) return action;
  decide_to_heal(Heal::due);
  stock_.set_aside();
  demand_at_ = at.now;
  request(at, action);
  return action;
}

SupplyAction BlockSupply::let_go(const Moment& at) {
  SupplyAction action;
  if (stock_.count() == 0) return action;
  let_go_ = true;
  request(at, action);
  return action;
}

void BlockSupply::request(const Moment& at, SupplyAction& action) {
  if (state_ != State::idle || stopped_ || !may_ask(at)) return;
  state_ = State::woken;
  action.wake = true;
}

/// While the store is down, requests may be refused instead of waiting, so `needed` does not show
/// the demand.
bool BlockSupply::wants_refill(const Moment& at) const {
  const bool low = !resting_ && stock_.count() < pace_.threshold();
  return heal_ != Heal::none || store_ == Store::down || at.needed > 0 || low;
}

bool BlockSupply::has_work(const Moment& at) const {
  return wants_refill(at) || suspect_ || let_go_;
}

bool BlockSupply::may_ask(const Moment& at) const {
  if (store_ == Store::exhausted && at.now < exhausted_until_) return false;
  if (!retry_at_ || at.now >= *retry_at_) return true;
  // Otherwise only fetching ahead has failed.
  return at.needed > 0 && store_ != Store::down && store_ != Store::prepares;
}

// ---- jobs --------------------------------------------------------------------------------------

SupplyAction BlockSupply::begin(const Moment& at) {
  SupplyAction action;
  if (state_ == State::asking) return action;
  note_demand(at);
  action.job = next_job(at, action);
  if (older_over_at_ && at.now >= *older_over_at_) {
    older_over_at_.reset();
    action.lost = stock_.lose_older();
  }
  if (!action.job) {
    state_ = State::idle;
    schedule_return(at);
    return action;
  }
  state_ = State::asking;
  changed_ = false;
  job_ = *action.job;
  return action;
}

std::optional<CounterJob> BlockSupply::next_job(const Moment& at, SupplyAction& action) {
  if (stopped_) return give_back(action);
  const bool goes = std::exchange(let_go_, false) && at.needed == 0 && heal_ == Heal::none;
  if (goes) return give_back(action);
  const bool demand = at.needed > 0 || at.now - demand_at_ <= kDemandLasts;
  const bool ahead =
      fetches_ahead_ && stock_.end();  // a counter that nobody has used is left alone
  if (wants_refill(at) && may_ask(at) && (demand || ahead)) return refill(at);
  if (suspect_ && may_ask(at)) {
    suspect_ = false;
    return CounterJob{CounterJob::Kind::confirm};
  }
  // There is no demand any more: the next request starts the retries again.
  if (retry_at_ && at.now >= *retry_at_) retry_at_.reset();
  return is_over(at) ? give_back(action) : std::nullopt;
}

/// Only numbers up to the counter's value can go back. All others lie before numbers that somebody
/// else got, and would make the order worse the longer they are kept.
std::optional<CounterJob> BlockSupply::give_back(SupplyAction& action) {
  over_at_.reset();
  older_over_at_.reset();
  idle_check_.reset();
  const auto unused = stock_.unused_end();
  if (!unused) {
    action.lost = stock_.lose_all();
    resting_ = true;
    return std::nullopt;
  }
  ++gives_back_;
  action.lost = stock_.take_unused_end();
  CounterJob job{CounterJob::Kind::give_back, unused->count};
  job.unused = *unused;
  return job;
}

CounterJob BlockSupply::refill(const Moment& at) {
  pace_.started(at.now, stock_.used());
  suspect_ = false;  // an allocation shows where the counter stands
  CounterJob job{heal_ == Heal::none ? CounterJob::Kind::allocate : CounterJob::Kind::heal};
  job.count = pace_.size();
  if (at.needed > stock_.count()) job.count = std::max(job.count, at.needed - stock_.count());
  job.lost = heal_ == Heal::due_after_loss;
  if (!stock_.end()) return job;
  job.beyond = static_cast<std::int64_t>(
      std::clamp<Int128>(*stock_.end() - steps_.step(), Int64::min(), Int64::max()));
  const std::uint64_t left = steps_.count(*stock_.end(), spec_.max);
  if (left > 0) job.count = std::min(job.count, left);
  return job;
}

void BlockSupply::note_demand(const Moment& at) {
  if (stock_.taken() != seen_taken_ || at.needed > 0) demand_at_ = at.now;
  seen_taken_ = stock_.taken();
  pace_.note(at.now, stock_.used());
}

/// Says when to look whether numbers must go back.
void BlockSupply::schedule_return(const Moment& at) {
  const bool by_age = is_auto() && !stopped_ && stock_.count() > 0;
  if (!by_age) {
    over_at_.reset();
    older_over_at_.reset();
  } else if (!over_at_) {
    over_at_ = at.now + RefillPace::kBlockLasts;
  }
  schedule_idle_check(at);
}

/// take() does not read the clock: numbers are idle if none is taken between two checks.
void BlockSupply::schedule_idle_check(const Moment& at) {
  constexpr int kLooks = 8;
  if (is_auto() || stopped_ || !stock_.unused_end()) {
    idle_check_.reset();
    return;
  }
  if (!idle_check_ || stock_.taken() != idle_taken_) {
    idle_since_ = at.now;
    idle_taken_ = stock_.taken();
  }
  const Time idle = spec_.block.idle;
  idle_check_ = std::min(at.now + std::max<Time>(idle / kLooks, 1ms), idle_since_ + idle);
}

/// True if the held numbers must go back.
bool BlockSupply::is_over(const Moment& at) const {
  if (is_auto()) return over_at_ && at.now >= *over_at_ && stock_.count() > 0;
  return idle_check_ && stock_.taken() == idle_taken_ && at.now - idle_since_ >= spec_.block.idle &&
         stock_.unused_end();
}

// ---- results of jobs ---------------------------------------------------------------------------

SupplyAction BlockSupply::finish(CounterReply reply, const Moment& at) {
  using Kind = CounterReply::Kind;
  SupplyAction action;
  state_ = State::idle;
  note_demand(at);
  if (job_.kind == CounterJob::Kind::give_back) {
    gave_back(reply.kind, action);
  } else if (job_.kind == CounterJob::Kind::confirm) {
    confirmed(std::move(reply), at, action);
  } else if (reply.kind == Kind::allocated) {
    allocated(reply.range, at, action);
  } else if (reply.kind == Kind::kept) {
    kept(reply.taken);
  } else if (reply.kind == Kind::not_healed) {
    not_healed(std::move(reply.reason), at, action);
  } else if (reply.kind == Kind::exhausted) {
    answers_again();
    // With the changed rule it may have numbers: ask again.
    if (!changed_) exhaust(std::move(reply.reason), at.now, at.needed > 0, action);
  } else if (reply.kind == Kind::pending) {
    not_yet(std::move(reply.reason), at);
  } else {
    failed(std::move(reply.reason), at, action);
  }
  return action;
}

void BlockSupply::allocated(Range range, const Moment& at, SupplyAction& action) {
  const bool healed = job_.kind == CounterJob::Kind::heal;
  const bool behind = stock_.end() && steps_.before(range.first, *stock_.end());
  if (range.count == 0 || (healed && behind)) {
    action.outcome = BlockOutcome::dropped;
    return failed("the store gave numbers that had been handed out before", at, action);
  }
  answers_again();
  if (behind) return went_back(at, action);
  if (healed) heal_ = Heal::none;
  pace_.succeeded(at.now, range.count);
  if (heal_ == Heal::none) return use(range, at, action);
  // The heal was decided while this job was under way: what becomes of the held numbers becomes of
  // these, too.
  stock_.add(range);
}

void BlockSupply::use(Range range, const Moment& at, SupplyAction& action) {
  resting_ = false;
  older_over_at_ = stock_.count() > 0 ? over_at_ : std::nullopt;
  over_at_ = at.now + RefillPace::kBlockLasts;
  job_.kind == CounterJob::Kind::heal ? stock_.replace(range) : stock_.add(range);
  if (steps_.count(steps_.end(range), spec_.max) > 0) return;
  exhaust(handed_out_up_to(spec_.max), at.now, at.needed > stock_.count(), action);
}

void BlockSupply::went_back(const Moment& at, SupplyAction& action) {
  const bool heals = spec_.heal.mode != CounterSpec::Heal::Mode::off;
  action.outcome = BlockOutcome::went_back;
  stock_.drop();
  decide_to_heal(heals ? Heal::due_after_loss : Heal::none);
  if (heals) return stock_.set_aside();
  exhaust("the counter has gone back behind numbers that were handed out, and heal.mode is off",
          at.now, at.needed > 0, action);
}

/// After a failure the numbers are gone: the counter may or may not have been set back.
void BlockSupply::gave_back(CounterReply::Kind kind, SupplyAction& action) {
  using Kind = CounterReply::Kind;
  if (kind == Kind::not_sent && !stopped_) return stock_.put_unused_end(job_.unused);
  resting_ = true;
  if (kind != Kind::not_sent && kind != Kind::passed) return stock_.cut(job_.unused.first);
  action.lost = {stock_.up_to_max(job_.unused)};
}

/// No other job was under way: what this process knows of the counter has not changed since the
/// store was asked.
void BlockSupply::confirmed(CounterReply reply, const Moment& at, SupplyAction& action) {
  using Kind = CounterReply::Kind;
  if (reply.kind == Kind::failed) return failed(std::move(reply.reason), at, action);
  answers_again();
  const bool stands = reply.kind == Kind::stands && stock_.end();
  if (stands && steps_.before(reply.range.first, *stock_.end())) went_back(at, action);
}

void BlockSupply::kept(const std::vector<Range>& taken) {
  answers_again();
  heal_ = Heal::none;
  stock_.restore_without(taken);
}

/// The counter continues without a heal: inserts replace duplicates document by document.
void BlockSupply::not_healed(std::string reason, const Moment& at, SupplyAction& action) {
  answers_again();
  if (job_.lost) return exhaust(std::move(reason), at.now, at.needed > 0, action);
  heal_not_before_ = at.now + kNoHealFor;
  heal_ = Heal::none;
  stock_.restore();
}

void BlockSupply::exhaust(std::string reason, Time now, bool refuses_somebody,
                          SupplyAction& action) {
  store_ = Store::exhausted;
  exhausted_until_ = now + kExhaustedFor;
  reason_ = std::move(reason);
  refused_ = refused_ || refuses_somebody;
  action.refusal = {Errc::exhausted, reason_};
}

/// Requests go on waiting.
void BlockSupply::not_yet(std::string reason, const Moment& at) {
  answers_again();
  store_ = Store::prepares;
  reason_ = std::move(reason);
  fetches_ahead_ = false;
  retry_at_ = at.now + kNotYetFor;
}

void BlockSupply::failed(std::string reason, const Moment& at, SupplyAction& action) {
  fetches_ahead_ = false;
  retry_at_ = at.now + kRetryAfter;
  failed_at_ = at.now;
  if (at.needed == 0) return;
  store_ = Store::down;  // if it was exhausted, the next answer shows whether it still is
  refused_ = false;
  reason_ = std::move(reason);
  if (spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait) return;
  action.refusal = {Errc::unavailable, reason_};
}

void BlockSupply::answers_again() {
  store_ = Store::answers;
  fetches_ahead_ = true;
  retry_at_.reset();
  refused_ = false;
}

void BlockSupply::decide_to_heal(Heal heal) {
  heal_ = heal;
  resting_ = false;
  collisions_in_a_row_ = 0;
}

// ---- watching ----------------------------------------------------------------------------------

/// Nothing while a heal is due or numbers are on their way back: then the counter may rightly stand
/// behind.
std::optional<WatchMark> BlockSupply::watch_mark(const Moment& at) {
  note_demand(at);
  const bool gives_back = state_ == State::asking && job_.kind == CounterJob::Kind::give_back;
  const bool heals = spec_.heal.mode != CounterSpec::Heal::Mode::off;
  const bool in_use = stock_.count() > 0 || at.now - demand_at_ <= kWatchedFor;
  const bool says_something = !stopped_ && !gives_back && heal_ == Heal::none && stock_.end();
  if (!heals || !in_use || !says_something) return std::nullopt;
  return WatchMark{*stock_.end(), gives_back_};
}

SupplyAction BlockSupply::watched(std::int64_t next, const WatchMark& mark, const Moment& at) {
  SupplyAction action;
  const bool is_valid = !stopped_ && heal_ == Heal::none && mark.gives_back == gives_back_;
  if (!is_valid || !steps_.before(next, mark.end)) return action;
  suspect_ = true;
  request(at, action);
  return action;
}

// ---- the process -------------------------------------------------------------------------------

SupplyAction BlockSupply::stop() {
  SupplyAction action;
  stopped_ = true;
  if (heal_ == Heal::due) {
    heal_ = Heal::none;
    stock_.restore();
  }
  action.refusal = {Errc::unavailable, "the proxy ends"};
  return action;
}

void BlockSupply::change(const CounterSpec& spec) {
  if (spec_.block != spec.block) pace_.change(spec.block);
  spec_ = spec;
  heal_not_before_.reset();
  changed_ = true;
  ask_again();
}

void BlockSupply::ask_again() {
  if (store_ == Store::exhausted) store_ = Store::answers;
  refused_ = false;
}

std::uint64_t BlockSupply::threshold() const {
  const bool quiet = state_ != State::idle || stopped_ || resting_ || heal_ != Heal::none ||
                     retry_at_ || store_ == Store::exhausted;
  return quiet ? 0 : pace_.threshold();
}

bool BlockSupply::at_max() const {
  return exhausted() && reason_ == handed_out_up_to(spec_.max);
}

std::optional<BlockSupply::Time> BlockSupply::due() const {
  if (state_ == State::asking || stopped_) return std::nullopt;
  std::optional<Time> first;
  for (const auto& at : {retry_at_, idle_check_, over_at_, older_over_at_}) {
    if (at && (!first || *at < *first)) first = at;
  }
  return first;
}

}  // namespace idproxy::ids
