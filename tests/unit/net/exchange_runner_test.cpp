#include "net/exchange_runner.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/exchange_script.hpp"
#include "support/lending_strategy.hpp"
#include "support/request.hpp"

namespace idproxy::net {
namespace exchange_runner_test {

using namespace test;
using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

constexpr std::size_t kNever = static_cast<std::size_t>(-1);
constexpr rewrite::ServerId kServer = 1;

/// Whom numbers return to that nobody takes, and who is told of those who wait no longer.
class NotedLender final : public ids::Lender, public ids::Queue {
 public:
  void take_back(const std::vector<ids::Range>& ranges) override {
    returned.insert(returned.end(), ranges.begin(), ranges.end());
  }
  void cancel(std::uint64_t ticket) override { cancelled.push_back(ticket); }

  std::vector<ids::Range> returned;
  std::vector<std::uint64_t> cancelled;
};

/// Notes what the runner does to it, and closes at one of these calls if the test says so.
class ScriptedConnection final : public ExchangeRunner::Connection {
 public:
  struct Started {
    std::chrono::nanoseconds delay;
    std::uint64_t question;
  };

  std::function<void()> close;
  std::function<void()> when_resumed = [] {};
  std::size_t close_at = kNever;  ///< the call
  bool takes_whole = true;
  bool answered_all = true;

  Texts calls;    ///< but for stop_timer()
  Texts sent;     ///< to the server
  Texts replied;  ///< to the client
  std::optional<Started> timer;
  std::uint64_t last_question = 0;
  std::uint64_t asked_for = 0;
  bool learns = false;
  std::shared_ptr<NotedLender> lender = std::make_shared<NotedLender>();

  void forwarded(const wire::MsgHeader& header, Bytes request) override {
    EXPECT_EQ(static_cast<std::size_t>(header.message_length), request.size());
    note("forwarded " + std::to_string(header.request_id));
  }
  void awaits(std::int32_t request_id) override {
    note(request_id == 7 ? "awaits the client's" : "awaits its own");
  }
  bool send(const wire::PatchedMessage& message, Bytes original) override {
    Buffer copy;
    message.copy(original, 0, copy);
    sent.push_back(text_of(copy.view()));
    note("sends");
    return takes_whole;
  }
  void send(Bytes message) override {
    sent.push_back(text_of(message));
    note("sends");
  }
  void reply(Bytes message) override {
    replied.push_back(text_of(message));
    note("replies");
  }
  [[nodiscard]] bool has_answered_all() const override { return answered_all; }
  void reject_reply() override { note("rejects"); }
  void start_timer(std::chrono::nanoseconds delay, std::uint64_t question) override {
    timer = Started{delay, question};
    last_question = question;
    note("starts a timer");
  }
  void stop_timer() override { timer.reset(); }
  [[nodiscard]] ids::Ticket ask(const rewrite::action::AskStore& need,
                                std::uint64_t question) override {
    asked_for = need.count;
    note("asks for " + std::to_string(need.count));
    return {lender, question};
  }
  void learn(const rewrite::HelloReply& /*said*/) override {
    learns = true;
    note("learns");
  }
  void resume_requests() override {
    note("resumes");
    if (calls.size() <= close_at) std::exchange(when_resumed, [] {})();
  }

 private:
  void note(std::string call) {
    calls.push_back(std::move(call));
    if (calls.size() == close_at + 1) close();
  }
};

using Rules = std::function<std::shared_ptr<const rewrite::RuleSet>()>;

/// A runner, and what is around it. Events of either side come in only while it is not closed;
/// others are on their way then, and come all the same.
class World {
 public:
  explicit World(const Rules& rules, std::size_t close_at = kNever,
                 std::size_t close_before_event = kNever)
      : thread(shared, rules()),
        runner(connection, thread, kServer, 1),
        close_before_(close_before_event) {
    connection.close = [this] { close(); };
    connection.close_at = close_at;
  }

