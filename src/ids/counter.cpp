#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/bound_numbers.hpp"
#include "ids/counter_parameters.hpp"
#include "ids/counter_sequences.hpp"

namespace idproxy::ids {
namespace {

/// The rule's own object; bind() makes one for each of its collections.
class Counter final : public Strategy, public CounterRule {
 public:
  Counter(CounterUse use, const Clock& clock)
      : use_(std::move(use)),
        clock_(clock),
        choice_(std::make_shared<const SequenceChoice>(use_.sequences)),
        sequences_(std::make_shared<CounterSequences>(use_.sequences.most)) {}

  /// Of a rule with several sequences, today's; if documents decide, their family.
  void announce(Store& store) override {
    const bool is_one =
        !use_.per_namespace || use_.field.ns.find_first_of("*?") == std::string::npos;
    if (!is_one) return;
    const SequenceCounter counter = choice_->fields().empty() ? counter_now() : family();
    announced_ = store.announce(counter.spec, counter.field);
  }
  [[nodiscard]] std::shared_ptr<Strategy> bind(std::string_view ns, Store& store) const override {
    CounterUse use = use_of(ns);
    if (use_.sequences.any()) {
      return std::make_shared<SequencedCounter>(std::move(use), choice_, sequences_, clock_, store);
    }
    return std::make_shared<BoundNumbers>(store.counter(use.spec, use.field), use.field.format,
                                          use.spec.on_store_down);
  }

  CounterRule* counter_rule() override { return this; }
  [[nodiscard]] const CounterUse& use() const override { return use_; }

  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::unavailable, "there is no id store"};
  }

 private:
  /// For one of its collections.
  [[nodiscard]] CounterUse use_of(std::string_view ns) const {
    CounterUse use = use_;
    if (!use.per_namespace) return use;
    use.field.ns = ns;
    use.spec.place.key = use.field.ns + "." + use.field.field;
    return use;
  }
  [[nodiscard]] SequenceCounter counter_now() const {
    const auto chosen = choice_->choose(use_.spec.place.key, use_.field.format, {}, clock_.wall());
    return counter_of(use_, *choice_, chosen);
  }

  [[nodiscard]] SequenceCounter family() const {
    SequenceCounter counter{use_.spec, use_.field};
    counter.spec.place.key_is = CounterPlace::KeyIs::family;
    return counter;
  }

  const CounterUse use_;
  const Clock& clock_;
  const std::shared_ptr<const SequenceChoice> choice_;
  const std::shared_ptr<CounterSequences> sequences_;
  // Other rules may share this counter by its name. Holding it makes the store count the numbers in
  // this rule's field from the start, and keeps it from forgetting the counter.
  std::shared_ptr<BlockCache> announced_;
};

}  // namespace

/// For its keys see counter_parameters.cpp.
std::unique_ptr<Strategy> make_counter(Parameters& parameters, Sources sources,
                                       std::string_view store_db) {
  return std::make_unique<Counter>(read_counter(parameters, store_db), sources.clock);
}

}  // namespace idproxy::ids
