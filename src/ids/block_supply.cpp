#include "idproxy/ids/block_supply.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;
using Stock = SupplyAction::Stock;

}  // namespace

std::vector<Range> change_stock(HeldNumbers& stock, const SupplyAction& action) {
  switch (action.stock) {
    case Stock::keep:
      break;
    case Stock::add:
      stock.add(action.range);
      break;
    case Stock::replace:
      stock.replace(action.range);
      break;
    case Stock::set_aside:
      stock.set_aside();
      break;
    case Stock::restore:
      stock.restore();
      break;
    case Stock::restore_without:
      stock.restore_without(action.taken);
      break;
    case Stock::drop:
      stock.drop();
      break;
    case Stock::drop_and_heal:
      stock.drop();
      stock.set_aside();
      break;
    case Stock::take_unused_end:
      return stock.take_unused_end();
    case Stock::put_unused_end:
      stock.put_unused_end(action.range);
      break;
    case Stock::cut:
      stock.cut(action.range.first);
      break;
    case Stock::lose:
      return {stock.up_to_max(action.range)};
    case Stock::lose_all:
      return stock.lose_all();
    case Stock::lose_older:
      return stock.lose_older();
  }
  return {};
}

BlockSupply::BlockSupply(const CounterSpec& spec)
    : steps_(spec.step),
      spec_(spec),
      pace_(spec_.block),
      heal_(spec_.heal.at_start && spec_.heal.mode != CounterSpec::Heal::Mode::off ? Heal::due
                                                                                   : Heal::none) {}

// ---- events of the stock and of inserts --------------------------------------------------------

SupplyAction BlockSupply::wanted(const StockLevel& level) {
  SupplyAction action;
  demand_at_ = level.now;
  if (stopped_) {
    action.refusal = {Errc::unavailable, "the proxy ends"};
  } else if (store_ == Store::exhausted && level.now < exhausted_until_) {
    action.wake = !std::exchange(refused_, true);
    action.refusal = {Errc::exhausted, reason_};
  } else if (refuses(level.now)) {
    request(level, action);
    action.refusal = {Errc::unavailable, reason_};
  }
  return action;
}

/// True if requests must fail at once because the store is down.
bool BlockSupply::refuses(Time now) const {
  const bool waits = spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait;
  return store_ == Store::down && !waits && now - failed_at_ < kFailureLasts;
}

SupplyAction BlockSupply::queued(const StockLevel& level) {
  SupplyAction action;
  request(level, action);
  return action;
}

SupplyAction BlockSupply::put_back(const StockLevel& level) {
  SupplyAction action;
  // There are numbers that may have to go back, but nobody will look: begin() schedules that.
  const bool is_scheduled = is_auto() ? over_at_.has_value() : idle_check_.has_value();
  const bool may_go_back = is_auto() ? level.held > 0 : level.unused_end.has_value();
  if (may_go_back && !is_scheduled) request(level, action);
  return action;
}

SupplyAction BlockSupply::settled(const StockLevel& level) {
  SupplyAction action;
  pace_.note(level.now, level.used);
  schedule_return(level);
  if (has_work(level)) request(level, action);
  return action;
}

SupplyAction BlockSupply::collided(std::uint64_t numbers, bool heal_at_once,
                                   const StockLevel& level) {
  SupplyAction action;
  const bool off = spec_.heal.mode == CounterSpec::Heal::Mode::off;
  if (off || heal_ != Heal::none || !level.end) return action;
  collisions_in_a_row_ += numbers;
  if (numbers == 0 || (!heal_at_once && collisions_in_a_row_ < spec_.heal.after)) return action;
  if (heal_not_before_ && level.now < *heal_not_before_) return action;
  decide_to_heal(Heal::due);
  action.stock = Stock::set_aside;
  demand_at_ = level.now;
  request(level, action);
  return action;
}

SupplyAction BlockSupply::let_go(const StockLevel& level) {
  SupplyAction action;
  if (level.held == 0) return action;
  let_go_ = true;
  request(level, action);
  return action;
}

