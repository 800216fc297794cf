#include "id_store/outliers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace idproxy::id_store::test {
namespace outliers_test {

TEST(OutliersOfTheLatest, AreFarFromTheOthers) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(count_outliers_of_latest(Numbers{}), 0U);
  EXPECT_EQ(count_outliers_of_latest(Numbers{999'999}), 0U) << "nothing to compare it with";
  EXPECT_EQ(count_outliers_of_latest(Numbers{999'999, 5}), 1U);
  EXPECT_EQ(count_outliers_of_latest(Numbers{999'999, 700'000, 8, 7, 5, 4, 3}), 2U);
  EXPECT_EQ(count_outliers_of_latest(Numbers{2500, 2010, 2000, 1010, 1000, 1}), 0U)
      << "blocks of several proxies";
  EXPECT_EQ(count_outliers_of_latest(Numbers{INT64_MAX, 2, 1, 0}), 1U);
}

}  // namespace outliers_test
}  // namespace idproxy::id_store::test
