#include "ids/range_parameters.hpp"

#include <limits>
#include <string>

#include "ids/counter_parameters.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using Output = NumberFormat::Output;
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

NumberFormat read_range_format(Parameters& rule) {
  NumberFormat read;
  const bool is_text = rule.choice("output", {"int64", "string"}) == 1;
  if (is_text) read.output = Output::string;
  Parameters& format = rule.section("format");
  read.pad = static_cast<std::uint32_t>(format.integer("pad", 0, 34, 0));
  read.prefix = format.text("prefix", "");
  read.suffix = format.text("suffix", "");
  if (rule.given("format") && !is_text) rule.error("format", "needs output: string");
  return read;
}

}  // namespace

RangesUse read_ranges(Parameters& rule, std::string_view store_db) {
  RangesUse use;
  use.field = {rule.text("ns", ""), rule.text("field", ""), read_range_format(rule)};
  RangesSpec& ranges = use.ranges;
  ranges.name = rule.optional_text("name").value_or(use.field.ns + "." + use.field.field);
  ranges.layout = read_ranges_layout(rule);
  ranges.pick = static_cast<RangesSpec::Pick>(rule.choice("pick", {"sticky", "random"}));
  ranges.active = static_cast<std::uint32_t>(rule.integer("active", 1, 64, ranges.active));
  ranges.create = rule.boolean("create", true);
  ranges.counter.place = read_range_place(rule.section("store"), store_db);
  ranges.counter.block = read_block(rule);
  ranges.counter.heal = read_heal(rule.section("heal"));
  ranges.counter.on_store_down = read_on_store_down(rule.section("on_store_down"));
  ranges.counter.scan = {};  // a range never waits for a scan
  return use;
}

}  // namespace idproxy::ids
