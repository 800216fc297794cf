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
      " is not in this release (objectid, uuid, counter, counter-ranges and random-digits are)";
  EXPECT_EQ(std::count(found.begin(), found.end(), later), 1) << keys;
  std::vector<std::string> rest;
  std::copy_if(found.begin(), found.end(), std::back_inserter(rest),
               [&](const std::string& text) { return text != later; });
  return rest;
}

TEST(PlannedStrategies, TakeAllKeysWithTheirDefaults) {
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
      {"format_without_string", "gapless", "format: {pad: 5}", "format: needs output: string"},
      {"scope_text", "gapless", "scope: tenant",
       "scope: must be a list of texts, is text 'tenant'"},
      {"scope_twice", "gapless", "scope: [a, a]", "scope: must not name a field twice"},
      {"scope_path", "gapless", "scope: [a..b]", "scope: has an empty part"},
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
