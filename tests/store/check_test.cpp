#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "counter_fixture.hpp"

namespace idproxy::id_store::test {
namespace check_test {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Demand = CounterDocument::Demand;

class CheckTest : public CounterTest {
 protected:
  /// As if nobody waited for numbers: the number, none where a scan would tell, or the job's reply.
  CounterReply check(const mongo::Pool& pool) {
    if (!document) document.emplace(spec, metrics, scans);
    mongo::Client client = pool.client();
    const CounterJob job{CounterJob::Kind::allocate, 1, {}, false, {}};
    const auto checked = document->check(client, fields, job, Demand::none);
    if (!checked) return checked.error();
    reads_all = checked->reads_all;
    return checked->first ? allocated(*checked->first, 1) : allocated(0, 0);
  }
  CounterReply check() { return check(pool()); }
  /// All that the test's database holds.
  std::string stored() {
    return database.all("counters") + database.all("idproxyCounterMarks") + database.all("orders");
  }

  bool reads_all = false;  ///< of the last check
};

TEST_F(CheckTest, FindsTheNumberOfTheNextAllocation) {
  counter("42");
  const std::string before = stored();
  EXPECT_EQ(check(), allocated(42, 1));
  EXPECT_EQ(stored(), before);
  EXPECT_EQ(allocate(1), allocated(42, 1));
}

TEST_F(CheckTest, FindsTheFirstNumberOfACounterThatDoesNotExist) {
  spec.start = 1000;
  EXPECT_EQ(check(), allocated(1000, 1));
  unique_index();
  orders({5000});
  const std::string before = stored();
  EXPECT_EQ(check(), allocated(5001, 1));
  EXPECT_EQ(stored(), before) << "the counter was made";
  EXPECT_EQ(allocate(1), allocated(5001, 1));
}

TEST_F(CheckTest, SaysThatACounterIsExhausted) {
  spec.max = 41;
  counter("42");
  EXPECT_EQ(check().why.reason, ids::handed_out_up_to(41).reason);
  database.set("counters", json(R"({"V": "text"})"));
  EXPECT_THAT(check().why.reason, HasSubstr("not an integer"));
}

TEST_F(CheckTest, NamesAMissingPrivilege) {
  counter("1");
  database.fail_find_and_modify(1, R"({"errorCode": 13})");
  const CounterReply reply = check();
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("needs readWrite on " + database.name()));
}

TEST_F(CheckTest, LeavesACollectionUnreadThatOnlyAScanCouldTellOf) {
  orders({7});
  others.emplace(uri(), database.name(), pool(), clock, scheduler, CollectionScans::Enabled::no);
  document.emplace(spec, metrics, *others);
  const std::string before = stored();
  EXPECT_EQ(check(), allocated(0, 0));
  EXPECT_TRUE(reads_all);
  spec.scan = 0ms;
  document.emplace(spec, metrics, *others);
  EXPECT_THAT(check().why.reason, AllOf(HasSubstr("`scan` is off"), HasSubstr("createIndex")));
  unique_index();
  EXPECT_EQ(check(), allocated(8, 1));
  EXPECT_FALSE(reads_all);
  EXPECT_EQ(stored(), before);
  EXPECT_EQ(database.all("scans"), "") << "the lease";
}

TEST_F(CheckTest, SaysWhatTakesAScan) {
  orders({7});
  EXPECT_TRUE(comes_true([&] { return check().kind != Kind::pending; }));
  EXPECT_EQ(check(), allocated(8, 1));
  EXPECT_TRUE(reads_all);
  EXPECT_EQ(allocate_patiently(1), allocated(8, 1));
  EXPECT_EQ(check(), allocated(9, 1));
  EXPECT_FALSE(reads_all);
}

TEST_F(CheckTest, FailsWithoutAServer) {
  const mongo::Pool nowhere("mongodb://127.0.0.1:1", std::chrono::seconds(5));
  EXPECT_EQ(check(nowhere).kind, Kind::failed);
  EXPECT_FALSE(document->reached());
  EXPECT_EQ(metrics.round_trips.sent, 0U) << "they are not the counter's own";
}

}  // namespace check_test
}  // namespace idproxy::id_store::test
