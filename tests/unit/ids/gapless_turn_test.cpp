#include "ids/gapless_source.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/block_caches.hpp"

namespace idproxy::ids {
namespace gapless_turn_test {

using namespace std::chrono_literals;
using Numbers = std::vector<std::int64_t>;

GaplessSpec spec() {
  GaplessSpec spec;
  spec.field.ns = "shop.orders";
  spec.field.field = "number";
  spec.max = std::numeric_limits<std::int64_t>::max();
  spec.floor = false;
  return spec;
}

/// A queue with the test as its store.
class TurnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    queue->announce();
    look(4);
  }

  std::unique_ptr<Turn> turn(std::string transaction = {}) {
    return gapless_source(queue, {})->turn({std::move(transaction)});
  }
  /// The numbers that the turn gets at once; none if it must ask.
  static Numbers next(Turn& turn, std::size_t n) {
    Values values;
    if (!turn.next(n, values)) return {};
    return numbers_in(values);
  }
  static Numbers accepted(Turn& turn, test::Waiting& waiting) {
    Values values;
    if (!waiting.answer->grant || !*waiting.answer->grant) return {};
    turn.accept(std::move(**waiting.answer->grant), values);
    return numbers_in(values);
  }
  static test::Waiting ask(Turn& turn, std::size_t n) {
    test::Waiting waiting;
    waiting.ticket = turn.ask(n, std::make_unique<test::NotedWaiter>(waiting.answer));
    return waiting;
  }
  /// The store's next job, which must be a look of this kind.
  void look(std::optional<std::int64_t> most, GaplessRead how = GaplessRead::sure) {
    const auto job = queue->begin();
    ASSERT_TRUE(job);
    EXPECT_EQ(job->how, how);
    queue->finish(most);
  }
  [[nodiscard]] std::optional<std::int64_t> known() const { return queue->statistics().next; }

  test::FakeClock clock;
  std::shared_ptr<GaplessQueue> queue = std::make_shared<GaplessQueue>(spec(), clock, [] {});

 private:
  static Numbers numbers_in(const Values& values) {
    Numbers numbers;
    for (std::size_t i = 0; i < values.size(); ++i) numbers.push_back(load_i64(values[i].data()));
    return numbers;
  }
};

TEST_F(TurnTest, GivesTheNextWriteWhatIsLeft) {
  auto first = turn();
  EXPECT_EQ(next(*first, 3), (Numbers{5, 6, 7}));
  first->sent();
  first->stored(2, Durability::by_majority);
  auto second = turn();
  EXPECT_EQ(next(*second, 1), Numbers());
  auto waiting = ask(*second, 2);
  EXPECT_EQ(waiting.answer->count, 0);
  first.reset();
  EXPECT_EQ(accepted(*second, waiting), (Numbers{7, 8}));
}

TEST_F(TurnTest, EndsWithWhatIsKnown) {
  const struct {
    const char* name;
    std::function<void(Turn&)> events;
    std::optional<std::int64_t> next;
  } rows[] = {
      {"nothing sent", [](Turn&) {}, 5},
      {"no answer", [](Turn& turn) { turn.sent(); }, {}},
      {"nothing stored", [](Turn& turn) { turn.sent(), turn.stored(0, Durability::not_yet); }, 5},
      {"stored", [](Turn& turn) { turn.sent(), turn.stored(2, Durability::by_majority); }, 7},
      {"stored for now", [](Turn& turn) { turn.sent(), turn.stored(2, Durability::not_yet); }, {}},
      {"stored for now, then for good",
       [](Turn& turn) {
         turn.sent(), turn.stored(1, Durability::not_yet);
         turn.sent(), turn.stored(1, Durability::by_majority);
       },
       7},
      {"taken", [](Turn& turn) { turn.sent(), turn.taken(); }, {}},
      {"stored, then lost",
       [](Turn& turn) {
         turn.sent(), turn.stored(1, Durability::by_majority);
         turn.sent(), turn.lost();
       },
       {}},
  };
  for (const auto& row : rows) {
    queue = std::make_shared<GaplessQueue>(spec(), clock, [] {});
    queue->announce();
    look(4);
    auto write = turn();
    EXPECT_EQ(next(*write, 3), (Numbers{5, 6, 7})) << row.name;
    row.events(*write);
    write.reset();
    EXPECT_EQ(known(), row.next) << row.name;
  }
}

