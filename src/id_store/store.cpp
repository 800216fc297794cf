#include "idproxy/id_store/store.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "id_store/collection_scans.hpp"
#include "id_store/counters.hpp"
#include "id_store/inspector.hpp"
#include "id_store/machine_leases.hpp"
#include "id_store/proxies.hpp"
#include "id_store/ranges.hpp"
#include "id_store/store_metrics.hpp"
#include "id_store/stored_reservations.hpp"
#include "id_store/stored_sequences.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/threads/threads.hpp"

namespace idproxy::id_store {

struct Store::Impl {
  Impl(const Options& options, const Clock& clock)
      : pool(options.uri, options.wtimeout, options.uri_key),
        proxies(pool, options.db, clock),
        inspector(options.uri, pool, clock, version, scheduler),
        scans(options.uri, options.db, pool, clock, scheduler,
              options.scans ? CollectionScans::Enabled::yes : CollectionScans::Enabled::no),
        ranges(pool, clock, counters, scheduler,
               options.scans ? RangeDocuments::Missing::create : RangeDocuments::Missing::assume),
        counters(pool, clock, metrics, scans, scheduler),
        sequences(pool, clock, metrics, scheduler),
        leases(pool, metrics, scheduler,
               options.scans ? MachineDocuments::Claims::yes : MachineDocuments::Claims::no),
        reservations(
            pool, clock, metrics, version, scheduler,
            options.scans ? ReservationCollection::Missing::create
                          : ReservationCollection::Missing::assume,
            options.scans ? StoredReservations::Sweeper::on : StoredReservations::Sweeper::off),
        scheduler(clock) {}

  StoreMetrics metrics;
  // Of all watches. Who changes something counts it under the lock of what has changed, for which a
  // reader of the new version then waits.
  ids::Store::Version version{0};
  mongo::Pool pool;
  Proxies proxies;
  Inspector inspector;
  CollectionScans scans;
  Ranges ranges;
  Counters counters;
  StoredSequences sequences;
  MachineLeases leases;
  StoredReservations reservations;
  std::atomic<std::uint64_t> watches{0};
  Scheduler scheduler;  // whose threads use all of these
};

struct Watch::Impl {
  id_store::Store::Impl& store;
  const std::uint64_t number;  // newer watches have larger ones
  const std::vector<WatchedRule> rules;
  const std::shared_ptr<Inspection> inspection;

