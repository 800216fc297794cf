#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "idproxy/ids/fill.hpp"
#include "idproxy/ids/free_values.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/random_chunk.hpp"
#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace random_digits_test {

using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

std::shared_ptr<Source> make(RandomSource& random, const Table& table) {
  static const test::FakeClock clock;
  return test::make_source("random-digits", table, {clock, random});
}

/// A value as a user reads it.
std::string text_of(const Values& values, std::size_t i) {
  const Bytes value = values[i];
  if (values.type() == bson::Type::int64) return std::to_string(load_i64(value.data()));
  if (values.type() == bson::Type::int32) return std::to_string(load_i32(value.data()));
  return std::string(as_text(value.subspan(4, value.size() - 5)));
}

Texts texts_of(const Values& values) {
  Texts texts;
  for (std::size_t i = 0; i < values.size(); ++i) texts.push_back(text_of(values, i));
  return texts;
}

Texts next_texts(Source& strategy, std::size_t n) {
  Values values;
  if (!strategy.next(n, values)) return {};
  return texts_of(values);
}

bool all_distinct(Texts texts) {
  std::sort(texts.begin(), texts.end());
  return std::adjacent_find(texts.begin(), texts.end()) == texts.end();
}

// --- docs/strategies.md#uniform-random-numbers ---