TEST_F(TurnTest, LooksQuicklyForOtherNumbers) {
  auto write = turn();
  EXPECT_EQ(next(*write, 2), (Numbers{5, 6}));
  write->sent();
  write->stored(1, Durability::by_majority);
  write->taken();
  EXPECT_EQ(next(*write, 1), Numbers());
  auto waiting = ask(*write, 1);
  look(8, GaplessRead::quick);
  EXPECT_EQ(accepted(*write, waiting), Numbers{9});
  write->sent();
  write->stored(1, Durability::by_majority);
  write.reset();
  EXPECT_EQ(known(), 10);
}

/// What a quick reading saw is not certain, and what was stored before it says nothing about it.
TEST_F(TurnTest, ForgetsAQuickLookOfWhichNothingIsStored) {
  auto write = turn();
  EXPECT_EQ(next(*write, 2), (Numbers{5, 6}));
  write->sent();
  write->stored(1, Durability::by_majority);
  write->taken();
  auto waiting = ask(*write, 1);
  look(8, GaplessRead::quick);
  EXPECT_EQ(accepted(*write, waiting), Numbers{9});
  write->sent();
  write->stored(0, Durability::by_majority);
  write.reset();
  EXPECT_EQ(known(), std::nullopt);
}

TEST_F(TurnTest, LeavesTheQueueWithItsTicket) {
  auto first = turn();
  EXPECT_EQ(next(*first, 1), Numbers{5});
  auto second = turn();
  auto third = turn();
  auto impatient = ask(*second, 1);
  auto waiting = ask(*third, 1);
  EXPECT_EQ(queue->statistics().waiting, 2U);
  impatient.ticket = Ticket();
  first.reset();
  EXPECT_EQ(impatient.answer->count, 0);
  EXPECT_EQ(accepted(*third, waiting), Numbers{5});
}

/// The answer is under way to a client that has gone.
TEST_F(TurnTest, PassesOnATurnThatNobodyTook) {
  auto first = turn();
  EXPECT_EQ(next(*first, 1), Numbers{5});
  auto second = turn();
  auto third = turn();
  auto gone = ask(*second, 1);
  auto waiting = ask(*third, 1);
  first.reset();
  EXPECT_EQ(gone.answer->count, 1);
  second.reset();
  EXPECT_EQ(accepted(*third, waiting), Numbers{5});
  gone.answer->grant.reset();
  third->sent();
  third->stored(1, Durability::by_majority);
  third.reset();
  EXPECT_EQ(known(), 6);
}

// ---- transactions

TEST_F(TurnTest, ContinuesATransactionBehindItsOwnNumbers) {
  auto write = turn("a");
  EXPECT_EQ(next(*write, 2), (Numbers{5, 6}));
  write->sent();
  write->stored(2, Durability::by_majority);
  write.reset();
  EXPECT_EQ(known(), 5) << "others cannot see its numbers";
  auto other = turn();
  EXPECT_EQ(next(*other, 1), Numbers{5});
  write = turn("a");
  EXPECT_EQ(next(*write, 2), (Numbers{7, 8})) << "without waiting for the other one";
  write->sent();
  write->stored(2, Durability::by_majority);
  write.reset();
  write = turn("a");
  EXPECT_EQ(next(*write, 1), Numbers{9});
  auto another = turn("b");
  EXPECT_EQ(next(*another, 1), Numbers()) << "its first write waits";
}

TEST_F(TurnTest, LooksOnceATransactionHasEnded) {
  auto write = turn("a");
  EXPECT_EQ(next(*write, 1), Numbers{5});
  write->sent();
  write->stored(1, Durability::by_majority);
  write.reset();
  queue->transaction_ended("b", false);
  EXPECT_EQ(known(), 5);
  queue->transaction_ended("a", false);
  EXPECT_EQ(known(), std::nullopt);
}

TEST_F(TurnTest, ForgetsTheNumbersOfAnAbortedTransaction) {
  for (const bool first : {true, false}) {
    auto write = turn("a");
    EXPECT_EQ(next(*write, 1), Numbers{5});
    write->sent();
    if (!first) {
      write->stored(1, Durability::by_majority);
      write = turn("a");
      EXPECT_EQ(next(*write, 1), Numbers{6});
      write->sent();
    }
    write->lost();
    write.reset();
    EXPECT_EQ(known(), std::nullopt);
    auto after = turn();
    auto waiting = ask(*after, 1);
    look(4);
    EXPECT_EQ(accepted(*after, waiting), Numbers{5});
  }
}

TEST_F(TurnTest, ForgetsATransactionAfterAMinute) {
  auto write = turn("a");
  EXPECT_EQ(next(*write, 1), Numbers{5});
  write->sent();
  write->stored(1, Durability::by_majority);
  write.reset();
  clock.advance(59s);
  EXPECT_EQ(queue->last_of("a"), 5);
  clock.advance(1s);
  EXPECT_EQ(queue->last_of("a"), std::nullopt);
}

