#include "idproxy/ids/range_set.hpp"

#include <algorithm>
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
      random_(random),
      open_(std::move(open)),
      wake_(std::move(wake)),
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
  if (!waiting_.empty() || refusal_ || !rest_.empty() || slots_.empty()) return false;
  return ranges_[slots_[turn_ % slots_.size()]].cache->holds(n);
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
    generation = generation_;
    parts = split(ranges);
    for (const Range& range : ranges) used_ -= std::min(used_, range.count);
  }
  for (const auto& [index, part] : parts) part.cache->take_back(part.ranges);
  handle([&](Effects& after) {
    for (auto& [index, part] : parts) {
      // A range that is not active is used first now.
      const bool is_listed = contains(slots_, index) || contains(rest_, index);
      if (generation != generation_ || is_listed) continue;
      ranges_[index].cache = std::move(part.cache);
      rest_.push_back(index);
    }
    serve(after);
  });
}

void RangeSet::collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) {
  std::map<std::size_t, std::pair<std::shared_ptr<BlockCache>, std::vector<std::int64_t>>> parts;
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
    is_known_ = true;
    refusal_.reset();
    at_end_ = false;
    last_refusal_.clear();
    is_same(ranges) ? update(ranges) : replace(ranges, after);
    free_.clear();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].live && !contains(slots_, i)) free_.push_back(i);
    }
    if (!fill_slots()) end(after);
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
  if (!takes) return held() >= n ? std::optional(Grant()) : std::nullopt;
  std::vector<Range> ranges;
  if (!draw(n, ranges, after)) return std::nullopt;
  return Grant(shared_from_this(), std::move(ranges));
}

bool RangeSet::draw(std::uint64_t n, std::vector<Range>& out, Effects& after) {
  if (refusal_ && !at_end_) return false;
  const bool drawn = (rest_.empty() && take_from_slot(n, out)) || gather(n, out, after);
  if (drawn) used_ += n;
  return drawn;
}

/// From the first active range, in turn, that holds enough.
bool RangeSet::take_from_slot(std::uint64_t n, std::vector<Range>& out) {
  std::optional<std::size_t> empty;
  for (std::size_t left = slots_.size(); left > 0 && !slots_.empty(); --left) {
    const std::size_t slot = turn_++ % slots_.size();
    const std::size_t index = slots_[slot];
    const Draw taken = ranges_[index].cache->take(n, out);
    if (taken) {
      if (empty) empty_slot_ = empty;
      return true;
    }
    if (taken.needs_store() || taken.error().code != Errc::exhausted) {
      empty = slot;
    } else {
      retire(index);
      empty.reset();  // it may be another one's place now
    }
  }
  return false;
}

/// From several ranges, if they hold enough together.
bool RangeSet::gather(std::uint64_t n, std::vector<Range>& out, Effects& after) {
  if (held() < n) return false;
  std::vector<Range> taken;
  std::uint64_t missing = n;
  const auto take_from = [&](std::size_t index) {
    BlockCache& cache = *ranges_[index].cache;
    const std::uint64_t part = std::min(missing, cache.held());
    if (part > 0 && cache.take(part, taken)) missing -= part;
  };
  std::ranges::for_each(rest_, take_from);
  for (std::size_t i = 0; i < slots_.size(); ++i) take_from(slots_[(turn_ + i) % slots_.size()]);
  ++turn_;
  std::erase_if(rest_, [this](std::size_t index) {
    const bool is_used_up = ranges_[index].cache->held() == 0;
    if (is_used_up) ranges_[index].cache.reset();
    return is_used_up;
  });
  if (missing == 0) {
    out.insert(out.end(), taken.begin(), taken.end());
    return true;
  }
  // Meanwhile a cache has given numbers back to the store.
  used_ += n - missing;
  after.unused = Grant(shared_from_this(), std::move(taken));
  return false;
}

std::uint64_t RangeSet::held() const {
  std::uint64_t sum = 0;
  for (const auto* indexes : {&rest_, &slots_}) {
    for (const std::size_t index : *indexes) sum += ranges_[index].cache->held();
  }
  return sum;
}