  World& request(const std::string& bytes) {
    if (!event()) return *this;
    const Exact exact(bytes);
    begin(exact.view(), nullptr);
    return *this;
  }
  /// In the buffer that holds it and nothing else.
  World& request_in_its_buffer(const std::string& bytes) {
    Buffer buffer = thread.buffers.take(bytes.size());
    buffer.append(as_bytes(bytes));
    if (event()) begin(buffer.view(), &buffer);
    return *this;
  }
  /// The reply that it awaits, if it does.
  World& reply(const std::string& bytes) {
    if (!event()) return *this;
    EXPECT_TRUE(runner.awaits_reply());
    const Exact exact(bytes);
    runner.reply(exact.view());
    return *this;
  }
  World& reply_with(const std::string& fields, std::uint32_t flags = 0) {
    return reply(reply_message(fields, last_id(), flags));
  }
  World& taken() { return event(), runner.request_written(), *this; }
  World& after(std::chrono::nanoseconds time) { return clock.advance(time), *this; }
  World& elapses() { return elapses(connection.last_question); }
  World& elapses(std::uint64_t question) { return event(), runner.elapsed(question), *this; }
  World& granted(std::int64_t first) { return granted(first, connection.last_question); }
  World& granted(std::int64_t first, std::uint64_t question) {
    event();
    runner.answered(question, ids::Grant(connection.lender, {{first, connection.asked_for}}));
    return *this;
  }
  World& refused(ids::Errc code) {
    event();
    runner.answered(connection.last_question, ids::Error{code, "the reason"});
    return *this;
  }
  World& learned() {
    event();
    if (connection.learns) runner.learned();
    return *this;
  }
  /// All that was asked before has been answered.
  World& all_answered() {
    event();
    connection.answered_all = true;
    runner.deliver_local_reply();
    return *this;
  }

  void close() {
    if (std::exchange(closed, true)) return;
    runner.close();
  }
  [[nodiscard]] const Texts& calls() const { return connection.calls; }
  [[nodiscard]] std::uint64_t count(Counted kind) { return thread.cells[kind].value(); }
  /// Of the message that was sent last.
  [[nodiscard]] std::int32_t last_id() const {
    return connection.sent.empty() ? 7
                                   : wire::read_header(as_bytes(connection.sent.back())).request_id;
  }

  FakeClock clock;
  Shared shared{Options{}, clock};
  IoThread thread;
  ScriptedConnection connection;
  ExchangeRunner runner;
  bool closed = false;
  std::size_t events = 0;

 private:
  void begin(Bytes message, Buffer* owner) {
    auto request = request_in(message, thread.namespaces, thread.context.x509);
    ASSERT_TRUE(request.has_value());
    runner.begin(std::move(*request), message, owner, shared.budget.take(message.size()));
  }
  /// False if what happens on the connection is not seen any more.
  bool event() {
    if (events++ == close_before_) close();
    return !closed;
  }

  std::size_t close_before_;
};

const Rules kOnlyId = [] { return rule_set_of(rule("shop.*", "_id")); };
const Rules kNoValues = [] {
  return rule_set_of(rule("shop.*", "_id", rewrite::Assign::missing, 0));
};
const Rules kPauses = [] {
  return rule_set_of(with({.backoff = 10ms, .backoff_max = 10ms}, rule("shop.*", "_id")));
};
/// All values have to be asked for.
const Rules kAsks = [] {
  rewrite::Rule asks = rule("shop.*", "_id");
  asks.strategy = std::make_unique<LendingStrategy>(std::make_shared<Lending>());
  return rule_set_of(std::move(asks));
};

const std::string kInsert = insert_sequence({nth(0), nth(1)});
const std::string kUnacknowledged = insert_sequence({nth(0)}, wire::flag::kMoreToCome);
const std::string kNothingToAssign = insert_sequence({nth(0, 41)});
const std::string kDuplicate = n(1) + write_errors({duplicate(1)}) + ok();

std::string hello(std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field("hello", 1) + string_field("$db", "admin"))), flags);
}

// ---- the request -------------------------------------------------------------------------------

