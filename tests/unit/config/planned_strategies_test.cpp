#include "config/planned_strategies.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace planned_strategies_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What is found in a rule beside that its strategy is not there yet, which is checked.
std::vector<std::string> faults_of(const std::string& strategy, const std::string& keys) {
  const auto found =
      findings_of("rules:\n  - {ns: a.b, field: x, strategy: " + strategy + ",\n" + keys + "}\n");
  const std::string later =
      "2:25: error: rules[0].strategy: " + strategy +
      " is not in this release (objectid, uuid, counter and random-digits are)";
  EXPECT_EQ(std::count(found.begin(), found.end(), later), 1) << keys;
  std::vector<std::string> rest;
  std::copy_if(found.begin(), found.end(), std::back_inserter(rest),
               [&](const std::string& text) { return text != later; });
  return rest;
}

TEST(PlannedStrategies, TakeAllKeysWithTheirDefaults) {
  EXPECT_THAT(
      faults_of(
          "counter-ranges",
          "ranges: {count: 1000, width: 1000000000, first: 0}, pick: sticky,\n"
          "active: 4, create: true, output: string,\n"
          "block: auto,\n"
          "store: {db: idproxy, collection: uniqueIdentifierCounter},\n"
          "heal: {mode: max, after: 2, max_jump: 1000000000, at_start: false},\n"
          "on_store_down: {action: fail, wait: 1s}, format: {pad: 0, prefix: '', suffix: ''}"),
      IsEmpty());
  EXPECT_THAT(faults_of("gapless",
                        "start: 1, floor: true, scope: [tenant, site.name], output: int32,\n"
                        "on_missing_scope: null, max_scopes: 10000"),
              IsEmpty());
}

struct Case {
  const char* name;
  const char* strategy;
  const char* keys;
  const char* finding;
};

TEST(PlannedStrategies, RefuseBadParameters) {
  constexpr Case kCases[] = {
      {"size_large", "counter-ranges", "block: {size: 20000}",
       "block.size: must be auto or an integer 1 to 10000, is 20000"},
      {"store_db", "counter-ranges", "store: {db: a/b}",
       "store.db: 'a/b' is not a valid database name"},
      {"format_without_string", "gapless", "format: {pad: 5}", "format: needs output: string"},
      {"scope_text", "gapless", "scope: tenant",
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

}  // namespace planned_strategies_test
}  // namespace idproxy::config
