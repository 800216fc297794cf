#include "idproxy/ids/block_cache.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ids/block_cache_lock.hpp"

// What strategies use. What the store uses: block_cache_jobs.cpp.
namespace idproxy::ids {

BlockCache::BlockCache(CounterSpec spec, const Clock& clock, std::function<void()> wake)
    : steps_(spec.step),
      clock_(clock),
      wake_(std::move(wake)),
      spec_(std::move(spec)),
      free_(steps_),
      pace_(spec_.block),
      heal_(spec_.heal.at_start && spec_.heal.mode != CounterSpec::Heal::Mode::off),
      aside_(steps_) {
  rearm();
}

std::uint32_t BlockCache::heals_after() const {
  const auto lock = locked(mutex_);
  return spec_.heal.after;
}

bool BlockCache::has(std::uint64_t n) const {
  return n <= free_.count() && waiting_.empty() && !stopped_;
}

Result<void> BlockCache::take(std::uint64_t n, std::vector<Range>& out) {
  auto lock = locked(mutex_);
  if (has(n)) [[likely]] {
    free_.take(n, out);
    taken_ += n;
    if (free_.count() >= trigger_) [[likely]]
      return {};
    trigger_ = 0;
    woken_ = true;
    lock.unlock();
    wake_();
    return {};
  }
  if (n == 0) return {};
  After after;
  Error error = why_not(clock_.monotonic(), after);
  lock.unlock();
  after.run(*this);
  return error;
}

/// Errc::pending if it is worth while to wait.
Error BlockCache::why_not(Time now, After& after) {
  demand_at_ = now;
  if (stopped_) return {Errc::unavailable, "the proxy ends"};
  if (exhausted_until_ && now < *exhausted_until_) {
    if (!std::exchange(refused_, true)) after.wake = true;
    return {Errc::exhausted, reason_};
  }
  const bool waits = spec_.on_store_down.action == CounterSpec::OnStoreDown::Action::wait;
  if (down_ && !waits && now - failed_at_ < kFailureLasts) {
    request_job(now, after);
    return {Errc::unavailable, reason_};
  }
  return {Errc::pending, {}};
}

Ticket BlockCache::ask(std::uint64_t n, std::unique_ptr<Asker> asker) {
  After after;
  std::uint64_t ticket = 0;
  {
    const auto lock = locked(mutex_);
    const Time now = clock_.monotonic();
    if (has(n)) {
      after.answers.emplace_back(std::move(asker), grant(n));
    } else if (Error error = why_not(now, after); error.code != Errc::pending) {
      after.answers.emplace_back(std::move(asker), std::move(error));
    } else if (waiting_.size() == kMostWaiting) {
      after.answers.emplace_back(std::move(asker),
                                 Error{Errc::unavailable, "too many requests wait for numbers"});
    } else {
      ticket = ++tickets_;
      waiting_.emplace_hint(waiting_.end(), ticket, Waiter{n, std::move(asker)});
      needed_ += n;
      request_job(now, after);
    }
  }
  after.run(*this);
  if (ticket == 0) return {};
  return {weak_from_this(), ticket};
}

void BlockCache::cancel(std::uint64_t ticket) {
  After after;
  std::unique_ptr<Asker> gone;  // destroyed without the lock
  {
    const auto lock = locked(mutex_);
    const auto waiter = waiting_.find(ticket);
    if (waiter == waiting_.end()) return;
    needed_ -= waiter->second.n;
    gone = std::move(waiter->second.asker);
    waiting_.erase(waiter);
    serve(after);  // it may have held up who needs less
  }
  after.run(*this);
}

Grant BlockCache::grant(std::uint64_t n) {
  std::vector<Range> ranges;
  free_.take(n, ranges);
  taken_ += n;
  return {shared_from_this(), std::move(ranges)};
}

void BlockCache::serve(After& after) {
  while (!waiting_.empty() && waiting_.begin()->second.n <= free_.count()) {
    auto waiter = waiting_.extract(waiting_.begin());
    needed_ -= waiter.mapped().n;
    after.answers.emplace_back(std::move(waiter.mapped().asker), grant(waiter.mapped().n));
  }
}

/// Nobody is left waiting.
void BlockCache::serve_or_refuse(const Error& error, After& after) {
  for (auto& [ticket, waiter] : waiting_) {
    const bool enough = waiter.n <= free_.count() && !stopped_;
    after.answers.emplace_back(std::move(waiter.asker),
                               enough ? Result<Grant>(grant(waiter.n)) : Result<Grant>(error));
  }
  waiting_.clear();
  needed_ = 0;
}

void BlockCache::take_back(const std::vector<Range>& ranges) {
  std::vector<Range> sorted;
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(sorted),
               [](const Range& range) { return range.count > 0; });
  const auto before = [&](const Range& a, const Range& b) {
    return steps_.before(a.first, b.first);
  };
  if (!std::is_sorted(sorted.begin(), sorted.end(), before)) {
    std::sort(sorted.begin(), sorted.end(), before);
  }
  After after;
  {
    const auto lock = locked(mutex_);
    if (!end_) return;
    std::erase_if(sorted, [&](const Range& range) {
      return steps_.before(range.first, valid_from_) || steps_.before(*end_, steps_.end(range));
    });
    free_.put(sorted);
    clip(free_);  // max may have been lowered since they were handed out
    serve(after);
    // The last number is back, and nobody looks after idle ones.
    if (!idle_check_ && returnable()) request_job(clock_.monotonic(), after);
  }
  after.run(*this);
}

void BlockCache::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  After after;
  {
    const auto lock = locked(mutex_);
    if (spec_.heal.mode == CounterSpec::Heal::Mode::off || heal_ || !end_) return;
    const auto fresh = std::count_if(numbers.begin(), numbers.end(), [&](std::int64_t number) {
      return !steps_.before(number, valid_from_);
    });
    in_a_row_ += static_cast<std::uint64_t>(fresh);
    if (fresh == 0 || (!heal_at_once && in_a_row_ < spec_.heal.after)) return;
    const Time now = clock_.monotonic();
    if (heal_not_before_ && now < *heal_not_before_) return;
    decide_to_heal();
    demand_at_ = now;
    request_job(now, after);
  }
  after.run(*this);
}

void BlockCache::went_well() {
  const auto lock = locked(mutex_);
  in_a_row_ = 0;
}

}  // namespace idproxy::ids
