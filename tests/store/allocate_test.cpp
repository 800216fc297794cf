#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "counter_fixture.hpp"

namespace idproxy::id_store::test {
namespace allocate_test {

using testing::HasSubstr;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_F(CounterTest, UniqueCountBeginsWithWhatIsStored) {
  spec.place = {database.name(),
                "counters",
                "_id",
                "UNIQUE COUNT DOCUMENT IDENTIFIER",
                "COUNT",
                CounterPlace::ValueIs::next,
                ""};
  database.insert("counters",
                  R"({"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER", "COUNT": 0, "NOTES": "n"})");
  EXPECT_EQ(allocate(1000), allocated(0, 1000));
  EXPECT_EQ(database.all("counters"),
            R"({ "_id" : "UNIQUE COUNT DOCUMENT IDENTIFIER", "COUNT" : 1000, "NOTES" : "n" })");
  EXPECT_EQ(metrics.round_trips.sent, 2U);  // its mark
}

TEST_F(CounterTest, CountersNextIsCreated) {
  spec.place = {
      database.name(), "counters", "_id", "users", "next", CounterPlace::ValueIs::last, ""};
  EXPECT_EQ(allocate(1), allocated(1, 1));
  EXPECT_EQ(database.all("counters"), R"({ "_id" : "users", "next" : 1 })");
}

TEST_F(CounterTest, CountersSeqHoldsTheLast) {
  spec.place = {
      database.name(), "counters", "_id", "userid", "seq", CounterPlace::ValueIs::last, ""};
  database.insert("counters", R"({"_id": "userid", "seq": 0})");
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_EQ(allocate(3), allocated(4, 3));
}

TEST_F(CounterTest, IdsIndexHoldsTheNext) {
  spec.place = {
      database.name(), "counters", "_id", "myseq", "index", CounterPlace::ValueIs::next, "", ""};
  database.insert("counters", R"({"_id": "myseq", "index": 1000})");
  EXPECT_EQ(allocate(10), allocated(1000, 10));
  EXPECT_EQ(database.all("counters"), R"({ "_id" : "myseq", "index" : 1010 })");
}

TEST_F(CounterTest, DocumentOfMongooseSequence) {
  const Document filter = json(R"({"reference_value": null})");
  spec.place = {database.name(),
                "counters",
                "id",
                "inhabitant",
                "seq",
                CounterPlace::ValueIs::last,
                std::string(as_text(filter.bytes()))};
  database.insert("counters", R"({"id": "inhabitant", "reference_value": null, "seq": 7})");
  EXPECT_EQ(allocate(2), allocated(8, 2));
}

TEST_F(CounterTest, DocumentOfIdentityCountersIsCreatedWithAllThatTellsItApartAsId) {
  const Document filter = json(R"({"field": "n", "groupingField": ""})");
  spec.place = {database.name(),
                "counters",
                "model",
                "book",
                "count",
                CounterPlace::ValueIs::last,
                std::string(as_text(filter.bytes()))};
  EXPECT_EQ(allocate(2), allocated(1, 2));
  EXPECT_EQ(database.all("counters"),
            R"({ "_id" : { "model" : "book", "field" : "n", "groupingField" : "" }, )"
            R"("model" : "book", "field" : "n", "groupingField" : "", "count" : 2 })");
  const Document other = json(R"({"field": "other", "groupingField": ""})");
  spec.place.filter = as_text(other.bytes());
  document.reset();
  EXPECT_EQ(allocate(2), allocated(1, 2));  // another counter with the same key
  EXPECT_EQ(allocate(2), allocated(3, 2));
}

TEST_F(CounterTest, AnotherKeyFieldWithoutAFilterIsTheId) {
  spec.place.key_field = "name";
  EXPECT_EQ(allocate(2), allocated(1, 2));
  EXPECT_EQ(database.all("counters"), R"({ "_id" : "c", "name" : "c", "V" : 3 })");
}

TEST_F(CounterTest, AFilterThatNamesTheIdIsTheId) {
  const Document filter = json(R"({"_id": 7})");
  spec.place.key_field = "name";
  spec.place.filter = as_text(filter.bytes());
  EXPECT_EQ(allocate(2), allocated(1, 2));
  EXPECT_EQ(database.all("counters"), R"({ "_id" : 7, "name" : "c", "V" : 3 })");
}

TEST_F(CounterTest, ANestedValue) {
  spec.place.value_field = "at.next";
  database.insert("counters", R"({"_id": "c", "at": {"next": 5}})");
  EXPECT_EQ(allocate(2), allocated(5, 2));
  EXPECT_EQ(allocate(2), allocated(7, 2));
}

TEST_F(CounterTest, StepsOfFive) {
  spec.step = 5;
  counter("3");
  EXPECT_EQ(allocate(3), allocated(3, 3));
  EXPECT_EQ(value(), 18);
}

TEST_F(CounterTest, CountsDown) {
  spec.step = -2;
  spec.start = 10;
  spec.max = 0;
  EXPECT_EQ(allocate(3), allocated(10, 3));
  EXPECT_EQ(allocate(3), allocated(4, 3));  // 4, 2, 0
  EXPECT_EQ(allocate(1).kind, Kind::exhausted);
  EXPECT_EQ(value(), -2);
}

TEST_F(CounterTest, CreatedPastWhatIsStored) {
  unique_index();
  orders({5, 41, 7});
  database.insert("orders", R"({"number": "a string"})");
  database.insert("orders", R"({"number": {"$oid": "0123456789abcdef01234567"}})");
  EXPECT_EQ(allocate(10), allocated(42, 10));
}

TEST_F(CounterTest, CreatedWithStartIfThatIsFurther) {
  spec.start = 100;
  unique_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(100, 10));
}

TEST_F(CounterTest, CreatedPastWhatThisProcessWasGiven) {
  unique_index();
  orders({5});
  EXPECT_EQ(allocate(10, 777), allocated(778, 10));
}

TEST_F(CounterTest, CreatedPastTheMaxThatANumberNearTheEndDoesNotHide) {
  unique_index();
  orders({3, 4, 5, kMax - 1});
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(CounterTest, CreatedAtStartBesideANumberNearTheEnd) {
  unique_index();
  orders({kMax});
  EXPECT_EQ(allocate(10), allocated(1, 10));
}

TEST_F(CounterTest, CreatedPastWhatAnEarlierProgramGaveOutHoweverFar) {
  unique_index();
  orders({5'000'000'000, 5'000'000'001, 5'000'000'002, kMax - 1});
  EXPECT_EQ(allocate(10), allocated(5'000'000'003, 10));
}

TEST_F(CounterTest, CreatedDownwardsPastTheMaxThatANumberNearTheEndDoesNotHide) {
  spec.step = -1;
  spec.start = 0;
  spec.max = kMin;
  unique_index();
  orders({-3, -5, kMin});
  EXPECT_EQ(allocate(10), allocated(-6, 10));
}

TEST_F(CounterTest, CreatedOverMoreStringsThanOneJobLooksAt) {
  fields[0].format = {NumberFormat::Output::string, 0, "", ""};
  unique_index();
  constexpr int kStored = 210'000;
  for (int i = 1; i <= kStored;) {
    Array documents;
    for (int end = i + 10'000; i < end; ++i) {
      documents.push(Document().add("number", std::to_string(i)));
    }
    database.write(Document().add("insert", "orders").add("documents", documents));
  }
  CounterReply reply = allocate(10);
  EXPECT_EQ(reply.kind, Kind::failed);
  EXPECT_EQ(database.all("counters"), "");
  EXPECT_EQ(allocate(10), allocated(kStored + 1, 10));
}

TEST_F(CounterTest, CreatedOverNumbersInId) {
  fields = {{database.name() + ".orders", "_id", {}}};
  database.insert("orders", R"({"_id": 12})");
  EXPECT_EQ(allocate(10), allocated(13, 10));
}

TEST_F(CounterTest, CreatedOverSeveralFieldsAndWildcards) {
  fields = {{database.name() + ".o*", "number", {}}, {database.name() + ".bills", "no.of", {}}};
  unique_index();
  orders({5});
  database.create_index("oranges", "number", Database::Unique::no);
  database.insert("oranges", R"({"number": 50})");
  database.create_index("bills", "no.of", Database::Unique::no);
  database.insert("bills", R"({"no": {"of": 60}})");
  EXPECT_EQ(allocate(10), allocated(61, 10));
}

TEST_F(CounterTest, AnotherPartialIndexIsNone) {
  database.create_index("orders", "number", json(R"({"partialFilterExpression": {"a": 1}})"));
  orders({5});
  EXPECT_EQ(allocate(10).kind, Kind::pending);
}

TEST_F(CounterTest, ACollationLeavesNumbersAsTheyAre) {
  Document index;
  index.add("key", Document().add("number", 1)).add("name", "n").add("unique", true);
  index.add("collation", Document().add("locale", "de"));
  database.write(Document().add("createIndexes", "orders").add("indexes", Array().push(index)));
  orders({5});
  EXPECT_EQ(allocate(10), allocated(6, 10));
  database.remove_all("counters");
  // Such an index reads texts, too, in its own order.
  fields[0].format.output = NumberFormat::Output::string;
  EXPECT_EQ(allocate(10).kind, Kind::allocated);
}

TEST_F(CounterTest, ADocumentWithoutTheValueIsGivenOne) {
  database.insert("counters", R"({"_id": "c", "note": "n"})");
  unique_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(6, 10));
  EXPECT_EQ(database.all("counters"), R"({ "_id" : "c", "note" : "n", "V" : 16 })");
}

struct NoInteger {
  const char* name;
  const char* value;
};
class NoIntegerTest : public CounterTest, public testing::WithParamInterface<NoInteger> {};

TEST_P(NoIntegerTest, IsRefusedAndLeftAsItIs) {
  counter(GetParam().value);
  const std::string before = database.all("counters");
  for (int i = 0; i < 2; ++i) {
    const CounterReply reply = allocate(10);
    EXPECT_EQ(reply.kind, Kind::exhausted);
    EXPECT_THAT(reply.why.reason, HasSubstr("is not an integer"));
    EXPECT_EQ(heal(10).kind, Kind::exhausted);
  }
  EXPECT_EQ(database.all("counters"), before);
}

INSTANTIATE_TEST_SUITE_P(Values, NoIntegerTest,
                         testing::Values(NoInteger{"string", R"("7")"}, NoInteger{"null", "null"},
                                         NoInteger{"nan", R"({"$numberDouble": "NaN"})"},
                                         NoInteger{"decimal", R"({"$numberDecimal": "7"})"},
                                         NoInteger{"document", "{}"},
                                         NoInteger{"date", R"({"$date": 7})"},
                                         NoInteger{"infinity", R"({"$numberDouble": "Infinity"})"}),
                         [](const auto& row) { return row.param.name; });

TEST_F(CounterTest, AStuckDoubleIsRefused) {
  counter(R"({"$numberDouble": "9007199254740992"})");
  for (int i = 0; i < 4; ++i) EXPECT_THAT(allocate(1).why.reason, HasSubstr("is not an integer"));
}

TEST_F(CounterTest, AFractionIsRefused) {
  counter("1.5");
  EXPECT_THAT(allocate(10).why.reason, HasSubstr("is not an integer"));
}

TEST_F(CounterTest, ADoubleIsConverted) {
  counter(R"({"$numberDouble": "5"})");
  EXPECT_EQ(allocate(10), allocated(5, 10));
  EXPECT_EQ(database.value("counters", "V").kind, StoredValue::Kind::integral_double);
  EXPECT_EQ(allocate(10), allocated(15, 10));
  EXPECT_EQ(database.value("counters", "V").kind, StoredValue::Kind::integer);
  EXPECT_EQ(allocate(10), allocated(25, 10));
}

TEST_F(CounterTest, ADoubleThatWouldPass2To53IsRefused) {
  counter(R"({"$numberDouble": "9007199254740990"})");
  EXPECT_EQ(allocate(2), allocated(9007199254740990, 2));
  document.reset();
  EXPECT_EQ(allocate(1).kind, Kind::exhausted);
}

TEST_F(CounterTest, Int32BecomesInt64) {
  counter("2147483647");
  EXPECT_EQ(allocate(2), allocated(2147483647, 2));
  EXPECT_EQ(allocate(2), allocated(2147483649, 2));
}

TEST_F(CounterTest, TheLastNumbersOfInt64) {
  counter(R"({"$numberLong": ")" + std::to_string(kMax - 5) + "\"}");
  EXPECT_EQ(allocate(100), allocated(kMax - 5, 5));
  EXPECT_EQ(allocate(100).kind, Kind::exhausted);
  EXPECT_EQ(value(), kMax);
}

TEST_F(CounterTest, TheLowestNumbersOfInt64) {
  spec.step = -1;
  spec.start = 0;
  spec.max = kMin;
  spec.place.value_is = CounterPlace::ValueIs::last;
  counter(R"({"$numberLong": ")" + std::to_string(kMin + 5) + "\"}");
  EXPECT_EQ(allocate(100), allocated(kMin + 4, 5));
  EXPECT_EQ(allocate(100).kind, Kind::exhausted);
}

TEST_F(CounterTest, TheLowestNumberOfInt64) {
  counter(R"({"$numberLong": ")" + std::to_string(kMin) + "\"}");
  EXPECT_EQ(allocate(100), allocated(kMin, 100));
  EXPECT_EQ(allocate(100), allocated(kMin + 100, 100));
}

TEST_F(CounterTest, PastItsMaxItIsNotMoved) {
  spec.max = 10;
  counter("9");
  EXPECT_EQ(allocate(5), allocated(9, 5));  // whoever asked keeps 9 and 10
  EXPECT_EQ(allocate(5).kind, Kind::exhausted);
  EXPECT_EQ(value(), 14);
}

TEST_F(CounterTest, WhatDoesNotFitIntoInt32IsNotGivenOut) {
  fields[0].format.output = NumberFormat::Output::int32;
  spec.max = std::numeric_limits<std::int32_t>::max();
  counter(R"({"$numberLong": "-4294967289"})");
  EXPECT_THAT(allocate(10).why.reason, HasSubstr("does not fit into int32"));
  spec.step = -1;
  spec.max = 0;
  document.reset();
  database.set("counters", json(R"({"V": {"$numberLong": "4294967303"}})"));
  EXPECT_THAT(allocate(10).why.reason, HasSubstr("does not fit into int32"));
}

TEST_F(CounterTest, AWildcardOverAllDatabasesLooksWhereRulesApply) {
  std::vector<Namespace> found;
  mongo::Client client = pool().client();
  orders({5});
  counter("1");
  spec.place.store_db = "another_db";
  EXPECT_TRUE(find_namespaces(client, {"*.*"}, spec.place, found).ok());
  std::set<std::string> names;
  for (const Namespace& ns : found) {
    EXPECT_THAT(ns.db, testing::Not(testing::AnyOf("admin", "local", "config")));
    names.insert(ns.text());
  }
  EXPECT_TRUE(names.contains(database.name() + ".orders"));
  EXPECT_FALSE(names.contains(database.name() + ".counters"));
  spec.place.store_db = database.name();
  found.clear();
  EXPECT_TRUE(find_namespaces(client, {"*.*"}, spec.place, found).ok());
  EXPECT_TRUE(
      std::ranges::none_of(found, [&](const Namespace& ns) { return ns.db == database.name(); }));
}

TEST_F(CounterTest, GivesBack) {
  counter("1");
  EXPECT_EQ(allocate(100), allocated(1, 100));
  EXPECT_EQ(give_back({31, 70}).kind, Kind::given_back);
  EXPECT_EQ(allocate(100), allocated(31, 100));
}

TEST_F(CounterTest, GivesBackWhereTheLastIsStored) {
  spec.place.value_is = CounterPlace::ValueIs::last;
  EXPECT_EQ(allocate(100), allocated(1, 100));
  EXPECT_EQ(give_back({31, 70}).kind, Kind::given_back);
  EXPECT_EQ(value(), 30);
}

TEST_F(CounterTest, KeepsWhatIsNotTheEndAnyMore) {
  counter("1");
  EXPECT_EQ(allocate(100), allocated(1, 100));
  EXPECT_EQ(allocate(10), allocated(101, 10));
  EXPECT_EQ(give_back({31, 70}).kind, Kind::overtaken);
  EXPECT_EQ(value(), 111);
}

// ---- confirm

TEST_F(CounterTest, ConfirmsWhereItStandsAndChangesNothing) {
  for (const char* value : {"7", R"({"$numberLong": "7"})", "7.0"}) {
    counter(value);
    const std::string before = database.all("counters");
    EXPECT_EQ(confirm(), CounterReply(Kind::stands, {7, 0}));
    EXPECT_EQ(database.all("counters"), before) << value;
    database.remove_all("counters");
  }
}

TEST_F(CounterTest, ConfirmsWhereTheLastIsStored) {
  spec.place.value_is = CounterPlace::ValueIs::last;
  counter("7");
  EXPECT_EQ(confirm(), CounterReply(Kind::stands, {8, 0}));
}

TEST_F(CounterTest, ConfirmsNothingWithoutANumber) {
  EXPECT_EQ(confirm().kind, Kind::gone);
  EXPECT_EQ(database.all("counters"), "");
  counter(R"("seven")");
  EXPECT_EQ(confirm().kind, Kind::unknown);
}

}  // namespace allocate_test
}  // namespace idproxy::id_store::test
