#include "net/connection_pair.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/exchange_script.hpp"

namespace idproxy::net {
namespace connection_pair_test {

using namespace test;
using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

constexpr std::size_t kNever = static_cast<std::size_t>(-1);
/// Of a pause: longer than a test takes, shorter than any limit of a connection.
constexpr std::chrono::seconds kLong = 20s;
constexpr rewrite::ServerId kServer = 1;

/// The id store that the test plays.
struct Store final : ids::Lender, ids::Queue {
  void take_back(const std::vector<ids::Range>& ranges) override {
    returned.insert(returned.end(), ranges.begin(), ranges.end());
  }
  void cancel(std::uint64_t ticket) override { cancelled.push_back(ticket); }

  std::chrono::nanoseconds patience = 1h;
  std::vector<std::uint64_t> asked;                   ///< for how many values
  std::vector<std::unique_ptr<ids::Waiter>> waiters;  ///< of these questions
  std::vector<ids::Range> returned;                   ///< that nobody took
  std::vector<std::uint64_t> cancelled;
};

/// Has to ask the store for each value.
class AskingSource final : public ids::Source {
 public:
  explicit AskingSource(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  ids::Draw next(std::size_t /*n*/, ids::Values& /*out*/) override { return ids::Draw::need(); }
  ids::Ticket ask(std::size_t n, std::unique_ptr<ids::Waiter> waiter) override {
    store_->asked.push_back(n);
    store_->waiters.push_back(std::move(waiter));
    return {store_, store_->asked.size()};
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override { return store_->patience; }
  void accept(ids::Grant grant, ids::Values& out) override {
    for (const ids::Range& range : grant.take()) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        store_i64(out.add(bson::Type::int64, 8), range.first + static_cast<std::int64_t>(i));
      }
    }
  }
  [[nodiscard]] bool lends() const override { return true; }

 private:
  std::shared_ptr<Store> store_;
};

/// The topology that the test plays.
struct Observer final : ServerObserver {
  void learn(rewrite::ServerId /*server*/, rewrite::HelloReply /*said*/,
             std::function<void()> then) override {
    learned = std::move(then);
  }
  void lost(Upstream& /*server*/) override { ++losses; }
  void forget(const Upstream& /*server*/) override {}
  void is_ours(const Upstream& /*server*/) override {}

  std::function<void()> learned;
  int losses = 0;
};

using Rules = std::function<std::shared_ptr<const rewrite::RuleSet>(std::shared_ptr<Store>)>;

/// Whether the client leaves before an event, or so that both come in the same turn of the loop.
enum class Leaves { before, with };
/// The client closes its connection, or ends its direction and goes on reading.
enum class How { closes, finishes };

/// A pair between a client and a server that the test plays, over sockets. The client may leave;
/// the events after that come all the same, as far as anybody is left to receive them.
class World {
 public:
  explicit World(const Rules& rules, std::size_t leave_at = kNever, Leaves when = Leaves::before,
                 How how = How::closes)
      : thread(shared, rules(store)), leave_at_(leave_at), when_(when), how_(how) {
    shared.observer = &observer;
    shared.open_connections = 1;
    static int worlds = 0;
    const std::string path = ::testing::TempDir() + "pair_" + std::to_string(::getpid()) + "_" +
                             std::to_string(++worlds) + ".sock";
    const FileDescriptor listening = listen_at(path);
    const auto upstream = std::make_shared<Upstream>(Route{{}, {{}, 0, path}});
    upstream->logins = rewrite::Logins::not_enforced;
    upstream->id = kServer;
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    client_ = FileDescriptor(fds[0]);
    ConnectionPair::start(thread, FileDescriptor(fds[1]), upstream);
    server_ = FileDescriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK));
    EXPECT_TRUE(server_.is_open());
    ::unlink(path.c_str());
    poll();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    for (const auto& pair : ConnectionPair::all_of(thread)) pair->close();
    thread.loop.poll();
  }

  World& request(const std::string& bytes) {
    return event([&] { write(client_, bytes); });
  }
  /// In two pieces, so that it is read into a buffer that holds it and nothing else.
  World& request_in_its_buffer(const std::string& bytes) {
    constexpr std::size_t kCommand = 1000;  // what comes before its documents is in the first
    write(client_, bytes.substr(0, kCommand));
    thread.loop.poll();
    return request(bytes.substr(kCommand));
  }
  World& reply(const std::string& bytes) {
    return event([&] { write(server_, bytes); });
  }
  World& reply_with(const std::string& fields, std::uint32_t flags = 0) {
    return reply(reply_message(fields, last_id(), flags));
  }
  /// The server reads what it has left in its socket.
  World& taken() {
    return event([&] { server_reads = true; });
  }
  World& after(std::chrono::nanoseconds time) { return clock.advance(time), *this; }
  /// The end of a pause, or of the patience with the store.
  World& elapses(std::chrono::nanoseconds time = kLong) {
    return event([&] { thread.loop.elapse(time); });
  }
  /// The answer to a question, counted from 1; 0: to the last.
  World& granted(std::int64_t first, std::size_t question = 0) {
    if (question == 0) question = store->asked.size();
    return answered(question,
                    [&] { return ids::Grant(store, {{first, store->asked[question - 1]}}); });
  }
  World& refused(ids::Errc code) {
    return answered(store->asked.size(), [&] { return ids::Error{code, "the reason"}; });
  }
  World& learned() {
    return event([&] {
      if (observer.learned) std::exchange(observer.learned, nullptr)();
    });
  }
  void leave() { how_ == How::closes ? client_.close() : finish(); }
  void finish() {
    ::shutdown(client_.get(), SHUT_WR);
    poll();
  }
  void drop_server() { server_.close(), poll(); }

