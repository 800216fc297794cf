#include "idproxy/ids/range_set.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {
namespace {

/// How many numbers there are from `first` to `last`, inclusive.
std::uint64_t count_between(std::int64_t first, std::int64_t last) {
  return Steps(1).count(first, last);
}

template <class Item>
bool contains(const std::vector<Item>& items, const Item& item) {
  return std::ranges::find(items, item) != items.end();
}

}  // namespace

/// Of one range, to a request.
class RangeSet::RangeAnswer final : public Waiter {
 public:
  RangeAnswer(std::weak_ptr<RangeSet> from, std::uint64_t request, Cache asked, std::uint64_t count)
      : set(std::move(from)), id(request), cache(std::move(asked)), n(count) {}

  void answered(Result<Grant> grant) override {
    if (const auto its = set.lock()) its->answered(*this, std::move(grant));
  }

  const std::weak_ptr<RangeSet> set;
  const std::uint64_t id;
  const Cache cache;
  const std::uint64_t n;
};

RangeSet::RangeSet(RangesSpec spec, const Clock& clock, RandomSource& random, Open open,
                   std::function<void()> wake)
    : spec_(std::move(spec)),
      clock_(clock),
      random_(random),
      open_(std::move(open)),
      wake_(std::move(wake)),
      pace_(spec_.counter.block) {}

template <class Event>
void RangeSet::handle(const Event& event) {
  Effects after;
  {
    const auto lock = locked(mutex_);
    event(after);
  }
  after.run(wake_);
  for (std::unique_ptr<RangeAnswer>& answer : after.asks) {
    const std::uint64_t id = answer->id;
    const Cache cache = answer->cache;
    const std::uint64_t n = answer->n;
    Ticket ticket = cache->ask(n, std::move(answer));
    const auto lock = locked(mutex_);
    const auto request = requests_.find(id);
    if (request != requests_.end()) request->second.asked.push_back(std::move(ticket));
  }
}

// ---- for strategies ----------------------------------------------------------------------------

/// From one range. If numbers of several are needed, ask() has them at once.
Draw RangeSet::take(std::uint64_t n, std::vector<Range>& out) {
  Draw result;
  if (n == 0) return result;
  handle([&](Effects& after) {
    if (refusal_ && (!at_end_ || rest_.empty())) {
      result = *refusal_;
    } else if (rest_.empty() && take_from_slot(n, out, after)) {
      used_ += n;
    } else {
      result = Draw::need();
    }
  });
  return result;
}

/// Of the range that is next.
bool RangeSet::holds(std::uint64_t n) const {
  const auto lock = locked(mutex_);
  if (!waiting_.empty() || refusal_ || !rest_.empty() || slots_.empty()) return false;
  return ranges_[slots_[turn_ % slots_.size()]].cache->holds(n);
}

Ticket RangeSet::ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) {
  std::uint64_t id = 0;
  handle([&](Effects& after) {
    id = waiting_.add(n, std::move(waiter), after);
    if (id == 0) return;
    requests_.emplace(id, RangeRequest{.n = n});
    if (is_known_) go_on(id, std::nullopt, after);
  });
  return {weak_from_this(), id};
}

void RangeSet::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  handle([&](Effects& after) {
    gone = waiting_.remove(ticket);
    if (gone) drop(std::move(requests_.extract(ticket).mapped()), after);
  });
}

/// A piece of adjacent numbers may reach over the end of a range. A range that is not active is
/// used first now.
void RangeSet::take_back(const std::vector<Range>& ranges) {
  std::vector<std::pair<Cache, Range>> parts;
  {
    const auto lock = locked(mutex_);
    for (Range piece : ranges) {
      used_ -= std::min(used_, piece.count);
      for (auto index = index_of(piece.first); index && piece.count > 0; ++*index) {
        if (*index == ranges_.size()) break;
        const std::int64_t last = ranges_[*index].state.last;
        const std::uint64_t count = std::min(piece.count, count_between(piece.first, last));
        parts.emplace_back(cache_of(*index), Range{piece.first, count});
        piece.count -= count;
        piece.first = last + 1;
      }
    }
  }
  for (const auto& [cache, range] : parts) cache->take_back({range});
  const auto lock = locked(mutex_);
  for (const auto& [cache, range] : parts) {
    const auto index = index_of(range.first);
    if (!index || contains(slots_, *index) || contains(rest_, *index)) continue;
    ranges_[*index].cache = cache_of(*index);
    rest_.push_back(*index);
  }
}

