#include "idproxy/ids/number_ranges.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/block_caches.hpp"

namespace idproxy::ids {
namespace number_ranges_test {

using Ranges = std::vector<Range>;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Ranges all_of(NumberRanges ranges) {
  Ranges all;
  ranges.take(ranges.count(), all);
  EXPECT_EQ(ranges.count(), 0U);
  EXPECT_EQ(ranges.last(), std::nullopt);
  return all;
}

TEST(Steps, CountsUpToTheLast) {
  EXPECT_EQ(Steps(1).count(1, 1), 1U);
  EXPECT_EQ(Steps(1).count(2, 1), 0U);
  EXPECT_EQ(Steps(5).count(1, 15), 3U);
  EXPECT_EQ(Steps(5).count(1, 16), 4U);
  EXPECT_EQ(Steps(-5).count(1, -9), 3U);
  EXPECT_EQ(Steps(-5).count(-10, -9), 0U);
  EXPECT_EQ(Steps(1).count(kMin + 1, kMax), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(Steps(1).count(kMin, kMax), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(Steps(-1).count(kMin, kMin), 1U);
  EXPECT_EQ(Steps(-1).count(static_cast<Int128>(kMin) - 1, kMin), 0U);
}

TEST(NumberRanges, AreTakenInTheirOrder) {
  NumberRanges ranges(Steps(1));
  ranges.put({{11, 5}});
  ranges.put({{1, 5}});
  EXPECT_EQ(ranges.count(), 10U);
  Ranges out;
  ranges.take(3, out);
  ranges.take(4, out);
  ranges.take(0, out);
  EXPECT_EQ(out, (Ranges{{1, 3}, {4, 2}, {11, 2}}));
  EXPECT_EQ(all_of(ranges), (Ranges{{13, 3}}));
}

TEST(NumberRanges, MergeWhatTouches) {
  NumberRanges ranges(Steps(3));
  ranges.put({{31, 10}});
  ranges.put({{1, 2}, {10, 1}, {28, 1}});
  EXPECT_EQ(ranges.last(), (Range{28, 11}));
  ranges.put({{7, 1}, {61, 1}});
  EXPECT_EQ(all_of(ranges), (Ranges{{1, 4}, {28, 12}}));
}

TEST(NumberRanges, AreMirroredWithANegativeStep) {
  NumberRanges ranges(Steps(-2));
  ranges.put({{-10, 5}});
  ranges.put({{8, 1}, {4, 1}, {-8, 1}});
  EXPECT_EQ(ranges.last(), (Range{-8, 6}));
  ranges.put({{6, 1}});
  EXPECT_EQ(all_of(ranges), (Ranges{{8, 3}, {-8, 6}}));
}

TEST(NumberRanges, DoNotWrapAtTheEnds) {
  NumberRanges up(Steps(65535));
  up.put({{kMax - 65535, 2}});
  up.put({{kMin, 1}});
  EXPECT_EQ(all_of(up), (Ranges{{kMin, 1}, {kMax - 65535, 2}}));
  NumberRanges down(Steps(-1));
  down.put({{kMin, 1}});
  down.put({{kMax, 1}, {kMin + 2, 2}});
  EXPECT_EQ(all_of(down), (Ranges{{kMax, 1}, {kMin + 2, 3}}));
}

TEST(NumberRanges, HoldNoNumberTwice) {
  NumberRanges ranges(Steps(1));
  ranges.put({{5, 5}});
  ranges.put({{7, 1}});
  ranges.put({{3, 3}});
  ranges.put({{1, 1}});
  EXPECT_EQ(ranges.count(), 6U);
  EXPECT_EQ(all_of(ranges), (Ranges{{1, 1}, {5, 5}}));
}

TEST(NumberRanges, GiveUpTheirLastRun) {
  NumberRanges ranges(Steps(1));
  ranges.put({{1, 2}, {5, 3}});
  ranges.drop_last();
  EXPECT_EQ(ranges.last(), (Range{1, 2}));
  EXPECT_EQ(ranges.count(), 2U);
  ranges.drop_last();
  EXPECT_EQ(ranges.last(), std::nullopt);
}

TEST(NumberRanges, GiveUpSomeNumbers) {
  struct Row {
    const char* name;
    Ranges removed;
    Ranges left;
  };
  const std::vector<Row> rows{
      {"none", {}, {{1, 3}, {10, 5}, {20, 2}}},
      {"others", {{5, 3}, {15, 2}, {30, 1}}, {{1, 3}, {10, 5}, {20, 2}}},
      {"at the ends", {{1, 1}, {14, 1}, {21, 1}}, {{2, 2}, {10, 4}, {20, 1}}},
      {"in the middle",
       {{2, 1}, {11, 1}, {13, 1}},
       {{1, 1}, {3, 1}, {10, 1}, {12, 1}, {14, 1}, {20, 2}}},
      {"across", {{2, 9}, {13, 8}}, {{1, 1}, {11, 2}, {21, 1}}},
      {"all", {{1, 30}}, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    NumberRanges ranges(Steps(1));
    ranges.put({{1, 3}, {10, 5}, {20, 2}});
    ranges.remove(row.removed);
    std::uint64_t count = 0;
    for (const Range& range : row.left) count += range.count;
    EXPECT_EQ(ranges.count(), count);
    EXPECT_EQ(all_of(ranges), row.left);
  }
  NumberRanges down(Steps(-5));
  down.put({{100, 5}});
  down.remove({{95, 1}, {85, 1}});
  EXPECT_EQ(all_of(down), (Ranges{{100, 1}, {90, 1}, {80, 1}}));
}

TEST(NumberRanges, TakeManyFragmentsBackInLinearTime) {
  NumberRanges ranges(Steps(1));
  Ranges fragments;
  for (std::int64_t i = 0; i < 200'000; ++i) fragments.push_back({2 * i, 1});
  ranges.put(fragments);
  for (Range& range : fragments) ++range.first;
  ranges.put(fragments);
  EXPECT_EQ(all_of(ranges), (Ranges{{0, 400'000}}));
}

}  // namespace number_ranges_test
}  // namespace idproxy::ids
