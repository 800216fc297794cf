#include "idproxy/ids/block_cache.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ids/block_cache_lock.hpp"

namespace idproxy::ids {

BlockCache::BlockCache(const CounterSpec& spec, const Clock& clock, std::function<void()> wake)
    : clock_(clock), wake_(std::move(wake)), held_(spec.step, spec.max), supply_(spec, held_) {
  threshold_ = supply_.threshold();
}

// ---- for strategies ----------------------------------------------------------------------------

std::uint32_t BlockCache::heals_after() const {
  const auto lock = locked(mutex_);
  return supply_.heals_after();
}

bool BlockCache::has(std::uint64_t n) const {
  return n <= held_.count() && waiting_.empty() && !supply_.stopped();
}

Draw BlockCache::take(std::uint64_t n, std::vector<Range>& out) {
  auto lock = locked(mutex_);
  if (has(n)) [[likely]] {
    held_.take(n, out);
    if (held_.count() >= threshold_) [[likely]]
      return {};
    supply_.ran_low();
    threshold_ = 0;
    lock.unlock();
    wake_();
    return {};
  }
  if (n == 0) return {};
  SupplyAction action = supply_.wanted(moment());
  threshold_ = supply_.threshold();
  lock.unlock();
  if (action.wake) wake_();
  return action.refusal ? Draw(*std::move(action.refusal)) : Draw::need();
}

Ticket BlockCache::ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) {
  After after;
  std::uint64_t ticket = 0;
  {
    const auto lock = locked(mutex_);
    if (has(n)) {
      after.answer(std::move(waiter), grant(n));
    } else if (SupplyAction action = supply_.wanted(moment()); action.refusal) {
      after.wake = action.wake;
      after.answer(std::move(waiter), *std::move(action.refusal));
    } else {
      ticket = waiting_.add(n, std::move(waiter), after);
      if (ticket != 0) after.wake = supply_.queued(moment()).wake;
    }
    threshold_ = supply_.threshold();
  }
  after.run(wake_);
  return {weak_from_this(), ticket};
}

void BlockCache::cancel(std::uint64_t ticket) {
  After after;
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  {
    const auto lock = locked(mutex_);
    gone = waiting_.remove(ticket);
    if (!gone) return;
    serve(after);  // the requests behind it may need fewer numbers
  }
  after.run(wake_);
}

Grant BlockCache::grant(std::uint64_t n) {
  std::vector<Range> ranges;
  held_.take(n, ranges);
  return {shared_from_this(), std::move(ranges)};
}

void BlockCache::serve(After& after) {
  while (!waiting_.empty() && waiting_.first() <= held_.count()) {
    waiting_.answer_first(grant(waiting_.first()), after);
  }
}

/// Answers every waiting request.
void BlockCache::serve_or_refuse(const Error& error, After& after) {
  const auto answer = [&](std::uint64_t n) {
    const bool enough = n <= held_.count() && !supply_.stopped();
    return enough ? Result<Grant>(grant(n)) : Result<Grant>(error);
  };
  waiting_.answer_all(answer, after);
}

void BlockCache::take_back(const std::vector<Range>& ranges) {
  const Steps& steps = held_.steps();
  std::vector<Range> sorted;
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(sorted),
               [](const Range& range) { return range.count > 0; });
  const auto before = [&](const Range& a, const Range& b) {
    return steps.before(a.first, b.first);
  };
  if (!std::is_sorted(sorted.begin(), sorted.end(), before)) {
    std::sort(sorted.begin(), sorted.end(), before);
  }
  After after;
  {
    const auto lock = locked(mutex_);
    if (!held_.end()) return;
    held_.take_back(std::move(sorted));
    serve(after);
    after.wake = supply_.put_back(moment()).wake;
    threshold_ = supply_.threshold();
  }
  after.run(wake_);
}

void BlockCache::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  After after;
  {
    const auto lock = locked(mutex_);
    apply(supply_.collided(held_.count_valid(numbers), heal_at_once, moment()), after);
  }
  after.run(wake_);
}

void BlockCache::went_well() {
  const auto lock = locked(mutex_);
  supply_.went_well();
}

