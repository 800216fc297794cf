#include <string>

#include "findings_of.hpp"
#include "idproxy/ids/range_spec.hpp"

// Rules with the strategy counter-ranges.
namespace idproxy::config {
namespace ranges_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> ranges_faults_of(const std::string& keys) {
  return findings_of("rules:\n  - {ns: a.b, field: x, strategy: counter-ranges,\n" + keys + "}\n");
}

TEST(CounterRanges, TakeAllKeysWithTheirDefaults) {
  const std::string rule =
      "rules:\n  - {ns: a.b, field: x, strategy: counter-ranges,\n"
      "ranges: {count: 1000, width: 1000000000, first: 0}, pick: sticky, active: 4,\n"
      "create: true, output: int64, block: auto, name: a.b.x,\n"
      "store: {db: idproxy, collection: uniqueIdentifierCounter},\n"
      "heal: {mode: max, after: 2, max_jump: 1000000000, at_start: false},\n"
      "on_store_down: {action: fail, wait: 1s}}\n";
  const Loaded loaded = load(rule);
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  ids::RangesSpec written = *loaded.config.rules.at(0).strategy->about().ranges;
  EXPECT_EQ(written.layout, ids::RangesSpec::Layout());
  written.layout.reset();
  const Loaded bare = load("rules:\n  - {ns: a.b, field: x, strategy: counter-ranges}\n");
  EXPECT_EQ(*bare.config.rules.at(0).strategy->about().ranges, written);
}

struct RangesCase {
  const char* name;
  const char* keys;
  const char* finding;
};

TEST(CounterRanges, RefuseBadParameters) {
  constexpr RangesCase kCases[] = {
      {"size_large", "block: {size: 20000}",
       "3:9: error: rules[0].block.size: must be auto or an integer 1 to 10000, is 20000"},
      {"store_db", "store: {db: a/b}",
       "3:9: error: rules[0].store.db: 'a/b' is not a valid database name"},
      {"store_layout", "store: {layout: unique-count}",
       "3:9: error: rules[0].store: unknown key 'layout'"},
      {"active", "active: 65", "3:1: error: rules[0].active: must be an integer 1 to 64, is 65"},
      {"step", "step: 2", "3:1: error: rules[0]: unknown key 'step'"},
      {"own_collection", "store: {db: a, collection: b}",
       "2:6: error: rules[0].ns: 'a.b' is never touched: this rule keeps its counters there"},
  };
  for (const RangesCase& c : kCases) {
    EXPECT_THAT(ranges_faults_of(c.keys), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

TEST(CounterRanges, OneCollectionHasOneSetOfThem) {
  const auto faults = [](const std::string& first, const std::string& second) {
    return findings_of("rules:\n  - {ns: a.b, field: x, strategy: counter-ranges, " + first +
                       "}\n  - {ns: a.c, field: x, strategy: " + second + "}\n");
  };
  EXPECT_THAT(faults("name: n", "counter-ranges, name: n"), IsEmpty());
  EXPECT_THAT(faults("name: n", "counter-ranges, store: {collection: others}"), IsEmpty());
  EXPECT_THAT(faults("name: n", "counter-ranges"),
              ElementsAre("3:25: error: rules[1].strategy: keeps its ranges in "
                          "idproxy.uniqueIdentifierCounter, where rules[0] has others, 'n': set "
                          "store.collection, or the same name"));
  EXPECT_THAT(faults("name: n", "counter-ranges, name: n, pick: random"),
              ElementsAre(HasSubstr("3:25: error: rules[1].strategy: shares the ranges 'n' with "
                                    "rules[0], but not their ranges, pick, active")));
  EXPECT_THAT(faults("name: n", "counter-ranges, name: n, output: string"), testing::SizeIs(1));
}

TEST(CounterRanges, NoCounterIsOneOfThem) {
  const std::string ranges = "  - {ns: a.b, field: x, strategy: counter-ranges}\n";
  const std::string counter =
      "  - {ns: a.c, field: x, strategy: counter, store: {key: COUNTER DOCUMENT NUMBER 7}}\n";
  EXPECT_THAT(findings_of("rules:\n" + ranges + counter),
              ElementsAre(HasSubstr("3:25: error: rules[1].strategy: uses the document 'COUNTER "
                                    "DOCUMENT NUMBER 7' of idproxy.uniqueIdentifierCounter, and "
                                    "so does rules[0]")));
  EXPECT_THAT(findings_of("rules:\n" + counter + ranges), testing::SizeIs(1));
  EXPECT_THAT(findings_of("rules:\n" + ranges + "  - {ns: a.c, field: x, strategy: counter}\n"),
              IsEmpty());
}

}  // namespace ranges_test
}  // namespace idproxy::config
