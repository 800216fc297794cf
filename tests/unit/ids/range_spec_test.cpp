#include "idproxy/ids/range_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace idproxy::ids {

inline void PrintTo(const RangeState& range, std::ostream* out) {
  *out << range.number << ": " << range.first << " to " << range.last << ", next " << range.next;
}

namespace range_spec_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Documents = std::vector<RangeDocument>;
using Layout = RangesSpec::Layout;

RangesSpec checked_spec(std::optional<Layout> layout, bool create = true) {
  RangesSpec spec;
  spec.layout = layout;
  spec.create = create;
  return spec;
}

constexpr Layout kThree{3, 10, 100};

/// Of kThree.
Documents three() {
  return {{0, 100, 109}, {1, 110, 119}, {2, 120, 129}};
}

TEST(RangeKey, IsTheOneOfTheBlog) {
  EXPECT_EQ(range_key(499), "COUNTER DOCUMENT NUMBER 499");
  EXPECT_EQ(range_number("COUNTER DOCUMENT NUMBER 499"), 499);
  EXPECT_EQ(range_number("COUNTER DOCUMENT NUMBER 0"), 0);
  for (const char* other :
       {"COUNTER DOCUMENT NUMBER ", "COUNTER DOCUMENT NUMBER 07", "COUNTER DOCUMENT NUMBER -1",
        "COUNTER DOCUMENT NUMBER 1 ", "COUNTER DOCUMENT NUMBER 9223372036854775808",
        "UNIQUE COUNT DOCUMENT IDENTIFIER"}) {
    EXPECT_EQ(range_number(other), std::nullopt) << other;
  }
}

