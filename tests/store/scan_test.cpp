#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "counter_fixture.hpp"

/// Collections in which the counter's field has no index, and indexes through which it can be read.
namespace idproxy::id_store::test {
namespace scan_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

class ScanTest : public CounterTest {
 protected:
  /// Gives the turn to another proxy that is gone.
  void give_turn_away(std::chrono::milliseconds lasts) {
    const Document until = Document().add(
        "$add", Array().push(std::string_view("$$NOW")).push(std::int64_t{lasts.count()}));
    const Document turn = Document().add("holder", "another").add("until", until);
    const Document update = Document()
                                .add("q", Document().add("_id", "turn"))
                                .add("u", Array().push(Document().add("$set", turn)))
                                .add("upsert", true);
    database.write(Document().add("update", "scans").add("updates", Array().push(update)));
  }
};

TEST_F(ScanTest, ReadsTheWholeCollectionInTheBackground) {
  orders({5, 41, 7});
  database.insert("orders", R"({"number": "a string"})");
  database.insert("orders", R"({"other": 99})");
  const CounterReply reply = allocate(10);
  EXPECT_EQ(reply.kind, Kind::pending);
  EXPECT_THAT(reply.why.reason, HasSubstr("no index begins with number in " + fields[0].ns));
  EXPECT_EQ(allocate_patiently(10), allocated(42, 10));
}

TEST_F(ScanTest, ReadsASmallCollectionAtOnce) {
  others.emplace(uri(), database.name(), pool(), clock, scheduler);
  document.emplace(spec, metrics, *others);
  orders({5, 41, 7});
  give_turn_away(1h);
  EXPECT_EQ(allocate(10), allocated(42, 10));
  database.remove_all("counters");
  database.insert_many("orders", CollectionScans::kFew);
  document.emplace(spec, metrics, *others);
  EXPECT_EQ(allocate(10).kind, Kind::pending);
}

TEST_F(ScanTest, ReadsNoSmallCollectionIfItIsOff) {
  others.emplace(uri(), database.name(), pool(), clock, scheduler);
  spec.scan = 0ms;
  document.emplace(spec, metrics, *others);
  orders({5});
  EXPECT_EQ(allocate_patiently(10).kind, Kind::exhausted);
}

TEST_F(ScanTest, OfManyDocumentsWithoutTheFieldBeginsAtStart) {
  spec.start = 100'000;
  database.insert_many("orders", 200'000);
  EXPECT_EQ(allocate_patiently(10), allocated(100'000, 10));
}

TEST_F(ScanTest, ReadsStrings) {
  fields[0].format = {NumberFormat::Output::string, 4, "A-", ""};
  for (const char* text : {"A-0020", "A-0337", "B-0500", "A-9", "zzz"}) {
    database.insert("orders", Document().add("number", text));
  }
  EXPECT_EQ(allocate_patiently(10), allocated(338, 10));
}

TEST_F(ScanTest, CountsDown) {
  spec.step = -1;
  spec.start = 0;
  spec.max = -1000;
  orders({-3, -5, -2000});
  EXPECT_EQ(allocate_patiently(10), allocated(-6, 10));
}

TEST_F(ScanTest, IgnoresANumberThatIsNeverReached) {
  orders({3, 4, 5, kMax - 1});
  EXPECT_EQ(allocate_patiently(10), allocated(6, 10));
}

TEST_F(ScanTest, ReadsSeveralCollections) {
  fields[0].ns = database.name() + ".o*";
  orders({5});
  database.insert("others", R"({"number": 60})");
  EXPECT_EQ(allocate_patiently(10), allocated(61, 10));
}

TEST_F(ScanTest, IsNotNeededByACounterThatExists) {
  orders({5});
  counter("10");
  EXPECT_EQ(allocate(10), allocated(10, 10));
}

TEST_F(ScanTest, NeverHeals) {
  orders({337});
  counter("10");
  EXPECT_EQ(heal(10, 400, true).kind, Kind::exhausted);
}

TEST_F(ScanTest, Off) {
  spec.scan = 0ms;
  orders({5});
  const CounterReply reply = allocate_patiently(10);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("cannot be read without an index, and `scan` is off: "));
  EXPECT_THAT(reply.why.reason,
              HasSubstr(".createIndex({\"number\": -1}, {unique: true, partialFilterExpression: "
                        "{\"number\": {$exists: true}}, name: \"number_idproxy\"})"));
  EXPECT_EQ(database.all("counters"), "");
  unique_index();
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(ScanTest, ThatTakesTooLongIsRepeatedOnceAnIndexDiffers) {
  spec.scan = 1ms;
  database.insert_many("orders", 200'000);
  const CounterReply reply = allocate_patiently(10);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("took longer than `scan`"));
  EXPECT_THAT(reply.why.reason,
              HasSubstr("createIndex({\"number\": -1}, {unique: true, partialFilterExpression: "
                        "{\"number\": {$exists: true}}, name: \"number_idproxy\"})"));
  EXPECT_EQ(allocate(10), reply);
  database.create_index("orders", "other", Database::Unique::no);
  EXPECT_EQ(allocate(10).kind, Kind::pending);
  EXPECT_EQ(allocate_patiently(10).why.reason, reply.why.reason);
  spec.scan = 60s;  // a changed rule
  document.reset();
  EXPECT_EQ(allocate_patiently(10), allocated(1, 10));
}

TEST_F(ScanTest, ThatTakesTooLongIsRepeatedAfterAnHour) {
  spec.scan = 1ms;
  database.insert_many("orders", 200'000);
  const CounterReply reply = allocate_patiently(10);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  clock.advance(59min);
  EXPECT_EQ(allocate(10), reply);
  clock.advance(1min);
  EXPECT_EQ(allocate(10).kind, Kind::pending);
  EXPECT_EQ(allocate_patiently(10), reply);
}

TEST_F(ScanTest, WaitsForAnotherProxyAndTakesOverFromOneThatIsGone) {
  orders({5});
  give_turn_away(3s);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(allocate_patiently(10), allocated(6, 10));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 2s);
}

TEST_F(ScanTest, IsDroppedIfAnotherProxyCreatesTheCounter) {
  orders({5});
  give_turn_away(1h);
  EXPECT_EQ(allocate(10).kind, Kind::pending);
  counter("700");
  EXPECT_EQ(allocate(10), allocated(700, 10));
}

TEST_F(ScanTest, AllowsOneCheckerToCreateTheCounterForThoseWhoWaited) {
  orders({5});
  EXPECT_EQ(allocate(10).kind, Kind::pending);
  mongo::Client client = pool().client();
  const CounterJob job{CounterJob::Kind::allocate, 1};
  EXPECT_TRUE(comes_true([&] {
    return document->check(client, fields, job, CounterDocument::Demand::waits).has_value();
  }));
  EXPECT_EQ(value(), 6);
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

// ---- indexes through which the field can be read

struct ReadThrough {
  const char* name;
  const char* key;
  const char* options;
  bool guards;
};
class ReadThroughTest : public CounterTest, public testing::WithParamInterface<ReadThrough> {
 protected:
  void create_index() {
    Document index = json(GetParam().options);
    index.add("key", json(GetParam().key)).add("name", "i");
    database.write(Document().add("createIndexes", "orders").add("indexes", Array().push(index)));
  }
};

/// At once, that is without a scan, and the index guards or not: a lost counter shows it.
TEST_P(ReadThroughTest, IsReadAtOnce) {
  create_index();
  database.insert("orders", R"({"other": 1})");
  database.insert("orders", R"({"other": 2})");
  database.insert("orders", R"({"number": "a string", "other": 3})");
  for (const std::int64_t number : {5, 41, 7}) {
    database.insert("orders", Document().add("number", number).add("other", number));
  }
  EXPECT_EQ(allocate(10), allocated(42, 10));
  database.remove_all("counters");
  document.reset();
  EXPECT_EQ(allocate(10), allocated(GetParam().guards ? 42 : 42 + 128 * 100'000, 10));
}

INSTANTIATE_TEST_SUITE_P(
    Indexes, ReadThroughTest,
    testing::Values(
        ReadThrough{"plain", R"({"number": 1})", "{}", false},
        ReadThrough{"descending", R"({"number": -1})", "{}", false},
        ReadThrough{"sparse", R"({"number": 1})", R"({"sparse": true})", false},
        ReadThrough{"unique_sparse", R"({"number": 1})", R"({"unique": true, "sparse": true})",
                    true},
        ReadThrough{"exists", R"({"number": 1})",
                    R"({"unique": true,
                        "partialFilterExpression": {"number": {"$exists": true}}})",
                    true},
        ReadThrough{"type", R"({"number": -1})",
                    R"({"unique": true,
                        "partialFilterExpression": {"number": {"$type": "number"}}})",
                    true},
        ReadThrough{"compound", R"({"number": -1, "other": 1})", R"({"unique": true})", false},
        ReadThrough{"compound_of_those_that_have_it", R"({"number": 1, "other": 1})",
                    R"({"partialFilterExpression": {"number": {"$exists": true}}})", false}),
    [](const auto& row) { return row.param.name; });

class PartialTest : public CounterTest {};

TEST_F(PartialTest, OfStringsIsReadForStrings) {
  fields[0].format = {NumberFormat::Output::string, 4, "A-", ""};
  database.create_index(
      "orders", "number",
      json(R"({"unique": true, "partialFilterExpression": {"number": {"$type": "string"}}})"));
  database.insert("orders", R"({"number": "A-0020"})");
  database.insert("orders", R"({"number": null})");
  database.insert("orders", R"({"number": null})");
  EXPECT_EQ(allocate(10), allocated(21, 10));
}

TEST_F(PartialTest, OfAllTypesOfNumbersIsReadForNumbers) {
  const Array types = Array().push(std::string_view("decimal")).push(16).push(18).push(1);
  const Document condition = Document().add("number", Document().add("$type", types));
  database.create_index("orders", "number", Document().add("partialFilterExpression", condition));
  orders({5, 41, 7});
  EXPECT_EQ(allocate(10), allocated(42, 10));
}

TEST_F(PartialTest, OfANarrowerTypeIsNot) {
  database.create_index(
      "orders", "number",
      json(R"({"unique": true, "partialFilterExpression": {"number": {"$type": "long"}}})"));
  database.insert("orders", R"({"number": {"$numberDouble": "50"}})");
  EXPECT_EQ(allocate(10).kind, Kind::pending);
  EXPECT_EQ(allocate_patiently(10), allocated(51, 10));
}

TEST_F(PartialTest, ForAGap) {
  spec.heal.mode = CounterSpec::Heal::Mode::gap;
  database.create_index(
      "orders", "number",
      json(R"({"unique": true, "partialFilterExpression": {"number": {"$type": "number"}}})"));
  orders({10, 11, 14});
  counter("10");
  EXPECT_EQ(heal(2), allocated(12, 2));
}

}  // namespace scan_test
}  // namespace idproxy::id_store::test
