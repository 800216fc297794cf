#include "idproxy/rewrite/logins.hpp"

#include <gtest/gtest.h>

#include "support/replies.hpp"

namespace idproxy::rewrite {
namespace logins_test {

using namespace test;

Logins said_by(const std::string& reply) {
  const Exact exact(reply);
  return read_logins(exact.view());
}

TEST(ReadLogins, TellsByTheAnswerToWhatNeedsAPrivilege) {
  const std::string refused = failure(13, "command getParameter requires authentication");
  EXPECT_EQ(said_by(reply_message(refused)), Logins::enforced);
  EXPECT_EQ(said_by(reply_message(texts_field("authenticationMechanisms", {"PLAIN"}) + ok())),
            Logins::not_enforced);
}

TEST(ReadLogins, KnowsNothingByAnotherAnswer) {
  EXPECT_EQ(said_by(reply_message(failure(59, "no such command"))), Logins::unknown);
  EXPECT_EQ(said_by(reply_message(failure(13436, "not primary or secondary"))), Logins::unknown);
  EXPECT_EQ(said_by(reply_message(ok(0))), Logins::unknown);
  EXPECT_EQ(said_by(reply_message("")), Logins::unknown);
  const std::string whole = reply_message(ok());
  EXPECT_EQ(said_by(whole.substr(0, whole.size() - 1)), Logins::unknown);
}

}  // namespace logins_test
}  // namespace idproxy::rewrite
