#include "app/jobs/backfill_report.hpp"

#include <gtest/gtest.h>

#include "idproxy/bson/builder.hpp"

namespace idproxy::app::jobs {
namespace backfill_report_test {

using namespace std::chrono_literals;

const Commands kShow = Commands().mongosh("db.orders.find()");

Buffer id_document(std::int32_t id) {
  Buffer bytes;
  bson::Scope document(bytes);
  bson::append_int32(bytes, "_id", id);
  document.close();
  return bytes;
}

BackfillTally tally_of(std::uint64_t given) {
  BackfillTally tally;
  tally.given = given;
  tally.had_one = 12;
  tally.first = "1001";
  tally.last = "2998";
  return tally;
}

TEST(BackfillReport, IsShortIfAllHaveAValue) {
  EXPECT_EQ(
      report_of(tally_of(1998), {"shop.orders: number", "", 0, kShow, 800ms}),
      "shop.orders: number\n"
      "  given                          1,998  1001 to 2998\n"
      "  had one before                    12\n"
      "  left                               0\n"
      "  took 0.8 s, 2,497 documents a second\n"
      "Next: start or reload the proxy with this rule, and run this again for what was stored "
      "before that\n");
}

TEST(BackfillReport, HasNoNextStepIfNothingWasToDo) {
  const std::string report = report_of(tally_of(0), {"s", "", 0, kShow, 1s});
  EXPECT_EQ(report.find("Next: "), report.npos) << report;
}

TEST(BackfillReport, SaysWhyDocumentsAreLeftAndHowToSeeThem) {
  BackfillTally tally = tally_of(10);
  tally.got_one = 1;
  tally.deleted = 2;
  tally.renewed = 3;
  tally.gaps = 4;
  for (int id = 1; id <= 5; ++id) tally.leave("it is too large", id_document(id).view());
  EXPECT_EQ(tally.done(), 18U);
  EXPECT_EQ(report_of(tally, {"s", "stopped by a signal", 1005, kShow, 10s}),
            "s\n"
            "  given                             10  1001 to 2998\n"
            "  had one before                    12\n"
            "  got one meanwhile                  1  from another program or backfill\n"
            "  deleted meanwhile                  2\n"
            "  duplicates renewed                 3\n"
            "  numbers not stored                 4  gaps\n"
            "  left                           1,005\n"
            "    5: it is too large, such as { \"_id\" : 1 }, { \"_id\" : 2 }, { \"_id\" : 3 }\n"
            "    1,000: stopped by a signal\n"
            "  took 10 s, 1 documents a second\n"
            "To see those that are left: db.orders.find()\n");
}

TEST(BackfillReport, ExplainsDocumentsThatCameMeanwhile) {
  const std::string report = report_of(tally_of(10), {"s", "", 7, kShow, 1s});
  EXPECT_NE(report.find("    7: stored meanwhile without a value: start or reload the proxy"),
            report.npos)
      << report;
  EXPECT_EQ(report.find("Next: "), report.npos) << report;
}

TEST(BackfillReport, SaysThatItEndedEarlyEvenIfNothingIsLeft) {
  const std::string report = report_of(tally_of(10), {"s", "stopped by a signal", 0, kShow, 1s});
  EXPECT_NE(report.find("  ended early: stopped by a signal\n"), report.npos) << report;
  EXPECT_EQ(report.find(kShow.text()), report.npos) << report;
}

TEST(BackfillReport, AdmitsThatItCouldNotCount) {
  const std::string report =
      report_of(tally_of(0), {"s", "the servers do not answer", {}, kShow, 0s});
  EXPECT_EQ(report,
            "s\n"
            "  given                              0\n"
            "  had one before                    12\n"
            "  left: cannot be counted now\n"
            "  ended early: the servers do not answer\n"
            "  took 0.0 s, 0 documents a second\n"
            "To see those that are left: db.orders.find()\n");
}

TEST(BackfillReport, OfADryRunSaysWhatWouldHappen) {
  BackfillTally tally;
  tally.leave("it is blocked", id_document(1).view());
  EXPECT_EQ(rehearsal_of("shop.orders: number", 1998, 12, tally, "1001 to 2998"),
            "shop.orders: number\n"
            "  would get a value              1,998  1001 to 2998\n"
            "  have one                          12\n"
            "  cannot get one                     1  it is blocked, such as { \"_id\" : 1 }\n");
}

}  // namespace backfill_report_test
}  // namespace idproxy::app::jobs
