#include "id_store/range_keeper.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/observability/log.hpp"

namespace idproxy::id_store {
namespace {

using ids::Errc;
using ids::Error;
using ids::RangeSet;
using ids::RangeState;
using ids::RangeStatistics;

}  // namespace

RangeKeeper::RangeKeeper(const mongo::Pool& pool, const Clock& clock, CounterWorkers& workers,
                         RangeDocuments::Missing missing)
    : pool_(pool), clock_(clock), workers_(workers), missing_(missing) {}

RangeKeeper::~RangeKeeper() {
  join();
}

void RangeKeeper::join() {
  (void)stop(std::chrono::milliseconds(0));
  if (thread_.joinable()) thread_.join();
}

bool RangeKeeper::stop(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return !running_; });
}

std::shared_ptr<RangeSet> RangeKeeper::ranges(const ids::RangesSpec& spec,
                                              const ids::CounterField& field,
                                              const ids::Sources& sources, std::uint64_t watch) {
  std::shared_ptr<RangeSet> ranges;
  bool reopens = false;
  {
    const Lock lock(mutex_);
    Shared& set = sets_[spec.counter.place.ns()];
    const bool is_newer = !set || watch > set->users->watch;
    if (!set || (is_newer && set->ranges->spec() != spec)) set = make(spec, sources);
    ranges = set->ranges;
    Users& users = *set->users;
    if (is_newer) {
      users = {.fields = {}, .watch = watch};
      set->look_at = clock_.monotonic();
    }
    if (watch == users.watch && std::ranges::find(users.fields, field) == users.fields.end()) {
      users.fields.push_back(field);
      reopens = true;
    }
    if (!running_ && !stopping_) {
      running_ = true;
      thread_ = std::thread([this] { run(); });
    }
    changed_.notify_all();
  }
  if (reopens) ranges->reopen();
  return ranges;
}

RangeKeeper::Shared RangeKeeper::make(const ids::RangesSpec& spec, const ids::Sources& sources) {
  auto set = std::make_shared<Set>();
  set->users = std::make_shared<Users>();
  set->ranges = std::make_shared<RangeSet>(
      spec, sources.clock, sources.random,
      [this, spec, users = set->users](const RangeState& range) {
        return open(spec, range, *users);
      },
      [this, weak = std::weak_ptr(set)] { wake(weak); });
  return set;
}

/// Every rule's field counts when the range is healed.
std::shared_ptr<ids::BlockCache> RangeKeeper::open(const ids::RangesSpec& spec,
                                                   const RangeState& range, const Users& users) {
  std::vector<ids::CounterField> fields;
  std::uint64_t watch = 0;
  {
    const Lock lock(mutex_);
    fields = users.fields;
    watch = users.watch;
  }
  const ids::CounterSpec counter = ids::counter_of(spec, range);
  std::shared_ptr<ids::BlockCache> cache;
  for (const ids::CounterField& field : fields) cache = workers_.counter(counter, field, watch);
  return cache;
}

void RangeKeeper::wake(const std::weak_ptr<Set>& weak) {
  const Shared set = weak.lock();
  if (!set) return;
  const Lock lock(mutex_);
  set->look_at = std::min(set->look_at, set->looked_at + Time(kLookAtMostEvery));
  changed_.notify_all();
}

void RangeKeeper::await_looks(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] {
    return stopping_ ||
           std::ranges::all_of(sets_, [](const auto& item) { return item.second->looked; });
  });
}

// ---- the thread --------------------------------------------------------------------------------

/// The set to look at first; null: there is none. Forgets those that no rule uses any more.
RangeKeeper::Shared RangeKeeper::next() {
  std::erase_if(sets_, [](const auto& item) { return item.second->ranges.use_count() == 1; });
  const auto first =
      std::ranges::min_element(sets_, {}, [](const auto& item) { return item.second->look_at; });
  return first == sets_.end() ? nullptr : first->second;
}

void RangeKeeper::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    const Shared set = next();
    const Time now = clock_.monotonic();
    if (set && set->look_at <= now) {
      look(lock, set);
    } else if (set) {
      changed_.wait_for(lock, set->look_at - now);
    } else {
      changed_.wait(lock);
    }
  }
  running_ = false;
  changed_.notify_all();
}