TEST(ExchangeRunner, RelaysARequestThatNeedsNoValue) {
  World world(kOnlyId);
  world.request(kNothingToAssign);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends"}));
  EXPECT_EQ(world.connection.sent, Texts{kNothingToAssign});
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.count(Counted::requests_relayed), 1U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

TEST(ExchangeRunner, SendsARequestWithValuesAndRelaysItsReply) {
  World world(kOnlyId);
  world.request(kInsert);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends"}));
  EXPECT_EQ(world.connection.sent, Texts{insert_sequence({nth(0, 1), nth(1, 2)})});
  EXPECT_TRUE(world.runner.is_busy());
  EXPECT_TRUE(world.runner.awaits_reply());
  EXPECT_EQ(world.shared.budget.used(), kInsert.size());
  world.taken();
  EXPECT_TRUE(world.runner.is_busy()) << "until its reply comes";

  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "replies", "resumes"}));
  EXPECT_EQ(world.connection.replied, Texts{reply_message(n(2) + ok())});
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_FALSE(world.runner.awaits_reply());
  EXPECT_EQ(world.count(Counted::requests_insert), 1U);
  EXPECT_EQ(world.count(Counted::requests_relayed), 0U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

TEST(ExchangeRunner, IsOverWithAnUnacknowledgedRequestOnceItIsTaken) {
  World world(kOnlyId);
  world.request(kUnacknowledged);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends"}));
  EXPECT_FALSE(world.runner.is_busy());

  World slow(kOnlyId);
  slow.connection.takes_whole = false;
  slow.request(kUnacknowledged);
  EXPECT_TRUE(slow.runner.is_busy()) << "it is sent from";
  EXPECT_FALSE(slow.runner.awaits_reply());
  slow.taken();
  EXPECT_FALSE(slow.runner.is_busy());
  EXPECT_EQ(slow.calls(), (Texts{"forwarded 7", "sends"}));
  EXPECT_EQ(slow.shared.budget.used(), 0U);
}

TEST(ExchangeRunner, GivesTheBufferOfARequestToTheThread) {
  World world(kAsks);
  world.request_in_its_buffer(kInsert).granted(41).reply_with(n(2) + ok());
  EXPECT_EQ(world.connection.sent, Texts{insert_sequence({nth(0, 41), nth(1, 42)})});
  EXPECT_EQ(world.thread.buffers.spare(), 1024U);
}

TEST(ExchangeRunner, GivesTheMemoryOfAMessageBackOnceItIsTaken) {
  World world(kOnlyId);
  world.request(kInsert);
  EXPECT_GT(world.thread.workspace.take_message().capacity(), 0U);
  EXPECT_TRUE(world.runner.awaits_reply());

  World slow(kOnlyId);
  slow.connection.takes_whole = false;
  slow.request(kInsert);
  EXPECT_EQ(slow.thread.workspace.take_message().capacity(), 0U) << "it is sent from";
  slow.taken();
  EXPECT_GT(slow.thread.workspace.take_message().capacity(), 0U);
  slow.reply_with(n(0) + write_errors({duplicate(0)}) + ok());
  EXPECT_EQ(slow.connection.sent.back(),
            addressed(insert_sequence({nth(0, 3), nth(1, 2)}), slow.last_id(), 0));
}

/// Each write that waits for its reply holds its message, in a buffer that fits.
TEST(ExchangeRunner, HoldsSmallMessagesInLittleMemory) {
  World world(kOnlyId);
  Buffer large;
  large.reserve(1'000'000);
  world.thread.buffers.give_back(std::move(large));
  world.request(kInsert);
  EXPECT_EQ(world.thread.buffers.spare(), 1'000'000U);
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.thread.buffers.spare(), 1'000'000U + 1024);
}

TEST(ExchangeRunner, BeginsTheNextRequestWhenItResumes) {
  World world(kOnlyId);
  world.connection.when_resumed = [&world] { world.request(kInsert); };
  world.request(kInsert).reply_with(n(2) + ok());
  EXPECT_TRUE(world.runner.awaits_reply());
  EXPECT_EQ(world.connection.sent.back(), insert_sequence({nth(0, 3), nth(1, 4)}));
  world.reply_with(n(2) + ok());
  EXPECT_FALSE(world.runner.is_busy());
}