void BlockSupply::request(const StockLevel& level, SupplyAction& action) {
  if (state_ != State::idle || stopped_ || !may_ask(level)) return;
  state_ = State::woken;
  action.wake = true;
}

/// While the store is down, requests may be refused instead of waiting, so `needed` does not show
/// the demand.
bool BlockSupply::wants_refill(const StockLevel& level) const {
  const bool low = !resting_ && level.held < pace_.threshold();
  return heal_ != Heal::none || store_ == Store::down || level.needed > 0 || low;
}

bool BlockSupply::has_work(const StockLevel& level) const {
  return wants_refill(level) || suspect_ || let_go_;
}

bool BlockSupply::may_ask(const StockLevel& level) const {
  if (store_ == Store::exhausted && level.now < exhausted_until_) return false;
  if (!retry_at_ || level.now >= *retry_at_) return true;
  // Otherwise only fetching ahead has failed.
  return level.needed > 0 && store_ != Store::down && store_ != Store::prepares;
}

// ---- jobs --------------------------------------------------------------------------------------

SupplyAction BlockSupply::begin(const StockLevel& level) {
  SupplyAction action;
  if (state_ == State::asking) return action;
  note_demand(level);
  action.job = next_job(level, action);
  if (action.stock == Stock::keep && older_over_at_ && level.now >= *older_over_at_) {
    older_over_at_.reset();
    action.stock = Stock::lose_older;
  }
  if (!action.job) {
    state_ = State::idle;
    schedule_return(level);
    return action;
  }
  state_ = State::asking;
  changed_ = false;
  job_ = *action.job;
  return action;
}

std::optional<CounterJob> BlockSupply::next_job(const StockLevel& level, SupplyAction& action) {
  if (stopped_) return give_back(level, action);
  const bool goes = std::exchange(let_go_, false) && level.needed == 0 && heal_ == Heal::none;
  if (goes) return give_back(level, action);
  const bool demand = level.needed > 0 || level.now - demand_at_ <= kDemandLasts;
  const bool ahead = fetches_ahead_ && level.end;  // a counter that nobody has used is left alone
  if (wants_refill(level) && may_ask(level) && (demand || ahead)) return refill(level);
  if (suspect_ && may_ask(level)) {
    suspect_ = false;
    return CounterJob{CounterJob::Kind::confirm};
  }
  // There is no demand any more: the next request starts the retries again.
  if (retry_at_ && level.now >= *retry_at_) retry_at_.reset();
  return is_over(level) ? give_back(level, action) : std::nullopt;
}

/// Only numbers up to the counter's value can go back. All others lie before numbers that somebody
/// else got, and would make the order worse the longer they are kept.
std::optional<CounterJob> BlockSupply::give_back(const StockLevel& level, SupplyAction& action) {
  over_at_.reset();
  older_over_at_.reset();
  idle_check_.reset();
  if (!level.unused_end) {
    if (level.held > 0) action.stock = Stock::lose_all;
    resting_ = true;
    return std::nullopt;
  }
  ++gives_back_;
  action.stock = Stock::take_unused_end;
  CounterJob job{CounterJob::Kind::give_back, level.unused_end->count};
  job.unused = *level.unused_end;
  return job;
}

CounterJob BlockSupply::refill(const StockLevel& level) {
  pace_.started(level.now, level.used);
  suspect_ = false;  // an allocation shows where the counter stands
  CounterJob job{heal_ == Heal::none ? CounterJob::Kind::allocate : CounterJob::Kind::heal};
  job.count = pace_.size();
  if (level.needed > level.held) job.count = std::max(job.count, level.needed - level.held);
  job.lost = heal_ == Heal::due_after_loss;
  if (!level.end) return job;
  job.beyond = static_cast<std::int64_t>(
      std::clamp<Int128>(*level.end - steps_.step(), Int64::min(), Int64::max()));
  const std::uint64_t left = steps_.count(*level.end, spec_.max);
  if (left > 0) job.count = std::min(job.count, left);
  return job;
}

