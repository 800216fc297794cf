#include "id_store/ranges.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/log/log.hpp"

namespace idproxy::id_store {

using ids::Errc;
using ids::Error;
using ids::RangeSet;
using ids::RangeStatistics;
namespace {

/// Logs what runs out: from a tenth of all numbers on, each time half of the rest has been used.
void report_ranges(auto& set, const RangeStatistics& statistics) {
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

}  // namespace

Ranges::Set::Set(Ranges& owner)
    : task(Lane::ranges, [this, &owner] { return owner.read(*this); }) {}

Ranges::Ranges(const mongo::Pool& pool, const Clock& clock, Counters& counters,
               Scheduler& scheduler, RangeDocuments::Missing missing)
    : pool_(pool), clock_(clock), counters_(counters), scheduler_(scheduler), missing_(missing) {}

std::shared_ptr<RangeSet> Ranges::ranges(const ids::RangesSpec& spec, Counters::Fields fields,
                                         const ids::Sources& sources, std::uint64_t watch) {
  std::shared_ptr<RangeSet> ranges;  // in use from here on
  bool reopens = false;
  {
    const std::scoped_lock lock(sets_.mutex);
    const auto [set, got] = sets_.get(
        spec.counter.place.ns(), watch,
        [&](const Shared& known) { return known->ranges->spec() == spec; },
        [&] { return make(spec, fields.front(), sources); });
    ranges = set->ranges;
    for (const ids::CounterField& field : fields) reopens |= set->add_field(field, watch);
    if (got != decltype(sets_)::Got::known) scheduler_.wake({set, &set->task});
  }
  if (reopens) ranges->reopen();
  return ranges;
}

Ranges::Shared Ranges::make(const ids::RangesSpec& spec, const ids::CounterField& field,
                            const ids::Sources& sources) {
  auto set = std::make_shared<Set>(*this);
  const std::weak_ptr weak(set);
  set->ranges = std::make_shared<RangeSet>(
      spec, sources.clock, sources.random,
      [this, weak, spec, field](const ids::RangeState& state) {
        const ids::CounterSpec range = ids::counter_of(spec, state);
        const Shared known = weak.lock();
        return known ? open(range, *known) : counters_.counter(range, {&field, 1}, 0);
      },
      [this, weak] {
        const Shared woken = weak.lock();
        if (!woken) return;
        const std::scoped_lock lock(sets_.mutex);
        scheduler_.wake_at({woken, &woken->task},
                           woken->looked_at + Scheduler::Time(kLookAtMostEvery));
      });
  return set;
}

/// Every rule's field counts when the range is healed.
std::shared_ptr<ids::BlockCache> Ranges::open(const ids::CounterSpec& range, const Set& set) {
  std::vector<ids::CounterField> fields;
  std::uint64_t watch = 0;
  {
    const std::scoped_lock lock(sets_.mutex);
    fields.assign(set.fields.begin() + static_cast<std::ptrdiff_t>(set.older), set.fields.end());
    watch = set.watch;
  }
  return counters_.counter(range, fields, watch);
}

// ---- the task ----------------------------------------------------------------------------------

std::optional<Scheduler::Time> Ranges::read(Set& set) {
  std::vector<ids::CounterField> fields;
  {
    const std::scoped_lock lock(sets_.mutex);
    fields = set.fields;
    set.looked_at = clock_.monotonic();
    if (set.ranges.use_count() == 1) {  // no rule uses it any more
      sets_.forget_if([](const Shared& each) { return each->ranges.use_count() == 1; });
      return std::nullopt;
    }
  }
  mongo::Client client = pool_.client();
  RangeDocuments documents(client, set.ranges->spec(), fields, missing_);
  const auto found = documents.read([this] { return scheduler_.is_stopping(); });
  const bool was_found = set.ranges->statistics().all > 0;
  if (found) {
    set.ranges->found(*found);
  } else if (found.error().code == Errc::exhausted || !was_found) {
    set.ranges->refuse(found.error());
  }
  const RangeStatistics statistics = set.ranges->statistics();
  if (found) report_ranges(set, statistics);
  const std::scoped_lock lock(sets_.mutex);
  set.looked = true;
  set.unreached = documents.unreached();
  set.looked_at = clock_.monotonic();
  return set.looked_at + Scheduler::Time(found && !statistics.refusal ? kLookEvery : kLookAgain);
}

// ---- reports -----------------------------------------------------------------------------------

std::vector<Ranges::Shared> Ranges::in_force() const {
  const std::scoped_lock lock(sets_.mutex);
  std::vector<Shared> all;
  for (const auto& [name, set] : sets_.in_force()) all.push_back(set);
  return all;
}

std::vector<NotReadyReport> Ranges::not_ready() const {
  std::vector<NotReadyReport> found;
  const bool starves = scheduler_.starves(Lane::ranges);
  for (const Shared& set : in_force()) {
    RangeStatistics statistics = set->ranges->statistics();
    const auto refused = counters_.why_ranges_refused(set->ranges->spec().counter.place.ns());
    const std::scoped_lock lock(sets_.mutex);
    const auto add = [&](Error error) { found.push_back({std::move(error), set->fields}); };
    if (starves) {
      add(no_thread());
    } else if (!set->looked) {
      add(not_looked_at("the ranges have"));
    } else if (!set->unreached.empty() && statistics.held == 0) {
      add({Errc::unavailable, "the id store " + set->unreached});
    } else if (statistics.refusal) {
      add(*std::move(statistics.refusal));
    } else if (refused && statistics.held == 0) {
      add({Errc::exhausted, *refused});
    }
  }
  return found;
}

std::vector<InUse> Ranges::in_use() const {
  std::vector<InUse> found;
  for (const Shared& set : in_force()) {
    const RangeStatistics statistics = set->ranges->statistics();
    if (statistics.all == 0) continue;
    ids::CounterNumbers numbers{statistics.next, statistics.held, statistics.left,
                                ids::CounterNumbers::Ranges{statistics.live, statistics.all}};
    numbers.all = statistics.total;
    const std::scoped_lock lock(sets_.mutex);
    found.push_back({numbers, set->fields});
  }
  return found;
}

void Ranges::add_to(StoreStatistics& sum) const {
  for (const Shared& set : in_force()) {
    const RangeStatistics statistics = set->ranges->statistics();
    sum.counters_exhausted += statistics.at_end ? 1 : 0;
    sum.counters_refused +=
        statistics.refusal && !statistics.at_end && statistics.refusal->code == Errc::exhausted;
    sum.requests_waiting += statistics.waiting;
    const std::scoped_lock lock(sets_.mutex);
    if (!sum.up || set->unreached.empty()) continue;
    sum.up = false;
    sum.down_reason = set->unreached;
  }
}

}  // namespace idproxy::id_store