/// But not the server's time, nor that of relaying its reply.
TEST(ExchangeRunner, MeasuresTheTimeOfTheStoreAndOfPauses) {
  const auto added = [](World& world) { return world.thread.cells.insert_added.values(); };
  World asks(kAsks);
  asks.request(kInsert).after(20ms).granted(41).after(1s);
  EXPECT_EQ(added(asks).sum_seconds, 0);
  asks.reply_with(n(2) + ok());
  EXPECT_NEAR(added(asks).sum_seconds, 0.02, 1e-9);

  World pauses(kPauses);
  pauses.request(kInsert).after(1s).reply_with(kDuplicate).after(10ms).elapses().after(1s);
  pauses.reply_with(n(1) + ok());
  EXPECT_EQ(addressed(pauses.connection.replied[0], 7, 7), reply_message(n(2) + ok()));
  EXPECT_NEAR(added(pauses).sum_seconds, 0.01, 1e-9);

  World relays(kOnlyId);
  relays.request(kNothingToAssign);
  const auto& counts = added(relays).counts;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 0U);
}

// ---- local replies -----------------------------------------------------------------------------

TEST(ExchangeRunner, AnswersARequestThatGetsNoValues) {
  World world(kNoValues);
  world.request(kInsert);
  EXPECT_EQ(world.calls(), Texts{"replies"});
  EXPECT_NE(world.connection.replied[0].find(int_field("code", 96)), std::string::npos);
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
  EXPECT_EQ(world.count(Counted::requests_insert), 0U);
}

TEST(ExchangeRunner, SaysNothingToARequestThatNobodyWaitsFor) {
  World world(kNoValues);
  world.request(kUnacknowledged);
  EXPECT_EQ(world.calls(), Texts{});
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
}

TEST(ExchangeRunner, AnswersInItsTurn) {
  World world(kNoValues);
  world.connection.answered_all = false;
  world.request(kInsert);
  world.runner.deliver_local_reply();
  EXPECT_EQ(world.calls(), Texts{});
  EXPECT_TRUE(world.runner.has_local_reply());
  EXPECT_TRUE(world.runner.is_busy()) << "no later request is read";
  EXPECT_EQ(world.shared.budget.used(), 0U);
  world.all_answered().all_answered();
  EXPECT_EQ(world.calls(), Texts{"replies"});
  EXPECT_FALSE(world.runner.is_busy());
}

TEST(ExchangeRunner, SendsAReplyOfTheConnectionsInItsTurn) {
  const auto refusal = [] {
    Buffer buffer;
    buffer.append(as_bytes("refusal"));
    return buffer;
  };
  World world(kOnlyId);
  world.runner.reply_locally(refusal());
  EXPECT_EQ(world.connection.replied, Texts{"refusal"});
  world.connection.answered_all = false;
  world.runner.reply_locally(refusal());
  EXPECT_TRUE(world.runner.is_busy());
  EXPECT_EQ(world.connection.replied.size(), 1U);
  world.all_answered();
  EXPECT_EQ(world.connection.replied.size(), 2U);
}

// ---- values for applications -------------------------------------------------------------------

const std::string kMayInsert = n(0) + write_errors({write_error(0, 53)}) + ok();

std::string next(std::int32_t count) {
  return op_msg(body(doc(string_field("idproxy", "next") + string_field("ns", "shop.orders") +
                         string_field("field", "_id") + int_field("count", count) +
                         string_field("$db", "admin"))));
}

TEST(ExchangeRunner, AsksTheServerOnceWhetherAClientMayHaveValues) {
  World world(kOnlyId);
  world.request(next(1)).reply_with(kMayInsert);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "replies", "resumes"}));
  world.request(next(1));
  EXPECT_EQ(world.calls().back(), "replies") << "without the server";
  EXPECT_EQ(world.connection.sent.size(), 1U);
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.count(Counted::requests_next), 2U);
  EXPECT_EQ(world.count(Counted::requests_refused), 0U);

  world.runner.forget_rights();
  world.request(next(1));
  EXPECT_EQ(world.connection.sent.size(), 2U);
  EXPECT_TRUE(world.runner.awaits_reply());
}

TEST(ExchangeRunner, AsksTheStoreForValuesBeforeOrAfterTheServer) {
  World world(kAsks);
  world.request(next(2)).reply_with(kMayInsert);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "starts a timer", "asks for 2"}));
  EXPECT_TRUE(world.runner.awaits_reply()) << "no other message may come from the server";
  world.granted(41);
  EXPECT_EQ(world.calls(),
            (Texts{"forwarded 7", "sends", "starts a timer", "asks for 2", "replies", "resumes"}));
  world.request(next(2)).refused(ids::Errc::unavailable);
  EXPECT_EQ(world.calls().size(), 10U);
  EXPECT_EQ(world.calls().back(), "resumes");
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.count(Counted::requests_next), 2U);
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
}

