#include "idproxy/wire/messages.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace idproxy::wire {
namespace reply_ledger_test {

using Owed = ReplyLedger::Owed;

MsgHeader reply_to(std::int32_t request, std::int32_t id = 900) {
  return {.message_length = 16, .request_id = id, .response_to = request, .op_code = OpCode::msg};
}

/// One reply, the last to its request, from its begin to its end.
void answer(ReplyLedger& ledger) {
  ledger.begin_last();
  ledger.answered();
}

TEST(ReplyLedger, OwesNothingAtFirst) {
  const ReplyLedger ledger;
  EXPECT_EQ(ledger.outstanding(), 0U);
  EXPECT_EQ(ledger.owed(reply_to(0)), Owed::to_nobody);
}

TEST(ReplyLedger, OwesRepliesInTheOrderOfTheRequests) {
  ReplyLedger ledger;
  for (const std::int32_t id : {7, 5, 7, -1}) ledger.forwarded(id);
  EXPECT_EQ(ledger.outstanding(), 4U);
  for (const std::int32_t id : {7, 5, 7, -1}) {
    EXPECT_EQ(ledger.owed(reply_to(id)), Owed::to_next_request);
    EXPECT_EQ(ledger.owed(reply_to(id + 1)), Owed::to_other);
    answer(ledger);
  }
  EXPECT_EQ(ledger.owed(reply_to(-1)), Owed::to_nobody);
}

TEST(ReplyLedger, OwesTheRestOfAStreamToTheReplyBefore) {
  ReplyLedger ledger;
  ledger.forwarded(1);
  ledger.forwarded(2);
  ledger.begin_with_more(reply_to(1, 50));
  EXPECT_FALSE(ledger.is_last());
  EXPECT_EQ(ledger.owed(reply_to(1)), Owed::to_other);
  EXPECT_EQ(ledger.owed(reply_to(50)), Owed::to_next_request);
  ledger.begin_with_more(reply_to(50, 51));
  EXPECT_EQ(ledger.outstanding(), 2U) << "the request is not answered before its last reply";
  EXPECT_EQ(ledger.owed(reply_to(51)), Owed::to_next_request);
  ledger.begin_last();
  EXPECT_TRUE(ledger.is_last());
  ledger.answered();
  EXPECT_EQ(ledger.owed(reply_to(2)), Owed::to_next_request);
}

TEST(ReplyLedger, StandsRepliesThatNobodyAskedFor) {
  ReplyLedger ledger;
  EXPECT_FALSE(ledger.unrequested_permitted());
  ledger.forwarded(1);
  ledger.permit_unrequested();
  answer(ledger);
  answer(ledger);  // OP_REPLYs of a tailed cursor
  ledger.begin_with_more(reply_to(77));
  EXPECT_EQ(ledger.outstanding(), 0U);
  EXPECT_TRUE(ledger.unrequested_permitted());
  ledger.forwarded(2);
  EXPECT_EQ(ledger.owed(reply_to(2)), Owed::to_next_request);
}

TEST(ReplyLedger, KeepsTheOrderHoweverRequestsAndRepliesInterleave) {
  std::mt19937 random(1);
  ReplyLedger ledger;
  std::deque<std::int32_t> expected;
  for (std::int32_t id = 0; id < 10'000; ++id) {
    ledger.forwarded(id);
    expected.push_back(id);
    while (!expected.empty() && random() % 2 == 0) {
      ASSERT_EQ(ledger.owed(reply_to(expected.front())), Owed::to_next_request);
      answer(ledger);
      expected.pop_front();
    }
    ASSERT_EQ(ledger.outstanding(), expected.size());
  }
}

}  // namespace reply_ledger_test
}  // namespace idproxy::wire
