#include "idproxy/ids/held_numbers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace idproxy::ids {
namespace held_numbers_test {

using Ranges = std::vector<Range>;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Ranges take(HeldNumbers& numbers, std::uint64_t n) {
  Ranges out;
  numbers.take(n, out);
  return out;
}

Ranges take_all(HeldNumbers& numbers) {
  return take(numbers, numbers.count());
}

/// Holds 4 to 10; 1 to 3 are in use.
HeldNumbers some(std::int64_t max = kMax) {
  HeldNumbers numbers(1, max);
  numbers.add({1, 10});
  EXPECT_EQ(take(numbers, 3), (Ranges{{1, 3}}));
  return numbers;
}

TEST(HeldNumbers, KnowsHowFarTheCounterHasCome) {
  HeldNumbers numbers(1, kMax);
  EXPECT_EQ(numbers.end(), std::nullopt);
  EXPECT_EQ(numbers.unused_end(), std::nullopt);
  numbers.add({5, 10});
  EXPECT_TRUE(numbers.end() == Int128{15});
  EXPECT_EQ(numbers.count(), 10U);
  EXPECT_EQ(numbers.taken(), 0U);
}

TEST(HeldNumbers, KnowsWhatComesNextAndHowMuchIsLeft) {
  HeldNumbers numbers(5, 100);
  EXPECT_EQ(numbers.next(), std::nullopt);
  EXPECT_EQ(numbers.left(), std::nullopt);
  numbers.add({50, 2});
  EXPECT_EQ(numbers.next(), 50);
  EXPECT_EQ(numbers.left(), 11U);
  EXPECT_EQ(take(numbers, 2), (Ranges{{50, 2}}));
  EXPECT_EQ(numbers.next(), 60);
  EXPECT_EQ(numbers.left(), 9U);
  numbers.take_back({{55, 1}});
  EXPECT_EQ(numbers.next(), 55);
  EXPECT_EQ(numbers.left(), 10U);
  numbers.add({60, 20});  // beyond max
  EXPECT_EQ(numbers.left(), 10U);
  (void)take_all(numbers);
  EXPECT_EQ(numbers.next(), std::nullopt);
  EXPECT_EQ(numbers.left(), 0U);
}

TEST(HeldNumbers, HasTheWholeRangeOfInt64Left) {
  HeldNumbers numbers(-1, std::numeric_limits<std::int64_t>::min());
  numbers.add({kMax, 1});
  EXPECT_EQ(numbers.left(), std::numeric_limits<std::uint64_t>::max());
}

TEST(HeldNumbers, TakesBackOnlyWhatItHasGiven) {
  HeldNumbers numbers = some();
  numbers.take_back({{-5, 1}, {2, 2}, {11, 1}});
  EXPECT_EQ(take_all(numbers), (Ranges{{2, 9}}));
}

TEST(HeldNumbers, WhatIsSetAsideComesBackIfThereIsNoHeal) {
  HeldNumbers numbers = some();
  numbers.set_aside();
  EXPECT_EQ(numbers.count(), 0U);
  EXPECT_EQ(numbers.count_valid(std::array<std::int64_t, 2>{1, 3}), 0U);
  numbers.take_back({{3, 1}});
  EXPECT_EQ(numbers.count(), 0U);
  numbers.restore();
  EXPECT_EQ(numbers.count_valid(std::array<std::int64_t, 2>{1, 3}), 2U);
  EXPECT_EQ(take_all(numbers), (Ranges{{3, 8}}));
}

TEST(HeldNumbers, WhatIsTakenDoesNotComeBack) {
  HeldNumbers numbers = some();
  numbers.set_aside();
  numbers.add({11, 5});
  EXPECT_EQ(numbers.aside(), (Ranges{{4, 12}}));
  numbers.restore_without({{4, 2}, {9, 1}, {14, 2}});
  EXPECT_EQ(take_all(numbers), (Ranges{{6, 3}, {10, 4}}));
}

TEST(HeldNumbers, AHealReplacesWhatWasHeld) {
  HeldNumbers numbers = some();
  numbers.set_aside();
  numbers.replace({101, 5});
  numbers.take_back({{3, 1}});
  numbers.restore();  // there is nothing
  EXPECT_EQ(numbers.count_valid(std::array<std::int64_t, 2>{3, 101}), 1U);
  EXPECT_EQ(take_all(numbers), (Ranges{{101, 5}}));
}

TEST(HeldNumbers, OfABlockThatComesDuringAHealNothingIsHandedOutBeforeItsEnd) {
  HeldNumbers numbers = some();
  numbers.set_aside();
  numbers.add({11, 10});
  EXPECT_TRUE(numbers.end() == Int128{21});
  EXPECT_EQ(numbers.unused_end(), std::nullopt);
  EXPECT_EQ(numbers.count(), 0U);
  numbers.replace({31, 5});
  EXPECT_EQ(take_all(numbers), (Ranges{{31, 5}}));
}

TEST(HeldNumbers, WhatIsDroppedNeverComesBack) {
  for (const bool aside : {false, true}) {
    HeldNumbers numbers = some();
    if (aside) numbers.set_aside();
    numbers.drop();
    numbers.restore();
    numbers.take_back({{2, 1}});
    EXPECT_EQ(numbers.count(), 0U);
    numbers.add({11, 2});
    EXPECT_EQ(take_all(numbers), (Ranges{{11, 2}}));
  }
}

TEST(HeldNumbers, TheUnusedEndIsGivenBackOrNot) {
  HeldNumbers numbers = some();
  const auto unused = numbers.unused_end();
  EXPECT_EQ(unused, (Range{4, 7}));
  EXPECT_EQ(numbers.take_unused_end(), Ranges());
  EXPECT_EQ(numbers.count(), 0U);
  numbers.put_unused_end(*unused);
  EXPECT_EQ(numbers.unused_end(), unused);
  EXPECT_EQ(numbers.take_unused_end(), Ranges());
  numbers.cut(4);
  EXPECT_TRUE(numbers.end() == Int128{4});
  numbers.add({4, 2});
  EXPECT_EQ(take_all(numbers), (Ranges{{4, 2}}));
}

TEST(HeldNumbers, WhatIsNotGivenBackDuringAHealIsSetAside) {
  HeldNumbers numbers = some();
  EXPECT_EQ(numbers.take_unused_end(), Ranges());
  numbers.set_aside();
  numbers.put_unused_end({4, 7});
  EXPECT_EQ(numbers.count(), 0U);
  numbers.restore();
  EXPECT_EQ(take_all(numbers), (Ranges{{4, 7}}));
}

/// Another process can then give back the numbers before: the counter does not go back by that.
TEST(HeldNumbers, OfABlockThatWentBackAsAWholeNothingIsLeft) {
  HeldNumbers numbers = some();
  numbers.add({21, 10});
  numbers.add({31, 10});  // the same numbers in a row
  EXPECT_EQ(numbers.take_unused_end(), (Ranges{{4, 7}}));
  numbers.cut(21);
  EXPECT_TRUE(numbers.end() == Int128{11});
  numbers.add({15, 5});
  EXPECT_EQ(numbers.take_unused_end(), Ranges());
  numbers.cut(16);  // 15 is used
  EXPECT_TRUE(numbers.end() == Int128{16});
  HeldNumbers fresh(1, kMax);
  fresh.add({21, 10});
  EXPECT_EQ(fresh.take_unused_end(), Ranges());
  fresh.cut(21);
  EXPECT_EQ(fresh.end(), std::nullopt);
  fresh.add({5, 2});
  EXPECT_EQ(take_all(fresh), (Ranges{{5, 2}}));
}

TEST(HeldNumbers, OnlyTheUnusedEndCanGoBack) {
  HeldNumbers numbers = some();
  numbers.take_back({{1, 2}});
  numbers.add({21, 10});  // another proxy has 11 to 20
  EXPECT_EQ(numbers.unused_end(), (Range{21, 10}));
  EXPECT_EQ(numbers.take_unused_end(), (Ranges{{1, 2}, {4, 7}}));
  EXPECT_EQ(numbers.count(), 0U);
}

TEST(HeldNumbers, WhatIsLostIsNamed) {
  HeldNumbers numbers = some();
  EXPECT_EQ(numbers.lose_older(), Ranges());
  numbers.add({21, 10});
  EXPECT_EQ(numbers.lose_older(), (Ranges{{4, 7}}));
  EXPECT_EQ(numbers.count(), 10U);
  numbers.take_back({{3, 1}});  // it was in use
  EXPECT_EQ(numbers.lose_all(), (Ranges{{3, 1}, {21, 10}}));
  EXPECT_EQ(numbers.lose_all(), Ranges());
  EXPECT_EQ(numbers.lose_older(), Ranges());
  EXPECT_TRUE(numbers.end() == Int128{31});
}

TEST(HeldNumbers, WhatComesBackWasNotUsed) {
  HeldNumbers numbers = some();
  EXPECT_EQ(numbers.used(), 3U);
  numbers.take_back({{2, 2}});
  EXPECT_EQ(numbers.used(), 1U);
  numbers.take_back({{2, 2}});  // twice: it counts once
  EXPECT_EQ(numbers.used(), 1U);
  EXPECT_EQ(take(numbers, 2), (Ranges{{2, 2}}));
  EXPECT_EQ(numbers.used(), 3U);
  EXPECT_EQ(numbers.taken(), 5U);
}

TEST(HeldNumbers, BeyondMaxNothingIsHandedOut) {
  HeldNumbers numbers = some(6);
  EXPECT_EQ(numbers.count(), 3U);
  EXPECT_TRUE(numbers.end() == Int128{11});
  EXPECT_EQ(numbers.unused_end(), (Range{4, 7}));  // all of it is given back
  numbers.change_max(8);
  EXPECT_EQ(numbers.count(), 5U);
  numbers.change_max(3);
  EXPECT_EQ(numbers.count(), 0U);
  numbers.take_back({{2, 2}});
  numbers.change_max(kMax);
  EXPECT_EQ(take_all(numbers), (Ranges{{2, 9}}));
}

TEST(HeldNumbers, BeyondMaxDuringAHealAllIsSetAside) {
  HeldNumbers numbers = some(6);
  numbers.set_aside();
  numbers.change_max(8);
  EXPECT_EQ(numbers.count(), 0U);
  numbers.restore();
  EXPECT_EQ(take_all(numbers), (Ranges{{4, 5}}));
}

}  // namespace held_numbers_test
}  // namespace idproxy::ids
