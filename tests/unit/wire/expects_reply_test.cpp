#include "idproxy/wire/expects_reply.hpp"

#include <gtest/gtest.h>

#include "idproxy/wire/op_msg.hpp"
#include "support/messages.hpp"

namespace idproxy::wire {
namespace expects_reply_test {

using namespace test;

TEST(ExpectsReply, KnowsWhatMongodAnswers) {
  const auto expects = [](std::string_view bytes) {
    return expects_reply(read_header(as_bytes(bytes)), as_bytes(bytes));
  };
  EXPECT_TRUE(expects(op_msg(body(doc()))));
  EXPECT_FALSE(expects(op_msg(body(doc()), flag::kMoreToCome)));
  EXPECT_TRUE(expects(message(2004, "")));
  EXPECT_TRUE(expects(message(2005, "")));
  EXPECT_FALSE(expects(message(2002, "")));
}

}  // namespace expects_reply_test
}  // namespace idproxy::wire