  [[nodiscard]] bool closed() const { return thread.pairs.empty(); }
  /// True if the server has read the end of the requests.
  [[nodiscard]] bool server_told() const {
    char byte = 0;
    return ::recv(server_.get(), &byte, 1, MSG_PEEK) == 0;
  }
  [[nodiscard]] std::uint64_t count(Counted kind) { return thread.cells[kind].value(); }
  /// Of the message that was sent last.
  [[nodiscard]] std::int32_t last_id() const {
    return sent.empty() ? 7 : wire::read_header(as_bytes(sent.back())).request_id;
  }
  /// Handles all that is due.
  void poll() {
    do thread.loop.poll();
    while (collect(server_, server_reads, arrived_, sent, "sends") ||
           collect(client_, true, answered_, replied, "replies"));
  }

  FakeClock clock;
  Observer observer;
  std::shared_ptr<Store> store = std::make_shared<Store>();
  Shared shared{Options{}, clock};
  IoThread thread;
  bool server_reads = true;
  Texts calls;    ///< "sends" and "replies"
  Texts sent;     ///< to the server
  Texts replied;  ///< to the client
  std::size_t events = 0;
  bool unsaid = false;  ///< a request came after the client had left

 private:
  static FileDescriptor listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket.get(), 1), 0);
    return socket;
  }
  /// All of it; the other end reads if it is too much for the socket. Nothing if nobody is left.
  void write(const FileDescriptor& to, std::string_view bytes) {
    if (&to == &client_ && !to.is_open()) unsaid = true;
    while (!bytes.empty() && to.is_open()) {
      const ssize_t n = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) {
        if (&to == &client_) unsaid = true;
        return;
      }
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      if (!bytes.empty()) thread.loop.poll();
    }
  }
  World& event(const std::function<void()>& what) {
    const bool leaves = events++ == leave_at_;
    if (leaves && when_ == Leaves::before) leave(), poll();
    what();
    if (leaves) leave();
    poll();
    return *this;
  }
  template <class Answer>
  World& answered(std::size_t question, Answer answer) {
    return event([&] {
      if (question == 0 || question > store->waiters.size()) return;
      if (const auto waiter = std::move(store->waiters[question - 1])) waiter->answered(answer());
    });
  }
  /// Notes the whole messages that have arrived at an end. False if nothing has.
  bool collect(const FileDescriptor& end, bool reads, std::string& bytes, Texts& messages,
               const char* call) {
    if (!end.is_open() || !reads) return false;
    std::array<char, 65536> some;
    bool any = false;
    ssize_t n = 0;
    while ((n = ::read(end.get(), some.data(), some.size())) > 0) {
      bytes.append(some.data(), static_cast<std::size_t>(n));
      any = true;
    }
    while (bytes.size() >= wire::kHeaderSize) {
      const auto length = static_cast<std::size_t>(load_i32(as_bytes(bytes).data()));
      if (bytes.size() < length) break;
      messages.push_back(bytes.substr(0, length));
      calls.emplace_back(call);
      bytes.erase(0, length);
    }
    return any;
  }

  FileDescriptor client_;
  FileDescriptor server_;
  std::string arrived_;
  std::string answered_;
  const std::size_t leave_at_;
  const Leaves when_;
  const How how_;
};

const Rules kOnlyId = [](const auto&) { return rule_set_of(rule("shop.*", "_id")); };
const Rules kNoValues = [](const auto&) {
  return rule_set_of(rule("shop.*", "_id", rewrite::Assign::missing, 0));
};
const Rules kPauses = [](const auto&) {
  return rule_set_of(
      with({.backoff = kLong, .backoff_max = kLong, .deadline = 1h}, rule("shop.*", "_id")));
};
/// All values have to be asked for.
Rules asks_for(const char* field) {
  return [field](const std::shared_ptr<Store>& store) {
    rewrite::Rule asks = rule("shop.*", field);
    asks.strategy = shared_source<AskingSource>(store);
    return rule_set_of(std::move(asks));
  };
}
const Rules kAsks = asks_for("_id");
const Rules kAsksForAWhile = [](const std::shared_ptr<Store>& store) {
  store->patience = kLong;
  return kAsks(store);
};

const std::string kPing = op_msg(body(doc(int_field("ping", 1) + string_field("$db", "admin"))));
const std::string kPong = reply_message(ok());
const std::string kInsert = insert_sequence({nth(0), nth(1)});
const std::string kUnacknowledged = insert_sequence({nth(0)}, wire::flag::kMoreToCome);
/// More than a socket takes at once.
const std::string kLarge = insert_sequence({doc(string_field("text", std::string(4'000'000, 'x')))},
                                           wire::flag::kMoreToCome);
const std::string kNothingToAssign = insert_sequence({nth(0, 41)});
const std::string kDuplicate = n(1) + write_errors({duplicate(1)}) + ok();

std::string hello(std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field("hello", 1) + string_field("$db", "admin"))), flags);
}

/// A later request goes to the server only if nothing of an earlier one is under way.
void expect_busy(World& world) {
  const std::size_t before = world.sent.size();
  world.request(kPing);
  EXPECT_EQ(world.sent.size(), before);
}
void expect_idle(World& world) {
  world.request(kPing);
  ASSERT_FALSE(world.sent.empty());
  EXPECT_EQ(world.sent.back(), kPing);
}

