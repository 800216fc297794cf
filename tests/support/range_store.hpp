#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/range_set.hpp"
#include "support/block_caches.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"

namespace idproxy::test {

/// A set of ranges with the test as its store. Range i of the layout is document i. One thread may
/// do the jobs while others use `set`.
class RangeStore {
 public:
  using Job = ids::CounterJob;
  using Reply = ids::CounterReply;

  /// A job that was done.
  struct Done {
    std::int64_t range;
    Job job;
  };

  explicit RangeStore(const ids::RangesSpec& spec) : spec_(spec) {
    for (std::int64_t i = 0; i < spec.layout->count; ++i) {
      const std::int64_t first = spec.layout->first_of(i);
      documents[i] = {i, first, spec.layout->last_of(i), first};
    }
    set = std::make_shared<ids::RangeSet>(
        spec, clock, random, [this](const ids::RangeState& range) { return open(range); },
        [this] { ++looks; });
  }

  /// As the store reads them.
  [[nodiscard]] std::vector<ids::RangeState> stored() const {
    std::vector<ids::RangeState> ranges;
    for (const auto& [number, range] : documents) {
      ranges.push_back(range);
      ranges.back().next = std::min(range.next, range.last + 1);
    }
    return ranges;
  }
  void look() { set->found(stored()); }

  /// Does all jobs that there are now.
  void work() {
    for (Caches woken = take_woken(); !woken.empty(); woken = take_woken()) {
      for (const auto& [number, cache] : woken) {
        while (do_job(number, *cache)) {
        }
      }
    }
  }

  /// Takes numbers. Keeps an error in `error`.
  Ranges take(std::uint64_t n) {
    Ranges out;
    const ids::Draw taken = set->take(n, out);
    error.reset();
    if (!taken && !taken.needs_store()) error = taken.error();
    return out;
  }
  Waiting ask(std::uint64_t n) {
    Waiting waiting;
    waiting.ticket = set->ask(n, std::make_unique<NotedWaiter>(waiting.answer));
    return waiting;
  }
  /// From memory, or through the store.
  std::vector<std::int64_t> next(std::uint64_t n) {
    Ranges ranges = take(n);
    if (ranges.empty() && !error) {
      const Waiting waiting = ask(n);
      work();
      ranges = waiting.answer->numbers();
      if (waiting.answer->error()) error = waiting.answer->grant->error();
    }
    work();
    return numbers_of(ranges);
  }
  static std::vector<std::int64_t> numbers_of(const Ranges& ranges) {
    std::vector<std::int64_t> numbers;
    for (const ids::Range& range : ranges) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        numbers.push_back(range.first + static_cast<std::int64_t>(i));
      }
    }
    return numbers;
  }
  [[nodiscard]] std::int64_t range_of(std::int64_t number) const {
    return (number - spec_.layout->first) / spec_.layout->width;
  }

  FakeClock clock;
  SeededRandom random;
  std::map<std::int64_t, ids::RangeState> documents;  // what they say; the test may change them
  std::map<std::int64_t, std::string> faults;         // why a range gives no numbers
  bool is_down = false;
  int looks = 0;  // how often the set asked for one
  std::vector<Done> done;
  std::optional<ids::Error> error;  // of the last take() or next()
  std::shared_ptr<ids::RangeSet> set;

 private:
  using Caches = std::map<std::int64_t, std::shared_ptr<ids::BlockCache>>;

  Caches take_woken() {
    const std::scoped_lock lock(mutex_);
    Caches woken;
    for (const std::int64_t number : std::exchange(woken_, {})) woken[number] = caches_[number];
    return woken;
  }
  std::shared_ptr<ids::BlockCache> open(const ids::RangeState& range) {
    const std::scoped_lock lock(mutex_);
    auto& cache = caches_[range.number];
    if (!cache) {
      cache = std::make_shared<ids::BlockCache>(ids::counter_of(spec_, range), clock,
                                                [this, number = range.number] {
                                                  const std::scoped_lock wake_lock(mutex_);
                                                  woken_.insert(number);
                                                });
    }
    return cache;
  }

  bool do_job(std::int64_t number, ids::BlockCache& cache) {
    const auto job = cache.begin();
    if (!job) return false;
    done.push_back({number, *job});
    cache.finish(reply_to(number, *job));
    return true;
  }

  Reply reply_to(std::int64_t number, const Job& job) {
    if (is_down) return {Reply::Kind::failed, {}, "the store is down"};
    const auto found = documents.find(number);
    if (const auto fault = faults.find(number); fault != faults.end()) {
      return {Reply::Kind::exhausted, {}, fault->second};
    }
    if (found == documents.end()) return {Reply::Kind::exhausted, {}, "it is missing"};
    ids::RangeState& range = found->second;
    if (job.kind == Job::Kind::give_back) {
      const auto end = job.unused.first + static_cast<std::int64_t>(job.unused.count);
      if (end != range.next) return {Reply::Kind::overtaken};
      range.next = job.unused.first;
      return {Reply::Kind::given_back};
    }
    if (job.kind == Job::Kind::confirm) return {Reply::Kind::stands, {range.next, 0}};
    if (job.kind == Job::Kind::heal && job.beyond) {
      range.next = std::max(range.next, *job.beyond + 1);
    }
    if (!range.has_numbers()) {
      return ids::handed_out_up_to(range.last);
    }
    const std::int64_t first = range.next;
    range.next = std::min(first + static_cast<std::int64_t>(job.count), range.last + 1);
    return {Reply::Kind::allocated, {first, static_cast<std::uint64_t>(range.next - first)}};
  }

  const ids::RangesSpec spec_;
  std::mutex mutex_;
  Caches caches_;
  std::set<std::int64_t> woken_;
};

}  // namespace idproxy::test