TEST(ExchangeRunner, CountsALargeAnswerThatWaitsForItsTurn) {
  World world(kOnlyId);
  world.request(next(1)).reply_with(kMayInsert);
  world.connection.answered_all = false;
  world.request(next(10'000));
  EXPECT_GT(world.shared.budget.used(), 100'000U);
  world.all_answered();
  EXPECT_EQ(world.connection.replied.size(), 2U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

// ---- duplicates --------------------------------------------------------------------------------

TEST(ExchangeRunner, SendsDuplicatesAgainAndRepliesOnce) {
  World world(kOnlyId);
  world.request(kInsert).reply_with(kDuplicate);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "awaits its own", "sends"}));
  EXPECT_EQ(addressed(world.connection.sent[1], 7, 0), insert_sequence({nth(1, 3)}));
  EXPECT_TRUE(world.runner.awaits_reply());
  world.reply_with(n(1) + ok());
  ASSERT_EQ(world.connection.replied.size(), 1U);
  EXPECT_EQ(addressed(world.connection.replied[0], 7, 7), reply_message(n(2) + ok()));
  EXPECT_EQ(world.calls().back(), "resumes");
  EXPECT_FALSE(world.runner.is_busy());
}

TEST(ExchangeRunner, PausesBeforeItSendsAgain) {
  World world(kPauses);
  world.request(kInsert).reply_with(kDuplicate);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "starts a timer"}));
  ASSERT_TRUE(world.connection.timer);
  EXPECT_EQ(world.connection.timer->question, 0U);
  EXPECT_GE(world.connection.timer->delay, 5ms);
  EXPECT_LE(world.connection.timer->delay, 10ms);
  EXPECT_FALSE(world.runner.delays_unacknowledged()) << "somebody waits for the answer";

  world.taken().elapses(5);
  EXPECT_EQ(world.connection.sent.size(), 1U) << "nothing of this ends the pause";
  world.elapses(0);
  EXPECT_EQ(world.connection.sent.size(), 2U);
  EXPECT_EQ(world.connection.timer, std::nullopt);
  world.elapses(0);
  EXPECT_EQ(world.connection.sent.size(), 2U) << "it has ended";
  world.reply_with(n(1) + ok());
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "starts a timer", "awaits its own",
                                  "sends", "replies", "resumes"}));
}

TEST(ExchangeRunner, PassesOnADuplicateThatItGivesUp) {
  const Rules once = [] { return rule_set_of(with({.attempts = 1}, rule("shop.*", "_id"))); };
  World world(once);
  world.request(kInsert).reply_with(kDuplicate);
  world.reply_with(n(0) + write_errors({duplicate(0)}) + ok());
  ASSERT_EQ(world.connection.replied.size(), 1U);
  EXPECT_EQ(addressed(world.connection.replied[0], 7, 7), reply_message(kDuplicate));
  EXPECT_FALSE(world.runner.is_busy());
}

// ---- the store ---------------------------------------------------------------------------------

TEST(ExchangeRunner, AsksTheStoreBeforeAnythingIsSent) {
  World world(kAsks);
  world.request(kInsert);
  EXPECT_EQ(world.calls(), (Texts{"starts a timer", "asks for 2"}));
  ASSERT_TRUE(world.connection.timer);
  EXPECT_EQ(world.connection.timer->delay, ids::StoreBacked::kPatience);
  EXPECT_TRUE(world.runner.is_busy());
  EXPECT_FALSE(world.runner.awaits_reply());
  EXPECT_FALSE(world.runner.delays_unacknowledged());

  world.granted(41);
  EXPECT_EQ(world.calls(),
            (Texts{"starts a timer", "asks for 2", "forwarded 7", "sends", "resumes"}));
  EXPECT_EQ(world.connection.sent, Texts{insert_sequence({nth(0, 41), nth(1, 42)})});
  EXPECT_EQ(world.connection.timer, std::nullopt);
  EXPECT_EQ(world.count(Counted::requests_insert), 1U);
  world.reply_with(n(2) + ok());
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.connection.lender->returned, std::vector<ids::Range>{});
}

