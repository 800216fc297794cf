#include "app/state/refusals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "idproxy/log/log.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace refusals_test {

using namespace std::chrono_literals;
using testing::ElementsAre;

struct RefusalsTest : ::testing::Test {
  void refuse(const char* reason, int writes = 1,
              std::shared_ptr<const ids::NumberHolder> holder = nullptr) const {
    for (int i = 0; i < writes; ++i) rules->outcomes(0).refuse("shop.orders", reason, holder);
  }
  void update(std::chrono::nanoseconds after) { refusals.update(*rules, now += after); }
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const auto& each : refusals.current(now)) texts.push_back(each.text());
    return texts;
  }
  /// The numbers in the log's lines since the last call.
  std::vector<std::string> said() {
    std::vector<std::string> numbers;
    for (const log::Line& line : log::last_lines()) {
      if (line.event != "writes_refused" || line.time <= seen) continue;
      for (const auto& [name, value] : line.fields) {
        if (name == "writes") numbers.push_back(value);
      }
      last = line.time;
    }
    seen = last;
    return numbers;
  }

  std::shared_ptr<const rewrite::RuleSet> rules =
      test::rule_set_of(test::rule("shop.orders", "number"));
  std::chrono::nanoseconds now = 5h;
  std::chrono::system_clock::time_point seen = std::chrono::system_clock::now(), last = seen;
  Refusals refusals;
};

TEST_F(RefusalsTest, SaysAllWithinASecondAndThenOnceAMinute) {
  refuse("no primary", 22);
  update(1s);
  EXPECT_THAT(said(), ElementsAre("22"));
  EXPECT_THAT(texts(), ElementsAre("22 inserts refused; no primary"));
  refuse("no primary", 3);
  update(1s);
  refuse("no primary");
  update(30s);
  EXPECT_THAT(said(), ElementsAre());
  EXPECT_THAT(texts(), ElementsAre("26 inserts refused; no primary"));
  update(30s);
  EXPECT_THAT(said(), ElementsAre("4")) << "although nothing has happened since";
  update(30s);
  EXPECT_THAT(texts(), ElementsAre());
  EXPECT_EQ(rules->outcomes(0).refused, 26U);
  refuse("no primary");
  update(1s);
  EXPECT_THAT(texts(), ElementsAre("1 insert refused; no primary"));
}

TEST_F(RefusalsTest, SaysEachReason) {
  refuse("a");
  refuse("b", 2);
  update(1s);
  EXPECT_THAT(said(), ElementsAre("1", "2"));
  EXPECT_THAT(texts(), ElementsAre("1 insert refused; a", "2 inserts refused; b"));
}

TEST_F(RefusalsTest, SaysWhoHoldsTheNumber) {
  const auto job = std::make_shared<ids::NumberHolder>(12, "hanging-job", now - 5s);
  refuse("held", 6, job);
  update(1s);
  EXPECT_THAT(texts(), ElementsAre("6 inserts refused; the number is held by a transaction of "
                                   "connection 12 (hanging-job), for 6 s"));
  update(30s);
  EXPECT_THAT(texts(), ElementsAre("6 inserts refused; the number was held by a transaction of "
                                   "connection 12 (hanging-job)"));
}

TEST_F(RefusalsTest, SaysTheRestAtTheEnd) {
  refuse("a");
  update(1s);
  refuse("a", 4);
  refusals.finish(*rules, now += 1s);
  EXPECT_THAT(said(), ElementsAre("1", "4"));
}

}  // namespace refusals_test
}  // namespace idproxy::app::state