TEST(OpenTransactions, HasRoomForSoMany) {
  using Open = OpenTransactions<std::int64_t>;
  Open open;
  for (std::size_t i = 0; i < Open::kMost + 2000; ++i) open.note(std::to_string(i), 1s) = 1;
  EXPECT_LE(open.size(), Open::kMost);
  EXPECT_NE(open.find(std::to_string(Open::kMost + 1999), 1s), nullptr);
  for (std::size_t i = 0; i < Open::kMost / 4; ++i) open.note("new" + std::to_string(i), 61s) = 1;
  EXPECT_LE(open.size(), Open::kMost / 4);
}

// ---- transactions with several sequences

/// Two sequences of one process.
class TurnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& queue : {a, b}) {
      queue->announce();
      (void)queue->begin();
      queue->finish(GaplessReply(4));
    }
  }
  [[nodiscard]] std::shared_ptr<GaplessQueue> queue(const std::string& field) const {
    GaplessSpec named = spec();
    named.field.field = field;
    return std::make_shared<GaplessQueue>(named, clock, [] {}, transactions);
  }
  static std::unique_ptr<Turn> turn(const std::shared_ptr<GaplessQueue>& queue,
                                    const std::string& transaction = {},
                                    TurnTaker::Takes takes = TurnTaker::Takes::one) {
    return gapless_source(queue, {})->turn({transaction, takes});
  }
  static bool takes_5(Turn& turn) {
    Values values;
    return turn.next(1, values) && load_i64(values[0].data()) == 5;
  }
  /// A statement of the transaction that has ended.
  static void use(const std::shared_ptr<GaplessQueue>& queue, const std::string& transaction) {
    auto statement = turn(queue, transaction);
    EXPECT_TRUE(takes_5(*statement));
    statement->sent();
    statement->stored(1, Durability::by_majority);
  }

  test::FakeClock clock;
  std::shared_ptr<TransactionSequences> transactions = std::make_shared<TransactionSequences>();
  std::shared_ptr<GaplessQueue> a = queue("a");
  std::shared_ptr<GaplessQueue> b = queue("b");
};

/// The write waits in the server for the transaction, which needs the other sequence next.
TEST_F(TurnsTest, LetATransactionGoAheadOfAWriteThatMayWaitForIt) {
  use(a, "T");
  const auto write_a = turn(a, {}, TurnTaker::Takes::several);
  const auto write_b = turn(b, {}, TurnTaker::Takes::several);
  EXPECT_TRUE(takes_5(*write_a) && takes_5(*write_b));
  write_a->sent();
  write_b->sent();
  EXPECT_FALSE(takes_5(*turn(b, "U"))) << "nobody waits for this one";
  EXPECT_TRUE(takes_5(*turn(b, "T")));
  EXPECT_EQ(b->statistics().next, 5);
}

TEST_F(TurnsTest, LetATransactionGoAheadOfOneThatMayWaitForAnother) {
  use(a, "T");
  use(b, "U");
  const auto write = turn(b);
  EXPECT_TRUE(takes_5(*write));
  EXPECT_TRUE(takes_5(*turn(b, "T")));
  b->transaction_ended("U", false);
  EXPECT_FALSE(takes_5(*turn(b, "T"))) << "the write will be done without waiting";
}

TEST_F(TurnsTest, LetATransactionGoAheadInTheQueue) {
  use(a, "T");
  auto write = turn(b);
  EXPECT_TRUE(takes_5(*write));
  const auto ask = [](Turn& turn) {
    test::Waiting waiting;
    waiting.ticket = turn.ask(1, std::make_unique<test::NotedWaiter>(waiting.answer));
    return waiting;
  };
  auto other = turn(b);
  auto its = turn(b, "T");
  const auto others = ask(*other);
  const auto own = ask(*its);
  write.reset();
  EXPECT_EQ(own.answer->count, 1);
  EXPECT_EQ(others.answer->count, 0);
}

TEST_F(TurnsTest, ForgetATransactionThatHasEnded) {
  use(a, "T");
  use(b, "T");
  EXPECT_TRUE(transactions->has("T", clock.monotonic()));
  EXPECT_EQ(transactions->end("T").size(), 2U);
  EXPECT_FALSE(transactions->has("T", clock.monotonic()));
  EXPECT_EQ(transactions->end("T").size(), 0U);
  use(a, "U");
  clock.advance(61s);
  EXPECT_FALSE(transactions->has("U", clock.monotonic()));
}

}  // namespace gapless_turn_test
}  // namespace idproxy::ids
