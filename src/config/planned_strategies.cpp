#include "config/planned_strategies.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "config/names.hpp"
#include "config/words.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;

constexpr std::array<std::string_view, 2> kNames{"counter-ranges", "gapless"};

void read_heal(Reader& heal) {
  heal.choice("mode", {"max", "gap", "off"});
  heal.integer("after", 1, 1'000'000, 2);
  heal.integer("max_jump", 0, Int64::max(), 1'000'000'000);
  heal.boolean("at_start", false);
}

void read_on_store_down(Reader& on_store_down) {
  on_store_down.choice("action", {"fail", "wait"});
  on_store_down.duration("wait", 0ms, 2s, 1s);  // the longest that inserts may wait for ids
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

void read_place(Reader& store, const std::string& store_db) {
  const std::string db = store.text("db", store_db);
  if (const auto fault = fault_of_database(db); !fault.empty()) store.error("db", fault);
  if (store.text("collection", "uniqueIdentifierCounter").empty()) {
    store.error("collection", "must name a collection");
  }
}

void read_ranges(const std::string& store_db, Reader& rule) {
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
  (void)ids::read_block(rule);
  read_place(rule.section("store"), store_db);
  read_heal(rule.section("heal"));
  read_on_store_down(rule.section("on_store_down"));
  read_format(rule, is_string);
}

void read_gapless(Reader& rule) {
  const std::size_t output = rule.choice("output", {"int64", "int32", "string"});
  const bool narrow = output == 1;
  rule.integer("start", narrow ? Int32::min() : Int64::min(), narrow ? Int32::max() : Int64::max(),
               1);
  rule.boolean("floor", true);
  read_format(rule, output == 2);
  read_scope(rule);
}

}  // namespace

std::span<const std::string_view> planned_strategies() {
  return kNames;
}

void read_planned_strategy(std::string_view name, const std::string& store_db, Reader& rule) {
  if (name == "counter-ranges") return read_ranges(store_db, rule);
  read_gapless(rule);
}

}  // namespace idproxy::config