/// By range. A piece of adjacent numbers may reach over the end of a range.
std::map<std::size_t, RangeSet::RangePart> RangeSet::split(const std::vector<Range>& pieces) const {
  std::map<std::size_t, RangePart> parts;
  for (Range piece : pieces) {
    while (piece.count > 0) {
      const auto index = index_of(piece.first);
      if (!index) break;
      const std::int64_t last = ranges_[*index].state.last;
      const std::uint64_t count = std::min(piece.count, count_between(piece.first, last));
      RangePart& part = parts[*index];
      if (!part.cache) part.cache = cache_of(*index);
      part.ranges.push_back({piece.first, count});
      piece.count -= count;
      if (piece.count > 0) piece.first = last + 1;
    }
  }
  return parts;
}

// ---- under the lock: requests ------------------------------------------------------------------

void RangeSet::serve(Effects& after) {
  while (!waiting_.empty()) {
    auto numbers = grant(waiting_.first(), waiting_.first_takes(), after);
    empty_slot_.reset();  // a request that had to wait shows no need to fetch ahead
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
  const std::optional<std::size_t> empty = std::exchange(empty_slot_, std::nullopt);
  if (fetch_ || refusal_ || !is_known_ || (waiting_.empty() && !empty)) return;
  if (!fill_slots()) return end(after);
  const std::size_t slot = empty.value_or(turn_++) % slots_.size();
  if (is_random(spec_)) {
    // Another range takes the place of one whose block is used up, if there is another one.
    if (const auto next = pick()) {
      const std::size_t before = std::exchange(slots_[slot], *next);
      free_.push_back(before);
      close(before);
    }
  }
  const std::uint64_t held_now = held();
  const std::uint64_t needed = waiting_.needed();
  const std::uint64_t missing = needed > held_now ? needed - held_now : 1;
  const std::size_t index = slots_[slot];
  const auto& cache = ranges_[index].cache;
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
  return (pace_.size() + slots_.size() - 1) / slots_.size();
}

/// A range has refused a fetch. A reason that the next range gives, too, is not the range's own.
void RangeSet::give_up(std::size_t index, const Error& error, Effects& after) {
  if (error.code == Errc::unavailable) return refuse_waiting(error, after);
  const bool is_general = !error.at_end && error.reason == last_refusal_;
  last_refusal_ = error.at_end ? std::string() : error.reason;
  retire(index);
  if (!is_general) return;
  refusal_ = error;
  after.wake = true;
  refuse_waiting(error, after);
}

void RangeSet::end(Effects& after) {
  const std::string count = std::to_string(ranges_.size());
  at_end_ = true;
  refusal_ = Error{Errc::exhausted,
                   last_refusal_.empty()
                       ? "all numbers of the " + count + " ranges have been handed out"
                       : "none of the " + count + " ranges gives numbers: " + last_refusal_};
  after.wake = true;
  refuse_waiting(*refusal_, after);
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

void RangeSet::replace(std::span<const RangeState> ranges, Effects& after) {
  ranges_.clear();
  for (const RangeState& range : ranges) ranges_.push_back({range, range.has_numbers()});
  ++generation_;
  slots_.clear();
  rest_.clear();
  collided_.clear();
  empty_slot_.reset();
  fetch_.reset();
  after.stale = std::move(fetch_ticket_);
}

std::optional<std::size_t> RangeSet::index_of(std::int64_t number) const {
  const auto range = std::ranges::lower_bound(
      ranges_, number, {}, [](const KnownRange& known) { return known.state.last; });
  if (range == ranges_.end()) return std::nullopt;
  return static_cast<std::size_t>(range - ranges_.begin());
}

std::shared_ptr<BlockCache> RangeSet::cache_of(std::size_t index) const {
  const KnownRange& known = ranges_[index];
  return known.cache ? known.cache : open_(known.state);
}

}  // namespace idproxy::ids