// ---- what is measured --------------------------------------------------------------------------

ServerStatistics::Listener figures(World& world) {
  ServerStatistics::Listener listener;
  const ServerLoad& load = (*world.thread.pairs.begin()).second->upstream().loads.front();
  listener.requests = load.requests.value();
  listener.replies = load.replies.value();
  listener.bytes_sent = load.bytes_sent.value();
  listener.bytes_received = load.bytes_received.value();
  listener.in_flight = load.in_flight();
  listener.oldest = load.oldest();
  listener.reply_time = load.reply_time.values();
  return listener;
}

TEST(ConnectionPair, MeasuresHowLongTheServerTakes) {
  World world(kOnlyId);
  world.request(kPing);
  EXPECT_EQ(figures(world).in_flight, 1U);
  EXPECT_EQ(figures(world).oldest, world.clock.monotonic());
  world.after(2s).reply(kPong);
  EXPECT_EQ(figures(world).in_flight, 0U);
  EXPECT_EQ(figures(world).oldest, std::nullopt);
  EXPECT_EQ(figures(world).reply_time.sum_seconds, 2);

  world.request(kInsert).after(1s).reply_with(n(2) + ok());
  EXPECT_EQ(figures(world).reply_time.sum_seconds, 3);
  EXPECT_EQ(figures(world).requests, 2U);
  EXPECT_EQ(figures(world).replies, 2U);
  EXPECT_EQ(figures(world).bytes_sent, world.sent[0].size() + world.sent[1].size());
  EXPECT_EQ(figures(world).bytes_received, world.replied[0].size() + world.replied[1].size());

  world.request(kUnacknowledged);
  EXPECT_EQ(figures(world).requests, 3U);
  EXPECT_EQ(figures(world).in_flight, 0U);
}

TEST(ConnectionPair, DoesNotMeasureAHelloThatWaitsForNews) {
  World world(kOnlyId);
  world.request(hello(wire::flag::kExhaustAllowed));
  EXPECT_EQ(figures(world).in_flight, 0U);
  world.after(9s).reply_with(ok(), wire::flag::kMoreToCome);
  EXPECT_EQ(figures(world).reply_time.sum_seconds, 0);
  EXPECT_EQ(figures(world).in_flight, 0U) << "the stream goes on";
}

TEST(ConnectionPair, DescribesItsClient) {
  World world(kOnlyId);
  world
      .request(op_msg(
          body(doc(int_field("hello", 1) +
                   doc_field("client", doc_field("application", string_field("name", "shop"))) +
                   string_field("$db", "admin")))))
      .reply_with(ok())
      .learned()
      .request(kInsert)
      .after(3s);
  const ClientStatistics client = world.thread.pairs.begin()->second->describe();
  EXPECT_EQ(client.application, "shop");
  EXPECT_EQ(client.requests, 2U);
  EXPECT_EQ(client.values, 2U);
  EXPECT_EQ(client.waits, std::chrono::nanoseconds(3s));
  EXPECT_EQ(client.age, std::chrono::nanoseconds(3s));
  EXPECT_GT(client.bytes_received, kInsert.size());
  EXPECT_GT(client.bytes_sent, 0U);
}

TEST(ConnectionPair, CountsForItsApplication) {
  World world(kOnlyId);
  world.request(kInsert).after(3s);
  const auto& pair = world.thread.pairs.begin()->second;
  const auto now = world.clock.monotonic();
  ApplicationStatistics sum = pair->share(now);
  EXPECT_EQ(sum.connections, 1U);
  EXPECT_GT(sum.requests_per_second, 0);
  EXPECT_GT(sum.documents_per_second, sum.requests_per_second) << "two in one request";
  EXPECT_EQ(sum.waits, std::chrono::nanoseconds(3s));
  EXPECT_GT(sum.memory, 0U);

  sum.add({.connections = 2, .waits = 5s, .memory = 7});
  sum.add({.oldest_transaction = 1s});
  EXPECT_EQ(sum.connections, 3U);
  EXPECT_EQ(sum.waits, std::chrono::nanoseconds(5s));
  EXPECT_EQ(sum.oldest_transaction, std::chrono::nanoseconds(1s));

  pair->close();
  EXPECT_GT(world.thread.ended.by_application().at("").rates(now).requests, 0);
}

// ---- the request -------------------------------------------------------------------------------

