#include "config/planned_strategies.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "config/names.hpp"

namespace idproxy::config {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;

constexpr std::array<std::string_view, 1> kNames{"gapless"};

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

void read_planned_strategy(std::string_view /*name*/, Reader& rule) {
  read_gapless(rule);
}

}  // namespace idproxy::config
