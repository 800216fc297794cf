#include "app/views/figures.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace idproxy::app::views {
namespace figures_test {

using Figure = std::pair<std::optional<double>, const char*>;

TEST(LeftText, HasNoFigureForMoreThanAnybodyUses) {
  EXPECT_EQ(left_text(4'709), "4,709");
  EXPECT_EQ(left_text(9.2e18), "> 10^15");
  EXPECT_EQ(left_text({}), "-");
}

TEST(Figures, OfCounts) {
  const Figure figures[] = {{std::nullopt, "-"}, {0, "0"},
                            {999.9, "999"},      {1000, "1,000"},
                            {-1234, "-1,234"},   {1e300, "9,000,000,000,000,000,000"}};
  for (const auto& [figure, text] : figures) EXPECT_EQ(count_text(figure), text);
}

TEST(Figures, OfRates) {
  const Figure figures[] = {{std::nullopt, "-"}, {0, "0"},       {0.04, "0.0"},
                            {12.34, "12.3"},     {99.96, "100"}, {12345.6, "12,346"}};
  for (const auto& [figure, text] : figures) EXPECT_EQ(rate_text(figure), text);
}

TEST(Figures, OfLatencies) {
  const Figure figures[] = {{std::nullopt, "-"},  {-1, "-"},           {0, "0 ms"},
                            {0.00005, "0.05 ms"}, {0.00123, "1.2 ms"}, {0.0485, "48.5 ms"},
                            {0.5, "500 ms"},      {1.25, "1.2 s"},     {12, "12 s"},
                            {61, "1 min 1 s"}};
  for (const auto& [figure, text] : figures) EXPECT_EQ(latency_text(figure), text);
}

TEST(Figures, OfAges) {
  const Figure figures[] = {{std::nullopt, "-"}, {-3, "0.0 s"},          {0.84, "0.8 s"},
                            {185, "3 min 5 s"},  {86399, "23 h 59 min"}, {86400, "1 d"},
                            {1e6, "11 d 13 h"},  {1e300, "34722 d 5 h"}};
  for (const auto& [figure, text] : figures) EXPECT_EQ(age_text(figure), text);
  const Figure rounded[] = {{std::nullopt, "-"}, {0.84, "0.8 s"}, {185, "3 min"}, {1e6, "11 d"}};
  for (const auto& [figure, text] : rounded) EXPECT_EQ(short_age_text(figure), text);
}

TEST(Figures, OfBytes) {
  const Figure figures[] = {{std::nullopt, "-"}, {-1, "-"},         {0, "0 B"},
                            {512, "512 B"},      {1536, "1.5 KiB"}, {268435456, "256 MiB"},
                            {1.5e12, "1.4 TiB"}};
  for (const auto& [figure, text] : figures) EXPECT_EQ(bytes_text(figure), text);
}

TEST(Figures, OfTimesThatAreNone) {
  EXPECT_EQ(date_text(std::nullopt), "-");
  EXPECT_EQ(date_text(-1), "-");
  EXPECT_EQ(date_text(1e300), "-");
  EXPECT_EQ(date_text(1764260000).size(), 16U);
  EXPECT_EQ(clock_text(1764260000).size(), 8U);
}

}  // namespace figures_test
}  // namespace idproxy::app::views
