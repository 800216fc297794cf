#include "idproxy/ids/range_set.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {
namespace {

/// How many numbers there are from `first` to `last`, inclusive.
std::uint64_t count_between(std::int64_t first, std::int64_t last) {
  return Steps(1).count(first, last);
}

bool is_random(const RangesSpec& spec) {
  return spec.pick == RangesSpec::Pick::random;
}

template <class Item>
bool contains(const std::vector<Item>& items, const Item& item) {
  return std::ranges::find(items, item) != items.end();
}

// ---- which ranges: the caller holds the lock of the RangeSet

/// Numbers of one range.
struct RangePart {
  std::shared_ptr<BlockCache> cache;
  std::vector<Range> ranges;
};

std::optional<std::size_t> index_of(const KnownRanges& ranges, std::int64_t number) {
  const auto range = std::ranges::lower_bound(
      ranges.all, number, {}, [](const KnownRange& known) { return known.state.last; });
  if (range == ranges.all.end()) return std::nullopt;
  return static_cast<std::size_t>(range - ranges.all.begin());
}

std::shared_ptr<BlockCache> cache_of(const KnownRanges& ranges, std::size_t index) {
  const KnownRange& known = ranges.all[index];
  return known.cache ? known.cache : ranges.open(known.state);
}

/// By range. A piece of adjacent numbers may reach over the end of a range.
std::map<std::size_t, RangePart> split(const KnownRanges& ranges,
                                       const std::vector<Range>& pieces) {
  std::map<std::size_t, RangePart> parts;
  for (Range piece : pieces) {
    while (piece.count > 0) {
      const auto index = index_of(ranges, piece.first);
      if (!index) break;
      const std::int64_t last = ranges.all[*index].state.last;
      const std::uint64_t count = std::min(piece.count, count_between(piece.first, last));
      RangePart& part = parts[*index];
      if (!part.cache) part.cache = cache_of(ranges, *index);
      part.ranges.push_back({piece.first, count});
      piece.count -= count;
      if (piece.count > 0) piece.first = last + 1;
    }
  }
  return parts;
}

std::uint64_t held_by(const KnownRanges& ranges) {
  std::uint64_t sum = 0;
  for (const auto* indexes : {&ranges.rest, &ranges.slots}) {
    for (const std::size_t index : *indexes) sum += ranges.all[index].cache->held();
  }
  return sum;
}

/// The range is not active any more.
void close(KnownRanges& ranges, std::size_t index) {
  KnownRange& known = ranges.all[index];
  if (const auto next = known.cache->statistics().next) {
    known.state.next = std::max(known.state.next, *next);
  }
  if (known.cache->held() > 0) {
    ranges.rest.push_back(index);
  } else {
    known.cache.reset();
  }
}

void retire(KnownRanges& ranges, std::size_t index) {
  KnownRange& known = ranges.all[index];
  known.live = false;
  known.state.next = known.state.last + 1;
  std::erase(ranges.free, index);
  if (std::erase(ranges.slots, index) > 0) close(ranges, index);
}

/// Takes a live range that is not active, at random, and opens it.
std::optional<std::size_t> pick(KnownRanges& ranges) {
  if (ranges.free.empty()) return std::nullopt;
  std::swap(ranges.free[uniform(ranges.random, ranges.free.size())], ranges.free.back());
  const std::size_t index = ranges.free.back();
  ranges.free.pop_back();
  std::erase(ranges.rest, index);
  KnownRange& known = ranges.all[index];
  if (!known.cache) known.cache = ranges.open(known.state);
  known.cache->ask_again();  // it may have been at its end when it was used before
  return index;
}

/// False if no range has numbers.
bool fill_slots(KnownRanges& ranges, std::size_t most) {
  while (ranges.slots.size() < most) {
    const auto index = pick(ranges);
    if (!index) break;
    ranges.slots.push_back(*index);
  }
  return !ranges.slots.empty();
}

/// From the first active range, in turn, that holds enough.
bool take_from_slot(KnownRanges& ranges, std::uint64_t n, std::vector<Range>& out) {
  std::optional<std::size_t> empty;
  for (std::size_t left = ranges.slots.size(); left > 0 && !ranges.slots.empty(); --left) {
    const std::size_t slot = ranges.turn++ % ranges.slots.size();
    const std::size_t index = ranges.slots[slot];
    const Draw taken = ranges.all[index].cache->take(n, out);
    if (taken) {
      if (empty) ranges.empty_slot = empty;
      return true;
    }
    if (taken.needs_store() || taken.error().code != Errc::exhausted) {
      empty = slot;
    } else {
      retire(ranges, index);
      empty.reset();  // it may be another one's place now
    }
  }
  return false;
}

/// From several ranges, which together hold that many. Fewer if a cache has given numbers back to
/// the store meanwhile.
std::vector<Range> gather(KnownRanges& ranges, std::uint64_t n) {
  std::vector<Range> taken;
  const auto take_from = [&](std::size_t index) {
    BlockCache& cache = *ranges.all[index].cache;
    const std::uint64_t part = std::min(n, cache.held());
    if (part > 0 && cache.take(part, taken)) n -= part;
  };
  std::ranges::for_each(ranges.rest, take_from);
  for (std::size_t i = 0; i < ranges.slots.size(); ++i) {
    take_from(ranges.slots[(ranges.turn + i) % ranges.slots.size()]);
  }
  ++ranges.turn;
  std::erase_if(ranges.rest, [&ranges](std::size_t index) {
    const bool is_used_up = ranges.all[index].cache->held() == 0;
    if (is_used_up) ranges.all[index].cache.reset();
    return is_used_up;
  });
  return taken;
}

/// The first range of all may begin where it stands now.
bool is_same(const KnownRanges& ranges, std::span<const RangeState> found) {
  return std::ranges::equal(
      found, ranges.all, [](const RangeState& range, const KnownRange& known) {
        return range.number == known.state.number && range.last == known.state.last;
      });
}

void update(KnownRanges& ranges, std::span<const RangeState> found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    KnownRange& known = ranges.all[i];
    known.state.next = found[i].next;
    // An active range finds out by itself that it is at its end.
    known.live = found[i].has_numbers() || contains(ranges.slots, i);
  }
}

