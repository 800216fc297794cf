#include "app/jobs/verify_report.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "app/json_view.hpp"

namespace idproxy::app::jobs {
namespace verify_report_test {

using namespace std::chrono_literals;

VerifyRun run_of() {
  VerifyRun run{"shop.orders", "number", "gapless"};
  run.index = "number_1";
  run.begin = std::chrono::system_clock::time_point(1'764'230'400s);
  run.took = 2s;
  return run;
}

VerifyFindings clean() {
  VerifyFindings findings;
  findings.documents = 2000;
  findings.kinds = {{VerifyKind::missing, {}}, {VerifyKind::gap, {}}};
  findings.sequences = 1;
  findings.first_sequences = {{"", 1, 2000, 2000, 0}};
  return findings;
}

VerifyFindings faulty() {
  VerifyFindings findings = clean();
  findings.kinds[VerifyKind::gap] = {30, {{"7 to 9", "", R"({ "p" : "2026" })", 3}}, "look"};
  findings.kinds[VerifyKind::duplicate] = {1, {{"12", "", "", 2}}, ""};
  findings.kinds[VerifyKind::wrong_type] = {1, {{"\"x\"", R"({ "_id" : 7 })"}}, ""};
  findings.types = {{"string", 1}};
  return findings;
}

TEST(VerifyReport, IsShortIfNothingIsWrong) {
  EXPECT_EQ(verify_report(run_of(), clean()),
            "shop.orders: number, by the strategy gapless\n"
            "  with the field                 2,000  in the order of the index number_1\n"
            "  without the field                  0\n"
            "  gaps                               0\n"
            "  sequences                          1\n"
            "    1 to 2000, 2,000 numbers, 0 missing\n"
            "  unique index: there\n"
            "  read from 2025-11-27T08:00:00Z to 2025-11-27T08:00:02Z, took 2.0 s, 1,000 "
            "documents a second\n"
            "verified: nothing is wrong\n");
}

TEST(VerifyReport, ShowsWhatIsWrong) {
  const std::string report = verify_report(run_of(), faulty());
  EXPECT_NE(report.find("  duplicates                         1\n    12 in 2 documents\n"),
            report.npos)
      << report;
  EXPECT_NE(report.find("  of another type                    1  string 1\n"
                        "    { \"_id\" : 7 }: \"x\"\n"),
            report.npos)
      << report;
  EXPECT_NE(report.find("    7 to 9, 3 numbers of { \"p\" : \"2026\" }\n    and 29 more\n"
                        "    what helps: look\n"),
            report.npos)
      << report;
  EXPECT_TRUE(report.ends_with("\n32 findings\n")) << report;
}

TEST(VerifyReport, SaysThatItIsIncomplete) {
  VerifyRun run = run_of();
  run.why = "stopped by a signal";
  EXPECT_TRUE(verify_report(run, clean())
                  .ends_with("\nincomplete: stopped by a signal; 0 findings in what was read\n"));
}

TEST(VerifyJson, HasTheSame) {
  const boost::json::value parsed = boost::json::parse(verify_json(run_of(), faulty()));
  const JsonView report(parsed);
  EXPECT_TRUE(report["complete"].is_true());
  EXPECT_EQ(report["findings"].number(), 32);
  EXPECT_EQ(report["gaps"]["count"].number(), 30);
  EXPECT_EQ(report["gaps"]["examples"].items().at(0)["sequence"]["p"].text(), "2026");
  EXPECT_EQ(report["gaps"]["remedy"].text(), "look");
  EXPECT_EQ(report["duplicates"]["examples"].items().at(0)["documents"].number(), 2);
  EXPECT_EQ(report["wrong_type"]["examples"].items().at(0)["_id"].number(), 7);
  EXPECT_EQ(report["types"]["string"].number(), 1);
  EXPECT_EQ(report["sequences"]["first"].items().at(0)["last"].number(), 2000);
  EXPECT_EQ(report["order"].text(), "number_1");
  EXPECT_TRUE(report["unique_index"].is_true());
  EXPECT_EQ(report["documents_per_second"].number(), 1000);
}

}  // namespace verify_report_test
}  // namespace idproxy::app::jobs
