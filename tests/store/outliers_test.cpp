#include "id_store/outliers.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace idproxy::id_store::test {
namespace outliers_test {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kBillion = 1'000'000'000;

/// `count` numbers, the furthest one first.
std::vector<std::int64_t> down_from(std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(first - static_cast<std::int64_t>(i));
  return numbers;
}

std::vector<std::int64_t> operator+(std::vector<std::int64_t> a,
                                    const std::vector<std::int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Row {
  const char* name;
  std::vector<std::int64_t> furthest;
  std::size_t outliers;
  MayMeet may_meet = MayMeet::yes;
  std::int64_t from = 1;
  std::int64_t max = kMax;
  std::int64_t step = 1;
};

class OutliersTest : public testing::TestWithParam<Row> {};

TEST_P(OutliersTest, AreCounted) {
  const Row& row = GetParam();
  ids::CounterSpec spec;
  spec.max = row.max;
  spec.step = row.step;
  EXPECT_EQ(count_outliers(Numbers(spec), kBillion, row.from, row.furthest, row.may_meet),
            row.outliers);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, OutliersTest,
    testing::Values(
        Row{"none", {}, 0}, Row{"near", {5, 4, 3}, 0}, Row{"one_far", {kMax - 1, 5, 4, 3}, 1},
        Row{"one_alone", {kMax - 1}, 1}, Row{"the_last_number", {kMax}, 1},
        Row{"one_alone_not_far", {5 * kBillion}, 0},
        Row{"fifty_alone_not_far", down_from(5 * kBillion, 50), 0},
        Row{"fifty_alone_at_the_end", down_from(kMax, 50), 50},
        Row{"a_thousand_not_far", down_from(5 * kBillion, kOutlierSample), 0},
        Row{"more_than_outliers", down_from(kMax, 100) + down_from(500, 100), 0},
        Row{"as_many_as_outliers_may_be", down_from(kMax, 99) + down_from(500, 100), 99},
        Row{"fewer_behind_than_beyond", down_from(5 * kBillion, 3) + down_from(3, 2), 0},
        Row{"more_behind_than_beyond", down_from(5 * kBillion, 2) + down_from(3, 3), 2},
        Row{"one_beyond_numbers_of_others", {kMax - 1, 5 * kBillion + 2, 5 * kBillion + 1}, 1},
        Row{"two_gaps", {kMax - 1, 5 * kBillion, 5, 4, 3}, 2},
        Row{"one_behind_the_other", {3 * kBillion, 2 * kBillion, kBillion}, 0},
        Row{"behind_from", {kMax - 1, -5, -6}, 1},
        Row{"downwards", {-kMax, -3, -2}, 1, MayMeet::yes, 0, -kMax, -1},
        Row{"int32", {2147483647, 5, 4}, 1, MayMeet::yes, 1, 2147483647},
        Row{"met_out_of_reach", {kMax - 1, 5, 4, 3}, 1, MayMeet::no},
        Row{"met_within_reach", {5 * kBillion, 5, 4, 3}, 0, MayMeet::no},
        Row{"met_within_reach_of_large_steps", {kMax - 1, 5, 4}, 1, MayMeet::no, 1, kMax, 65535},
        Row{"met_int32", {2147483647, 5, 4}, 0, MayMeet::no, 1, 2147483647}),
    [](const auto& row) { return row.param.name; });

}  // namespace outliers_test
}  // namespace idproxy::id_store::test