void BlockSupply::note_demand(const StockLevel& level) {
  if (level.taken != seen_taken_ || level.needed > 0) demand_at_ = level.now;
  seen_taken_ = level.taken;
  pace_.note(level.now, level.used);
}

/// Says when to look whether numbers must go back.
void BlockSupply::schedule_return(const StockLevel& level) {
  const bool by_age = is_auto() && !stopped_ && level.held > 0;
  if (!by_age) {
    over_at_.reset();
    older_over_at_.reset();
  } else if (!over_at_) {
    over_at_ = level.now + RefillPace::kBlockLasts;
  }
  schedule_idle_check(level);
}

/// take() does not read the clock: numbers are idle if none is taken between two checks.
void BlockSupply::schedule_idle_check(const StockLevel& level) {
  constexpr int kLooks = 8;
  if (is_auto() || stopped_ || !level.unused_end) {
    idle_check_.reset();
    return;
  }
  if (!idle_check_ || level.taken != idle_taken_) {
    idle_since_ = level.now;
    idle_taken_ = level.taken;
  }
  const Time idle = spec_.block.idle;
  idle_check_ = std::min(level.now + std::max<Time>(idle / kLooks, 1ms), idle_since_ + idle);
}

/// True if the held numbers must go back.
bool BlockSupply::is_over(const StockLevel& level) const {
  if (is_auto()) return over_at_ && level.now >= *over_at_ && level.held > 0;
  return idle_check_ && level.taken == idle_taken_ && level.now - idle_since_ >= spec_.block.idle &&
         level.unused_end;
}

// ---- results of jobs ---------------------------------------------------------------------------

SupplyAction BlockSupply::finish(CounterReply reply, const StockLevel& level) {
  using Kind = CounterReply::Kind;
  SupplyAction action;
  state_ = State::idle;
  note_demand(level);
  if (job_.kind == CounterJob::Kind::give_back) {
    gave_back(reply.kind, action);
  } else if (job_.kind == CounterJob::Kind::confirm) {
    confirmed(std::move(reply), level, action);
  } else if (reply.kind == Kind::allocated) {
    allocated(reply.range, level, action);
  } else if (reply.kind == Kind::kept) {
    kept(std::move(reply.taken), action);
  } else if (reply.kind == Kind::not_healed) {
    not_healed(std::move(reply.reason), level, action);
  } else if (reply.kind == Kind::exhausted) {
    answers_again();
    // With the changed rule it may have numbers: ask again.
    if (!changed_) exhaust(std::move(reply.reason), level.now, level.needed > 0, action);
  } else if (reply.kind == Kind::pending) {
    not_yet(std::move(reply.reason), level);
  } else {
    failed(std::move(reply.reason), level, action);
  }
  return action;
}

void BlockSupply::allocated(Range range, const StockLevel& level, SupplyAction& action) {
  const bool healed = job_.kind == CounterJob::Kind::heal;
  const bool behind = level.end && steps_.before(range.first, *level.end);
  if (range.count == 0 || (healed && behind)) {
    action.outcome = BlockOutcome::dropped;
    return failed("the store gave numbers that had been handed out before", level, action);
  }
  answers_again();
  if (behind) return went_back(level, action);
  if (healed) heal_ = Heal::none;
  pace_.succeeded(level.now, range.count);
  action.range = range;
  if (heal_ == Heal::none) return use(range, level, action);
  // The heal was decided while this job was under way: what becomes of the held numbers becomes of
  // these, too.
  action.stock = Stock::add;
}

void BlockSupply::use(Range range, const StockLevel& level, SupplyAction& action) {
  resting_ = false;
  action.stock = job_.kind == CounterJob::Kind::heal ? Stock::replace : Stock::add;
  older_over_at_ = level.held > 0 ? over_at_ : std::nullopt;
  over_at_ = level.now + RefillPace::kBlockLasts;
  if (steps_.count(steps_.end(range), spec_.max) > 0) return;
  const std::uint64_t usable = std::min(range.count, steps_.count(range.first, spec_.max));
  exhaust(handed_out_up_to(spec_.max), level.now, level.needed > level.held + usable, action);
}