void RangeSet::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  std::map<std::size_t, std::pair<Cache, std::vector<std::int64_t>>> parts;
  {
    const auto lock = locked(mutex_);
    for (const std::int64_t number : numbers) {
      const auto index = index_of(number);
      if (!index) continue;
      auto& [cache, its] = parts[*index];
      if (!cache) cache = cache_of(*index);
      its.push_back(number);
      if (!contains(collided_, *index)) collided_.push_back(*index);
    }
  }
  for (const auto& [index, part] : parts) part.first->collided(part.second, heal_at_once);
}

void RangeSet::went_well() {
  const auto lock = locked(mutex_);
  for (const std::size_t index : std::exchange(collided_, {})) cache_of(index)->went_well();
}

// ---- for the store -----------------------------------------------------------------------------

void RangeSet::found(std::span<const RangeState> ranges) {
  handle([&](Effects& after) {
    const bool is_news = !std::exchange(is_known_, true) || !is_same(ranges);
    refusal_.reset();
    at_end_ = false;
    last_refusal_.clear();
    is_news ? replace(ranges, after) : update(ranges);
    free_.clear();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].live && !contains(slots_, i)) free_.push_back(i);
    }
    if (!fill_slots()) end(after);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, request] : requests_) ids.push_back(id);
    for (const std::uint64_t id : ids) {
      if (is_news) go_on(id, std::nullopt, after);
    }
    after.wake = false;  // the store knows
  });
}

void RangeSet::refuse(const Error& error) {
  handle([&](Effects& after) {
    is_known_ = true;
    at_end_ = false;
    refusal_ = error;
    while (!requests_.empty()) finish(requests_.begin()->first, error, after);
  });
}

void RangeSet::reopen() {
  const auto lock = locked(mutex_);
  for (KnownRange& known : ranges_) {
    if (known.cache) known.cache = open_(known.state);
  }
}

RangeStatistics RangeSet::statistics() const {
  const auto lock = locked(mutex_);
  RangeStatistics result{
      .refusal = refusal_, .at_end = at_end_, .all = ranges_.size(), .waiting = waiting_.size()};
  for (const KnownRange& known : ranges_) {
    result.live += known.live ? 1 : 0;
    result.total += count_between(known.state.first, known.state.last);
    std::uint64_t left = count_between(known.state.next, known.state.last);
    if (known.cache) {
      const CounterStatistics its = known.cache->statistics();
      result.held += its.held;
      left = std::min(left + its.held, its.left.value_or(left));
    }
    result.left += left;
  }
  if (slots_.empty()) return result;
  const KnownRange& next = ranges_[slots_[turn_ % slots_.size()]];
  result.next = next.cache->statistics().next.value_or(next.state.next);
  return result;
}

/// Numbers that the request does not need return to their range.
void RangeSet::answered(const RangeAnswer& answer, Result<Grant> grant) {
  handle([&](Effects& after) {
    const auto found = requests_.find(answer.id);
    const bool filled = answer.id == filling_;
    if (filled) filling_ = 0;
    std::optional<Error> failure;
    if (!grant) {
      refused(answer.cache, grant.error(), after);
      if (grant.error().code == Errc::unavailable) failure = grant.error();
    } else {
      last_refusal_.clear();
      if (is_random() && filled) pace_.succeeded(clock_.monotonic(), pace_.size());
      std::vector<Range> ranges = grant->take();
      used_ += answer.n;
      if (found == requests_.end() || found->second.missing < answer.n) {
        after.gone.emplace_back(Grant(shared_from_this(), std::move(ranges)),
                                std::vector<Ticket>());
      } else {
        auto& taken = found->second.taken;
        taken.insert(taken.end(), ranges.begin(), ranges.end());
        found->second.missing -= answer.n;
      }
    }
    if (found != requests_.end()) go_on(answer.id, failure, after);
  });
}

// ---- under the lock: requests ------------------------------------------------------------------