  template <class Use>
  auto with(const Use& use) const {
    return store.inspector.with(*inspection, use);
  }
  [[nodiscard]] std::vector<ids::NotReady> counters_not_ready() const;
  [[nodiscard]] std::vector<InUse> in_use() const;
  [[nodiscard]] std::vector<ids::CounterField> with_reserved(const ids::CounterField& field) const;
  [[nodiscard]] std::optional<std::size_t> rule_filling(const ids::CounterField& field) const;
};

namespace {

/// The rule that fills a counter's field. A counter of several collections has the rule's own `ns`.
std::optional<std::size_t> rule_of(const std::vector<WatchedRule>& rules,
                                   const ids::CounterField& field) {
  const auto find = [&](const auto& fits) -> std::optional<std::size_t> {
    const auto rule = std::ranges::find_if(
        rules, [&](const WatchedRule& each) { return each.field == field.field && fits(each); });
    if (rule == rules.end()) return std::nullopt;
    return static_cast<std::size_t>(rule - rules.begin());
  };
  const auto literally = find([&](const WatchedRule& each) { return each.ns == field.ns; });
  return literally ? literally
                   : find([&](const WatchedRule& each) { return each.matches(field.ns); });
}

}  // namespace

/// The counter's field, and where its values are reserved: the counter must not fall behind those,
/// either.
std::vector<ids::CounterField> Watch::Impl::with_reserved(const ids::CounterField& field) const {
  std::vector<ids::CounterField> fields{field};
  const auto rule = std::ranges::find_if(rules, [&](const WatchedRule& each) {
    return each.reserve && each.ns == field.ns && each.field == field.field;
  });
  if (rule == rules.end()) return fields;
  fields.push_back(field);
  fields.back().ns = rule->reserve->ns();
  fields.back().field = rule->reserve->name;
  return fields;
}

/// No rule fills the fields of reservations.
std::optional<std::size_t> Watch::Impl::rule_filling(const ids::CounterField& field) const {
  const bool is_reserved = std::ranges::any_of(rules, [&](const WatchedRule& each) {
    return each.reserve && each.reserve->ns() == field.ns;
  });
  return is_reserved ? std::nullopt : rule_of(rules, field);
}

std::vector<ids::NotReady> Watch::Impl::counters_not_ready() const {
  std::vector<ids::NotReady> found;
  // Counters look at reservations, too.
  auto all = store.reservations.not_ready();
  std::ranges::move(store.counters.not_ready(), std::back_inserter(all));
  std::ranges::move(store.ranges.not_ready(), std::back_inserter(all));
  std::ranges::move(store.sequences.not_ready(), std::back_inserter(all));
  std::ranges::move(store.leases.not_ready(), std::back_inserter(all));
  for (const NotReadyReport& counter : all) {
    for (const ids::CounterField& field : counter.fields) {
      const auto rule = rule_filling(field);
      if (rule) found.push_back({*rule, field.ns, {ids::Readiness::Kind::not_ready, counter.why}});
    }
  }
  return found;
}

std::vector<InUse> Watch::Impl::in_use() const {
  auto all = store.counters.in_use();
  std::ranges::move(store.ranges.in_use(), std::back_inserter(all));
  std::ranges::move(store.sequences.in_use(), std::back_inserter(all));
  return all;
}

Store::Store(const Options& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}

Store::~Store() = default;

std::shared_ptr<Watch> Store::watch(std::vector<WatchedRule> rules) {
  auto inspection = impl_->inspector.inspect(rules);
  const std::uint64_t number = ++impl_->watches;
  std::vector<ids::ReserveSpec> reserves;
  for (const WatchedRule& rule : rules) {
    if (rule.reserve) reserves.push_back(*rule.reserve);
  }
  impl_->reservations.use(reserves, number);
  auto impl =
      std::make_unique<Watch::Impl>(*impl_, number, std::move(rules), std::move(inspection));
  return std::shared_ptr<Watch>(new Watch(std::move(impl)));
}

void Store::introduce(ProxyDescription self) {
  if (Scheduler* threads = impl_->inspector.threads()) {
    impl_->proxies.introduce(std::move(self), *threads);
  }
}

std::vector<KnownProxy> Store::proxies() const {
  return impl_->proxies.known();
}

void Store::drain() {
  impl_->inspector.drain();
}

bool Store::stop(std::chrono::milliseconds limit) {
  impl_->proxies.leave();
  impl_->inspector.stop();
  impl_->sequences.stop();
  impl_->leases.stop();
  impl_->reservations.stop();
  impl_->counters.stop();
  const bool ended = impl_->scheduler.stop(limit);
  impl_->counters.lose_rest();
  return ended;
}

StoreStatistics Store::statistics() const {
  const StoreMetrics& metrics = impl_->metrics;
  StoreStatistics statistics{metrics.counts()};
  statistics.round_trips_failed = metrics.round_trips.failed;
  statistics.round_trip = metrics.round_trips.duration.values();
  statistics.reservations_made = metrics.reservations_made;
  statistics.reservations_taken = metrics.reservations_taken;
  statistics.reservations_released = metrics.reservations_released;
  statistics.reservations_swept = metrics.reservations_swept;
  statistics.reservations_waiting = impl_->reservations.waiting();
  impl_->counters.add_to(statistics);
  impl_->ranges.add_to(statistics);
  statistics.requests_waiting += impl_->sequences.waiting();
  return statistics;
}

Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Watch::~Watch() = default;

void Watch::await_first_inspection(std::chrono::milliseconds limit) {
  const TimeLeft left(limit);
  impl_->store.inspector.await_first_inspection(*impl_->inspection, limit);
  impl_->store.scheduler.await_woken(
      {Lane::counters, Lane::ranges, Lane::sequences, Lane::reservations}, left.get());
}

void Watch::rules_are_made() {
  impl_->store.counters.rules_are_made(impl_->number);
  impl_->store.ranges.rules_are_made(impl_->number);
  impl_->store.leases.rules_are_made(impl_->number);
}

std::shared_ptr<ids::BlockCache> Watch::announce(const ids::CounterSpec& spec,
                                                 const ids::CounterField& field) {
  return impl_->store.counters.announce(spec, impl_->with_reserved(field), impl_->number);
}

std::shared_ptr<ids::BlockCache> Watch::counter(const ids::CounterSpec& spec,
                                                const ids::CounterField& field) {
  return impl_->store.counters.counter(spec, impl_->with_reserved(field), impl_->number);
}

std::shared_ptr<ids::RangeSet> Watch::ranges(const ids::RangesSpec& spec,
                                             const ids::CounterField& field,
                                             const ids::Sources& sources) {
  return impl_->store.ranges.ranges(spec, impl_->with_reserved(field), sources, impl_->number);
}

std::shared_ptr<ids::GaplessQueue> Watch::sequence(const ids::GaplessSpec& spec) {
  return impl_->store.sequences.sequence(spec, impl_->number);
}

std::shared_ptr<ids::MachineLease> Watch::lease(const ids::LeaseSpec& spec,
                                                const ids::CounterField& field,
                                                const ids::Sources& sources) {
  return impl_->store.leases.lease(spec, field, sources, impl_->number);
}

std::shared_ptr<ids::Reservations> Watch::reservations(const ids::ReserveSpec& spec) {
  return impl_->store.reservations.reservations(spec, impl_->number);
}

void Watch::transaction_ended(const std::string& transaction, bool is_durable) {
  impl_->store.sequences.transaction_ended(transaction, is_durable);
}

std::shared_ptr<ids::Fill> Watch::fill(std::string_view ns, std::string_view field) {
  return impl_->with([&](auto& known, auto now) { return known.space(ns, field, now).fill; });
}

std::shared_ptr<ids::FreeValues> Watch::free_values(std::string_view ns, std::string_view field) {
  return impl_->with([&](auto& known, auto now) { return known.space(ns, field, now).free; });
}

ids::Readiness Watch::readiness(std::size_t rule_index, std::string_view db,
                                std::string_view collection) {
  auto readiness = impl_->with(
      [&](auto& known, auto now) { return known.readiness(rule_index, db, collection, now); });
  if (readiness.kind == ids::Readiness::Kind::left_alone) return readiness;
  const auto& reserve = impl_->rules.at(rule_index).reserve;
  auto obstacle = reserve ? impl_->store.reservations.obstacle(*reserve) : std::nullopt;
  // The guard says the rest.
  readiness.kind = obstacle ? ids::Readiness::Kind::not_ready : ids::Readiness::Kind::ready;
  readiness.error = std::move(obstacle).value_or(ids::Error());
  return readiness;
}

std::shared_ptr<ids::Guard> Watch::guard(std::size_t rule_index, std::string_view db,
                                         std::string_view collection) {
  return impl_->with(
      [&](auto& known, auto now) { return known.guard(rule_index, db, collection, now); });
}

std::shared_ptr<void> Watch::change(const ids::CatalogChange& change) {
  return impl_->store.inspector.change(change);
}

std::shared_ptr<ids::IndexRoom> Watch::index_room(const ids::CatalogChange& in, Bytes indexes) {
  return impl_->store.inspector.index_room(in, indexes);
}

std::optional<ids::UniqueIndexes> Watch::unique_indexes(std::string_view ns) {
  return impl_->with([&](auto& known, auto now) { return known.unique_indexes(ns, now); });
}

const ids::Store::Version& Watch::version() const {
  return impl_->store.version;
}

std::vector<ids::NotReady> Watch::not_ready(std::size_t most_per_rule) const {
  auto found = impl_->with([&](auto& known, auto) { return known.not_ready(most_per_rule); });
  for (ids::NotReady& each : impl_->counters_not_ready()) {
    const auto its = std::ranges::count(found, each.rule_index, &ids::NotReady::rule_index);
    const bool is_listed = std::ranges::any_of(found, [&](const ids::NotReady& known) {
      return known.rule_index == each.rule_index && known.ns == each.ns;
    });
    if (is_listed || static_cast<std::size_t>(its) >= most_per_rule) continue;
    found.push_back(std::move(each));
  }
  return found;
}

std::vector<std::size_t> Watch::not_ready_counts() const {
  std::vector<std::size_t> counts(impl_->rules.size());
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  const auto all = impl_->with([](auto& known, auto) { return known.not_ready(kAll); });
  for (const ids::NotReady& each : all) ++counts.at(each.rule_index);
  for (const ids::NotReady& each : impl_->counters_not_ready()) ++counts.at(each.rule_index);
  return counts;
}

std::map<std::size_t, MissingIndex> Watch::lack_index() const {
  return impl_->with([](auto& known, auto) { return known.lack_index(); });
}

std::vector<ids::NotReady> Watch::counters_not_ready() const {
  auto found = impl_->counters_not_ready();
  std::erase_if(found, [&](const ids::NotReady& each) {
    return each.ns != impl_->rules[each.rule_index].ns;
  });
  return found;
}

std::vector<ids::RuleNumbers> Watch::numbers(std::size_t most_per_rule) const {
  auto all = impl_->with([](auto& known, auto) { return known.spaces(); });
  for (const InUse& counter : impl_->in_use()) {
    for (const ids::CounterField& field : counter.fields) {
      const auto rule = impl_->rule_filling(field);
      if (rule) all.push_back({*rule, field.ns, counter.numbers, counter.sequence, counter.period});
    }
  }
  for (const auto& [machine, fields] : impl_->store.leases.numbers()) {
    for (const ids::CounterField& field : fields) {
      if (const auto rule = impl_->rule_filling(field)) all.push_back({*rule, field.ns, machine});
    }
  }
  std::vector<std::size_t> counts(impl_->rules.size());
  std::erase_if(all, [&](const ids::RuleNumbers& each) {
    return counts[each.rule_index]++ >= most_per_rule;
  });
  return all;
}

std::optional<std::string> Watch::why_down() const {
  const auto is_refused = [](const ids::NotReady& each) {
    return each.readiness.error.reason == threads::kRefused;
  };
  if (impl_->store.inspector.starves() ||
      std::ranges::any_of(impl_->counters_not_ready(), is_refused)) {
    return threads::kRefused;
  }
  return impl_->with([](auto& known, auto) { return known.why_down(); });
}

ids::StoreCounts Watch::counts() const {
  return impl_->store.metrics.counts();
}

}  // namespace idproxy::id_store
