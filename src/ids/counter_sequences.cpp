#include "ids/counter_sequences.hpp"

#include <optional>
#include <utility>

#include "idproxy/base/buffer.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/scope.hpp"
#include "ids/bound_numbers.hpp"

namespace idproxy::ids {

/// The numbers of a sequence, which go back when it is destroyed.
struct CounterSequences::Lease {
  explicit Lease(std::shared_ptr<BlockCache> numbers) : cache(std::move(numbers)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { cache->let_go(); }

  const std::shared_ptr<BlockCache> cache;
};

std::shared_ptr<Strategy> CounterSequences::get(const CounterSpec& spec, const CounterField& field,
                                                const NumberFormat& format, Store& store) {
  std::optional<Entry> gone;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  Entry& entry = counters_.get(
      spec.place.filter + spec.place.key,
      [&] { return Entry{std::make_shared<Lease>(store.counter(spec, field))}; }, gone);
  if (!entry.strategy || entry.format != format) {
    auto counter = std::make_shared<BoundNumbers>(entry.lease->cache, format, spec.on_store_down);
    struct Holding {
      std::shared_ptr<Lease> lease;
      std::shared_ptr<BoundNumbers> counter;
    };
    const auto holding = std::make_shared<Holding>(Holding{entry.lease, std::move(counter)});
    entry.format = format;
    entry.strategy = std::shared_ptr<Strategy>(holding, holding->counter.get());
  }
  return entry.strategy;
}

namespace {

/// Makes `place`, of a rule, that of the sequence that `chosen` says.
void choose_in(CounterPlace& place, const SequenceChoice::Chosen& chosen) {
  place.key_is = CounterPlace::KeyIs::document;
  if (place.scope_field.empty()) {
    place.key = chosen.key;
    return;
  }
  Buffer named;
  bson::Scope filter(named);
  bson::append_string(named, place.name_field, place.key);
  filter.close();
  place.filter = as_text(named.view());
  place.key_field = place.scope_field;
  place.key = reference_value(chosen.scope);
}

}  // namespace

SequenceCounter counter_of(const CounterUse& use, const SequenceChoice& choice,
                           const SequenceChoice::Chosen& chosen) {
  SequenceCounter counter{use.spec, use.field};
  if (!chosen.key.empty()) choose_in(counter.spec.place, chosen);
  counter.field.format = chosen.stored;
  counter.field.scope = chosen.scope;
  counter.field.repeats = choice.options().repeats();
  return counter;
}

SequencedCounter::SequencedCounter(CounterUse use, std::shared_ptr<const SequenceChoice> choice,
                                   std::shared_ptr<CounterSequences> sequences, const Clock& clock,
                                   Store& store)
    : SequencedRule(std::move(choice), clock),
      use_(std::move(use)),
      sequences_(std::move(sequences)),
      store_(store) {}

Draw SequencedCounter::next(std::size_t /*n*/, Values& /*out*/) {
  return Error{Errc::unavailable, "values come from the sequences"};
}

std::shared_ptr<Strategy> SequencedCounter::sequence_at(std::span<const FieldValue> values,
                                                        std::chrono::nanoseconds wall) {
  const auto chosen = choice().choose(use_.spec.place.key, use_.field.format, values, wall);
  const SequenceCounter counter = counter_of(use_, choice(), chosen);
  return sequences_->get(counter.spec, counter.field, chosen.format, store_);
}

}  // namespace idproxy::ids