TEST(ExchangeRunner, AnswersIfTheStoreHasNoNumbers) {
  World world(kAsks);
  world.request(kInsert).refused(ids::Errc::exhausted);
  EXPECT_EQ(world.calls(), (Texts{"starts a timer", "asks for 2", "replies", "resumes"}));
  EXPECT_NE(world.connection.replied[0].find(int_field("code", 96)), std::string::npos);
  EXPECT_EQ(world.connection.timer, std::nullopt);
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
}

TEST(ExchangeRunner, AnswersIfTheStoreIsTooLate) {
  World world(kAsks);
  world.request(kInsert).elapses();
  EXPECT_EQ(world.calls(), (Texts{"starts a timer", "asks for 2", "replies", "resumes"}));
  EXPECT_NE(world.connection.replied[0].find("the id store has not answered in time"),
            std::string::npos);
  EXPECT_EQ(world.connection.lender->cancelled, std::vector<std::uint64_t>{1});
  EXPECT_FALSE(world.runner.is_busy());

  world.granted(41);
  EXPECT_EQ(world.connection.lender->returned, (std::vector<ids::Range>{{41, 2}}));
  EXPECT_EQ(world.connection.sent, Texts{});
}

TEST(ExchangeRunner, TakesNoAnswerToAnEarlierQuestion) {
  World world(kAsks);
  world.request(kInsert).elapses().request(kInsert);
  EXPECT_EQ(world.connection.last_question, 2U);
  world.granted(41, 1).elapses(1).elapses(0);
  EXPECT_EQ(world.connection.lender->returned, (std::vector<ids::Range>{{41, 2}}));
  EXPECT_EQ(world.connection.sent, Texts{});
  world.granted(51).granted(61);
  EXPECT_EQ(world.connection.sent, Texts{insert_sequence({nth(0, 51), nth(1, 52)})});
  EXPECT_EQ(world.connection.lender->returned, (std::vector<ids::Range>{{41, 2}, {61, 2}}));
}

TEST(ExchangeRunner, AsksTheStoreForFreshNumbersOfDuplicates) {
  World world(kAsks);
  world.request(kInsert).granted(41).reply_with(kDuplicate);
  EXPECT_EQ(world.calls().back(), "asks for 1");
  world.granted(51);
  EXPECT_EQ(world.calls().back(), "sends") << "nothing resumes: its reply is still to come";
  EXPECT_EQ(addressed(world.connection.sent.back(), 7, 0), insert_sequence({nth(1, 51)}));
  world.reply_with(n(1) + ok());
  EXPECT_EQ(world.connection.replied.size(), 1U);
  EXPECT_FALSE(world.runner.is_busy());
}

TEST(ExchangeRunner, DelaysAnUnacknowledgedRequestForTheStore) {
  World world(kAsks);
  world.request(kUnacknowledged);
  EXPECT_TRUE(world.runner.delays_unacknowledged());
  world.taken();
  EXPECT_TRUE(world.runner.is_busy()) << "what the server has taken is an earlier one";
  world.granted(41);
  EXPECT_FALSE(world.runner.delays_unacknowledged());
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_EQ(world.calls(),
            (Texts{"starts a timer", "asks for 1", "forwarded 7", "sends", "resumes"}));
}

// ---- hello -------------------------------------------------------------------------------------

/// Of the only member of a set, with its listener.
const std::string kSaid = texts_field("hosts", {"db1:27017"}) + string_field("setName", "rs0") +
                          string_field("me", "db1:27017") + ok();
const std::string kMapped = texts_field("hosts", {"here:27117"}) + string_field("setName", "rs0") +
                            string_field("me", "here:27117") + ok();

void publish(World& world, bool has_said) {
  rewrite::ServerDescription server;
  server.id = kServer;
  server.name = "db1:27017";
  server.listener = "here:27117";
  if (has_said) {
    server.said = *rewrite::read_hello_reply(as_bytes(reply_message(kSaid)));
    server.set_name = "rs0";
    server.known_as = "db1:27017";
  }
  world.shared.directory.publish(
      std::make_shared<const rewrite::Members>(std::vector{std::move(server)}), {});
}

