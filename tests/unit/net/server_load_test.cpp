#include "net/server_load.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace idproxy::net {
namespace server_load_test {

using namespace std::chrono_literals;
using Reply = ServerLoad::Reply;
using Time = std::optional<std::chrono::nanoseconds>;

TEST(ServerLoad, KnowsTheOldestRequest) {
  ServerLoad load;
  ServerLoad::Connection first;
  ServerLoad::Connection second;
  EXPECT_EQ(load.oldest(), std::nullopt);
  load.requested(first, Reply::prompt, 1s);
  load.requested(second, Reply::prompt, 3s);
  EXPECT_EQ(load.oldest(), Time(1s));
  EXPECT_EQ(load.in_flight(), 2U);
  EXPECT_EQ(second.waits_since(), Time(3s));

  EXPECT_EQ(load.answered(first, 4s), Time(3s));
  EXPECT_EQ(load.oldest(), Time(3s));
  EXPECT_EQ(load.answered(second, 5s), Time(2s));
  EXPECT_EQ(load.oldest(), std::nullopt);
  EXPECT_EQ(load.in_flight(), 0U);
  EXPECT_EQ(load.replies.value(), 2U);
  EXPECT_EQ(load.reply_time.values().sum_seconds, 5);
}

TEST(ServerLoad, TimesARequestBehindAnotherFromItsReplyOn) {
  ServerLoad load;
  ServerLoad::Connection connection;
  load.requested(connection, Reply::prompt, 1s);
  load.requested(connection, Reply::prompt, 2s);
  EXPECT_EQ(load.in_flight(), 2U);
  EXPECT_EQ(load.answered(connection, 10s), Time(9s));
  EXPECT_EQ(load.oldest(), Time(10s));
  EXPECT_EQ(load.answered(connection, 11s), Time(1s));
  EXPECT_EQ(load.in_flight(), 0U);
}

TEST(ServerLoad, TimesNoReplyThatMayWait) {
  ServerLoad load;
  ServerLoad::Connection connection;
  load.requested(connection, Reply::may_wait, 1s);
  EXPECT_EQ(load.oldest(), std::nullopt);
  load.requested(connection, Reply::prompt, 2s);
  EXPECT_EQ(load.in_flight(), 0U) << "the server may begin with it at any time";
  EXPECT_EQ(load.answered(connection, 9s), std::nullopt);
  EXPECT_EQ(load.answered(connection, 9s), std::nullopt);
  EXPECT_EQ(load.replies.value(), 2U);
  EXPECT_EQ(load.reply_time.values().sum_seconds, 0);

  load.requested(connection, Reply::prompt, 10s);
  EXPECT_EQ(load.answered(connection, 11s), Time(1s)) << "nothing is before it";

  load.requested(connection, Reply::prompt, 20s);
  load.requested(connection, Reply::may_wait, 21s);
  EXPECT_EQ(load.oldest(), std::nullopt);
  EXPECT_EQ(load.in_flight(), 0U);
}

TEST(ServerLoad, ForgetsAConnectionThatHasEnded) {
  ServerLoad load;
  ServerLoad::Connection stays;
  {
    ServerLoad::Connection leaves;
    load.requested(leaves, Reply::prompt, 1s);
    load.requested(leaves, Reply::prompt, 1s);
    load.requested(stays, Reply::prompt, 2s);
    load.ended(leaves);
    load.ended(leaves);
  }
  EXPECT_EQ(load.oldest(), Time(2s));
  EXPECT_EQ(load.in_flight(), 1U);
}

TEST(ServerLoad, KnowsWhenTheServerFellSilent) {
  ServerLoad load;
  ServerLoad::Connection first;
  ServerLoad::Connection second;
  EXPECT_EQ(load.silent_since(), std::nullopt);
  load.requested(first, Reply::may_wait, 1s);
  EXPECT_EQ(load.silent_since(), std::nullopt);
  load.ended(first);
  load.requested(first, Reply::prompt, 2s);
  load.requested(second, Reply::prompt, 3s);
  EXPECT_EQ(load.silent_since(), Time(2s));
  load.ended(first);
  EXPECT_EQ(load.silent_since(), Time(2s)) << "its client gave up";
  EXPECT_EQ(load.answered(second, 4s), Time(1s));
  EXPECT_EQ(load.silent_since(), std::nullopt);
  EXPECT_EQ(load.last_heard(), std::chrono::nanoseconds(4s));
  load.requested(second, Reply::prompt, 5s);
  load.heard(6s);
  EXPECT_EQ(load.silent_since(), std::nullopt);
}

}  // namespace server_load_test
}  // namespace idproxy::net
