#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "counter_fixture.hpp"
#include "id_store/range_documents.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/ids/range_set.hpp"
#include "idproxy/ids/source.hpp"
#include "stores.hpp"

namespace idproxy::id_store::test {
namespace range_test {

using ids::RangesSpec;
using ids::RangeState;
using testing::HasSubstr;
using Missing = RangeDocuments::Missing;
using Layout = RangesSpec::Layout;

/// A range of 995 to 999, {_id: "COUNTER DOCUMENT NUMBER 0", COUNT, MAX_VALUE}, in "counters".
class RangeTest : public CounterTest {
 protected:
  RangeTest() {
    ranges.name = "orders";
    ranges.counter.place.db = database.name();
    ranges.counter.place.collection = "counters";
    ranges.counter.place.value_field = "COUNT";
    ranges.counter.place.max_field = "MAX_VALUE";
    ranges.counter.block.size = 100;
    ranges.counter.scan = {};
    use({0, 0, 999, 0});
  }
  void use(const RangeState& range) {
    spec = ids::counter_of(ranges, range);
    document.reset();
  }
  void store(const std::string& count, const std::string& max_value, int number = 0) {
    database.insert("counters", R"({"_id": "COUNTER DOCUMENT NUMBER )" + std::to_string(number) +
                                    R"(", "COUNT": )" + count + R"(, "MAX_VALUE": )" + max_value +
                                    R"(, "NOTES": "n"})");
  }
  void increment(std::int64_t by) {
    const Document update = Document()
                                .add("q", Document())
                                .add("u", Document().add("$inc", Document().add("COUNT", by)));
    database.write(Document().add("update", "counters").add("updates", Array().push(update)));
  }
  StoredValue count() { return database.value("counters", "COUNT"); }

  ids::Result<std::vector<RangeState>> read(Missing missing = Missing::create) {
    mongo::Client client = pool().client();
    RangeDocuments documents(client, ranges, fields, missing);
    return documents.read([] { return false; });
  }
  std::string fault() {
    const auto found = read();
    return found ? "" : found.error().reason;
  }
  std::size_t documents() {
    std::size_t count = 0;
    mongo::Client client = pool().client();
    (void)client.read_all(database.name(), Document().add("find", "counters"), [&](Bytes) {
      ++count;
      return true;
    });
    return count;
  }

  RangesSpec ranges;
};

// ---- allocation

TEST_F(RangeTest, TheLastNumbersAreFewerThanAskedFor) {
  store("995", "999");
  EXPECT_EQ(allocate(100), allocated(995, 5));
  EXPECT_EQ(count().number, 1000);
  const CounterReply reply = allocate(100);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_EQ(reply.why.reason, ids::handed_out_up_to(999).reason);
  EXPECT_EQ(count().number, 1000);
}

TEST_F(RangeTest, TheRestOfTheDocumentStays) {
  store("0", "999");
  EXPECT_EQ(allocate(10), allocated(0, 10));
  EXPECT_EQ(database.all("counters"),
            R"({ "_id" : "COUNTER DOCUMENT NUMBER 0", "COUNT" : 10, "MAX_VALUE" : 999, "NOTES" : )"
            R"("n" })");
}

TEST_F(RangeTest, OneThatSomebodyHasCountedBeyondItsEndIsExhausted) {
  store("995", "999");
  EXPECT_EQ(allocate(2), allocated(995, 2));
  increment(10);
  EXPECT_EQ(allocate(1).why.reason, ids::handed_out_up_to(999).reason);
  EXPECT_EQ(count().number, 1007);
}

TEST_F(RangeTest, ADoubleBecomesAnInt64) {
  store("7.0", "999.0");
  EXPECT_EQ(allocate(10), allocated(7, 10));
  EXPECT_EQ(count().kind, StoredValue::Kind::integer);
  EXPECT_EQ(allocate(10), allocated(17, 10));
}

TEST_F(RangeTest, ADoubleAtTheEndBecomesAnInt64) {
  store("995.0", "999.0");
  EXPECT_EQ(allocate(10), allocated(995, 5));
  EXPECT_EQ(count().kind, StoredValue::Kind::integer);
}

