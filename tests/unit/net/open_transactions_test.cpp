#include "net/open_transactions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace idproxy::net {
namespace open_transactions_test {

std::vector<std::uint8_t> session(std::uint8_t last) {
  std::vector<std::uint8_t> id(16);
  id.back() = last;
  return id;
}

TEST(OpenTransactions, OneBelongsToTheClientOfItsLastStatement) {
  OpenTransactions open;
  open.note(session(1), 7, false);
  open.note(session(1), 7, false);
  open.note(session(2), 7, false);
  EXPECT_EQ(open.of(7), 2U);
  open.note(session(1), 8, false);
  EXPECT_EQ(open.of(7), 1U);
  EXPECT_EQ(open.of(8), 1U);
  open.note(session(1), 7, true);  // whoever says so
  EXPECT_EQ(open.of(8), 0U);
  EXPECT_EQ(open.size(), 1U);
  open.note(session(9), 8, true);  // of one that is not known
  EXPECT_EQ(open.size(), 1U);
}

TEST(OpenTransactions, ThoseOfAClientEndWithIt) {
  OpenTransactions open;
  open.note(session(1), 7, false);
  open.note(session(2), 8, false);
  open.left(7);
  open.left(9);
  EXPECT_EQ(open.of(7), 0U);
  EXPECT_EQ(open.size(), 1U);
}

TEST(OpenTransactions, IgnoresWhatIsNoSession) {
  OpenTransactions open;
  open.note(std::vector<std::uint8_t>(15), 7, false);
  open.note({}, 7, false);
  EXPECT_EQ(open.size(), 0U);
}

}  // namespace open_transactions_test
}  // namespace idproxy::net
