#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/range_set.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/number_parameters.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using RangeLayout = RangesSpec::Layout;

CounterPlace read_range_place(Parameters& store, std::string_view store_db) {
  CounterPlace place;
  place.store_db = store_db;
  place.db = store.text("db", store_db);
  place.collection = store.text("collection", "uniqueIdentifierCounter");
  if (place.collection.empty()) store.error("collection", "must name a collection");
  place.value_field = "COUNT";
  place.max_field = "MAX_VALUE";
  return place;
}

/// The last number of all must lie below 2^63 - 1, since COUNT goes one beyond it.
bool is_too_wide(const RangeLayout& layout) {
  std::int64_t all = 0;
  std::int64_t end = 0;
  return __builtin_mul_overflow(layout.count, layout.width, &all) ||
         __builtin_add_overflow(layout.first, all, &end);
}

std::optional<RangeLayout> read_ranges_layout(Parameters& rule) {
  RangeLayout layout;
  Parameters& ranges = rule.section("ranges");
  layout.count = ranges.integer("count", 1, 1'000'000, layout.count);
  layout.width = ranges.integer("width", 1, Int64::max(), layout.width);
  layout.first = ranges.integer("first", Int64::min(), Int64::max(), layout.first);
  if (is_too_wide(layout)) {
    ranges.error("width", "must be small enough for all ranges to end below 2^63");
  }
  return rule.is_section("ranges") ? std::optional(layout) : std::nullopt;
}

RuleSource::About read_ranges(Parameters& rule, std::string_view store_db) {
  RuleSource::About about;
  about.field = {rule.text("ns", ""), rule.text("field", ""), read_plain_format(rule)};
  RangesSpec& ranges = about.ranges.emplace();
  const std::string own = about.field.ns + "." + about.field.field;
  ranges.name = rule.optional_text("name").value_or(own);
  rule.falls_back_to("name", own);
  ranges.layout = read_ranges_layout(rule);
  ranges.pick = static_cast<RangesSpec::Pick>(rule.choice("pick", {"sticky", "random"}));
  ranges.active = static_cast<std::uint32_t>(rule.integer("active", 1, 64, ranges.active));
  ranges.create = rule.boolean("create", true);
  ranges.counter.place = read_range_place(rule.section("store"), store_db);
  ranges.counter.block = read_block(rule);
  ranges.counter.heal = read_heal(rule.section("heal"));
  ranges.counter.on_store_down = read_on_store_down(rule.section("on_store_down"));
  ranges.counter.scan = {};  // a range never waits for a scan
  about.counter = ranges.counter;
  return about;
}

/// All collections of the rule share the ranges.
class CounterRanges final : public RuleSource {
 public:
  CounterRanges(About about, Sources sources) : RuleSource(std::move(about)), sources_(sources) {}

  void announce(Store& store) override { announced_ = ranges_of(store); }
  [[nodiscard]] Bound bind(std::string_view /*ns*/, Store* store) override {
    return {.source = number_source(ranges_of(*store), about().field.format,
                                    about().counter->on_store_down)};
  }

 private:
  [[nodiscard]] std::shared_ptr<RangeSet> ranges_of(Store& store) const {
    return store.ranges(*about().ranges, about().field, sources_);
  }

  const Sources sources_;
  std::shared_ptr<RangeSet> announced_;  // keeps the numbers that it holds while no plan uses it
};

}  // namespace

/// For its keys see read_ranges().
std::unique_ptr<RuleSource> make_counter_ranges(Parameters& parameters, Sources sources,
                                                std::string_view store_db) {
  return std::make_unique<CounterRanges>(read_ranges(parameters, store_db), sources);
}

}  // namespace idproxy::ids
