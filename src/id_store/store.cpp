#include "idproxy/id_store/store.hpp"

#include <algorithm>
#include <utility>

#include "id_store/counter_workers.hpp"
#include "id_store/inspector.hpp"
#include "id_store/mongo.hpp"

namespace idproxy::id_store {

struct Store::Impl {
  Impl(Options given, const Clock& clock)
      : options(std::move(given)),
        pool(options.uri, options.wtimeout),
        inspector(options, pool, clock),
        workers(pool, clock, counters) {}

  Options options;
  Counters counters;
  mongo::Pool pool;
  Inspector inspector;
  CounterWorkers workers;
};

Store::Store(Options options, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), clock)) {}

Store::~Store() = default;

void Store::await_first_look(std::chrono::milliseconds limit) {
  impl_->inspector.await_first_look(limit);
}

bool Store::stop(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  (void)impl_->inspector.stop(std::chrono::milliseconds(0));  // it ends while blocks are given back
  const bool workers_ended = impl_->workers.stop(limit);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return impl_->inspector.stop(std::max(left, std::chrono::milliseconds(0))) && workers_ended;
}

std::shared_ptr<ids::BlockCache> Store::counter(const ids::CounterSpec& spec,
                                                const ids::CounterField& field) {
  return impl_->workers.counter(spec, field);
}

std::shared_ptr<ids::Fill> Store::fill(std::string_view ns, std::string_view field) {
  return impl_->inspector.fill(ns, field);
}

ids::Standing Store::standing(std::size_t rule_index, std::string_view db,
                              std::string_view collection) {
  return impl_->inspector.standing(rule_index, db, collection);
}

std::uint64_t Store::version() const {
  return impl_->inspector.version();
}

std::vector<ids::NotReady> Store::not_ready(std::size_t most_per_rule) const {
  return impl_->inspector.not_ready(most_per_rule);
}

ids::StoreCounts Store::counts() const {
  const Counters& counters = impl_->counters;
  return {.round_trips = counters.round_trips,
          .blocks = counters.blocks,
          .blocks_dropped = counters.blocks_dropped,
          .numbers_allocated = counters.numbers_allocated,
          .numbers_returned = counters.numbers_returned,
          .heals = counters.heals};
}

const Counters& Store::counters() const {
  return impl_->counters;
}

}  // namespace idproxy::id_store