TEST(ExchangeRunner, AwaitsAHellosReply) {
  World world(kOnlyId);
  publish(world, true);
  world.request(hello());
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends"}));
  EXPECT_EQ(world.runner.waiting_hello(), 7);
  EXPECT_EQ(world.shared.budget.used(), 0U) << "it may last";
  EXPECT_EQ(world.count(Counted::requests_hello), 1U);
  EXPECT_EQ(world.count(Counted::requests_relayed), 0U);
  world.reply_with(kSaid);
  EXPECT_EQ(world.connection.replied, Texts{reply_message(kMapped)});
  EXPECT_EQ(world.calls().back(), "resumes");
  EXPECT_EQ(world.runner.waiting_hello(), std::nullopt);
}

TEST(ExchangeRunner, LearnsWhatAServerSaysBeforeItReplies) {
  World world(kOnlyId);
  publish(world, false);
  world.request(hello()).reply_with(kSaid);
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "learns"}));
  EXPECT_TRUE(world.runner.learning());
  EXPECT_TRUE(world.runner.is_busy());
  EXPECT_EQ(world.runner.waiting_hello(), std::nullopt) << "its reply has come";
  publish(world, true);
  world.learned();
  EXPECT_FALSE(world.runner.learning());
  EXPECT_EQ(world.connection.replied, Texts{reply_message(kMapped)});
  EXPECT_EQ(world.calls().back(), "resumes");
}

TEST(ExchangeRunner, AwaitsEachReplyOfAStream) {
  World world(kOnlyId);
  publish(world, true);
  world.request(hello(wire::flag::kExhaustAllowed));
  const auto streamed = [](std::int32_t id, std::int32_t response_to, std::uint32_t flags) {
    return addressed(reply_message(kSaid, 0, flags), id, response_to);
  };
  world.reply(streamed(50, 7, wire::flag::kMoreToCome));
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "replies", "awaits its own"}));
  EXPECT_EQ(world.runner.waiting_hello(), 50);
  world.reply(streamed(51, 50, wire::flag::kMoreToCome));
  EXPECT_EQ(world.runner.waiting_hello(), 51);
  world.reply(streamed(52, 51, 0));
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "replies", "awaits its own", "replies",
                                  "awaits its own", "replies", "resumes"}));
  EXPECT_FALSE(world.runner.is_busy());
}

TEST(ExchangeRunner, CallsNoLegacyHelloAWaitingOne) {
  World world(kOnlyId);
  world.request(op_query("admin.$cmd", doc(int_field("isMaster", 1))));
  EXPECT_TRUE(world.runner.awaits_reply());
  EXPECT_EQ(world.runner.waiting_hello(), std::nullopt) << "its reply has another form";
}

TEST(ExchangeRunner, CallsAnInsertNoHello) {
  World world(kOnlyId);
  world.request(kInsert);
  EXPECT_EQ(world.runner.waiting_hello(), std::nullopt);
}

// ---- the end -----------------------------------------------------------------------------------

TEST(ExchangeRunner, AbandonsAHello) {
  World world(kOnlyId);
  world.request(hello());
  world.runner.abandon();
  EXPECT_FALSE(world.runner.is_busy());
  EXPECT_FALSE(world.runner.awaits_reply());
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends"}));
}

TEST(ExchangeRunner, RejectsAnImpossibleReply) {
  World world(kOnlyId);
  world.request(kInsert).reply(op_reply(doc(ok()), 7));
  EXPECT_EQ(world.calls(), (Texts{"forwarded 7", "sends", "rejects"}));
  EXPECT_EQ(world.connection.replied, Texts{});
}

