#include "config/later_strategies.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What is found in a rule beside that its strategy is not there yet, which is checked.
std::vector<std::string> faults_of(const std::string& strategy, const std::string& keys) {
  const auto found =
      findings_of("rules:\n  - {ns: a.b, field: x, strategy: " + strategy + ",\n" + keys + "}\n");
  const std::string later = "2:25: error: rules[0].strategy: " + strategy +
                            " is not in this release (objectid, uuid and random-digits are)";
  EXPECT_EQ(std::count(found.begin(), found.end(), later), 1) << keys;
  std::vector<std::string> rest;
  std::copy_if(found.begin(), found.end(), std::back_inserter(rest),
               [&](const std::string& text) { return text != later; });
  return rest;
}

TEST(LaterStrategies, TakeAllKeysWithTheirDefaults) {
  EXPECT_THAT(
      faults_of("counter",
                "name: orders, start: 1, step: 1, max: 9223372036854775807,\n"
                "block: {size: 100, adaptive: false, min: 1, max: 10000, target: 10s, prefetch: "
                "0.5, give_back: true, idle: 60s},\n"
                "store: {db: idproxy, collection: uniqueIdentifierCounter, layout: unique-count, "
                "key: null},\n"
                "heal: {mode: max, after: 2, max_jump: 1000000000, at_start: false},\n"
                "on_store_down: {action: fail, wait: 1s}, output: string,\n"
                "format: {pad: 0, prefix: '', suffix: ''},\n"
                "scope: [tenant, site.name], on_missing_scope: null, max_scopes: 10000"),
      IsEmpty());
  EXPECT_THAT(faults_of("counter-ranges",
                        "ranges: {count: 1000, width: 1000000000, first: 0}, pick: sticky, "
                        "active: 4, create: true, block: {size: 10}, store: {collection: c}"),
              IsEmpty());
  EXPECT_THAT(faults_of("gapless", "start: 1, floor: true, scope: [tenant], output: int32"),
              IsEmpty());
}

struct Case {
  const char* name;
  const char* strategy;
  const char* keys;
  const char* finding;
};

TEST(LaterStrategies, RefuseBadParameters) {
  constexpr Case kCases[] = {
      {"step_zero", "counter", "step: 0", "3:1: error: rules[0].step: must not be 0"},
      {"step_large", "counter", "step: 65536", "must be an integer -65535 to 65535, is 65536"},
      {"start_beyond_max", "counter", "max: 5, start: 6", "start: must not be beyond max (5)"},
      {"start_beyond_lowest", "counter", "step: -1, max: 5, start: 4",
       "start: must not be beyond max (5)"},
      {"max_beyond_int32", "counter", "output: int32, max: 2147483648",
       "max: must be an integer -2147483648 to 2147483647, is 2147483648"},
      {"min_above_max", "counter", "block: {min: 20, max: 10}",
       "block.min: must not be above max (10)"},
      {"size_above_max", "counter", "block: {size: 20000}",
       "block.size: must lie between min (1) and max (10000)"},
      {"size_below_min", "counter", "block: {size: 5, min: 10}",
       "block.size: must lie between min (10) and max (10000)"},
      {"prefetch", "counter", "block: {prefetch: 1}",
       "block.prefetch: must be a number 0 to 0.95, is 1"},
      {"pad", "counter", "output: string, format: {pad: 35}",
       "format.pad: must be an integer 0 to 34, is 35"},
      {"format_without_string", "counter", "format: {pad: 5}", "format: needs output: string"},
      {"layout", "counter", "store: {layout: uniquecount}",
       "store.layout: must be one of unique-count, counters-next, counters-seq, ids-index or "
       "custom, is text 'uniquecount', did you mean 'unique-count'?"},
      {"store_db", "counter", "store: {db: a/b}", "store.db: 'a/b' is no name of a database"},
      {"field_without_custom", "counter", "store: {value_field: seq}",
       "store: unknown key 'value_field'"},
      {"heal_mode", "counter", "heal: {mode: maximum}",
       "heal.mode: must be one of max, gap or off"},
      {"wait", "counter", "on_store_down: {wait: 3s}",
       "on_store_down.wait: must be a duration of 0ms to 2s, is 3s"},
      {"scope_text", "counter", "scope: tenant",
       "scope: must be a list of texts, is text 'tenant'"},
      {"scope_twice", "gapless", "scope: [a, a]", "scope: must not name a field twice"},
      {"scope_path", "gapless", "scope: [a..b]", "scope: has an empty part"},
      {"ranges_too_wide", "counter-ranges", "ranges: {width: 9223372036854775807}",
       "ranges.width: must be small enough for all ranges to end below 2^63"},
      {"active", "counter-ranges", "active: 65", "active: must be an integer 1 to 64, is 65"},
      {"ranges_int32", "counter-ranges", "output: int32",
       "output: must be one of int64 or string, is text 'int32'"},
      {"start_int32", "gapless", "output: int32, start: 2147483648",
       "start: must be an integer -2147483648 to 2147483647, is 2147483648"},
      {"key_of_another", "gapless", "step: 2", "unknown key 'step'"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(faults_of(c.strategy, c.keys), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

TEST(LaterStrategies, ACustomLayoutNamesItsFields) {
  EXPECT_THAT(faults_of("counter",
                        "store: {layout: custom, collection: c, key_field: id, value_field: seq, "
                        "value_is: last, filter: {model: Order, n: 1}}"),
              IsEmpty());
  EXPECT_THAT(faults_of("counter", "store: {layout: custom}"),
              ElementsAre(HasSubstr("store.collection: must name a collection"),
                          HasSubstr("store.key_field: is missing"),
                          HasSubstr("store.value_field: is missing"),
                          HasSubstr("store.value_is: is missing; must be next or last")));
}

TEST(LaterStrategies, OneCounterDocumentIsUsedInOneWay) {
  const auto faults = [](const std::string& second) {
    auto found = findings_of(
        "rules:\n  - {ns: a.b, field: x, strategy: counter, name: n}\n"
        "  - {ns: a.c, field: x, strategy: counter, " +
        second + "}\n");
    std::erase_if(found, [](const std::string& text) {
      return text.find("is not in this release") != std::string::npos;
    });
    return found;
  };
  EXPECT_THAT(faults("name: n"), IsEmpty());
  EXPECT_THAT(faults("step: 2"), IsEmpty());
  EXPECT_THAT(faults("name: n, step: 2"),
              ElementsAre("3:25: error: rules[1].strategy: uses the counter document 'n' of "
                          "rules[0], but not with the same layout, step and output"));
  EXPECT_THAT(faults("store: {key: n}, output: string"), testing::SizeIs(1));
}

}  // namespace
}  // namespace idproxy::config