TEST(RangeLayout, IsTheOneOfTheBlog) {
  const Layout layout;
  EXPECT_EQ(layout.first_of(0), 0);
  EXPECT_EQ(layout.last_of(0), 999'999'999);
  EXPECT_EQ(layout.first_of(499), 499'000'000'000);
  EXPECT_EQ(layout.last_of(499), 499'999'999'999);
  EXPECT_EQ(layout.last_of(999), 999'999'999'999);
}

TEST(RangeCheck, SucceedsWithRangesThatAreThere) {
  const RangeFindings found =
      check_ranges(checked_spec(kThree), Documents{{2, 125, 129}, {0, 110, 109}, {1, 110, 119}});
  EXPECT_EQ(found.fault, "");
  EXPECT_THAT(found.missing, IsEmpty());
  EXPECT_THAT(found.ranges, ElementsAre(RangeState{0, 100, 109, 110}, RangeState{1, 110, 119, 110},
                                        RangeState{2, 120, 129, 125}));
}

TEST(RangeCheck, ACountBeyondTheEndOrNoIntegerMeansNoNumbers) {
  const RangeFindings found =
      check_ranges(checked_spec(kThree), Documents{{0, 1000, 109}, {1, {}, 119}, {2, 129, 129}});
  EXPECT_EQ(found.fault, "");
  EXPECT_FALSE(found.ranges.at(0).has_numbers());
  EXPECT_FALSE(found.ranges.at(1).has_numbers());
  EXPECT_TRUE(found.ranges.at(2).has_numbers());
}

TEST(RangeCheck, MissingOnesAreCreatedFromTheLastToTheFirst) {
  const RangeFindings none = check_ranges(checked_spec(kThree), {});
  EXPECT_EQ(none.fault, "");
  EXPECT_THAT(none.missing, ElementsAre(RangeState{2, 120, 129, 120}, RangeState{1, 110, 119, 110},
                                        RangeState{0, 100, 109, 100}));
  const RangeFindings one = check_ranges(checked_spec(kThree), Documents{{2, 127, 129}});
  EXPECT_THAT(one.missing, ElementsAre(RangeState{1, 110, 119, 110}, RangeState{0, 100, 109, 100}));
  EXPECT_THAT(one.ranges, ElementsAre(RangeState{2, 120, 129, 127}));
}

TEST(RangeCheck, WithoutALayoutTheDocumentsAreTheRanges) {
  const RangeFindings found = check_ranges(
      checked_spec({}), Documents{{7, 350, 399}, {1, 20, 99}, {2, 100, 199}, {9, 200, 299}});
  EXPECT_EQ(found.fault, "");
  EXPECT_THAT(found.ranges,
              ElementsAre(RangeState{1, 20, 99, 20}, RangeState{2, 100, 199, 100},
                          RangeState{9, 200, 299, 200}, RangeState{7, 300, 399, 350}));
  EXPECT_THAT(found.missing, IsEmpty());
}

TEST(RangeCheck, WithoutALayoutAndDocumentsTheyAreThoseOfTheBlog) {
  const RangeFindings found = check_ranges(checked_spec({}), {});
  EXPECT_EQ(found.missing.size(), 1000U);
  EXPECT_EQ(found.missing.back(), (RangeState{0, 0, 999'999'999, 0}));
  EXPECT_EQ(found.missing.at(500).number, 499);
  EXPECT_EQ(found.missing.at(500).last, 499'999'999'999);
}

TEST(RangeCheck, WhatWasInterruptedIsContinued) {
  const Documents last_two{{998, 998'000'000'000, 998'999'999'999},
                           {999, 999'000'000'000, 999'999'999'999}};
  EXPECT_EQ(check_ranges(checked_spec({}), last_two).missing.size(), 998U);
  Documents whole = last_two;
  whole.push_back({0, 0, 999'999'999});  // made last: so many were wanted
  EXPECT_THAT(check_ranges(checked_spec({}), whole).missing, IsEmpty());
  EXPECT_EQ(check_ranges(checked_spec({}), whole).ranges.size(), 3U);
}

struct RangeFault {
  const char* name;
  RangesSpec spec;
  Documents documents;
  const char* fault;
};

TEST(RangeCheck, FailsIfTheyCannotBeUsed) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Documents overlap = three();
  overlap[1].max_value = 120;
  Documents before = three();
  before[2].count = 119;
  Documents early = three();
  early[1].max_value = 105;
  Documents too_many = three();
  too_many.push_back({3, 130, 139});
  Documents text = three();
  text[1].max_value.reset();
  Documents end = three();
  end[2].max_value = most;
  Documents two = three();
  two.pop_back();
  const std::vector<RangeFault> faults{
      {"overlap", checked_spec(kThree), overlap,
       "has ranges that overlap: 'COUNTER DOCUMENT NUMBER 1' ends with 120, and 'COUNTER DOCUMENT "
       "NUMBER 2' begins with 120"},
      {"count_before", checked_spec(kThree), before,
       "has a COUNT in 'COUNTER DOCUMENT NUMBER 2', 119, that lies before its range, which begins "
       "with 120"},
      {"ends_before_it_begins", checked_spec(kThree), early,
       "has a MAX_VALUE in 'COUNTER DOCUMENT NUMBER 1', 105, that lies before its range"},
      {"too_many", checked_spec(kThree), too_many,
       "has 'COUNTER DOCUMENT NUMBER 3', but `ranges` has only 3"},
      {"max_is_text", checked_spec(kThree), text,
       "has a MAX_VALUE in 'COUNTER DOCUMENT NUMBER 1' that is not an integer"},
      {"max_is_int64s", checked_spec(kThree), end, "below 9223372036854775807"},
      {"too_few", checked_spec(kThree, false), two, "has 2 of 3 ranges, and `create` is false"},
      {"none", checked_spec({}, false), {}, "has no document 'COUNTER DOCUMENT NUMBER 0'"},
      {"same_end", checked_spec({}), {{1, 0, 99}, {2, 0, 99}}, "lies before its range"},
      {"count_in_another", checked_spec({}), {{1, 0, 99}, {2, 50, 199}}, "lies before its range"},
  };
  for (const RangeFault& each : faults) {
    EXPECT_THAT(check_ranges(each.spec, each.documents).fault, HasSubstr(each.fault)) << each.name;
  }
}

}  // namespace range_spec_test
}  // namespace idproxy::ids