/// From the first active range, in turn, that holds enough. One before it that has none is filled.
bool RangeSet::take_from_slot(std::uint64_t n, std::vector<Range>& out, Effects& after) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t empty = kNone;
  for (std::size_t left = slots_.size(); left > 0 && !slots_.empty(); --left) {
    const std::size_t slot = turn_++ % slots_.size();
    const std::size_t index = slots_[slot];
    const Draw taken = ranges_[index].cache->take(n, out);
    if (taken) {
      if (empty != kNone && !requests_.contains(filling_)) ask_range(0, empty, after);
      return true;
    }
    if (taken.needs_store() || taken.error().code != Errc::exhausted) {
      empty = slot;
    } else {
      retire(index);
      empty = kNone;  // it may be another one's place now
    }
  }
  return false;
}

/// Serves the request from what is held, or has it ask a range. `failure`: of the one it has asked.
void RangeSet::go_on(std::uint64_t id, const std::optional<Error>& failure, Effects& after) {
  RangeRequest& request = requests_.at(id);
  if (!refusal_ || at_end_) gather(request);
  if (request.missing == 0) return finish(id, std::nullopt, after);
  if (!refusal_ && !failure && !fill_slots()) end(after);
  if (refusal_ || failure) return finish(id, refusal_ ? refusal_ : failure, after);
  const auto filled = requests_.find(filling_);
  if (is_random() && filled != requests_.end()) {
    return ask_cache(id, filled->second.cache, request.missing, after);
  }
  ask_range(id, turn_++ % slots_.size(), after);
}

/// Takes what the ranges hold, first of those that are not active.
void RangeSet::gather(RangeRequest& request) {
  const auto take_from = [&](std::size_t index) {
    BlockCache& cache = *ranges_[index].cache;
    const std::uint64_t part = std::min(request.missing, cache.held());
    if (part == 0 || !cache.take(part, request.taken)) return;
    request.missing -= part;
    used_ += part;
  };
  std::ranges::for_each(rest_, take_from);
  for (std::size_t i = 0; i < slots_.size(); ++i) take_from(slots_[(turn_ + i) % slots_.size()]);
  std::erase_if(rest_, [this](std::size_t index) {
    const bool is_used_up = ranges_[index].cache->held() == 0;
    if (is_used_up) ranges_[index].cache.reset();
    return is_used_up;
  });
}

/// The request asks the range in the slot for what it lacks; 0: nobody waits for the numbers.
void RangeSet::ask_range(std::uint64_t id, std::size_t slot, Effects& after) {
  if (is_random()) {
    // Another range takes the place of one whose block is used up, if there is another one.
    if (const auto next = pick()) {
      const std::size_t before = std::exchange(slots_[slot], *next);
      free_.push_back(before);
      close(before);
    }
  }
  const Cache cache = ranges_[slots_[slot]].cache;
  const std::uint64_t missing = id == 0 ? 0 : requests_.at(id).missing;
  const std::uint64_t wanted = is_random() ? block() : 1;
  if (is_random()) filling_ = id;
  if (wanted > missing) {  // these stay in the cache
    filling_ = waiting_.new_ticket();
    requests_.emplace(filling_, RangeRequest{});
    ask_cache(filling_, cache, wanted - missing, after);
  }
  if (id != 0) ask_cache(id, cache, missing, after);
}

void RangeSet::ask_cache(std::uint64_t id, const Cache& cache, std::uint64_t n, Effects& after) {
  requests_.at(id).cache = cache;
  after.asks.push_back(std::make_unique<RangeAnswer>(weak_from_this(), id, cache, n));
}

/// It waits no longer, and returns what it has taken.
void RangeSet::drop(RangeRequest request, Effects& after) {
  after.gone.emplace_back(Grant(shared_from_this(), std::move(request.taken)),
                          std::move(request.asked));
}

/// Answers the request: with all its numbers, or the error.
void RangeSet::finish(std::uint64_t id, const std::optional<Error>& error, Effects& after) {
  RangeRequest request = std::move(requests_.extract(id).mapped());
  if (auto waiter = waiting_.remove(id)) {
    error ? after.answer(std::move(waiter), *error)
          : after.answer(std::move(waiter),
                         Grant(shared_from_this(), std::exchange(request.taken, {})));
  }
  drop(std::move(request), after);
}