TEST(RejectionLimit, SucceedsWithTheVectors) {
  EXPECT_EQ(rejection_limit<std::uint64_t>(1'000'000'000'000), 18446744000000000000U);
  EXPECT_EQ(rejection_limit<std::uint64_t>(900'000'000'000), 18446743800000000000U);
  EXPECT_EQ(rejection_limit<std::uint64_t>(10'000'000'000'000'000'000U),
            10'000'000'000'000'000'000U);
  EXPECT_EQ(rejection_limit<std::uint64_t>(1U << 20), 0U);  // 2^64
}

struct DrawCase {
  const char* name;
  Table table;
  const char* drawn;  // hex; all of it is used
  Texts values;
};
void PrintTo(const DrawCase& row, std::ostream* out) {
  *out << row.name;
}

class RandomDigitsDraw : public ::testing::TestWithParam<DrawCase> {};

TEST_P(RandomDigitsDraw, SucceedsWithTheseBytes) {
  test::ScriptedRandom random(GetParam().drawn);
  const auto strategy = make(random, GetParam().table);
  EXPECT_EQ(next_texts(*strategy, GetParam().values.size()), GetParam().values);
  EXPECT_EQ(random.left(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, RandomDigitsDraw,
    ::testing::Values(
        DrawCase{"Default", {}, "000000e8d4a51001", {"1"}},
        DrawCase{"LastBelowLimit", {}, "ffffffeed6917fff", {"999999999999"}},
        DrawCase{"LimitIsRejected", {}, "ffffffeed6918000 000000e8d4a51001", {"1"}},
        DrawCase{"RejectedInABatch",
                 {},
                 "0000000000000005 ffffffeed6918000 0000000000000006 ffffffffffffffff "
                 "0000000000000007",
                 {"5", "6", "7"}},
        DrawCase{"RepeatedIsDrawnAgain",
                 {},
                 "0000000000000005 000000e8d4a51005 0000000000000006",
                 {"5", "6"}},
        DrawCase{"WithoutLeadingZeros",
                 {{"leading_zeros", "false"}},
                 "ffffffc045a3afff 0000000000000000",
                 {"999999999999", "100000000000"}},
        DrawCase{"WithoutLeadingZerosLimitIsRejected",
                 {{"leading_zeros", "false"}},
                 "ffffffc045a3b000 0000000000000001",
                 {"100000000001"}},
        DrawCase{"Int32",
                 {{"output", "int32"}, {"digits", "9"}},
                 "000000003b9ac9ff 000000003b9aca01",
                 {"999999999", "1"}},
        DrawCase{"StringIsPadded", {{"output", "string"}}, "000000e8d4a51001", {"000000000001"}},
        DrawCase{"String19Draws64Bits",
                 {{"output", "string"}, {"digits", "19"}},
                 "8ac7230489e7ffff 8ac7230489e80000 0000000000000001",
                 {"9999999999999999999", "0000000000000000001"}},
        DrawCase{"String20Draws128Bits",
                 {{"output", "string"}, {"digits", "20"}},
                 "0000000000000000000000000000000c",
                 {"00000000000000000012"}},
        DrawCase{"String34LastBelowLimit",
                 {{"output", "string"}, {"digits", "34"}},
                 "ffff8b4d41f841d833ead42fffffffff",
                 {"9999999999999999999999999999999999"}},
        DrawCase{"String34LimitIsRejected",
                 {{"output", "string"}, {"digits", "34"}},
                 "ffff8b4d41f841d833ead43000000000 00000000000000000000000000000000",
                 {"0000000000000000000000000000000000"}},
        DrawCase{"String34WithoutLeadingZeros",
                 {{"output", "string"}, {"digits", "34"}, {"leading_zeros", "false"}},
                 "00000000000000000000000000000007",
                 {"1000000000000000000000000000000007"}},
        DrawCase{"Check", {{"check", "damm"}}, "0000001cbe991a14", {"1234567890123"}},
        DrawCase{"CheckOfANumberWithoutItsLeadingZeros",
                 {{"check", "mod11-10"}},
                 "000000000000031a",
                 {"7946"}},
        DrawCase{"CheckOfATextWithItsLeadingZeros",
                 {{"check", "mod11-10"}, {"output", "string"}, {"digits", "4"}},
                 "000000000000031a",
                 {"07945"}},
        DrawCase{"TwoCheckDigitsInt32",
                 {{"check", "mod97-10"}, {"output", "int32"}, {"digits", "7"}},
                 "000000000000031a",
                 {"79444"}},
        DrawCase{"RepeatedIsDrawnAgainDespiteItsCheck",
                 {{"check", "luhn"}},
                 "0000000000000005 000000e8d4a51005 0000000000000006",
                 {"59", "67"}}),
    [](const auto& row) { return row.param.name; });

TEST(RandomDigits, SucceedsWithTheBytesOfBson) {
  test::ScriptedRandom random("0000000000000102 0000000000000102 000000000000000f");
  EXPECT_EQ(test::next_hex(*make(random, {}), 1), Texts{"0201000000000000"});
  EXPECT_EQ(test::next_hex(*make(random, {{"output", "int32"}, {"digits", "9"}}), 1),
            Texts{"02010000"});
  EXPECT_EQ(test::next_hex(*make(random, {{"output", "string"}, {"digits", "3"}}), 1),
            Texts{"0400000030313500"});
}

// --- Distinct values, small spaces ---

struct SpaceCase {
  const char* name;
  Table table;
  std::size_t count;
  std::string least;
  std::string greatest;
};
void PrintTo(const SpaceCase& row, std::ostream* out) {
  *out << row.name;
}

class RandomDigitsSpace : public ::testing::TestWithParam<SpaceCase> {
 protected:
  /// All values of the space, in order.
  Texts all() const {
    test::SeededRandom random;
    Texts texts = next_texts(*make(random, GetParam().table), GetParam().count);
    std::sort(texts.begin(), texts.end());
    return texts;
  }
};

TEST_P(RandomDigitsSpace, SucceedsWithAllValuesInOneRequest) {
  const Texts texts = all();
  ASSERT_EQ(texts.size(), GetParam().count);
  EXPECT_TRUE(all_distinct(texts));
  EXPECT_EQ(texts.front(), GetParam().least);
  EXPECT_EQ(texts.back(), GetParam().greatest);
}

TEST_P(RandomDigitsSpace, SucceedsWithAllValuesInManySteps) {
  test::SeededRandom random;
  const auto strategy = make(random, GetParam().table);
  Values values;
  for (std::size_t n = 1; values.size() < GetParam().count; n *= 3) {
    ASSERT_TRUE(strategy->next(std::min(n, GetParam().count - values.size()), values));
  }
  Texts texts = texts_of(values);
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(texts, all());
}

TEST_P(RandomDigitsSpace, FailsIfMoreIsNeededThanThereIs) {
  test::SeededRandom random;
  const auto strategy = make(random, GetParam().table);
  const std::string number = std::to_string(GetParam().count);
  const std::string reason = "there are only " + number + " possible values, the request needs ";
  Values values;
  auto result = strategy->next(GetParam().count + 1, values);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::exhausted);
  EXPECT_EQ(result.error().reason, reason + std::to_string(GetParam().count + 1));

  values.clear();
  ASSERT_TRUE(strategy->next(GetParam().count - 1, values));
  ASSERT_TRUE(strategy->next(1, values));
  ASSERT_TRUE(strategy->next(0, values));
  result = strategy->next(1, values);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::exhausted);
  EXPECT_EQ(values.size(), GetParam().count);
}

INSTANTIATE_TEST_SUITE_P(
    Tables, RandomDigitsSpace,
    ::testing::Values(
        SpaceCase{"One", {{"digits", "1"}}, 10, "0", "9"},
        SpaceCase{"OneWithoutZero", {{"digits", "1"}, {"leading_zeros", "false"}}, 9, "1", "9"},
        SpaceCase{"ThreeString", {{"digits", "3"}, {"output", "string"}}, 1000, "000", "999"},
        SpaceCase{"TwoWithCheck", {{"digits", "2"}, {"check", "damm"}}, 100, "0", "999"},
        SpaceCase{"TwoStringWithCheck",
                  {{"digits", "2"}, {"output", "string"}, {"check", "mod97-10"}},
                  100,
                  "0098",
                  "9992"},
        SpaceCase{"ThreeInt32",
                  {{"digits", "3"}, {"output", "int32"}, {"leading_zeros", "false"}},
                  900,
                  "100",
                  "999"},
        SpaceCase{"FourString", {{"digits", "4"}, {"output", "string"}}, 10'000, "0000", "9999"}),
    [](const auto& row) { return row.param.name; });

/// The number 0 leaves an integer with nothing but its check digits, or less.
TEST(RandomDigits, EachIntegerFits) {
  const test::FakeClock clock;
  test::SeededRandom random;
  for (const char* check : {"none", "luhn", "damm", "verhoeff", "mod97-10", "mod11-10"}) {
    const auto rule = test::make_strategy("random-digits", Table{{"digits", "2"}, {"check", check}},
                                          {clock, random});
    Values values;
    rule->append_samples(100, values);
    ASSERT_EQ(values.size(), 100U);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(rule->fit(values.type(), values[i]), Fit::fits) << check << text_of(values, i);
    }
  }
}

TEST(RandomDigits, FailsIfTheNumberOfValuesWouldOverflow) {
  test::SeededRandom random;
  Values values;
  const auto strategy = make(random, {{"digits", "1"}});
  ASSERT_TRUE(strategy->next(5, values));
  EXPECT_FALSE(strategy->next(SIZE_MAX, values));
}

TEST(RandomDigits, SucceedsWithDistinctValuesOnBothSidesOfAQuarter) {
  test::SeededRandom random;
  const auto strategy = make(random, {{"digits", "4"}});
  for (const std::size_t n : {2499U, 2500U, 2501U}) {
    const Texts texts = next_texts(*strategy, n);
    EXPECT_EQ(texts.size(), n);
    EXPECT_TRUE(all_distinct(texts));
  }
}

TEST(RandomDigits, SucceedsWithOneDrawPerValueWhenTheSpaceIsUsedUp) {
  std::string zeros;
  for (int i = 0; i < 10; ++i) zeros += "0000000000000000 ";
  test::ScriptedRandom random(zeros);
  EXPECT_EQ(next_texts(*make(random, {{"digits", "1"}}), 10),
            (Texts{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
}

TEST(RandomDigits, SucceedsWithValuesNotGivenBefore) {
  test::ScriptedRandom random("0000000000000005 0000000000000006");
  const auto strategy = make(random, {});
  Values values;
  ASSERT_TRUE(strategy->next(2, values));
  random.add("0000000000000006 0000000000000005 0000000000000008");
  ASSERT_TRUE(strategy->next(1, values));
  EXPECT_EQ(texts_of(values), (Texts{"5", "6", "8"}));
}

// --- Fill ---

/// Knows one collection and one field of it.
class FillStore : public Store {
 public:
  std::shared_ptr<BlockCache> counter(const CounterSpec&, const CounterField&) override {
    return nullptr;
  }
  std::shared_ptr<Fill> fill(std::string_view ns, std::string_view field) override {
    EXPECT_EQ(ns, "bank.accounts");
    EXPECT_EQ(field, "number");
    return fill_;
  }
  Readiness readiness(std::size_t, std::string_view, std::string_view) override { return {}; }
  [[nodiscard]] const Version& version() const override { return version_; }
  [[nodiscard]] std::vector<NotReady> not_ready(std::size_t) const override { return {}; }
  [[nodiscard]] std::vector<RuleNumbers> numbers(std::size_t) const override { return {}; }
  [[nodiscard]] StoreCounts counts() const override { return {}; }

  Fill& seen() { return *fill_; }

 private:
  const Version version_{1};
  std::shared_ptr<Fill> fill_ = std::make_shared<Fill>();
};

struct RandomDigitsFill : ::testing::Test {
  std::shared_ptr<Source> bind(const Table& table) {
    Table keys = table;
    keys.emplace("field", "number");
    const auto rule = test::make_strategy("random-digits", keys, {clock, random});
    EXPECT_TRUE(rule->about().fills_up);
    return rule->bind("bank.accounts", &store).source;
  }

  test::FakeClock clock;

  test::SeededRandom random;
  FillStore store;
};

TEST_F(RandomDigitsFill, KnowsItsSpaceAndLimits) {
  bind({{"digits", "3"}, {"leading_zeros", "false"}, {"warn_fill", "0.2"}, {"max_fill", "0.4"}});
  const auto limits = store.seen().seen().limits;
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->space, 900);
  EXPECT_EQ(limits->warn_fill, 0.2);
  EXPECT_EQ(limits->max_fill, 0.4);
}

TEST_F(RandomDigitsFill, FailsIfTooManyAreInUse) {
  const auto strategy = bind({{"digits", "3"}});
  Values values;
  store.seen().counted(900);
  EXPECT_TRUE(strategy->next(10, values));
  store.seen().counted(950);
  const auto result = strategy->next(1, values);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::exhausted);
  EXPECT_EQ(result.error().reason,
            "of the possible values 95 % are in use, and max_fill is 90 %: more digits make room");
  EXPECT_EQ(values.size(), 10U);
}

TEST_F(RandomDigitsFill, FailsIfTooManyAreDuplicates) {
  const auto strategy = bind({{"output", "string"}, {"digits", "34"}});
  Values values;
  const std::vector<std::uint32_t> taken(950);
  ASSERT_TRUE(strategy->next(1000, values));
  strategy->collided(values, taken, taken.size(), Taken::in_batch);
  EXPECT_FALSE(strategy->next(1, values));
}

TEST_F(RandomDigitsFill, IsSharedByAllThatServeTheCollection) {
  const auto strategy = bind({{"digits", "3"}});
  const auto other = bind({{"digits", "3"}});
  store.seen().counted(950);
  Values values;
  EXPECT_FALSE(strategy->next(1, values));
  EXPECT_FALSE(other->next(1, values));
}

TEST_F(RandomDigitsFill, HoldsForSmallNanoids) {
  const Table table{{"field", "number"}, {"size", "4"}, {"alphabet", "abcdefghij"}};
  const auto rule = test::make_strategy("nanoid", table, {clock, random});
  const auto strategy = rule->bind("bank.accounts", &store).source;
  EXPECT_EQ(store.seen().seen().limits->space, 10'000);
  Values values;
  store.seen().counted(9'000);
  EXPECT_TRUE(strategy->next(10, values));
  EXPECT_GT(strategy->attempts(), Source::kAttempts);
  store.seen().counted(9'500);
  const auto result = strategy->next(1, values);
  ASSERT_FALSE(result);
  EXPECT_EQ(
      result.error().reason,
      "of the possible values 95 % are in use, and max_fill is 90 %: a larger size makes room");
}

TEST_F(RandomDigitsFill, NamesTheKeyOfANanoidOfDigits) {
  const Table table{{"field", "number"}, {"size", "4"}, {"alphabet", "digits"}};
  const auto strategy =
      test::make_strategy("nanoid", table, {clock, random})->bind("bank.accounts", &store);
  store.seen().counted(9'500);
  Values values;
  const auto result = strategy.source->next(1, values);
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().reason.ends_with(": a larger size makes room"));
}

TEST(RandomSamples, AreAllThereAre) {
  const test::FakeClock clock;
  test::SeededRandom random;
  for (const auto& [strategy, table, count] :
       {std::tuple<const char*, Table, std::size_t>{"random-digits", {{"digits", "1"}}, 10},
        {"nanoid", {{"size", "4"}, {"alphabet", "ab"}}, 16}}) {
    Values values;
    test::make_strategy(strategy, table, {clock, random})->append_samples(17, values);
    EXPECT_EQ(values.size(), count) << strategy;
  }
}

// --- Free values ---

/// A store that looks up values when the test says so. One digit, of which those in `taken` are.
class LookingStore final : public FillStore {
 public:
  std::shared_ptr<FreeValues> free_values(std::string_view /*ns*/,
                                          std::string_view /*field*/) override {
    return free_;
  }
  void look() {
    const Values candidates = free_->candidates();
    std::vector<bool> found;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      found.push_back(taken.contains(text_of(candidates, i)));
    }
    free_->found(candidates, found);
  }

  std::set<std::string> taken{"0", "1", "2", "3", "4"};

 private:
  std::shared_ptr<FreeValues> free_ =
      std::make_shared<FreeValues>("bank", "accounts", "number", fill("bank.accounts", "number"),
                                   std::make_shared<const FreeValues::Tell>([](const auto&) {}));
};

struct RandomDigitsFree : ::testing::Test {
  RandomDigitsFree() { store.seen().counted(5); }
  /// Asks as a write does, and has the answer in `values`.
  void ask(std::size_t n) {
    class Accepts final : public Waiter {
     public:
      explicit Accepts(Result<Grant>& out) : out_(out) {}
      void answered(Result<Grant> grant) override { out_ = std::move(grant); }

     private:
      Result<Grant>& out_;
    };
    Result<Grant> answer = Error{Errc::unavailable, "not yet"};
    ASSERT_TRUE(strategy->next(n, values).needs_store());
    const Ticket ticket = strategy->ask(n, std::make_unique<Accepts>(answer));
    store.look();
    ASSERT_TRUE(answer);
    strategy->accept(std::move(*answer), values);
  }

  test::FakeClock clock;
  test::SeededRandom random;
  LookingStore store;
  std::shared_ptr<Source> strategy =
      test::make_strategy(
          "random-digits",
          {{"digits", "1"}, {"output", "string"}, {"field", "number"}, {"max_fill", "0.99"}},
          {clock, random})
          ->bind("bank.accounts", &store)
          .source;
  Values values;
};

TEST_F(RandomDigitsFree, AsksWhichAreFreeWhereManyAreTaken) {
  ask(2);
  EXPECT_EQ(values.size(), 2U);
  EXPECT_TRUE(strategy->next(3, values)) << "the look has found them, too";
  EXPECT_TRUE(all_distinct(texts_of(values)));
  for (const std::string& text : texts_of(values)) EXPECT_FALSE(store.taken.contains(text));
  EXPECT_FALSE(strategy->lends()) << "nothing needs to return to the store";
}

TEST_F(RandomDigitsFree, AsksNothingWhereFewAreTaken) {
  store.seen().counted(0);
  EXPECT_TRUE(strategy->next(3, values));
}

/// They differ from those that the request has, even where the store finds these to be free.
TEST_F(RandomDigitsFree, NeverRepeatsAValueOfTheRequest) {
  ask(3);
  strategy->collided(values, {}, 1, Taken::in_batch);  // drops what is held
  ask(2);
  EXPECT_EQ(values.size(), 5U);
  EXPECT_TRUE(all_distinct(texts_of(values)));
}

TEST_F(RandomDigitsFree, DrawsBlindlyWithoutAnAnswer) {
  EXPECT_TRUE(strategy->next(2, values).needs_store());
  EXPECT_TRUE(strategy->make_do(2, values, {Errc::unavailable, "no answer"}));
  EXPECT_EQ(values.size(), 2U);
  EXPECT_TRUE(strategy->next(1, values)) << "nor does it ask again";
}

TEST_F(RandomDigitsFree, IsFullWhateverIsFree) {
  store.seen().counted(10);
  const auto drawn = strategy->next(1, values);
  ASSERT_FALSE(drawn.needs_store());
  EXPECT_EQ(drawn.error().code, Errc::exhausted);
}

/// Of a batch of which one value was taken, the rest is drawn anew if many of them must be, too.
TEST_F(RandomDigitsFree, DoubtsValuesThatWereDrawnBlindly) {
  store.seen().counted(0);
  EXPECT_FALSE(strategy->doubts(1, 4)) << "to send four in vain costs less than a look-up";
  EXPECT_FALSE(strategy->doubts(100, 400));
  EXPECT_TRUE(strategy->doubts(1, 5));
  EXPECT_TRUE(strategy->next(1, values).needs_store());
}

// --- Uniformity, with a fixed seed: the result is the same in every run ---

/// Sum of (observed - expected)^2 / expected.
double chi_square(const std::vector<int>& observed) {
  const double expected =
      std::accumulate(observed.begin(), observed.end(), 0.0) / static_cast<double>(observed.size());
  double sum = 0;
  for (const int count : observed) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// 9 degrees of freedom: 33.7 is exceeded once in 10,000 seeds.
constexpr double kChiSquare9 = 33.7;

TEST(RandomDigits, SucceedsWithUniformFirstAndLastDigits) {
  test::SeededRandom random;
  const auto strategy = make(random, {{"digits", "12"}, {"output", "string"}});
  std::vector<int> first(10);
  std::vector<int> last(10);
  for (const std::string& text : next_texts(*strategy, 100'000)) {
    ++first[static_cast<std::size_t>(text.front() - '0')];
    ++last[static_cast<std::size_t>(text.back() - '0')];
  }
  EXPECT_LT(chi_square(first), kChiSquare9);
  EXPECT_LT(chi_square(last), kChiSquare9);
}

TEST(RandomDigits, SucceedsWithUniformPlacesInAShuffle) {
  test::SeededRandom random;
  const auto strategy = make(random, {{"digits", "1"}});
  std::array<std::vector<int>, 6> places;
  places.fill(std::vector<int>(10));
  for (int i = 0; i < 10'000; ++i) {
    const Texts texts = next_texts(*strategy, places.size());
    for (std::size_t place = 0; place < places.size(); ++place) {
      ++places[place][static_cast<std::size_t>(texts[place].front() - '0')];
    }
  }
  for (const auto& place : places) EXPECT_LT(chi_square(place), kChiSquare9);
}

// --- Parameters ---

struct ParameterCase {
  const char* name;
  Table table;
  Texts errors;
  Texts warnings;
};
void PrintTo(const ParameterCase& row, std::ostream* out) {
  *out << row.name;
}

class RandomDigitsParameters : public ::testing::TestWithParam<ParameterCase> {};

TEST_P(RandomDigitsParameters, SucceedsWithTheseFindings) {
  test::SeededRandom random;
  const test::FakeClock clock;
  test::FakeParameters parameters(GetParam().table);
  const auto strategy = test::make_strategy("random-digits", parameters, {clock, random});
  EXPECT_EQ(parameters.errors(), GetParam().errors);
  EXPECT_EQ(parameters.warnings(), GetParam().warnings);
  EXPECT_TRUE(parameters.unknown().empty());
  EXPECT_TRUE(strategy || !GetParam().errors.empty());
}

const Texts kInexact{
    "digits: numbers above 2^53 are not exact in JavaScript; output string keeps them"};

INSTANTIATE_TEST_SUITE_P(
    Tables, RandomDigitsParameters,
    ::testing::Values(
        ParameterCase{"Defaults", {}, {}, {}},
        ParameterCase{
            "Digits0", {{"digits", "0"}}, {"digits: must be 1 to 18 with output int64, is 0"}, {}},
        ParameterCase{"DigitsNegative",
                      {{"digits", "-1"}},
                      {"digits: must be 1 to 18 with output int64, is -1"},
                      {}},
        ParameterCase{"Digits15", {{"digits", "15"}}, {}, {}},
        ParameterCase{"Digits16", {{"digits", "16"}}, {}, kInexact},
        ParameterCase{"Digits18", {{"digits", "18"}}, {}, kInexact},
        ParameterCase{"Digits19",
                      {{"digits", "19"}},
                      {"digits: must be 1 to 18 with output int64, is 19"},
                      {}},
        ParameterCase{"Int32Digits9", {{"digits", "9"}, {"output", "int32"}}, {}, {}},
        ParameterCase{"Int32Digits10",
                      {{"digits", "10"}, {"output", "int32"}},
                      {"digits: must be 1 to 9 with output int32, is 10"},
                      {}},
        ParameterCase{"Int32Default",
                      {{"output", "int32"}},
                      {"digits: must be 1 to 9 with output int32, is 12 by default"},
                      {}},
        ParameterCase{"StringDigits18", {{"digits", "18"}, {"output", "string"}}, {}, {}},
        ParameterCase{"StringDigits34", {{"digits", "34"}, {"output", "string"}}, {}, {}},
        ParameterCase{"StringDigits35",
                      {{"digits", "35"}, {"output", "string"}},
                      {"digits: must be 1 to 34 with output string, is 35"},
                      {}},
        ParameterCase{"CheckTakesPlace",
                      {{"digits", "17"}, {"check", "mod97-10"}},
                      {"digits: must be 1 to 16 with output int64 and this check, is 17"},
                      {}},
        ParameterCase{"CheckPasses2To53", {{"digits", "15"}, {"check", "luhn"}}, {}, kInexact},
        ParameterCase{"StringDigits33WithCheck",
                      {{"digits", "33"}, {"output", "string"}, {"check", "verhoeff"}},
                      {},
                      {}},
        ParameterCase{"UnknownCheck",
                      {{"check", "crc"}},
                      {"check: must be one of none, luhn, damm, verhoeff, mod97-10 or mod11-10, is "
                       "text 'crc'"},
                      {}},
        ParameterCase{"WarnFillAboveMaxFill",
                      {{"warn_fill", "0.6"}, {"max_fill", "0.5"}},
                      {"warn_fill: must not be above max_fill"},
                      {}},
        ParameterCase{"WarnFillEqual", {{"warn_fill", "0.5"}, {"max_fill", "0.5"}}, {}, {}},
        ParameterCase{"MaxFillLargest", {{"max_fill", "0.99"}}, {}, {}},
        ParameterCase{"MaxFillTooLarge",
                      {{"max_fill", "0.995"}},
                      {"max_fill: must be a number 0 to 0.99, is 0.995"},
                      {}},
        ParameterCase{"WarnFillNegative",
                      {{"warn_fill", "-0.1"}},
                      {"warn_fill: must be a number 0 to 1, is -0.1"},
                      {}},
        ParameterCase{"AllAtOnce",
                      {{"output", "int128"}, {"digits", "0"}, {"max_fill", "0.05"}},
                      {"output: must be one of int64, int32 or string, is text 'int128', did you "
                       "mean 'int32'?",
                       "digits: must be 1 to 18 with output int64, is 0",
                       "warn_fill: must not be above max_fill"},
                      {}}),
    [](const auto& row) { return row.param.name; });

}  // namespace random_digits_test
}  // namespace idproxy::ids
