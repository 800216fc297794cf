// What comes back of a write's values at each of its ends: those of statements that the server
// never got, or of which it says that they are not stored. Nothing else does, since it may be
// stored.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"
#include "support/lending_source.hpp"
#include "support/sequenced_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_ends_test {

using namespace test;
using namespace std::chrono_literals;

constexpr std::int32_t kFirstPart = 20'000;
constexpr std::int32_t kAll = kFirstPart + 2;

/// Numbers as "1-20000 20002"; they may come in any order.
std::string text_of_numbers(std::vector<std::int64_t> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : " ") + std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

/// An unordered write in two parts, whose values 1 to kAll are those of its statements.
enum class Write { insert, upsert, scoped };

std::string statement(Write write, std::int32_t k) {
  if (write == Write::upsert) return upsert(k);
  return write == Write::insert ? nth(k) : doc(int_field("x", k) + string_field("t", "a"));
}
std::string command(Write write, const std::string& options) {
  std::vector<std::string> all;
  for (std::int32_t k = 0; k < kAll; ++k) all.push_back(statement(write, k));
  return write == Write::upsert ? update_sequence(kUnordered + options, all)
                                : client(Form::sequence, kUnordered + options, all);
}

/// A reply to `sent` statements, of which those with an error have stored nothing.
std::string stored(Write write, std::int32_t sent, const std::vector<std::string>& errors = {}) {
  const auto count = sent - static_cast<std::int32_t>(errors.size());
  const std::string failed = errors.empty() ? "" : write_errors(errors);
  if (write != Write::upsert) return n(count) + failed + ok();
  std::vector<std::pair<std::int32_t, std::int64_t>> entries;
  for (std::int32_t i = sent - count; i < sent; ++i) entries.emplace_back(i, i);
  return n(count) + failed + upserted(entries) + modified(0) + ok();
}

const std::string kTime = int_field("maxTimeMS", 50);

class Ends : public ::testing::Test {
 protected:
  /// The server gets the first part.
  void start(Write write, const std::string& options = kTime) {
    world.reset();
    write_ = write;
    *lending = Lending();
    lending->at_hand = kAll;
    Rule its = rule("shop.*", "number");
    its.strategy = shared_source<LendingSource>(lending);
    if (write == Write::scoped) {
      const auto lendings = std::make_shared<Lendings>(Lendings{{"a", lending}});
      its.strategy = std::make_shared<SequencedRule>(std::vector<std::string>{"t"}, lendings);
    }
    world.emplace(rule_set_of(std::move(its)));
    ASSERT_EQ(world->request(command(write, options)), ActionKind::send);
  }
  /// It gets the second one, too.
  void send_second(const std::vector<std::string>& errors = {}) {
    ASSERT_EQ(reply_with(stored(write_, kFirstPart, errors)), ActionKind::send);
  }
  ActionKind reply_with(const std::string& fields) { return world->reply_with(fields); }
  [[nodiscard]] std::string back() const { return text_of_numbers(lending->back); }

  std::shared_ptr<Lending> lending = std::make_shared<Lending>();
  std::optional<ExchangeWorld> world;

 private:
  Write write_{};
};

TEST_F(Ends, TheServerRefusesAPartAsAWhole) {
  constexpr const char* kRest = "20001-20002";
  const struct {
    Write write;
    bool is_first;
    std::int32_t code;
    const char* back;
  } rows[] = {
      {Write::insert, true, 13, "1-20002"}, {Write::insert, false, 13, kRest},
      {Write::insert, true, 10107, kRest},  {Write::insert, false, 10107, ""},
      {Write::insert, true, 50, kRest},     {Write::scoped, true, 11600, kRest},
      {Write::scoped, false, 13, kRest},    {Write::upsert, true, 91, kRest},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::to_string(row.code) + (row.is_first ? " first" : " second"));
    start(row.write);
    if (!row.is_first) send_second();
    EXPECT_EQ(reply_with(failure(row.code, "no")), ActionKind::reply);
    EXPECT_EQ(back(), row.back);
    EXPECT_EQ(world->exchange->facts().values_sent, row.is_first ? 20000 : 20002);
    const std::string assigned = row.is_first ? "assigned=20000" : "assigned=20002";
    EXPECT_EQ(world->counts(),
              assigned + (row.code == 13 && row.is_first ? " not_permitted=1" : ""));
  }
}

TEST_F(Ends, ItsTimeIsOver) {
  start(Write::insert);
  world->clock.advance(50ms);
  EXPECT_EQ(reply_with(stored(Write::insert, kFirstPart)), ActionKind::reply);
  EXPECT_EQ(back(), "20001-20002");
  EXPECT_EQ(world->counts(), "assigned=20000");
}

TEST_F(Ends, AConnectionIsLost) {
  start(Write::insert);
  world->exchange.reset();
  EXPECT_EQ(back(), "20001-20002");
  start(Write::insert);
  send_second();
  world->exchange->release(world->workspace);
  EXPECT_EQ(back(), "");
}

TEST_F(Ends, AReplyMakesNoSense) {
  start(Write::insert);
  EXPECT_EQ(reply_with(ok()), ActionKind::close);
  EXPECT_EQ(back(), "20001-20002");
}

TEST_F(Ends, EachStatementHasAFateOfItsOwn) {
  for (const Write write : {Write::insert, Write::upsert}) {
    start(write);
    send_second({write_error(0, 121), write_error(1, 91), write_error(2, 11000)});
    EXPECT_EQ(back(), "");  // before the end it may be sent again
    EXPECT_EQ(reply_with(stored(write, 2, {write_error(0, 50), write_error(1, 2)})),
              ActionKind::reply);
    EXPECT_EQ(back(), "1 20002");
  }
}

/// All that was sent counts as stored once the server has skipped a statement.
TEST_F(Ends, ADriverHasRepeatedTheWrite) {
  start(Write::insert, kTxnNumber + kTime);
  world->clock.advance(50ms);
  EXPECT_EQ(reply_with(stored(Write::insert, kFirstPart, {write_error(0, 121)}) +
                       numbers_field("retriedStmtIds", {1})),
            ActionKind::reply);
  EXPECT_EQ(back(), "20001-20002");
}

}  // namespace exchange_ends_test
}  // namespace idproxy::rewrite
