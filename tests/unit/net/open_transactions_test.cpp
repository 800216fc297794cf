#include "net/open_transactions.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace idproxy::net {
namespace open_transactions_test {

using namespace std::chrono_literals;
constexpr std::size_t kMost = OpenTransactions::kMostOfClient;

/// A client's connection.
class Client {
 public:
  Client(OpenTransactions& all, std::uint64_t id) : all_(all), id_(id) {}

  void begins(std::uint8_t session, std::chrono::nanoseconds now = {}) {
    note({id_of(session), false, true}, now);
  }
  void states(std::uint8_t session, std::chrono::nanoseconds now = {}) {
    note({id_of(session), false, false}, now);
  }
  void ends(std::uint8_t session) { note({id_of(session), true, false}, {}); }
  void leaves() { all_.left(id_, own_); }
  void note(const rewrite::TransactionStep& step, std::chrono::nanoseconds now) {
    all_.note(step, id_, own_, now);
  }
  [[nodiscard]] std::size_t open() const { return all_.of(id_, own_).count; }
  [[nodiscard]] std::chrono::nanoseconds since() const {
    return all_.of(id_, own_).since.value_or(-1ns);
  }

 private:
  Bytes id_of(std::uint8_t session) {
    session_.back() = session;
    return session_;
  }

  OpenTransactions& all_;
  std::uint64_t id_;
  OpenTransactions::Sessions own_;
  std::vector<std::uint8_t> session_ = std::vector<std::uint8_t>(16);
};

class OpenTransactionsTest : public ::testing::Test {
 protected:
  OpenTransactions all;
  Client a{all, 7};
  Client b{all, 8};
};

TEST_F(OpenTransactionsTest, OneBelongsToTheClientOfItsLastStatement) {
  a.begins(1);
  a.states(1);
  a.begins(2);
  EXPECT_EQ(a.open(), 2U);
  b.states(1);
  EXPECT_EQ(a.open(), 1U);
  EXPECT_EQ(b.open(), 1U);
  a.states(1);
  EXPECT_EQ(a.open(), 2U);
  b.states(1);
  a.ends(1);  // whoever says so
  EXPECT_EQ(b.open(), 0U);
  EXPECT_EQ(all.all().count, 1U);
  b.ends(9);  // of one that is not known
  EXPECT_EQ(all.all().count, 1U);
}

TEST_F(OpenTransactionsTest, ThoseOfAClientEndWithIt) {
  a.begins(1);
  a.begins(3);
  b.begins(2);
  b.states(3);
  a.leaves();
  EXPECT_EQ(a.open(), 0U);
  EXPECT_EQ(b.open(), 2U);
  EXPECT_EQ(all.all().count, 2U);
  a.leaves();
  b.leaves();
  EXPECT_EQ(all.all().count, 0U);
}

TEST_F(OpenTransactionsTest, KnowsWhenTheOldestHasBegun) {
  EXPECT_EQ(all.all().since, std::nullopt);
  a.begins(1, 1s);
  a.begins(17, 2s);  // of the same part
  b.begins(2, 3s);
  b.states(1, 4s);  // goes on over another connection
  EXPECT_EQ(a.since(), 2s);
  EXPECT_EQ(b.since(), 1s);
  EXPECT_EQ(all.all().since, 1s);
  b.begins(1, 5s);  // the server had ended it, and its session begins the next one
  EXPECT_EQ(b.since(), 3s);
  EXPECT_EQ(all.all().since, 2s);
  a.ends(17);
  EXPECT_EQ(all.all().since, 3s);
  EXPECT_EQ(a.since(), -1ns);
}

TEST_F(OpenTransactionsTest, AClientHasRoomForSoMany) {
  for (std::uint8_t session = 0; session < 100; ++session) {
    a.begins(session, std::chrono::seconds(session));
  }
  EXPECT_EQ(a.open(), kMost);
  EXPECT_EQ(all.all().count, kMost);
  EXPECT_EQ(a.since(), 0s) << "the oldest stays";
  b.begins(100);
  a.states(100);
  EXPECT_EQ(b.open(), 1U) << "stays where it is, if there is no room where it goes on";
  a.ends(0);
  a.ends(100);
  a.begins(101);
  EXPECT_EQ(a.open(), kMost);
}

TEST_F(OpenTransactionsTest, ThoseThatHaveGoneToOthersTakeNoRoom) {
  for (std::uint8_t session = 0; session < kMost; ++session) {
    a.begins(session);
    b.states(session);
  }
  EXPECT_EQ(a.open(), 0U);
  a.begins(100);
  EXPECT_EQ(a.open(), 1U);
  EXPECT_EQ(b.open(), kMost);
}

TEST_F(OpenTransactionsTest, IgnoresWhatIsNoSession) {
  const std::vector<std::uint8_t> bytes(17);
  for (const std::size_t size : {0U, 15U, 17U}) {
    a.note({Bytes(bytes).first(size), false, true}, {});
  }
  EXPECT_EQ(all.all().count, 0U);
}

TEST_F(OpenTransactionsTest, AreSharedByThreads) {
  const auto work = [this](std::uint64_t id) {
    Client own(all, id);
    for (int round = 0; round < 500; ++round) {
      for (std::uint8_t session = 0; session < 2 * kMost; ++session) own.begins(session);
      EXPECT_LE(own.open(), kMost);
      own.ends(static_cast<std::uint8_t>(round % 32));
      EXPECT_LE(all.all().count, 2 * kMost);
    }
    own.leaves();
  };
  std::thread one(work, 1);
  std::thread two(work, 2);
  one.join();
  two.join();
  EXPECT_EQ(all.all().count, 0U);
}

}  // namespace open_transactions_test
}  // namespace idproxy::net