void BlockSupply::went_back(const StockLevel& level, SupplyAction& action) {
  const bool heals = spec_.heal.mode != CounterSpec::Heal::Mode::off;
  action.outcome = BlockOutcome::went_back;
  action.stock = heals ? Stock::drop_and_heal : Stock::drop;
  decide_to_heal(heals ? Heal::due_after_loss : Heal::none);
  if (heals) return;
  exhaust("the counter has gone back behind numbers that were handed out, and heal.mode is off",
          level.now, level.needed > 0, action);
}

/// After a failure the numbers are gone: the counter may or may not have been set back.
void BlockSupply::gave_back(CounterReply::Kind kind, SupplyAction& action) {
  using Kind = CounterReply::Kind;
  action.range = job_.unused;
  if (kind == Kind::not_sent && !stopped_) {
    action.stock = Stock::put_unused_end;
    return;
  }
  resting_ = true;
  action.stock = kind == Kind::not_sent || kind == Kind::passed ? Stock::lose : Stock::cut;
}

/// No other job was under way: what this process knows of the counter has not changed since the
/// store was asked.
void BlockSupply::confirmed(CounterReply reply, const StockLevel& level, SupplyAction& action) {
  using Kind = CounterReply::Kind;
  if (reply.kind == Kind::failed) return failed(std::move(reply.reason), level, action);
  answers_again();
  const bool stands = reply.kind == Kind::stands && level.end;
  if (stands && steps_.before(reply.range.first, *level.end)) went_back(level, action);
}

void BlockSupply::kept(std::vector<Range> taken, SupplyAction& action) {
  answers_again();
  heal_ = Heal::none;
  action.stock = Stock::restore_without;
  action.taken = std::move(taken);
}

/// The counter continues without a heal: inserts replace duplicates document by document.
void BlockSupply::not_healed(std::string reason, const StockLevel& level, SupplyAction& action) {
  answers_again();
  if (job_.lost) return exhaust(std::move(reason), level.now, level.needed > 0, action);
  heal_not_before_ = level.now + kNoHealFor;
  heal_ = Heal::none;
  action.stock = Stock::restore;
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
void BlockSupply::not_yet(std::string reason, const StockLevel& level) {
  answers_again();
  store_ = Store::prepares;
  reason_ = std::move(reason);
  fetches_ahead_ = false;
  retry_at_ = level.now + kNotYetFor;
}

void BlockSupply::failed(std::string reason, const StockLevel& level, SupplyAction& action) {
  fetches_ahead_ = false;
  retry_at_ = level.now + kRetryAfter;
  failed_at_ = level.now;
  if (level.needed == 0) return;
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
std::optional<WatchMark> BlockSupply::watch_mark(const StockLevel& level) {
  note_demand(level);
  const bool gives_back = state_ == State::asking && job_.kind == CounterJob::Kind::give_back;
  const bool heals = spec_.heal.mode != CounterSpec::Heal::Mode::off;
  const bool in_use = level.held > 0 || level.now - demand_at_ <= kWatchedFor;
  const bool says_something = !stopped_ && !gives_back && heal_ == Heal::none && level.end;
  if (!heals || !in_use || !says_something) return std::nullopt;
  return WatchMark{*level.end, gives_back_};
}

SupplyAction BlockSupply::watched(std::int64_t next, const WatchMark& mark,
                                  const StockLevel& level) {
  SupplyAction action;
  const bool is_valid = !stopped_ && heal_ == Heal::none && mark.gives_back == gives_back_;
  if (!is_valid || !steps_.before(next, mark.end)) return action;
  suspect_ = true;
  request(level, action);
  return action;
}

// ---- the process -------------------------------------------------------------------------------

SupplyAction BlockSupply::stop() {
  SupplyAction action;
  stopped_ = true;
  if (heal_ == Heal::due) {
    heal_ = Heal::none;
    action.stock = Stock::restore;
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