void replace(KnownRanges& ranges, std::span<const RangeState> found) {
  ranges.all.clear();
  for (const RangeState& range : found) ranges.all.push_back({range, range.has_numbers()});
  ++ranges.generation;
  ranges.slots.clear();
  ranges.rest.clear();
  ranges.empty_slot.reset();
}

}  // namespace

/// Leaves the numbers that arrive in their cache, where every request of the set finds them.
class RangeSet::FetchWaiter final : public Waiter {
 public:
  FetchWaiter(std::weak_ptr<RangeSet> set, std::uint64_t id) : set_(std::move(set)), id_(id) {}

  void answered(Result<Grant> grant) override {
    const auto error = grant ? std::nullopt : std::optional(grant.error());
    if (const auto set = set_.lock()) set->fetched(id_, error);
  }
  [[nodiscard]] bool takes() const override { return false; }

 private:
  const std::weak_ptr<RangeSet> set_;
  const std::uint64_t id_;
};

RangeSet::RangeSet(RangesSpec spec, const Clock& clock, RandomSource& random, Open open,
                   std::function<void()> wake)
    : spec_(std::move(spec)),
      clock_(clock),
      wake_(std::move(wake)),
      ranges_{random, std::move(open)},
      pace_(spec_.counter.block) {}

/// Then plans what to fetch.
template <class Event>
void RangeSet::handle(const Event& event) {
  Effects after;
  {
    const auto lock = locked(mutex_);
    event(after);
    plan(after);
  }
  after.unused = {};
  after.run(wake_);
  if (after.fetch) start(*after.fetch);
}

// ---- for strategies ----------------------------------------------------------------------------

Draw RangeSet::take(std::uint64_t n, std::vector<Range>& out) {
  Draw result;
  if (n == 0) return result;
  handle([&](Effects& after) {
    const bool drawn = waiting_.empty() && draw(n, out, after);
    if (!drawn) result = refusal_ ? Draw(*refusal_) : Draw::need();
  });
  return result;
}

/// Of the range that is next.
bool RangeSet::holds(std::uint64_t n) const {
  const auto lock = locked(mutex_);
  if (!waiting_.empty() || refusal_ || !ranges_.rest.empty() || ranges_.slots.empty()) return false;
  return ranges_.all[ranges_.slots[ranges_.turn % ranges_.slots.size()]].cache->holds(n);
}

Ticket RangeSet::ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) {
  std::uint64_t ticket = 0;
  handle([&](Effects& after) {
    auto numbers = waiting_.empty() ? grant(n, waiter->takes(), after) : std::nullopt;
    if (numbers) {
      after.answer(std::move(waiter), *std::move(numbers));
    } else if (refusal_) {
      after.answer(std::move(waiter), *refusal_);
    } else {
      ticket = waiting_.add(n, std::move(waiter), after);
    }
  });
  return {weak_from_this(), ticket};
}

