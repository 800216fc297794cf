#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/range_set.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/bound_numbers.hpp"
#include "ids/range_parameters.hpp"

namespace idproxy::ids {
namespace {

/// The rule's own object; all its collections share the ranges.
class CounterRanges final : public Strategy, public CounterRule {
 public:
  CounterRanges(RangesUse use, Sources sources)
      : ranges_(std::move(use.ranges)),
        use_{ranges_.counter, std::move(use.field), false},
        sources_(sources) {}

  void announce(Store& store) override { announced_ = ranges_of(store); }
  [[nodiscard]] std::shared_ptr<Strategy> bind(std::string_view /*ns*/,
                                               Store& store) const override {
    return std::make_shared<BoundNumbers>(ranges_of(store), use_.field.format,
                                          ranges_.counter.on_store_down);
  }

  CounterRule* counter_rule() override { return this; }
  [[nodiscard]] const CounterUse& use() const override { return use_; }
  [[nodiscard]] const RangesSpec* ranges() const override { return &ranges_; }

  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::unavailable, "there is no id store"};
  }

 private:
  [[nodiscard]] std::shared_ptr<RangeSet> ranges_of(Store& store) const {
    return store.ranges(ranges_, use_.field, sources_);
  }

  const RangesSpec ranges_;
  const CounterUse use_;
  const Sources sources_;
  std::shared_ptr<RangeSet> announced_;  // keeps the numbers that it holds while no plan uses it
};

}  // namespace

/// For its keys see range_parameters.cpp.
std::unique_ptr<Strategy> make_counter_ranges(Parameters& parameters, Sources sources,
                                              std::string_view store_db) {
  return std::make_unique<CounterRanges>(read_ranges(parameters, store_db), sources);
}

}  // namespace idproxy::ids
