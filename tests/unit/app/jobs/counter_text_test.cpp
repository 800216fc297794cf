#include "app/jobs/counter_text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace idproxy::app::jobs {
namespace counter_text_test {

using id_store::StoredCounter;
using id_store::StoredNumbers;
using id_store::StoredValue;

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

/// One that gives out `next` next, and `left` numbers.
StoredCounter counter_at(std::int64_t next, std::uint64_t left, std::int64_t max = 1000,
                         std::int64_t step = 1) {
  StoredCounter counter{"orders", {}, {{"shop.orders", "number", {}}}, {"shop.orders, number"}};
  counter.spec.place.db = "idproxy";
  counter.spec.place.collection = "uniqueIdentifierCounter";
  counter.spec.place.value_field = "COUNT";
  counter.spec.step = step;
  counter.spec.max = max;
  counter.document = "{}";
  counter.value = {StoredValue::Kind::integer, next};
  counter.next = next;
  counter.left = left;
  return counter;
}

CounterView view_of(const StoredCounter& counter, StoredNumbers stored) {
  return {counter.key, counter, std::move(stored)};
}

/// The cells of the only line of the table.
std::string line_of(const CounterView& view) {
  std::string text = counters_text(std::span(&view, 1), {});
  text = text.substr(text.find('\n') + 1);
  for (std::size_t at = 0; (at = text.find("   ")) != std::string::npos;) text.erase(at, 1);
  return text;
}

TEST(CounterText, SaysHowFarACounterIsFromTheData) {
  const struct {
    StoredCounter counter;
    StoredNumbers stored;
    const char* line;
  } rows[] = {
      {counter_at(11, 990), {10}, "11  COUNT: 11 (next)  10  0 ahead  990"},
      {counter_at(21, 980), {10}, "21  COUNT: 21 (next)  10  10 ahead  980"},
      {counter_at(10, 991), {10}, "10  COUNT: 10 (next)  10  1 behind  991"},
      {counter_at(1, 1000), {5000}, "1  COUNT: 1 (next)  5000  5,000 behind  1,000"},
      {counter_at(1, 1000), {}, "1  COUNT: 1 (next)  none  -  1,000"},
      {counter_at(1, 1000), {{}, false, "no index"}, "1  COUNT: 1 (next)  -  -  1,000"},
      {counter_at(1001, 0), {1000}, "-  COUNT: 1001 (next)  1000  0 ahead  full"},
      {counter_at(1, 9, kInt64Max), {}, "1  COUNT: 1 (next)  none  -  no max"},
      {counter_at(-11, 5, -20, -2), {-9}, "-11  COUNT: -11 (next)  -9  0 ahead  5"},
      {counter_at(-11, 5, -20, -2), {-15}, "-11  COUNT: -11 (next)  -15  3 behind  5"},
  };
  for (const auto& [counter, stored, line] : rows) {
    EXPECT_EQ(line_of(view_of(counter, stored)),
              "  orders  shop.orders, number  " + std::string(line) + "\n");
  }
}

TEST(CounterText, SaysWhatTheFieldHolds) {
  StoredCounter counter = counter_at(11, 990);
  counter.spec.place.value_is = ids::CounterPlace::ValueIs::last;
  counter.value.number = 10;
  const std::string text = counter_text(view_of(counter, {{}, false, "no index"}), {});
  EXPECT_NE(text.find("COUNT       10, the last number given out\n"), std::string::npos) << text;
  EXPECT_NE(text.find("next        11\n"), std::string::npos) << text;
  EXPECT_NE(text.find("largest     not known: no index\n"), std::string::npos) << text;
  EXPECT_NE(text.find("left        990, max 1000\n"), std::string::npos) << text;
}

TEST(CounterText, NamesAreUnique) {
  StoredCounter one = counter_at(1, 1);
  StoredCounter other = one;
  EXPECT_EQ(names_of(std::span(&one, 1)), std::vector<std::string>{"orders"});
  other.spec.place.collection = "ids";
  EXPECT_EQ(
      names_of(std::vector{one, other}),
      (std::vector<std::string>{"idproxy.uniqueIdentifierCounter orders", "idproxy.ids orders"}));
  one.spec.place.collection = "ids";
  other.rules = {"shop.bills, n"};
  EXPECT_EQ(names_of(std::vector{one, other}),
            (std::vector<std::string>{"idproxy.ids orders (shop.orders, number)",
                                      "idproxy.ids orders (shop.bills, n)"}));
}

TEST(CounterText, RefusesNumbersThatWouldComeTwice) {
  const StoredCounter counter = counter_at(50, 951);
  const auto why = [&](std::int64_t next, StoredNumbers stored, Force force = Force::no) {
    return refusal_to_set(view_of(counter, std::move(stored)), next, force);
  };
  const StoredNumbers unknown{{}, false, "no index"};
  StoredCounter text = counter;
  text.next.reset();
  EXPECT_TRUE(refusal_to_set(view_of(text, {55}), 60, Force::no)
                  .starts_with("the next number of orders is not known: running proxies may have"));
  EXPECT_EQ(refusal_to_set(view_of(text, {55}), 60, Force::yes), "");
  EXPECT_EQ(why(60, {55}), "");
  EXPECT_EQ(why(56, {55}), "");
  EXPECT_TRUE(why(20, {10}).starts_with("20 is behind the next number, 50: running proxies may"));
  EXPECT_EQ(why(20, {10}, Force::yes), "");
  EXPECT_TRUE(why(55, {55}).starts_with("55 is not beyond the largest number that is stored, 55"));
  EXPECT_EQ(why(55, {55}, Force::yes), "");
  EXPECT_EQ(why(50, unknown), "");
  EXPECT_TRUE(why(49, unknown).starts_with("49 is behind the next number, 50"));
  EXPECT_EQ(why(49, unknown, Force::yes), "");
  EXPECT_EQ(why(1001, {55}, Force::yes), "1001 is beyond the max of orders, 1000");
}

TEST(CounterText, WarnsOfWhatForceDoes) {
  const StoredCounter counter = counter_at(50, 951);
  const auto dangers = [&](std::int64_t next, StoredNumbers stored) {
    return dangers_of(view_of(counter, std::move(stored)), next);
  };
  EXPECT_TRUE(dangers(60, {55}).empty());
  EXPECT_TRUE(dangers(50, {{}, false, "no index"}).empty());
  ASSERT_EQ(dangers(20, {10}).size(), 1U);
  EXPECT_NE(dangers(20, {10})[0].find("goes back"), std::string::npos);
  ASSERT_EQ(dangers(20, {30}).size(), 2U);
  EXPECT_EQ(
      dangers(20, {30})[0],
      "numbers from 20 to 30 will be given out a second time, and stored twice unless a unique "
      "index keeps them out");
  EXPECT_EQ(dangers(52, {55, true})[0],
            "numbers from 52 to 55 will be given out a second time; the unique index on number in "
            "shop.orders keeps them out");
  EXPECT_EQ(dangers(20, {{}, false, "no index"}).size(), 2U);
}

TEST(CounterText, SyncGoesRightBehindTheData) {
  StoredCounter counter = counter_at(50, 951);
  const auto target = [&](StoredNumbers stored) {
    return sync_target(view_of(counter, std::move(stored)));
  };
  EXPECT_EQ(target({70}).next, 71);
  EXPECT_FALSE(target({49}).next);
  EXPECT_FALSE(target({}).next);
  EXPECT_EQ(target({49}).refusal + target({}).refusal, "");
  EXPECT_FALSE(target({{}, false, "no index"}).refusal.empty());
  EXPECT_FALSE(target({1000}).refusal.empty());  // max
  counter.spec.heal.max_jump = 20;
  EXPECT_EQ(target({70}).next, 71);
  EXPECT_FALSE(target({71}).refusal.empty());
  counter.spec.max = kInt64Max;
  counter.spec.heal.max_jump = kInt64Max;
  EXPECT_FALSE(target({kInt64Max}).refusal.empty());
  const StoredCounter full = counter_at(1001, 0);
  for (const std::int64_t most : {1000, 2000}) {
    EXPECT_EQ(sync_target(view_of(full, {most})).refusal,
              "orders: no number is left up to its max, 1000");
  }
}

}  // namespace counter_text_test
}  // namespace idproxy::app::jobs