void BlockCache::let_go() {
  After after;
  {
    const auto lock = locked(mutex_);
    apply(supply_.let_go(moment()), after);
  }
  after.run(wake_);
}

// ---- for the store -----------------------------------------------------------------------------

std::optional<CounterJob> BlockCache::begin() {
  const auto lock = locked(mutex_);
  const SupplyAction action = supply_.begin(moment());
  note_lost(action.lost);
  threshold_ = supply_.threshold();
  std::optional<CounterJob> job = action.job;
  if (job && job->kind == CounterJob::Kind::heal) job->held = held_.aside();
  return job;
}

BlockOutcome BlockCache::finish(CounterReply reply) {
  BlockOutcome outcome = BlockOutcome::dropped;
  After after;
  {
    const auto lock = locked(mutex_);
    if (!supply_.asking()) return outcome;
    const SupplyAction action = supply_.finish(std::move(reply), moment());
    outcome = action.outcome;
    apply(action, after);
    apply(supply_.settled(moment()), after);
  }
  after.run(wake_);
  return outcome;
}

void BlockCache::apply(const SupplyAction& action, After& after) {
  after.wake = after.wake || action.wake;
  note_lost(action.lost);
  if (action.refusal) {
    serve_or_refuse(*action.refusal, after);
  } else {
    serve(after);
  }
  threshold_ = supply_.threshold();
}

void BlockCache::note_lost(const std::vector<Range>& lost) {
  std::ranges::copy_if(lost, std::back_inserter(lost_),
                       [](const Range& range) { return range.count > 0; });
}

std::vector<Range> BlockCache::take_lost() {
  const auto lock = locked(mutex_);
  return std::exchange(lost_, {});
}

std::vector<Range> BlockCache::lose_all() {
  const auto lock = locked(mutex_);
  return held_.lose_all();
}

std::optional<WatchMark> BlockCache::watch_mark() {
  const auto lock = locked(mutex_);
  return supply_.watch_mark(moment());
}

void BlockCache::watched(std::int64_t next, const WatchMark& mark) {
  After after;
  {
    const auto lock = locked(mutex_);
    apply(supply_.watched(next, mark, moment()), after);
  }
  after.run(wake_);
}

std::optional<std::chrono::nanoseconds> BlockCache::due() const {
  const auto lock = locked(mutex_);
  return supply_.due();
}

void BlockCache::stop() {
  After after;
  {
    const auto lock = locked(mutex_);
    apply(supply_.stop(), after);
  }
  after.run(wake_);
}

void BlockCache::change(const CounterSpec& spec) {
  const auto lock = locked(mutex_);
  held_.change_max(spec.max);
  supply_.change(spec);
  threshold_ = supply_.threshold();
}

void BlockCache::ask_again() {
  const auto lock = locked(mutex_);
  supply_.ask_again();
  threshold_ = supply_.threshold();
}

bool BlockCache::forgettable() const {
  const auto lock = locked(mutex_);
  return !held_.end() && waiting_.empty() && !supply_.asking();
}

bool BlockCache::is_new() const {
  const auto lock = locked(mutex_);
  return !held_.end();
}

bool BlockCache::is_empty() const {
  const auto lock = locked(mutex_);
  return held_.count() == 0 && waiting_.empty() && supply_.idle();
}

std::optional<std::string> BlockCache::refusal() const {
  const auto lock = locked(mutex_);
  return supply_.refused() ? std::optional(supply_.reason()) : std::nullopt;
}

std::string BlockCache::pending() const {
  const auto lock = locked(mutex_);
  return supply_.pending() ? supply_.reason() : std::string();
}

std::uint64_t BlockCache::held() const {
  const auto lock = locked(mutex_);
  return supply_.stopped() ? 0 : held_.count();
}

CounterStatistics BlockCache::statistics() const {
  const auto lock = locked(mutex_);
  const bool exhausted = held_.count() == 0 && supply_.exhausted();
  return {.held = held_.count(),
          .next = held_.next(),
          .left = held_.left(),
          .block_size = supply_.block_size(),
          .waiting = waiting_.size(),
          .exhausted = exhausted,
          .at_max = exhausted && supply_.at_max(),
          .reason = exhausted ? supply_.reason() : std::string()};
}

}  // namespace idproxy::ids