TEST(ExchangeRunner, CountsALargeReplyOnceWhileItIsCollected) {
  World world(kOnlyId);
  world.runner.collects_reply(100'000);
  EXPECT_EQ(world.shared.budget.used(), 0U) << "no exchange runs";
  world.request(kInsert);
  world.runner.collects_reply(100'000);
  world.runner.collects_reply(100'000);
  EXPECT_EQ(world.shared.budget.used(), kInsert.size() + 100'000);
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

TEST(ExchangeRunner, GivesEverythingBackWhenItIsClosed) {
  World world(kAsks);
  world.request(kInsert);
  world.close();
  EXPECT_EQ(world.connection.timer, std::nullopt);
  EXPECT_EQ(world.connection.lender->cancelled, std::vector<std::uint64_t>{1});
  EXPECT_EQ(world.shared.budget.used(), 0U);
  world.granted(41);
  EXPECT_EQ(world.connection.lender->returned, (std::vector<ids::Range>{{41, 2}}));
}

struct Script {
  const char* name;
  Rules rules;
  std::function<void(World&)> play;
};
const Script kScripts[] = {
    {"relayed", kOnlyId, [](World& world) { world.request(kNothingToAssign); }},
    {"sent", kOnlyId, [](World& world) { world.request(kInsert).reply_with(n(2) + ok()); }},
    {"unacknowledged", kOnlyId,
     [](World& world) {
       world.connection.takes_whole = false;
       world.request(kUnacknowledged).taken();
     }},
    {"answered here", kNoValues,
     [](World& world) {
       world.connection.answered_all = false;
       world.request(kInsert).all_answered();
     }},
    {"sent again", kOnlyId,
     [](World& world) { world.request(kInsert).reply_with(kDuplicate).reply_with(n(1) + ok()); }},
    {"sent again after a pause", kPauses,
     [](World& world) {
       world.request(kInsert).reply_with(kDuplicate).elapses().reply_with(n(1) + ok());
     }},
    {"asked for", kAsks,
     [](World& world) {
       world.request(kInsert).granted(41).reply_with(kDuplicate);
       world.granted(51).reply_with(n(1) + ok());
     }},
    {"asked for in vain", kAsks,
     [](World& world) { world.request(kInsert).refused(ids::Errc::unavailable); }},
    {"asked for too long", kAsks,
     [](World& world) { world.request(kInsert).elapses().granted(41); }},
    {"learned", kOnlyId,
     [](World& world) {
       publish(world, false);
       world.request(hello()).reply_with(kSaid).learned();
     }},
    {"streamed", kOnlyId,
     [](World& world) {
       publish(world, true);
       world.request(hello(wire::flag::kExhaustAllowed));
       world.reply(reply_message(kSaid, 7, wire::flag::kMoreToCome)).reply(reply_message(kSaid));
     }},
    {"impossible", kOnlyId,
     [](World& world) { world.request(kInsert).reply(op_reply(doc(ok()), 7)); }},
};

void expect_nothing_left(World& world) {
  EXPECT_EQ(world.connection.timer, std::nullopt);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

bool may_close(const std::string& call) {
  return call == "sends" || call == "replies" || call == "rejects" || call == "resumes";
}

TEST(ExchangeRunner, DoesNothingMoreOnceACallHasClosedIt) {
  for (const Script& script : kScripts) {
    World whole(script.rules);
    script.play(whole);
    const Texts& all = whole.calls();
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (!may_close(all[at])) continue;
      SCOPED_TRACE(script.name + (", closed when it " + all[at]) + ", call " + std::to_string(at));
      World world(script.rules, at);
      script.play(world);
      EXPECT_EQ(world.calls(),
                Texts(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at) + 1));
      expect_nothing_left(world);
    }
  }
}

TEST(ExchangeRunner, DoesNothingMoreOnceItIsClosedBetweenEvents) {
  for (const Script& script : kScripts) {
    World whole(script.rules);
    script.play(whole);
    for (std::size_t at = 0; at < whole.events; ++at) {
      SCOPED_TRACE(script.name + (", closed before event " + std::to_string(at)));
      World world(script.rules, kNever, at);
      script.play(world);
      Texts until = whole.calls();
      ASSERT_LE(world.calls().size(), until.size());
      until.resize(world.calls().size());
      EXPECT_EQ(world.calls(), until);
      expect_nothing_left(world);
      const Texts before = world.calls();
      world.taken().elapses().elapses(0).granted(91).learned().all_answered();
      EXPECT_EQ(world.calls(), before);
    }
  }
}

}  // namespace exchange_runner_test
}  // namespace idproxy::net