void RangeSet::cancel(std::uint64_t ticket) {
  std::unique_ptr<Waiter> gone;  // destroyed without the lock
  handle([&](Effects& after) {
    gone = waiting_.remove(ticket);
    if (gone) serve(after);  // the requests behind it may need fewer numbers
  });
}

void RangeSet::take_back(const std::vector<Range>& ranges) {
  std::map<std::size_t, RangePart> parts;
  std::uint64_t generation = 0;
  {
    const auto lock = locked(mutex_);
    generation = ranges_.generation;
    parts = split(ranges_, ranges);
    for (const Range& range : ranges) used_ -= std::min(used_, range.count);
  }
  for (const auto& [index, part] : parts) part.cache->take_back(part.ranges);
  handle([&](Effects& after) {
    for (auto& [index, part] : parts) {
      // A range that is not active is used first now.
      const bool is_listed = contains(ranges_.slots, index) || contains(ranges_.rest, index);
      if (generation != ranges_.generation || is_listed) continue;
      ranges_.all[index].cache = std::move(part.cache);
      ranges_.rest.push_back(index);
    }
    serve(after);
  });
}

void RangeSet::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  std::map<std::size_t, std::pair<std::shared_ptr<BlockCache>, std::vector<std::int64_t>>> parts;
  {
    const auto lock = locked(mutex_);
    for (const std::int64_t number : numbers) {
      const auto index = index_of(ranges_, number);
      if (!index) continue;
      auto& [cache, its] = parts[*index];
      if (!cache) cache = cache_of(ranges_, *index);
      its.push_back(number);
      if (!contains(collided_, *index)) collided_.push_back(*index);
    }
  }
  for (const auto& [index, part] : parts) part.first->collided(part.second, heal_at_once);
}

void RangeSet::went_well() {
  const auto lock = locked(mutex_);
  for (const std::size_t index : std::exchange(collided_, {}))
    cache_of(ranges_, index)->went_well();
}

// ---- for the store -----------------------------------------------------------------------------

void RangeSet::found(std::span<const RangeState> ranges) {
  handle([&](Effects& after) {
    is_known_ = true;
    refusal_.reset();
    at_end_ = false;
    last_refusal_.clear();
    if (is_same(ranges_, ranges)) {
      update(ranges_, ranges);
    } else {
      replace(ranges_, ranges);
      collided_.clear();
      fetch_.reset();
      after.stale = std::move(fetch_ticket_);
    }
    ranges_.free.clear();
    for (std::size_t i = 0; i < ranges_.all.size(); ++i) {
      if (ranges_.all[i].live && !contains(ranges_.slots, i)) ranges_.free.push_back(i);
    }
    if (!fill_slots(ranges_, spec_.active)) end(after);
    serve(after);
    plan(after);
    after.wake = false;  // the store knows
  });
}

void RangeSet::refuse(const Error& error) {
  handle([&](Effects& after) {
    is_known_ = true;
    at_end_ = false;
    refusal_ = error;
    refuse_waiting(error, after);
  });
}

void RangeSet::reopen() {
  const auto lock = locked(mutex_);
  for (KnownRange& known : ranges_.all) {
    if (known.cache) known.cache = ranges_.open(known.state);
  }
}