/// Numbers in a block, of which each active range has one.
std::uint64_t RangeSet::block() {
  const auto now = clock_.monotonic();
  pace_.note(now, used_);
  pace_.started(now, used_);
  if (spec_.counter.block.size) return pace_.size();
  return (pace_.size() + slots_.size() - 1) / slots_.size();
}

/// A range has refused a request. A reason that the next range gives, too, is not the range's own.
void RangeSet::refused(const Cache& cache, const Error& error, Effects& after) {
  if (error.code == Errc::unavailable) return;
  const auto known = std::ranges::find(ranges_, cache, &KnownRange::cache);
  if (known == ranges_.end() || !known->live) return;  // others have asked it, too
  const bool is_at_its_end = error.reason == handed_out_up_to(known->state.last);
  const bool is_general = !is_at_its_end && error.reason == last_refusal_;
  last_refusal_ = is_at_its_end ? std::string() : error.reason;
  retire(static_cast<std::size_t>(known - ranges_.begin()));
  if (!is_general) return;
  refusal_ = error;
  after.wake = true;
}

void RangeSet::end(Effects& after) {
  const std::string count = std::to_string(ranges_.size());
  at_end_ = true;
  refusal_ = Error{Errc::exhausted,
                   last_refusal_.empty()
                       ? "all numbers of the " + count + " ranges have been handed out"
                       : "none of the " + count + " ranges gives numbers: " + last_refusal_};
  after.wake = true;
}

// ---- under the lock: which ranges --------------------------------------------------------------

/// False if no range has numbers.
bool RangeSet::fill_slots() {
  while (slots_.size() < spec_.active) {
    const auto index = pick();
    if (!index) break;
    slots_.push_back(*index);
  }
  return !slots_.empty();
}

/// Takes a live range that is not active, at random, and opens it.
std::optional<std::size_t> RangeSet::pick() {
  if (free_.empty()) return std::nullopt;
  std::swap(free_[uniform(random_, free_.size())], free_.back());
  const std::size_t index = free_.back();
  free_.pop_back();
  std::erase(rest_, index);
  KnownRange& known = ranges_[index];
  if (!known.cache) known.cache = open_(known.state);
  known.cache->ask_again();  // it may have been at its end when it was used before
  return index;
}

void RangeSet::retire(std::size_t index) {
  KnownRange& known = ranges_[index];
  known.live = false;
  known.state.next = known.state.last + 1;
  std::erase(free_, index);
  if (std::erase(slots_, index) > 0) close(index);
}

/// The range is not active any more.
void RangeSet::close(std::size_t index) {
  KnownRange& known = ranges_[index];
  if (const auto next = known.cache->statistics().next) {
    known.state.next = std::max(known.state.next, *next);
  }
  if (known.cache->held() > 0) {
    rest_.push_back(index);
  } else {
    known.cache.reset();
  }
}

/// The first range of all may begin where it stands now.
bool RangeSet::is_same(std::span<const RangeState> ranges) const {
  return std::ranges::equal(ranges, ranges_, [](const RangeState& range, const KnownRange& known) {
    return range.number == known.state.number && range.last == known.state.last;
  });
}

void RangeSet::update(std::span<const RangeState> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    KnownRange& known = ranges_[i];
    known.state.next = ranges[i].next;
    // An active range finds out by itself that it is at its end.
    known.live = ranges[i].has_numbers() || contains(slots_, i);
  }
}

/// Requests begin anew.
void RangeSet::replace(std::span<const RangeState> ranges, Effects& after) {
  ranges_.clear();
  for (const RangeState& range : ranges) ranges_.push_back({range, range.has_numbers()});
  slots_.clear();
  rest_.clear();
  collided_.clear();
  for (auto& [id, request] : std::exchange(requests_, {})) {
    if (request.n > 0) requests_.emplace(id, RangeRequest{.n = request.n});
    drop(std::move(request), after);
  }
}

std::optional<std::size_t> RangeSet::index_of(std::int64_t number) const {
  const auto range = std::ranges::lower_bound(
      ranges_, number, {}, [](const KnownRange& known) { return known.state.last; });
  if (range == ranges_.end()) return std::nullopt;
  return static_cast<std::size_t>(range - ranges_.begin());
}

RangeSet::Cache RangeSet::cache_of(std::size_t index) const {
  const KnownRange& known = ranges_[index];
  return known.cache ? known.cache : open_(known.state);
}

}  // namespace idproxy::ids