TEST(ConnectionPair, RelaysARequestThatNeedsNoValue) {
  World world(kOnlyId);
  world.request(kNothingToAssign);
  EXPECT_EQ(world.sent, Texts{kNothingToAssign});
  EXPECT_EQ(world.count(Counted::requests_relayed), 1U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
  expect_idle(world);
}

TEST(ConnectionPair, SendsARequestWithValuesAndRelaysItsReply) {
  World world(kOnlyId);
  world.request(kInsert);
  EXPECT_EQ(world.sent, Texts{insert_sequence({nth(0, 1), nth(1, 2)})});
  EXPECT_EQ(world.shared.budget.used(), kInsert.size());
  expect_busy(world);

  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.replied, Texts{reply_message(n(2) + ok())});
  EXPECT_EQ(world.sent.back(), kPing) << "which has waited for the reply";
  EXPECT_EQ(world.count(Counted::requests_insert), 1U);
  EXPECT_EQ(world.count(Counted::requests_relayed), 1U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

TEST(ConnectionPair, IsOverWithAnUnacknowledgedRequestOnceItIsTaken) {
  World world(kOnlyId);
  world.request(kUnacknowledged);
  EXPECT_EQ(world.sent.size(), 1U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
  expect_idle(world);

  World slow(kOnlyId);
  slow.server_reads = false;
  slow.request(kLarge);
  EXPECT_EQ(slow.shared.budget.used(), kLarge.size()) << "it is sent from";
  slow.taken();
  ASSERT_EQ(slow.sent.size(), 1U);
  EXPECT_EQ(slow.shared.budget.used(), 0U);
  expect_idle(slow);
}

TEST(ConnectionPair, GivesTheBufferOfARequestToTheThread) {
  const std::string text = string_field("text", std::string(20'000, 'x'));
  World world(kAsks);
  world.request_in_its_buffer(insert_sequence({doc(text)})).granted(41).reply_with(n(1) + ok());
  EXPECT_EQ(world.sent, Texts{insert_sequence({doc(long_field("_id", 41) + text)})});
  EXPECT_EQ(world.thread.buffers.spare(), 32'768U) << "nothing was copied";
}

TEST(ConnectionPair, GivesTheMemoryOfAMessageBackOnceItIsTaken) {
  World world(kOnlyId);
  world.request(kInsert);
  EXPECT_GT(world.thread.workspace.take_message().capacity(), 0U);
  expect_busy(world);

  World slow(kOnlyId);
  slow.server_reads = false;
  slow.request(kLarge);
  EXPECT_EQ(slow.thread.workspace.take_message().capacity(), 0U) << "it is sent from";
  slow.taken();
  EXPECT_GT(slow.thread.workspace.take_message().capacity(), 0U);
}

/// Each write that waits for its reply holds its message, in a buffer that fits.
TEST(ConnectionPair, HoldsSmallMessagesInLittleMemory) {
  World world(kOnlyId);
  Buffer large;
  large.reserve(1'000'000);
  world.thread.buffers.give_back(std::move(large));
  world.request(kInsert);
  EXPECT_EQ(world.thread.buffers.spare(), 1'000'000U);
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.thread.buffers.spare(), 1'000'000U + 1024);
}

TEST(ConnectionPair, BeginsTheNextRequestWhenItResumes) {
  World world(kOnlyId);
  world.request(kInsert + kInsert);
  EXPECT_EQ(world.sent.size(), 1U);
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.sent.back(), insert_sequence({nth(0, 3), nth(1, 4)}));
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.replied.size(), 2U);
  expect_idle(world);
}

/// But not the server's time, nor that of relaying its reply.
TEST(ConnectionPair, MeasuresTheTimeOfTheStoreAndOfPauses) {
  const auto added = [](World& world) { return world.thread.cells.insert_added.values(); };
  World asks(kAsks);
  asks.request(kInsert).after(20ms).granted(41).after(1s);
  EXPECT_EQ(added(asks).sum_seconds, 0);
  asks.reply_with(n(2) + ok());
  EXPECT_NEAR(added(asks).sum_seconds, 0.02, 1e-9);

  World pauses(kPauses);
  pauses.request(kInsert).after(1s).reply_with(kDuplicate).after(10ms).elapses().after(1s);
  pauses.reply_with(n(1) + ok());
  EXPECT_EQ(addressed(pauses.replied[0], 7, 7), reply_message(n(2) + ok()));
  EXPECT_NEAR(added(pauses).sum_seconds, 0.01, 1e-9);

  World relays(kOnlyId);
  relays.request(kNothingToAssign);
  const auto& counts = added(relays).counts;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 0U);
}

// ---- local replies -----------------------------------------------------------------------------

TEST(ConnectionPair, AnswersARequestThatGetsNoValues) {
  World world(kNoValues);
  world.request(kInsert);
  EXPECT_EQ(world.calls, Texts{"replies"});
  EXPECT_NE(world.replied[0].find(int_field("code", 96)), std::string::npos);
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
  EXPECT_EQ(world.count(Counted::requests_insert), 0U);
  expect_idle(world);
}

TEST(ConnectionPair, SaysNothingToARequestThatNobodyWaitsFor) {
  World world(kNoValues);
  world.request(kUnacknowledged);
  EXPECT_EQ(world.calls, Texts{});
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
  expect_idle(world);
}

TEST(ConnectionPair, AnswersInItsTurn) {
  World world(kNoValues);
  world.request(kPing).request(kInsert);
  EXPECT_EQ(world.calls, Texts{"sends"});
  EXPECT_EQ(world.shared.budget.used(), 0U);
  expect_busy(world);
  world.reply(kPong);
  ASSERT_EQ(world.replied.size(), 2U);
  EXPECT_EQ(world.replied[0], kPong);
  EXPECT_EQ(world.sent.size(), 2U) << "a request after it goes on";
}

/// One that arrives while the thread is draining.
TEST(ConnectionPair, RefusesALateRequestInItsTurn) {
  World world(kOnlyId);
  world.request(kPing);
  world.thread.draining = true;
  ConnectionPair::all_of(world.thread).front()->drain();
  world.request(kPing);
  EXPECT_EQ(world.calls, Texts{"sends"});
  world.reply(kPong);
  ASSERT_EQ(world.replied.size(), 2U);
  EXPECT_EQ(world.replied[0], kPong);
  EXPECT_NE(world.replied[1].find(int_field("code", 91)), std::string::npos);
  EXPECT_TRUE(world.closed());
}

// ---- values for applications -------------------------------------------------------------------

const std::string kMayInsert = n(0) + write_errors({write_error(0, 53)}) + ok();

std::string next(std::int32_t count) {
  return op_msg(body(doc(string_field("idproxy", "next") + string_field("ns", "shop.orders") +
                         string_field("field", "_id") + int_field("count", count) +
                         string_field("$db", "admin"))));
}

TEST(ConnectionPair, AsksTheServerOnceWhetherAClientMayHaveValues) {
  World world(kOnlyId);
  world.request(next(1)).reply_with(kMayInsert);
  EXPECT_EQ(world.calls, (Texts{"sends", "replies"}));
  world.request(next(1));
  EXPECT_EQ(world.calls.back(), "replies") << "without the server";
  EXPECT_EQ(world.sent.size(), 1U);
  EXPECT_EQ(world.count(Counted::requests_next), 2U);
  EXPECT_EQ(world.count(Counted::requests_refused), 0U);

  world.request(op_msg(body(doc(int_field("logout", 1) + string_field("$db", "admin")))));
  EXPECT_EQ(world.sent.size(), 2U);
  world.reply(kPong).request(next(1));
  EXPECT_EQ(world.sent.size(), 3U) << "it may be another user";
  expect_busy(world);
}

TEST(ConnectionPair, AsksTheStoreForValuesBeforeOrAfterTheServer) {
  World world(kAsks);
  world.request(next(2)).reply_with(kMayInsert);
  EXPECT_EQ(world.calls, Texts{"sends"});
  EXPECT_EQ(world.store->asked, std::vector<std::uint64_t>{2});
  world.granted(41);
  EXPECT_EQ(world.calls, (Texts{"sends", "replies"}));
  world.request(next(2)).refused(ids::Errc::unavailable);
  EXPECT_EQ(world.calls, (Texts{"sends", "replies", "replies"}));
  EXPECT_EQ(world.count(Counted::requests_next), 2U);
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
  expect_idle(world);
}

TEST(ConnectionPair, CountsAnAssignOnceThatAsksTheStore) {
  World world(asks_for("number"));
  world.request(
      op_msg(body(doc(string_field("idproxy", "assign") + string_field("ns", "shop.orders") +
                      string_field("field", "number") + doc_field("filter", int_field("_id", 1)) +
                      string_field("$db", "admin")))));
  world.reply_with(doc_field("cursor", array_field("firstBatch", {doc("")})) + ok()).granted(41);
  EXPECT_EQ(world.calls, (Texts{"sends", "sends"}));
  world.reply_with(doc_field("value", long_field("number", 41)) + ok());
  EXPECT_EQ(world.calls, (Texts{"sends", "sends", "replies"}));
  EXPECT_EQ(world.count(Counted::requests_assign), 1U);
  EXPECT_EQ(world.count(Counted::requests_find_and_modify), 0U);
  expect_idle(world);
}

TEST(ConnectionPair, AcceptsNoMessageOfTheServerWhileItAsksTheStoreAfterIt) {
  World world(kAsks);
  world.request(next(2)).reply_with(kMayInsert).reply(kPong);
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.replied, Texts{});
}

TEST(ConnectionPair, BeginsNoExchangeBeforeEarlierRequestsAreAnswered) {
  World world(kOnlyId);
  world.request(next(1)).reply_with(kMayInsert);
  world.request(kPing).request(next(10'000)).request(kPing);
  EXPECT_EQ(world.replied.size(), 1U);
  world.reply(kPong);
  EXPECT_EQ(world.replied.size(), 3U);
  world.reply(kPong);
  EXPECT_EQ(world.replied.size(), 4U);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

// ---- duplicates --------------------------------------------------------------------------------

TEST(ConnectionPair, SendsDuplicatesAgainAndRepliesOnce) {
  World world(kOnlyId);
  world.request(kInsert).reply_with(kDuplicate);
  ASSERT_EQ(world.calls, (Texts{"sends", "sends"}));
  EXPECT_EQ(addressed(world.sent[1], 7, 0), insert_sequence({nth(1, 3)}));
  expect_busy(world);
  world.reply_with(n(1) + ok());
  ASSERT_EQ(world.replied.size(), 1U);
  EXPECT_EQ(addressed(world.replied[0], 7, 7), reply_message(n(2) + ok()));
  EXPECT_EQ(world.sent.back(), kPing);
}

TEST(ConnectionPair, PausesBeforeItSendsAgain) {
  World world(kPauses);
  world.request(kInsert).reply_with(kDuplicate).elapses(kLong / 20);
  EXPECT_EQ(world.sent.size(), 1U);
  expect_busy(world);
  world.elapses();
  EXPECT_EQ(world.sent.size(), 2U);
  world.reply_with(n(1) + ok());
  EXPECT_EQ(world.calls, (Texts{"sends", "sends", "sends", "replies"})) << "the last: the ping";
}

TEST(ConnectionPair, PassesOnADuplicateThatItGivesUp) {
  const Rules once = [](const auto&) {
    return rule_set_of(with({.attempts = 1}, rule("shop.*", "_id")));
  };
  World world(once);
  world.request(kInsert).reply_with(kDuplicate);
  world.reply_with(n(0) + write_errors({duplicate(0)}) + ok());
  ASSERT_EQ(world.replied.size(), 1U);
  EXPECT_EQ(addressed(world.replied[0], 7, 7), reply_message(kDuplicate));
  expect_idle(world);
}

// ---- the store ---------------------------------------------------------------------------------

TEST(ConnectionPair, AsksTheStoreBeforeAnythingIsSent) {
  World world(kAsks);
  world.request(kInsert);
  EXPECT_EQ(world.calls, Texts{});
  EXPECT_EQ(world.store->asked, std::vector<std::uint64_t>{2});
  expect_busy(world);

  world.granted(41);
  EXPECT_EQ(world.sent, Texts{insert_sequence({nth(0, 41), nth(1, 42)})});
  EXPECT_EQ(world.count(Counted::requests_insert), 1U);
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.sent.back(), kPing);
  EXPECT_EQ(world.store->returned, std::vector<ids::Range>{});
}

TEST(ConnectionPair, AnswersIfTheStoreHasNoNumbers) {
  World world(kAsks);
  world.request(kInsert).refused(ids::Errc::exhausted);
  EXPECT_EQ(world.calls, Texts{"replies"});
  EXPECT_NE(world.replied[0].find(int_field("code", 96)), std::string::npos);
  EXPECT_EQ(world.count(Counted::requests_refused), 1U);
  expect_idle(world);
}

TEST(ConnectionPair, AnswersIfTheStoreIsTooLate) {
  World world(kAsksForAWhile);
  world.request(kInsert).elapses();
  EXPECT_EQ(world.calls, Texts{"replies"});
  EXPECT_NE(world.replied[0].find("the id store has not answered in time"), std::string::npos);
  EXPECT_EQ(world.store->cancelled, std::vector<std::uint64_t>{1});

  world.granted(41);
  EXPECT_EQ(world.store->returned, (std::vector<ids::Range>{{41, 2}}));
  EXPECT_EQ(world.sent, Texts{});
  expect_idle(world);
}

TEST(ConnectionPair, TakesNoAnswerToAnEarlierQuestion) {
  World world(kAsksForAWhile);
  world.request(kInsert).elapses();
  world.store->patience = 1h;
  world.request(kInsert);
  ASSERT_EQ(world.store->asked.size(), 2U);
  world.granted(41, 1);
  EXPECT_EQ(world.store->returned, (std::vector<ids::Range>{{41, 2}}));
  EXPECT_EQ(world.sent, Texts{});
  world.granted(51);
  EXPECT_EQ(world.sent, Texts{insert_sequence({nth(0, 51), nth(1, 52)})});
  EXPECT_EQ(world.store->returned.size(), 1U);
}

TEST(ConnectionPair, AsksTheStoreForFreshNumbersOfDuplicates) {
  World world(kAsks);
  world.request(kInsert).granted(41).reply_with(kDuplicate);
  EXPECT_EQ(world.store->asked, (std::vector<std::uint64_t>{2, 1}));
  expect_busy(world);
  world.granted(51);
  ASSERT_EQ(world.sent.size(), 2U) << "nothing resumes: its reply is still to come";
  EXPECT_EQ(addressed(world.sent.back(), 7, 0), insert_sequence({nth(1, 51)}));
  world.reply_with(n(1) + ok());
  EXPECT_EQ(world.replied.size(), 1U);
  EXPECT_EQ(world.sent.back(), kPing);
}

TEST(ConnectionPair, DelaysAnUnacknowledgedRequestForTheStore) {
  World world(kAsks);
  world.request(kUnacknowledged);
  expect_busy(world);
  world.granted(41);
  EXPECT_EQ(world.sent, (Texts{insert_sequence({nth(0, 41)}, wire::flag::kMoreToCome), kPing}));
}

/// Nobody would wait for its answer anyway.
TEST(ConnectionPair, SendsAnUnacknowledgedRequestOfAClientThatHasLeft) {
  World world(kAsks);
  world.request(kUnacknowledged);
  world.leave();
  world.poll();
  EXPECT_FALSE(world.closed());
  world.granted(41);
  EXPECT_EQ(world.sent, Texts{insert_sequence({nth(0, 41)}, wire::flag::kMoreToCome)});
  EXPECT_TRUE(world.closed());
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

/// True if the pair told a monitor that the proxy is stopping.
bool tells_monitor(World& world) {
  const bool told = ConnectionPair::all_of(world.thread).front()->tell_monitor();
  world.poll();
  return told;
}

TEST(ConnectionPair, AwaitsAHellosReply) {
  World world(kOnlyId);
  publish(world, true);
  world.request(hello());
  EXPECT_EQ(world.shared.budget.used(), 0U) << "it may last";
  EXPECT_EQ(world.count(Counted::requests_hello), 1U);
  EXPECT_EQ(world.count(Counted::requests_relayed), 0U);
  world.reply_with(kSaid);
  EXPECT_EQ(world.calls, (Texts{"sends", "replies"}));
  EXPECT_EQ(world.replied, Texts{reply_message(kMapped)});
  EXPECT_FALSE(tells_monitor(world)) << "which awaits nothing";
  expect_idle(world);
}

TEST(ConnectionPair, LearnsWhatAServerSaysBeforeItReplies) {
  World world(kOnlyId);
  publish(world, false);
  world.request(hello()).reply_with(kSaid);
  EXPECT_EQ(world.calls, Texts{"sends"});
  ASSERT_TRUE(world.observer.learned);
  expect_busy(world);
  EXPECT_FALSE(tells_monitor(world)) << "whose reply has come";
  publish(world, true);
  world.learned();
  EXPECT_EQ(world.replied, Texts{reply_message(kMapped)});
  EXPECT_EQ(world.sent.back(), kPing);
}

TEST(ConnectionPair, AwaitsEachReplyOfAStream) {
  World world(kOnlyId);
  publish(world, true);
  world.request(hello(wire::flag::kExhaustAllowed));
  const auto streamed = [](std::int32_t id, std::int32_t response_to, std::uint32_t flags) {
    return addressed(reply_message(kSaid, 0, flags), id, response_to);
  };
  world.reply(streamed(50, 7, wire::flag::kMoreToCome));
  world.reply(streamed(51, 50, wire::flag::kMoreToCome));
  EXPECT_EQ(world.calls, (Texts{"sends", "replies", "replies"}));
  expect_busy(world);
  world.reply(streamed(52, 51, 0));
  EXPECT_EQ(world.calls, (Texts{"sends", "replies", "replies", "sends", "replies"}))
      << "the ping goes on with the last";
}

TEST(ConnectionPair, TellsAMonitorInTheMiddleOfItsStream) {
  World world(kOnlyId);
  publish(world, true);
  world.request(hello(wire::flag::kExhaustAllowed));
  world.reply(addressed(reply_message(kSaid, 0, wire::flag::kMoreToCome), 50, 7));
  EXPECT_TRUE(tells_monitor(world));
  ASSERT_EQ(world.replied.size(), 2U);
  EXPECT_EQ(wire::read_header(as_bytes(world.replied[1])).response_to, 50);
  EXPECT_NE(world.replied[1].find(int_field("code", 91)), std::string::npos);
  EXPECT_EQ(world.count(Counted::requests_shutdown), 1U);
}

TEST(ConnectionPair, CallsNoOtherRequestAMonitors) {
  World legacy(kOnlyId);
  legacy.request(op_query("admin.$cmd", doc(int_field("isMaster", 1))));
  EXPECT_FALSE(tells_monitor(legacy)) << "its reply has another form";
  World insert(kOnlyId);
  insert.request(kInsert);
  EXPECT_FALSE(tells_monitor(insert));
}

// ---- the end -----------------------------------------------------------------------------------

TEST(ConnectionPair, RejectsAnImpossibleReply) {
  World world(kOnlyId);
  world.request(kInsert).reply(op_reply(doc(ok()), 7));
  EXPECT_EQ(world.calls, Texts{"sends"});
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.count(Counted::closed_protocol), 1U);
}

TEST(ConnectionPair, ClosesWithItsServer) {
  World world(kOnlyId);
  world.request(kInsert);
  world.drop_server();
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.observer.losses, 1);
  EXPECT_EQ(world.shared.budget.used(), 0U);
}

TEST(ConnectionPair, CountsALargeReplyOnceWhileItIsCollected) {
  const std::string reply =
      reply_message(n(2) + string_field("text", std::string(100'000, 'x')) + ok());
  World world(kOnlyId);
  world.request(kInsert).reply(reply.substr(0, 1000));
  EXPECT_EQ(world.shared.budget.used(), kInsert.size() + reply.size());
  world.reply(reply.substr(1000, 1000));
  EXPECT_EQ(world.shared.budget.used(), kInsert.size() + reply.size());
  world.reply(reply.substr(2000));
  EXPECT_EQ(world.replied, Texts{reply});
  EXPECT_EQ(world.shared.budget.used(), 0U);

  world.request(kPing).reply(reply.substr(0, 1000));
  EXPECT_EQ(world.shared.budget.used(), 0U) << "no exchange runs";
}

TEST(ConnectionPair, GivesEverythingBackWhenItIsClosed) {
  World world(kAsks);
  world.request(kInsert);
  ConnectionPair::all_of(world.thread).front()->close();
  world.poll();
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.store->cancelled, std::vector<std::uint64_t>{1});
  EXPECT_EQ(world.shared.budget.used(), 0U);
  world.granted(41);
  EXPECT_EQ(world.store->returned, (std::vector<ids::Range>{{41, 2}}));
}

// ---- the client's end --------------------------------------------------------------------------

TEST(ConnectionPair, AnswersWhatArrivedBeforeTheClientsEnd) {
  World world(kOnlyId);
  world.request(kPing + kInsert + kPing);
  world.finish();
  EXPECT_FALSE(world.server_told());
  world.reply(kPong);
  EXPECT_EQ(world.calls, (Texts{"sends", "sends", "replies"}));
  world.reply_with(kDuplicate);
  EXPECT_FALSE(world.server_told());
  world.reply_with(n(1) + ok());
  EXPECT_EQ(world.sent.back(), kPing);
  EXPECT_EQ(world.replied.size(), 2U);
  EXPECT_TRUE(world.server_told()) << "nothing more can follow";
  EXPECT_FALSE(world.closed());
  world.reply(kPong);
  EXPECT_EQ(world.replied.size(), 3U);
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.observer.losses, 0);
  EXPECT_EQ(world.count(Counted::closed_message), 0U);
}

TEST(ConnectionPair, GoesOnAfterTheClientsEndWithWhatWaits) {
  World store(kAsks);
  store.request(kInsert);
  store.finish();
  store.granted(41).reply_with(n(2) + ok());
  EXPECT_EQ(store.calls, (Texts{"sends", "replies"}));
  EXPECT_TRUE(store.closed());

  World pause(kPauses);
  pause.request(kInsert).reply_with(kDuplicate);
  pause.finish();
  pause.elapses().reply_with(n(1) + ok());
  EXPECT_EQ(pause.calls, (Texts{"sends", "sends", "replies"}));
  EXPECT_TRUE(pause.closed());

  World refused(kAsks);
  refused.request(kInsert);
  refused.finish();
  refused.refused(ids::Errc::exhausted);
  EXPECT_EQ(refused.calls, Texts{"replies"});
  EXPECT_TRUE(refused.closed());
}

TEST(ConnectionPair, TellsTheServerOfTheEndWhileItAwaitsHello) {
  World world(kOnlyId);
  publish(world, false);
  world.request(hello());
  world.finish();
  EXPECT_TRUE(world.server_told());
  world.reply_with(kSaid);
  world.drop_server();
  EXPECT_FALSE(world.closed());
  world.learned();
  EXPECT_EQ(world.calls, (Texts{"sends", "replies"}));
  EXPECT_TRUE(world.closed());
}

TEST(ConnectionPair, TakesTheServersEndAfterTheClientsForNoLoss) {
  World world(kOnlyId);
  world.request(kPing);
  world.finish();
  world.drop_server();
  EXPECT_TRUE(world.closed());
  EXPECT_EQ(world.observer.losses, 0);
}

TEST(ConnectionPair, DropsTheBeginningOfARequestAtTheClientsEnd) {
  for (const std::size_t part : {1U, 16U, 40U}) {
    for (const std::string& request : {kInsert, kPing}) {
      World alone(kOnlyId);
      alone.request(request.substr(0, part));
      alone.finish();
      EXPECT_TRUE(alone.closed()) << part;
      World world(kOnlyId);
      world.request(kPing + request.substr(0, part));
      world.finish();
      EXPECT_TRUE(world.server_told()) << part;
      world.reply(kPong);
      EXPECT_EQ(world.replied, Texts{kPong}) << part;
      EXPECT_TRUE(world.closed()) << part;
    }
  }
}

/// It does not wait for room that it cannot get without its rest.
TEST(ConnectionPair, LeavesTheQueueForRoomWithTheBeginningOfARequest) {
  World world(kOnlyId);
  const Budget::Share all = world.shared.budget.overdraw(Options{}.limits.buffered_messages);
  const std::string large = insert_sequence({doc(string_field("text", std::string(60'000, 'x')))});
  world.request(large.substr(0, 4096));
  EXPECT_EQ(world.shared.budget.waiting(), 1U);
  world.finish();
  EXPECT_EQ(world.shared.budget.waiting(), 0U);
  EXPECT_TRUE(world.closed());
}

TEST(ConnectionPair, DrainsAfterTheClientsEnd) {
  World world(kOnlyId);
  world.request(kInsert);
  world.finish();
  world.thread.draining = true;
  ConnectionPair::all_of(world.thread).front()->drain();
  EXPECT_FALSE(world.closed());
  world.reply_with(n(2) + ok());
  EXPECT_EQ(world.replied.size(), 1U);
  EXPECT_TRUE(world.closed());
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
       world.server_reads = false;
       world.request(kLarge).taken();
     }},
    {"answered here", kNoValues,
     [](World& world) { world.request(kPing).request(kInsert).reply(kPong); }},
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
    {"asked for too long", kAsksForAWhile,
     [](World& world) { world.request(kInsert).elapses().granted(41); }},
    {"two in a row", kAsks,
     [](World& world) {
       world.request(kInsert + kInsert).granted(41).reply_with(n(2) + ok());
       world.granted(51).reply_with(n(2) + ok());
     }},
    {"one that is no message after it", kOnlyId,
     [](World& world) { world.request(kInsert + std::string(16, '\0')).reply_with(n(2) + ok()); }},
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

constexpr std::pair<Leaves, How> kWays[] = {{Leaves::before, How::closes},
                                            {Leaves::with, How::closes},
                                            {Leaves::before, How::finishes},
                                            {Leaves::with, How::finishes}};

TEST(ConnectionPair, DoesNoMoreThanItsClientHadAskedForWhenItLeft) {
  for (const Script& script : kScripts) {
    World whole(script.rules);
    script.play(whole);
    for (std::size_t at = 0; at < whole.events; ++at) {
      for (const auto& [when, how] : kWays) {
        SCOPED_TRACE(script.name + std::string(how == How::closes ? ", closes" : ", finishes") +
                     (when == Leaves::before ? " before" : " with") + " event " +
                     std::to_string(at));
        World world(script.rules, at, when, how);
        script.play(world);
        if (how == How::finishes && !world.unsaid) {
          EXPECT_EQ(world.sent.size(), whole.sent.size());
          EXPECT_EQ(world.replied.size(), whole.replied.size());
        }
        world.drop_server();  // which may not have been answered by the script
        EXPECT_TRUE(world.closed());
        EXPECT_EQ(world.shared.budget.used(), 0U);
        Texts until = whole.sent;
        ASSERT_LE(world.sent.size(), until.size());
        until.resize(world.sent.size());
        EXPECT_EQ(world.sent, until);
        EXPECT_LE(world.replied.size(), whole.replied.size());
        const Texts before = world.calls;
        world.granted(91).learned().poll();
        EXPECT_EQ(world.calls, before);
      }
    }
  }
}

}  // namespace connection_pair_test
}  // namespace idproxy::net
