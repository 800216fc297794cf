#include "idproxy/ids/strategies.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_clock.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

// What every strategy promises, whichever it is.
namespace idproxy::ids {
namespace strategies_test {

using test::Id;

TEST(Registry, SucceedsWithTheNamesInTheOrderOfMessages) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"objectid", "uuid", "ulid", "snowflake",
                                                  "counter", "permuted", "counter-ranges",
                                                  "gapless", "random-digits", "nanoid"}));
}

TEST(Registry, EachTellsWhatItsValuesAre) {
  const std::map<std::string_view, std::string> expected{{"objectid", ""},
                                                         {"uuid", ""},
                                                         {"ulid", ""},
                                                         {"snowflake", "lease "},
                                                         {"nanoid", ""},
                                                         {"counter", "counter "},
                                                         {"permuted", "counter "},
                                                         {"counter-ranges", "counter ranges "},
                                                         {"gapless", "gapless "},
                                                         {"random-digits", "fills_up "}};
  const test::FakeClock clock;
  test::SeededRandom random;
  for (const Kind& kind : kinds()) {
    test::FakeParameters parameters({{"ns", "shop.orders"}, {"field", "number"}});
    const auto strategy = kind.make(parameters, {clock, random}, "idproxy");
    const RuleSource::About& about = strategy->about();
    std::string text;
    if (about.counter) text += "counter ";
    if (about.ranges) text += "ranges ";
    if (about.gapless) text += "gapless ";
    if (about.lease) text += "lease ";
    if (about.fills_up) text += "fills_up ";
    EXPECT_EQ(text, expected.at(kind.name)) << kind.name;
    Values samples;
    strategy->append_samples(2, samples);
    EXPECT_EQ(samples.size(), 2U) << kind.name;
  }
}

struct Variant {
  const char* name;
  const char* strategy;
  test::FakeParameters::Table table;
  bson::Type type;
  std::size_t size;  // of one value
};
void PrintTo(const Variant& row, std::ostream* out) {
  *out << row.name;
}

const std::vector<Variant>& variants() {
  using bson::Type;
  static const std::vector<Variant> kVariants{
      {"ObjectId", "objectid", {}, Type::object_id, 12},
      {"ObjectIdString", "objectid", {{"output", "string"}}, Type::string, 29},
      {"Uuid", "uuid", {}, Type::binary, 21},
      {"Uuid1", "uuid", {{"version", "1"}}, Type::binary, 21},
      {"Uuid4", "uuid", {{"version", "4"}}, Type::binary, 21},
      {"Uuid7None", "uuid", {{"version", "7"}, {"monotonic", "none"}}, Type::binary, 21},
      {"Uuid7Java", "uuid", {{"representation", "java-legacy"}}, Type::binary, 21},
      {"UuidString", "uuid", {{"representation", "string"}}, Type::string, 41},
      {"TypeId", "uuid", {{"encoding", "base32"}, {"prefix", "user_"}}, Type::string, 36},
      {"Ulid", "ulid", {}, Type::string, 31},
      {"UlidBinary", "ulid", {{"output", "uuid"}}, Type::binary, 21},
      {"Nanoid", "nanoid", {}, Type::string, 26},
      {"NanoidSmall", "nanoid", {{"size", "10"}}, Type::string, 15},
      {"RandomDigits", "random-digits", {}, Type::int64, 8},
      {"RandomDigitsInt32",
       "random-digits",
       {{"output", "int32"}, {"digits", "9"}},
       Type::int32,
       4},
      {"RandomDigitsString",
       "random-digits",
       {{"output", "string"}, {"digits", "34"}, {"leading_zeros", "false"}},
       Type::string,
       39},
  };
  return kVariants;
}

class EveryStrategy : public ::testing::TestWithParam<Variant> {
 protected:
  std::shared_ptr<Source> make(RandomSource& random) {
    return test::make_source(GetParam().strategy, GetParam().table, {clock_, random});
  }

  test::FakeClock clock_;
  test::SeededRandom random_;
};

TEST_P(EveryStrategy, SucceedsWithoutFaultsOrUnknownKeys) {
  test::FakeParameters parameters(GetParam().table);
  EXPECT_NE(test::make_strategy(GetParam().strategy, parameters, {clock_, random_}), nullptr);
  EXPECT_TRUE(parameters.errors().empty());
  EXPECT_TRUE(parameters.unknown().empty());
}

TEST_P(EveryStrategy, SucceedsWithTypeAndSizeOfItsOutput) {
  const auto strategy = make(random_);
  Values values;
  ASSERT_TRUE(strategy->next(0, values));
  EXPECT_EQ(values.size(), 0U);
  ASSERT_TRUE(strategy->next(3, values));
  ASSERT_TRUE(strategy->next(1, values));  // appends
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values.type(), GetParam().type);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].size(), GetParam().size);
}

TEST_P(EveryStrategy, SucceedsWithDistinctValuesInOneRequest) {
  const auto strategy = make(random_);
  Values values;
  for (const std::size_t n : {1U, 2U, 997U, 19'000U}) ASSERT_TRUE(strategy->next(n, values));
  std::vector<Id> ids;
  for (std::size_t i = 0; i < values.size(); ++i) ids.push_back(test::id_of(values[i]));
  EXPECT_EQ(ids.size(), 20'000U);
  EXPECT_TRUE(test::all_distinct(ids));
}

// random-digits promises nothing from request to request; with 12 digits and a fixed seed this run
// of it has no collision, and a data race on the others would show as one.
TEST_P(EveryStrategy, SucceedsWithDistinctValuesInTwoThreads) {
  if (GetParam().type == bson::Type::int32) return;  // 9 digits do collide, and retries cure that
  const auto strategy = make(random_);
  std::array<std::vector<Id>, 2> ids;
  {
    std::array<std::jthread, 2> threads;
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t] = std::jthread([&, t] {
        for (std::size_t i = 0; i < 2'000; ++i) test::collect(*strategy, 1 + i % 7, ids[t]);
      });
    }
  }
  EXPECT_EQ(ids[0].size(), ids[1].size());
  ids[0].insert(ids[0].end(), ids[1].begin(), ids[1].end());
  EXPECT_TRUE(test::all_distinct(ids[0]));
}

TEST_P(EveryStrategy, SucceedsWithOtherValuesInAChildOfFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not support fork";
#endif
  constexpr std::size_t kCount = 100;
  const auto strategy = make(system_random());
  std::vector<Id> ids;
  ASSERT_TRUE(test::collect(*strategy, 5, ids));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<Id> mine;
    const bool made = test::collect(*strategy, kCount, mine);
    const ssize_t size = sizeof(Id) * kCount;
    ::_exit(made && ::write(pipe[1], mine.data(), sizeof(Id) * kCount) == size ? 0 : 1);
  }
  ::close(pipe[1]);
  std::vector<Id> theirs(kCount);
  EXPECT_EQ(::read(pipe[0], theirs.data(), sizeof(Id) * kCount),
            static_cast<ssize_t>(sizeof(Id) * kCount));
  ::close(pipe[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(test::collect(*strategy, kCount, ids));
  // 9 digits: 205 draws collide once in 50,000 runs.
  if (GetParam().type == bson::Type::int32) {
    EXPECT_NE(theirs, std::vector<Id>(ids.begin() + 5, ids.end()));
    return;
  }
  ids.insert(ids.end(), theirs.begin(), theirs.end());
  EXPECT_TRUE(test::all_distinct(ids));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryStrategy, ::testing::ValuesIn(variants()),
                         [](const auto& row) { return row.param.name; });

}  // namespace strategies_test
}  // namespace idproxy::ids