TEST_F(RangeTest, WhatIsNoIntegerIsRefusedAndStays) {
  for (const char* value :
       {"7.5", R"({"$numberDouble": "NaN"})", R"("7")", "null", R"({"$numberDouble": "-Infinity"})",
        R"({"$numberDouble": "9007199254740992"})"}) {
    database.remove_all("counters");
    store(value, R"({"$numberLong": "9100000000000000"})");
    use({0, 0, 9'100'000'000'000'000, 0});
    const std::string before = database.all("counters");
    const CounterReply reply = allocate(10);
    EXPECT_EQ(reply.kind, Kind::exhausted) << value;
    EXPECT_THAT(reply.why.reason, HasSubstr("is not an integer")) << value;
    EXPECT_EQ(database.all("counters"), before);
  }
}

TEST_F(RangeTest, ARangeNearTheEndOfInt64DoesNotOverflow) {
  const std::int64_t last = std::numeric_limits<std::int64_t>::max() - 1;
  use({0, last - 50, last, last - 50});
  database.insert("counters", Document()
                                  .add("_id", "COUNTER DOCUMENT NUMBER 0")
                                  .add("COUNT", last - 4)
                                  .add("MAX_VALUE", last));
  EXPECT_EQ(allocate(100), allocated(last - 4, 5));
  EXPECT_EQ(count().number, last + 1);
  EXPECT_EQ(count().kind, StoredValue::Kind::integer);
  EXPECT_EQ(allocate(1).kind, Kind::exhausted);
}

TEST_F(RangeTest, AMissingOneIsNotMadeHere) {
  EXPECT_THAT(allocate(1).why.reason, HasSubstr("missing"));
  EXPECT_THAT(heal(1).why.reason, HasSubstr("missing"));
  EXPECT_EQ(database.all("counters"), "");
}

TEST_F(RangeTest, GivesBackAndConfirms) {
  store("0", "999");
  EXPECT_EQ(allocate(100), allocated(0, 100));
  EXPECT_EQ(confirm().range.first, 100);
  EXPECT_EQ(give_back({40, 60}).kind, Kind::given_back);
  EXPECT_EQ(give_back({30, 60}).kind, Kind::overtaken);
  EXPECT_EQ(allocate(1), allocated(40, 1));
}

TEST_F(RangeTest, BesideTheBlogsOwnProcedureNoNumberIsGivenTwice) {
  store("0", "4999");
  use({0, 0, 4999, 0});
  std::vector<std::int64_t> theirs;
  std::jthread other([&] {
    mongo::Client client = pool().client();
    const Document query = Document().add("_id", "COUNTER DOCUMENT NUMBER 0");
    const Document one = Document().add("$inc", Document().add("COUNT", std::int64_t{1}));
    for (int i = 0; i < 200; ++i) {
      const mongo::Reply reply = client.write(
          database.name(),
          Document().add("findAndModify", "counters").add("query", query).add("update", one));
      const auto value = bson::find(reply.document.bytes(), "value");
      if (value) theirs.push_back(stored_value(value->value, "COUNT").number);
    }
  });
  std::vector<std::int64_t> ours;
  for (int i = 0; i < 100; ++i) {
    const CounterReply reply = allocate(7);
    ASSERT_EQ(reply.kind, Kind::allocated) << reply.why.reason;
    for (std::uint64_t k = 0; k < reply.range.count; ++k) {
      ours.push_back(reply.range.first + static_cast<std::int64_t>(k));
    }
  }
  other.join();
  ours.insert(ours.end(), theirs.begin(), theirs.end());
  EXPECT_EQ(ours.size(), 900U);
  EXPECT_EQ(std::set<std::int64_t>(ours.begin(), ours.end()).size(), 900U);
}

// ---- healing

TEST_F(RangeTest, HealsPastTheNumbersOfItsOwnBoundsOnly) {
  unique_index();
  orders({5, 41, 1500, 7});
  store("10", "999");
  EXPECT_EQ(heal(10, 9), allocated(42, 10));
  EXPECT_EQ(count().number, 52);
}

TEST_F(RangeTest, AHealNeverPassesTheEnd) {
  unique_index();
  orders({997, 1500});
  store("10", "999");
  EXPECT_EQ(heal(100, 9), allocated(998, 2));
  EXPECT_EQ(count().number, 1000);
  EXPECT_EQ(heal(100, 999), kept({}));
  EXPECT_EQ(allocate(100).kind, Kind::exhausted);
}

TEST_F(RangeTest, AFullRangeThatWasSetBackGivesNothing) {
  unique_index();
  orders({999, 1000});
  store("10", "999");
  EXPECT_EQ(heal(10, 500, true).kind, Kind::exhausted);
}

TEST_F(RangeTest, FreeNumbersAreThoseOfTheRange) {
  unique_index();
  ranges.counter.heal.mode = ids::CounterSpec::Heal::Mode::gap;
  use({0, 0, 999, 0});
  orders({990, 991, 992, 993, 994, 995, 996, 997, 998});
  store("990", "999");
  EXPECT_EQ(heal(10, 989), allocated(999, 1));
  EXPECT_EQ(count().number, 1000);
}

// ---- documents

TEST_F(RangeTest, AThousandAreMadeAsInTheBlog) {
  const auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  ASSERT_EQ(found->size(), 1000U);
  EXPECT_EQ((*found)[0], (RangeState{0, 0, 999'999'999, 0}));
  EXPECT_EQ((*found)[499], (RangeState{499, 499'000'000'000, 499'999'999'999, 499'000'000'000}));
  EXPECT_EQ((*found)[999].last, 999'999'999'999);
  EXPECT_EQ(documents(), 1000U);
  mongo::Client client = pool().client();
  std::string stored;
  (void)client.read_all(database.name(),
                        Document()
                            .add("find", "counters")
                            .add("filter", json(R"({"_id": "COUNTER DOCUMENT NUMBER 7"})")),
                        [&](Bytes each) {
                          stored = as_json(each);
                          return true;
                        });
  EXPECT_THAT(stored, HasSubstr(R"("COUNT" : 7000000000, "MAX_VALUE" : 7999999999, "NOTES" : )"));
}

TEST_F(RangeTest, ALookMayWriteNothing) {
  const auto found = read(Missing::assume);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 1000U);
  EXPECT_EQ((*found)[3].first, 3'000'000'000);
  EXPECT_EQ(documents(), 0U);
}

TEST_F(RangeTest, WhatWasInterruptedGoesOn) {
  ranges.layout = Layout{10, 100, 0};
  store("950", "999", 9);
  store("800", "899", 8);
  const auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->size(), 10U);
  EXPECT_EQ(found->at(9).next, 950);
  EXPECT_EQ(found->at(7).next, 700);
  EXPECT_EQ(documents(), 10U);
}

TEST_F(RangeTest, TwoProxiesMakeThemTogether) {
  ranges.layout = Layout{3000, 100, 0};
  {
    std::vector<std::jthread> both;
    for (int i = 0; i < 2; ++i) {
      both.emplace_back([&] {
        const auto found = read();
        EXPECT_TRUE(found && found->size() == 3000);
      });
    }
  }
  EXPECT_EQ(documents(), 3000U);
}

TEST_F(RangeTest, TheyBeginBehindWhatIsStored) {
  unique_index();
  ranges.layout = Layout{4, 100, 0};
  orders({5, 141, 199, 299, 1000});
  const auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->at(0).next, 6);
  EXPECT_FALSE(found->at(1).has_numbers());
  EXPECT_FALSE(found->at(2).has_numbers());
  EXPECT_EQ(found->at(3).next, 300);
}

TEST_F(RangeTest, StoredNumbersNeedAnIndex) {
  database.insert("orders", R"({"number": 5})");
  EXPECT_THAT(fault(), HasSubstr("cannot be read without an index: db.getSiblingDB"));
  EXPECT_EQ(documents(), 0U);
  plain_index();
  const auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->at(0).next, 6);
}

/// Another proxy may hold numbers of it.
TEST_F(RangeTest, ALostOneGoesOnOnlyIfAnIndexGuardsTheField) {
  ranges.layout = Layout{2, 100, 0};
  store("50", "99", 0);
  store("150", "199", 1);
  use({0, 0, 99, 50});
  EXPECT_EQ(allocate(10), allocated(50, 10));
  database.remove_all("counters");
  plain_index();
  orders({57});
  auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_FALSE(found->at(0).has_numbers());
  EXPECT_EQ(found->at(1).next, 100) << "nobody had numbers of it";
  database.remove_all("counters");
  database.drop_index("orders", "number");
  unique_index();
  found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->at(0).next, 58);
}

TEST_F(RangeTest, OnesThatCannotBeUsedSaySo) {
  ranges.layout = Layout{2, 100, 0};
  store("0", "99", 0);
  store("150", "199", 1);
  EXPECT_EQ(fault(), "");
  store("200", "299", 2);
  EXPECT_EQ(fault(), "the collection of ranges, " + database.name() +
                         ".counters, has 'COUNTER DOCUMENT NUMBER 2', but `ranges` has only 2");
  ranges.layout->count = 3;
  database.remove_all("counters");
  store("0", "100", 0);
  store("100", "199", 1);
  EXPECT_THAT(fault(), HasSubstr("has ranges that overlap: 'COUNTER DOCUMENT NUMBER 0' ends with "
                                 "100, and 'COUNTER DOCUMENT NUMBER 1' begins with 100"));
  database.remove_all("counters");
  store("0", "99", 0);
  ranges.create = false;
  EXPECT_THAT(fault(), HasSubstr("has 1 of 3 ranges, and `create` is false"));
}

TEST_F(RangeTest, OtherDocumentsOfTheCollectionAreNoRanges) {
  database.insert("counters", R"({"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER", "COUNT": 0})");
  database.insert("counters", R"({"_id": "COUNTER DOCUMENT NUMBER x", "COUNT": 0})");
  database.insert("counters", R"({"_id": {"c": "orders"}, "COUNT": 0})");
  store("20", "99", 4);
  store("100", "199", 2);
  const auto found = read();
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->size(), 2U);
}

// ---- all of it

ids::RangeStatistics statistics_of(const std::shared_ptr<ids::RangeSet>& set) {
  return set->statistics();
}

class RangeStoreTest : public RangeTest {
 protected:
  std::shared_ptr<ids::RangeSet> begin() {
    id_store.emplace(Options{.uri = uri(), .db = database.name()}, clock);
    watch = id_store->watch({{database.name() + ".orders", "number"}});
    return watch->ranges(ranges, fields[0], {clock, system_random()});
  }
  /// Waits for the store.
  std::vector<std::int64_t> next(ids::RangeSet& set, std::uint64_t n) {
    std::vector<ids::Range> taken;
    (void)comes_true([&] {
      Answer answer;
      const ids::Ticket ticket = set.ask(n, std::make_unique<Promise>(answer));
      auto grant = get(answer, std::chrono::seconds(20));
      if (grant) taken = grant->take();
      return !taken.empty();
    });
    std::vector<std::int64_t> numbers;
    for (const ids::Range& range : taken) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        numbers.push_back(range.first + static_cast<std::int64_t>(i));
      }
    }
    return numbers;
  }

  std::optional<Store> id_store;
  std::shared_ptr<Watch> watch;
};