RangeStatistics RangeSet::statistics() const {
  const auto lock = locked(mutex_);
  RangeStatistics result{.refusal = refusal_,
                         .at_end = at_end_,
                         .all = ranges_.all.size(),
                         .waiting = waiting_.size()};
  for (const KnownRange& known : ranges_.all) {
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
  if (ranges_.slots.empty()) return result;
  const KnownRange& next = ranges_.all[ranges_.slots[ranges_.turn % ranges_.slots.size()]];
  result.next = next.cache->statistics().next.value_or(next.state.next);
  return result;
}

// ---- without the lock --------------------------------------------------------------------------

void RangeSet::start(const Fetch& fetch) {
  Ticket ticket =
      fetch.cache->ask(fetch.n, std::make_unique<FetchWaiter>(weak_from_this(), fetch.id));
  const auto lock = locked(mutex_);
  // Otherwise the answer has come already, and another fetch may be under way.
  if (fetch_ && fetch_->id == fetch.id) std::swap(fetch_ticket_, ticket);
}

void RangeSet::fetched(std::uint64_t id, const std::optional<Error>& error) {
  handle([&](Effects& after) {
    if (!fetch_ || fetch_->id != id) return;
    const std::size_t index = fetch_->index;
    fetch_.reset();
    if (error) {
      give_up(index, *error, after);
    } else {
      last_refusal_.clear();
      if (is_random(spec_)) pace_.succeeded(clock_.monotonic(), pace_.size());
    }
    serve(after);
  });
}

// ---- under the lock: numbers -------------------------------------------------------------------

/// Nothing if they hold too few together. Empty if the waiter does not take the numbers.
std::optional<Grant> RangeSet::grant(std::uint64_t n, bool takes, Effects& after) {
  if (!takes) return held_by(ranges_) >= n ? std::optional(Grant()) : std::nullopt;
  std::vector<Range> ranges;
  if (!draw(n, ranges, after)) return std::nullopt;
  return Grant(shared_from_this(), std::move(ranges));
}

bool RangeSet::draw(std::uint64_t n, std::vector<Range>& out, Effects& after) {
  if (refusal_ && !at_end_) return false;
  if (ranges_.rest.empty() && take_from_slot(ranges_, n, out)) {
    used_ += n;
    return true;
  }
  if (held_by(ranges_) < n) return false;
  std::vector<Range> taken = gather(ranges_, n);
  std::uint64_t count = 0;
  for (const Range& range : taken) count += range.count;
  used_ += count;
  if (count == n) {
    out.insert(out.end(), taken.begin(), taken.end());
    return true;
  }
  after.unused = Grant(shared_from_this(), std::move(taken));
  return false;
}

// ---- under the lock: requests ------------------------------------------------------------------

void RangeSet::serve(Effects& after) {
  while (!waiting_.empty()) {
    auto numbers = grant(waiting_.first(), waiting_.first_takes(), after);
    ranges_.empty_slot.reset();  // a request that had to wait shows no need to fetch ahead
    if (!numbers) return;
    waiting_.answer_first(*std::move(numbers), after);
  }
}

/// Answers every waiting request: those that find enough numbers get them.
void RangeSet::refuse_waiting(const Error& error, Effects& after) {
  const auto answer = [&](std::uint64_t n, bool takes) {
    auto numbers = grant(n, takes, after);
    return numbers ? Result<Grant>(*std::move(numbers)) : Result<Grant>(error);
  };
  waiting_.answer_all(answer, after);
}

/// Fetches numbers if requests wait after serve(), or if a slot has none and others had to do.
void RangeSet::plan(Effects& after) {
  const std::optional<std::size_t> empty = std::exchange(ranges_.empty_slot, std::nullopt);
  if (fetch_ || refusal_ || !is_known_ || (waiting_.empty() && !empty)) return;
  if (!fill_slots(ranges_, spec_.active)) return end(after);
  const std::size_t slot = empty.value_or(ranges_.turn++) % ranges_.slots.size();
  if (is_random(spec_)) {
    // Another range takes the place of one whose block is used up, if there is another one.
    if (const auto next = pick(ranges_)) {
      const std::size_t before = std::exchange(ranges_.slots[slot], *next);
      ranges_.free.push_back(before);
      close(ranges_, before);
    }
  }
  const std::uint64_t held_now = held_by(ranges_);
  const std::uint64_t needed = waiting_.needed();
  const std::uint64_t missing = needed > held_now ? needed - held_now : 1;
  const std::size_t index = ranges_.slots[slot];
  const auto& cache = ranges_.all[index].cache;
  // The cache asks the store for what it does not hold.
  const std::uint64_t n = cache->held() + (is_random(spec_) ? std::max(missing, block()) : missing);
  fetch_ = Fetch{++fetches_, index, cache, n};
  after.fetch = fetch_;
}

/// Numbers in a block, of which each active range has one.
std::uint64_t RangeSet::block() {
  const auto now = clock_.monotonic();
  pace_.note(now, used_);
  pace_.started(now, used_);
  if (spec_.counter.block.size) return pace_.size();
  return (pace_.size() + ranges_.slots.size() - 1) / ranges_.slots.size();
}

/// A range has refused a fetch. A reason that the next range gives, too, is not the range's own.
void RangeSet::give_up(std::size_t index, const Error& error, Effects& after) {
  if (error.code == Errc::unavailable) return refuse_waiting(error, after);
  const bool is_general = !error.at_end && error.reason == last_refusal_;
  last_refusal_ = error.at_end ? std::string() : error.reason;
  retire(ranges_, index);
  if (!is_general) return;
  refusal_ = error;
  after.wake = true;
  refuse_waiting(error, after);
}

void RangeSet::end(Effects& after) {
  const std::string count = std::to_string(ranges_.all.size());
  at_end_ = true;
  refusal_ = Error{Errc::exhausted,
                   last_refusal_.empty()
                       ? "all numbers of the " + count + " ranges have been handed out"
                       : "none of the " + count + " ranges gives numbers: " + last_refusal_};
  after.wake = true;
  refuse_waiting(*refusal_, after);
}

}  // namespace idproxy::ids
