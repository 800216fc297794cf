#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "idproxy/ids/strategies.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

// Vectors: https://github.com/ulid/spec, and 01BX5ZZKBKACTAV9WEVGEMMVRZ in bytes.
namespace idproxy::ids {
namespace ulid_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

constexpr milliseconds kTime{1508808576371};
constexpr std::string_view kRandom = "5334ada78edc1d4a6f1f";

class UlidTest : public ::testing::Test {
 protected:
  UlidTest() { clock_.set(kTime); }

  std::shared_ptr<Source> make(RandomSource& random, const Table& table = {}) {
    return test::make_source("ulid", table, {clock_, random});
  }
  static Texts next(Source& source, std::size_t n) {
    Values values;
    Texts texts;
    if (!source.next(n, values)) return texts;
    for (std::size_t i = 0; i < n; ++i) {
      texts.emplace_back(as_text(values[i].subspan(4, values[i].size() - 5)));
    }
    return texts;
  }
  Fit fit(std::string_view text) {
    test::SeededRandom random;
    Values values;
    values.add_string(text);
    return test::make_strategy("ulid", Table{}, {clock_, random})
        ->fit(bson::Type::string, values[0]);
  }

  test::FakeClock clock_;
};

TEST_F(UlidTest, SucceedsWithTheVectorAndTheNextOne) {
  test::ScriptedRandom random(kRandom);
  const auto source = make(random);
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBKACTAV9WEVGEMMVRZ"});
  EXPECT_EQ(next(*source, 2), (Texts{"01BX5ZZKBKACTAV9WEVGEMMVS0", "01BX5ZZKBKACTAV9WEVGEMMVS1"}));
}

TEST_F(UlidTest, SucceedsWithTheTimeOfTheVector) {
  test::ScriptedRandom random("00000000000000000000");
  clock_.set(milliseconds(1469918176385));
  EXPECT_EQ(next(*make(random), 1), Texts{"01ARYZ6S410000000000000000"});
}

TEST_F(UlidTest, SucceedsWithBinaries) {
  test::ScriptedRandom random(kRandom);
  EXPECT_EQ(test::next_hex(*make(random, {{"output", "uuid"}}), 1),
            Texts{"1000000004015f4bffcd735334ada78edc1d4a6f1f"});
  random.add(kRandom);
  EXPECT_EQ(test::next_hex(*make(random, {{"output", "binary"}}), 1),
            Texts{"1000000000015f4bffcd735334ada78edc1d4a6f1f"});
}

TEST_F(UlidTest, SucceedsWithTheNextMillisecondOnOverflow) {
  test::ScriptedRandom random("ffffffffffffffffffff 00000000000000000007");
  const auto source = make(random);
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBKZZZZZZZZZZZZZZZZ"});
  EXPECT_EQ(next(*source, 2), (Texts{"01BX5ZZKBM0000000000000007", "01BX5ZZKBM0000000000000008"}));
  clock_.advance(milliseconds(1));  // the time that the ids have reached already
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBM0000000000000009"});
}

TEST_F(UlidTest, FailsOnOverflowIfThatIsAnErrorUntilTheNextMillisecond) {
  test::ScriptedRandom random("ffffffffffffffffffff 00000000000000000007");
  const auto source = make(random, {{"on_overflow", "error"}});
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBKZZZZZZZZZZZZZZZZ"});
  Values values;
  const Draw draw = source->next(1, values);
  ASSERT_FALSE(draw || draw.needs_store());
  EXPECT_EQ(draw.error().code, Errc::exhausted);
  EXPECT_EQ(draw.error().reason,
            "the random bits of this millisecond are used up, and on_overflow is error");
  clock_.advance(milliseconds(1));
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBM0000000000000007"});
}

TEST_F(UlidTest, SucceedsWithTheLastTimeUpTo10SecondsBack) {
  test::ScriptedRandom random("00000000000000000000 00000000000000000000");
  const auto source = make(random);
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBK0000000000000000"});
  clock_.set(kTime - seconds(10));
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBK0000000000000001"});
  clock_.set(kTime - seconds(10) - milliseconds(1));
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZ9K20000000000000000"});
}

TEST_F(UlidTest, SucceedsWithNewBitsAfterFork) {
  test::ScriptedRandom random("00000000000000000000 00010000000000000000");
  const auto source = make(random);
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBK0000000000000000"});
  random.fork();
  EXPECT_EQ(next(*source, 1), Texts{"01BX5ZZKBK000G000000000000"});
}

TEST_F(UlidTest, SucceedsWithAscendingIds) {
  test::SeededRandom random;
  const auto source = make(random);
  Texts all;
  for (int i = 0; i < 1000; ++i) {
    const Texts some = next(*source, 100);
    all.insert(all.end(), some.begin(), some.end());
    if (i % 3 == 0) clock_.advance(milliseconds(i % 2 == 0 ? 1 : -1));
  }
  EXPECT_EQ(all.size(), 100'000U);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()), all.end());
}

TEST_F(UlidTest, SucceedsWithAPrefixOnlyOfTexts) {
  test::ScriptedRandom random(kRandom);
  EXPECT_EQ(next(*make(random, {{"prefix", "order-"}}), 1),
            Texts{"order-01BX5ZZKBKACTAV9WEVGEMMVRZ"});
  test::FakeParameters parameters(Table{{"output", "uuid"}, {"prefix", "a"}});
  static_cast<void>(test::make_strategy("ulid", parameters, {clock_, random}));
  EXPECT_EQ(parameters.errors(), Texts{"prefix: needs a text to stand before: output: string"});
}

TEST_F(UlidTest, JudgesTexts) {
  EXPECT_EQ(fit("01BX5ZZKBKACTAV9WEVGEMMVRZ"), Fit::fits);
  EXPECT_EQ(fit("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Fit::fits);
  EXPECT_EQ(fit("80000000000000000000000000"), Fit::wrong_form);
  EXPECT_EQ(fit("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Fit::wrong_form);
  EXPECT_EQ(fit("01bx5zzkbkactav9wevgemmvrz"), Fit::wrong_form);
  EXPECT_EQ(fit("01BX5ZZKBKACTAV9WEVGEMMVR"), Fit::wrong_form);
  EXPECT_EQ(fit("01BX5ZZKBKACTAV9WEVGEMMVRU"), Fit::wrong_form);
}

}  // namespace ulid_test
}  // namespace idproxy::ids