TEST_F(RangeStoreTest, MakesItsRangesGivesNumbersAndTakesThemBack) {
  ranges.layout = Layout{8, 1000, 0};
  const auto set = begin();
  watch->await_first_inspection(std::chrono::seconds(10));
  EXPECT_TRUE(watch->not_ready(9).empty());
  const auto numbers = watch->numbers(9);
  ASSERT_EQ(numbers.size(), 1U);
  const auto& its = std::get<ids::CounterNumbers>(numbers[0].numbers);
  EXPECT_EQ(its.ranges, (ids::CounterNumbers::Ranges{8, 8}));
  EXPECT_EQ(its.left, 8000U);
  EXPECT_EQ(next(*set, 30).size(), 30U);
  EXPECT_EQ(statistics_of(set).left, 7970U);
  EXPECT_TRUE(id_store->stop(std::chrono::seconds(10)));
  std::int64_t used = 0;
  mongo::Client client = pool().client();
  (void)client.read_all(database.name(), Document().add("find", "counters"), [&](Bytes each) {
    used += stored_value(each, "COUNT").number % 1000;
    return true;
  });
  EXPECT_EQ(used, 30);
}

/// Inserts that began before a reload may need a range that is not open yet.
TEST_F(RangeStoreTest, AnotherSetGoesOnWithItsRangesUntilNobodyHasIt) {
  ranges.layout = Layout{8, 1000, 0};
  ranges.counter.block.size = 5;
  ranges.active = 1;
  const auto old = begin();
  std::set<std::int64_t> all;
  for (const std::int64_t number : next(*old, 3)) all.insert(number);
  ranges.counter.block.size = 6;
  const auto newer = id_store->watch({{database.name() + ".orders", "number"}});
  const auto set = newer->ranges(ranges, fields[0], {clock, system_random()});
  EXPECT_NE(set, old);
  for (int i = 0; i < 1500; i += 100) {  // more than one range has
    for (const std::int64_t number : next(*old, 100)) all.insert(number);
    for (const std::int64_t number : next(*set, 100)) all.insert(number);
  }
  EXPECT_EQ(all.size(), 3003U) << "none twice";
  EXPECT_TRUE(id_store->stop(std::chrono::seconds(10)));
}

TEST_F(RangeStoreTest, SaysWhatIsWrongAndSeesThatItIsMended) {
  ranges.layout = Layout{1, 1000, 0};
  store("0", "999", 1);
  const auto set = begin();
  watch->await_first_inspection(std::chrono::seconds(10));
  ASSERT_EQ(watch->not_ready(9).size(), 1U);
  EXPECT_THAT(watch->not_ready(9)[0].readiness.error.reason, HasSubstr("`ranges` has only 1"));
  std::vector<ids::Range> none;
  const ids::Draw refused = set->take(1, none);
  ASSERT_FALSE(refused || refused.needs_store());
  EXPECT_EQ(refused.error().code, ids::Errc::exhausted);
  database.remove_all("counters");
  EXPECT_TRUE(comes_true([&] { return watch->not_ready(9).empty(); }));
  EXPECT_EQ(next(*set, 1).size(), 1U);
  EXPECT_TRUE(id_store->stop(std::chrono::seconds(10)));
}

}  // namespace range_test
}  // namespace idproxy::id_store::test
