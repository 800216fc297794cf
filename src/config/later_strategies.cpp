#include "config/later_strategies.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "config/names.hpp"
#include "config/words.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;

constexpr std::array<std::string_view, 3> kNames{"counter", "counter-ranges", "gapless"};

// By layout, in the order in which read_store() names them.
constexpr std::array<std::string_view, 5> kCollections{"uniqueIdentifierCounter", "counters",
                                                       "counters", "ids", ""};
constexpr std::size_t kCustomLayout = 4;

void read_block(Reader& block) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t size = block.integer("size", 1, kMost, 100);
  const std::int64_t min = block.integer("min", 1, kMost, 1);
  const std::int64_t max = block.integer("max", 1, kMost, 10000);
  block.boolean("adaptive", false);
  block.duration("target", 1ms, 1h, 10s);
  block.number("prefetch", 0, 0.95, 0.5);
  block.boolean("give_back", true);
  block.duration("idle", 1s, 24h, 60s);
  if (min > max) {
    block.error("min", "must not be above max (" + std::to_string(max) + ")");
  } else if (size < min || size > max) {
    block.error("size", "must lie between min (" + std::to_string(min) + ") and max (" +
                            std::to_string(max) + ")");
  }
}

void read_heal(Reader& heal) {
  heal.choice("mode", {"max", "gap", "off"});
  heal.integer("after", 1, 1'000'000, 2);
  heal.integer("max_jump", 0, Int64::max(), 1'000'000'000);
  heal.boolean("at_start", false);
}

void read_on_store_down(Reader& on_store_down) {
  on_store_down.choice("action", {"fail", "wait"});
  on_store_down.duration("wait", 0ms, 2s, 1s);  // no caller waits longer for ids
}

void read_format(Reader& rule, bool output_is_string) {
  Reader& format = rule.section("format");
  format.integer("pad", 0, 34, 0);
  format.text("prefix", "");
  format.text("suffix", "");
  if (rule.given("format") && !output_is_string) rule.error("format", "needs output: string");
}

void read_scope(Reader& rule) {
  auto fields = rule.texts("scope");
  for (const std::string& field : fields) {
    if (const auto fault = fault_of_field(field); !fault.empty()) rule.error("scope", fault);
  }
  std::sort(fields.begin(), fields.end());
  if (std::adjacent_find(fields.begin(), fields.end()) != fields.end()) {
    rule.error("scope", "must not name a field twice");
  }
  rule.choice("on_missing_scope", {"error", "null"});
  rule.integer("max_scopes", 1, 10'000'000, 10000);
}

/// A database and a collection of the store.
std::pair<std::string, std::string> read_place(Reader& store, std::string_view default_db,
                                               std::string_view default_collection) {
  std::string db = store.text("db", default_db);
  if (const auto fault = fault_of_database(db); !fault.empty()) store.error("db", fault);
  std::string collection = store.text("collection", default_collection);
  if (collection.empty()) store.error("collection", "must name a collection");
  return {std::move(db), std::move(collection)};
}

void read_custom_layout(Reader& store) {
  store.required_text("key_field");
  store.required_text("value_field");
  store.choice("value_is", {"next", "last"});
  if (!store.given("value_is")) store.error("value_is", "is missing; must be next or last");
  store.section("filter").accept_all();
}

}  // namespace

std::span<const std::string_view> LaterStrategies::names() {
  return kNames;
}

void LaterStrategies::read(std::string_view name, const std::string& ns, const std::string& field,
                           Reader& rule) {
  if (name == "counter") {
    read_counter(ns + "." + field, rule);
  } else if (name == "counter-ranges") {
    read_ranges(rule);
  } else {
    read_gapless(rule);
  }
}

void LaterStrategies::read_counter(const std::string& default_name, Reader& rule) {
  Counter counter;
  counter.rule = rule.path();
  counter.output = static_cast<Output>(rule.choice("output", {"int64", "int32", "string"}));
  const bool narrow = counter.output == Output::int32;
  const std::int64_t lowest = narrow ? Int32::min() : Int64::min();
  const std::int64_t highest = narrow ? Int32::max() : Int64::max();

  counter.step = rule.integer("step", -65535, 65535, 1);
  if (counter.step == 0) rule.error("step", "must not be 0");
  const bool down = counter.step < 0;
  const std::int64_t max = rule.integer("max", lowest, highest, down ? lowest : highest);
  const std::int64_t start = rule.integer("start", lowest, highest, 1);
  if (down ? start < max : start > max) {
    rule.error("start", "must not be beyond max (" + std::to_string(max) + ")");
  }
  read_block(rule.section("block"));
  read_store(counter, rule.text("name", default_name), rule.section("store"));
  read_heal(rule.section("heal"));
  read_on_store_down(rule.section("on_store_down"));
  read_format(rule, counter.output == Output::string);
  read_scope(rule);
  check_shared(counter, rule);
}

void LaterStrategies::read_store(Counter& counter, const std::string& name, Reader& store) const {
  counter.layout = store.choice(
      "layout", {"unique-count", "counters-next", "counters-seq", "ids-index", "custom"});
  std::tie(counter.db, counter.collection) =
      read_place(store, store_db_, kCollections.at(counter.layout));
  counter.key = store.optional_text("key").value_or(name);
  if (counter.layout == kCustomLayout) read_custom_layout(store);
}

void LaterStrategies::check_shared(const Counter& counter, Reader& rule) {
  for (const Counter& other : counters_) {
    const bool same_document = std::tie(counter.db, counter.collection, counter.key) ==
                               std::tie(other.db, other.collection, other.key);
    const bool agree = std::tie(counter.layout, counter.step, counter.output) ==
                       std::tie(other.layout, other.step, other.output);
    if (!same_document || agree) continue;
    rule.error("strategy", "uses the counter document '" + shown(counter.key) + "' of " +
                               other.rule + ", but not with the same layout, step and output");
    break;
  }
  counters_.push_back(counter);
}

void LaterStrategies::read_ranges(Reader& rule) {
  const bool is_string = rule.choice("output", {"int64", "string"}) == 1;
  Reader& ranges = rule.section("ranges");
  const std::int64_t count = ranges.integer("count", 1, 1'000'000, 1000);
  const std::int64_t width = ranges.integer("width", 1, Int64::max(), 1'000'000'000);
  const std::int64_t first = ranges.integer("first", Int64::min(), Int64::max(), 0);
  std::int64_t last = 0;
  if (__builtin_mul_overflow(count, width, &last) || __builtin_add_overflow(first, last, &last)) {
    ranges.error("width", "must be small enough for all ranges to end below 2^63");
  }
  rule.choice("pick", {"sticky", "random"});
  rule.integer("active", 1, 64, 4);
  rule.boolean("create", true);
  read_block(rule.section("block"));
  read_place(rule.section("store"), store_db_, kCollections.front());
  read_heal(rule.section("heal"));
  read_on_store_down(rule.section("on_store_down"));
  read_format(rule, is_string);
}

void LaterStrategies::read_gapless(Reader& rule) {
  const std::size_t output = rule.choice("output", {"int64", "int32", "string"});
  const bool narrow = output == 1;
  rule.integer("start", narrow ? Int32::min() : Int64::min(), narrow ? Int32::max() : Int64::max(),
               1);
  rule.boolean("floor", true);
  read_format(rule, output == 2);
  read_scope(rule);
}

}  // namespace idproxy::config