/// Without the lock, but for a moment to note the result.
void RangeKeeper::look(Lock& lock, const Shared& set) {
  const std::vector<ids::CounterField> fields = set->users->fields;
  const std::shared_ptr<RangeSet> ranges = set->ranges;
  lock.unlock();
  mongo::Client client = pool_.client();
  RangeDocuments documents(client, ranges->spec(), fields, missing_);
  const auto found = documents.look([this] {
    const Lock stop_lock(mutex_);
    return stopping_;
  });
  const bool is_refused = !found && found.error().kind == ids::CounterReply::Kind::exhausted;
  const bool was_found = ranges->statistics().all > 0;
  if (found) {
    ranges->found(*found);
  } else if (is_refused || !was_found) {
    ranges->refuse({is_refused ? Errc::exhausted : Errc::unavailable, found.error().reason});
  }
  const RangeStatistics statistics = ranges->statistics();
  if (found) tell(*set, statistics);
  lock.lock();
  set->looked = true;
  set->unreached = documents.unreached();
  set->looked_at = clock_.monotonic();
  set->look_at = set->looked_at + Time(found && !statistics.refusal ? kLookEvery : kLookAgain);
  changed_.notify_all();
}

/// Logs what runs out: from a tenth of all numbers on, each time half of the rest has been used.
void RangeKeeper::tell(Set& set, const RangeStatistics& statistics) {
  const std::string collection = set.ranges->spec().counter.place.ns();
  if (statistics.at_end && !std::exchange(set.told_end, true)) {
    log::event(log::Level::error, "counter_exhausted", "the ranges give no more numbers",
               {{"counter", collection}, {"reason", statistics.refusal->reason}});
  }
  if (statistics.at_end) return;
  set.told_end = false;
  const std::uint64_t tenth = statistics.total / 10;
  if (set.warn_below == 0 || statistics.left > tenth) set.warn_below = tenth;
  if (statistics.left > set.warn_below) return;
  set.warn_below = std::max<std::uint64_t>(statistics.left / 2, 1);
  log::event(log::Level::warning, "ranges_run_out",
             "more than nine tenths of the numbers of all ranges have been used",
             {{"collection", collection},
              {"left", statistics.left},
              {"total", statistics.total},
              {"live_ranges", statistics.live}});
}

// ---- reports -----------------------------------------------------------------------------------

std::vector<RangeKeeper::Shared> RangeKeeper::all() const {
  const Lock lock(mutex_);
  std::vector<Shared> all;
  all.reserve(sets_.size());
  for (const auto& [name, set] : sets_) all.push_back(set);
  return all;
}

std::vector<CounterWorkers::NotReady> RangeKeeper::not_ready() const {
  std::vector<CounterWorkers::NotReady> found;
  for (const Shared& set : all()) {
    RangeStatistics statistics = set->ranges->statistics();
    const auto refused = workers_.why_ranges_refused(set->ranges->spec().counter.place.ns());
    const Lock lock(mutex_);
    const auto add = [&](Error error, bool passes) {
      found.push_back({{std::move(error), passes}, set->users->fields});
    };
    if (!set->looked) {
      add({Errc::unavailable, "the ranges have not been looked at yet"}, true);
    } else if (!set->unreached.empty() && statistics.held == 0) {
      add({Errc::unavailable, "the id store " + set->unreached}, false);
    } else if (statistics.refusal) {
      add(*std::move(statistics.refusal), false);
    } else if (refused && statistics.held == 0) {
      add({Errc::exhausted, *refused}, false);
    }
  }
  return found;
}

std::vector<CounterWorkers::InUse> RangeKeeper::in_use() const {
  std::vector<CounterWorkers::InUse> found;
  for (const Shared& set : all()) {
    const RangeStatistics statistics = set->ranges->statistics();
    if (statistics.all == 0) continue;
    ids::CounterNumbers numbers{statistics.next, statistics.held, statistics.left,
                                ids::CounterNumbers::Ranges{statistics.live, statistics.all}};
    numbers.all = statistics.total;
    const Lock lock(mutex_);
    found.push_back({numbers, set->users->fields});
  }
  return found;
}

void RangeKeeper::add_to(StoreStatistics& sum) const {
  for (const Shared& set : all()) {
    const RangeStatistics statistics = set->ranges->statistics();
    sum.counters_exhausted += statistics.at_end ? 1 : 0;
    sum.counters_refused +=
        statistics.refusal && !statistics.at_end && statistics.refusal->code == Errc::exhausted;
    sum.requests_waiting += statistics.waiting;
    const Lock lock(mutex_);
    if (!sum.up || set->unreached.empty()) continue;
    sum.up = false;
    sum.down_reason = set->unreached;
  }
}

}  // namespace idproxy::id_store
