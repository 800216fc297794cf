// Proxies, clients and a server that interleave at random, with everything that can fail: documents
// that are refused, connections that break before or after a command was executed, commands that
// are executed long after their client has gone, drivers that repeat a batch, other programs that
// insert the highest number + 1, proxies that are killed, failovers that undo what no majority has.
// After every single step the stored numbers are 1, 2, … without a gap.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/write_reply.hpp"
#include "support/block_caches.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_store.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::rewrite {
namespace gapless_simulation_test {

using namespace test;
using namespace std::chrono_literals;

enum class Fault { none, foreign, invalid };

/// A document of a client: {x: key, bad?: 1 or 2}.
struct Wanted {
  std::int32_t key;
  Fault fault;
};

/// What the simulation needs of a command that is on its way to the server.
struct SentCommand {
  struct Document {
    std::int32_t key;
    Fault fault;
    std::int64_t number;
    std::int32_t statement;
  };
  std::vector<Document> documents;
  std::int32_t session = 0;  // 0: none
  bool ordered = true;
  bool majority = true;
  std::int32_t request_id = 0;
};

SentCommand read_command(const std::string& bytes) {
  SentCommand command;
  const auto view = *wire::OpMsgView::parse(as_bytes(bytes));
  const auto batch = *BatchCommand::read(view);
  const auto options = *WriteOptions::read(view.body());
  command.request_id = view.header().request_id;
  command.ordered = options.ordered;
  const auto concern = bson::find(view.body(), "writeConcern");
  command.majority = bson::find(concern->value, "w")->type == bson::Type::string;
  if (const auto session = bson::find(view.body(), "txnNumber")) {
    command.session = static_cast<std::int32_t>(*session->as_integer());
  }
  BatchStatements statements(batch);
  for (std::int32_t i = 0; const auto document = statements.next(); ++i) {
    const auto integer = [&](std::string_view key) {
      const auto field = bson::find(*document, key);
      return field ? *field->as_integer() : 0;
    };
    command.documents.push_back({static_cast<std::int32_t>(integer("x")),
                                 static_cast<Fault>(integer("bad")), integer("number"),
                                 options.number_of(i)});
  }
  return command;
}

/// A replica set. What it stores is durable once a majority has it.
class Server {
 public:
  struct Stored {
    std::int32_t key;
    std::int32_t session;
    std::int32_t statement;
  };

  /// Executes a command, or only its first documents; returns the fields of the reply.
  std::string execute(const SentCommand& command, std::size_t most) {
    std::int32_t n = 0;
    std::vector<std::string> errors;
    std::vector<std::int32_t> retried;
    for (std::size_t i = 0; i < std::min(most, command.documents.size()); ++i) {
      const SentCommand::Document& each = command.documents[i];
      if (command.session != 0 && executed(command.session, each.statement)) {
        retried.push_back(each.statement);
        ++n;
      } else if (const std::string error = insert(command.session, each, i); !error.empty()) {
        errors.push_back(error);
        if (command.ordered) break;
      } else {
        ++n;
      }
    }
    return test::n(n) + (errors.empty() ? "" : write_errors(errors)) +
           (retried.empty() ? "" : numbers_field("retriedStmtIds", retried)) + ok();
  }
  void insert_next() { log_.push_back({-1, 0, 0}); }
  void replicate() { durable_ = log_.size(); }
  void fail_over() { log_.resize(durable_); }
  [[nodiscard]] std::optional<std::int64_t> most() const {
    return log_.empty() ? std::nullopt : std::optional(static_cast<std::int64_t>(log_.size()));
  }
  [[nodiscard]] std::ptrdiff_t count(std::int32_t key) const {
    return std::ranges::count(log_, key, &Stored::key);
  }
  [[nodiscard]] std::size_t size() const { return log_.size(); }

 private:
  [[nodiscard]] bool executed(std::int32_t session, std::int32_t statement) const {
    return std::ranges::any_of(log_, [&](const Stored& each) {
      return each.session == session && each.statement == statement;
    });
  }
  /// Number i + 1 is that of log_[i].
  std::string insert(std::int32_t session, const SentCommand::Document& document,
                     std::size_t index) {
    const auto at = static_cast<std::int32_t>(index);
    if (document.fault == Fault::foreign) return duplicate(at, {"mail"});
    if (document.fault == Fault::invalid) return write_error(at, 121);
    if (document.number <= static_cast<std::int64_t>(log_.size())) return duplicate(at, {"number"});
    EXPECT_EQ(document.number, static_cast<std::int64_t>(log_.size()) + 1) << "a gap";
    log_.push_back({document.key, session, document.statement});
    return {};
  }

  std::vector<Stored> log_;
  std::size_t durable_ = 0;
};

/// A proxy process: a queue, the store's job that is under way, and rules.
struct Proxy {
  class OneSequence final : public FakeStore {
   public:
    explicit OneSequence(const Clock& clock) : clock_(clock) {}
    std::shared_ptr<ids::GaplessQueue> sequence(const ids::GaplessSpec& spec) override {
      if (!queue) queue = std::make_shared<ids::GaplessQueue>(spec, clock_, [] {});
      return queue;
    }
    std::shared_ptr<ids::GaplessQueue> queue;

   private:
    const Clock& clock_;
  };

  Proxy(const Clock& clock, RandomSource& random)
      : store(std::make_shared<OneSequence>(clock)),
        rules(rules_of(clock, random)),
        namespaces(rules),
        context{clock, random} {
    (void)namespaces.plan("shop", "orders");
  }
  std::shared_ptr<const RuleSet> rules_of(const Clock& clock, RandomSource& random) const {
    Rule gapless = rule("shop.*", "number");
    gapless.strategy =
        make_strategy("gapless", {{"ns", "shop.*"}, {"field", "number"}}, {clock, random});
    gapless.retry.deadline = 1h;
    std::vector<Rule> all;
    all.push_back(std::move(gapless));
    return std::make_shared<const RuleSet>(std::move(all), "idproxy", store);
  }

  std::shared_ptr<OneSequence> store;
  std::shared_ptr<const RuleSet> rules;
  Namespaces namespaces;
  Context context;
  Workspace workspace;
  std::optional<std::optional<std::int64_t>> seen;  // by the look that is under way
};

/// A client, its exchange, and its command at the server.
struct Client {
  std::vector<Wanted> batch;  // empty: idle
  bool ordered = true;
  std::int32_t session = 0;
  int attempts = 0;
  std::shared_ptr<Proxy> proxy;
  std::unique_ptr<Exchange> exchange;
  Waiting waiting;
  bool waits = false;   // for the store
  bool pauses = false;  // before the next command
  std::optional<SentCommand> sent;
  std::string reply;  // of the server, if it has executed `sent`
};

class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : dice_(seed), clients_(6) {
    for (auto& each : proxies_) each = std::make_shared<Proxy>(clock_, random_);
  }
  ~Simulation() {
    for (Client& each : clients_) leave(each);
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
  }
  [[nodiscard]] std::size_t stored() const { return server_.size(); }
  [[nodiscard]] int answered() const { return answered_; }

 private:
  bool one_in(int n) { return roll(n) == 0; }
  int roll(int n) { return static_cast<int>(dice_() % static_cast<std::uint32_t>(n)); }

  void step() {
    clock_.advance(std::chrono::milliseconds(roll(3)));
    if (one_in(3)) return work(*proxies_[static_cast<std::size_t>(roll(2))]);
    if (one_in(40)) return server_.insert_next();
    if (one_in(10)) return server_.replicate();
    if (one_in(300)) return fail_over();
    if (one_in(400)) return kill(proxies_[static_cast<std::size_t>(roll(2))]);
    if (!orphans_.empty() && one_in(5)) return execute_orphan();
    go_on(clients_[static_cast<std::size_t>(roll(static_cast<int>(clients_.size())))]);
  }

  // ---- the store

  void work(Proxy& proxy) {
    ids::GaplessQueue& queue = *proxy.store->queue;
    if (proxy.seen) {
      const auto most = *std::exchange(proxy.seen, std::nullopt);
      using Kind = ids::GaplessReply::Kind;
      if (one_in(20)) return queue.finish({Kind::failed, {}, "down"});
      return queue.finish({Kind::found, most, {}});
    }
    const auto job = queue.begin();
    if (!job) return;
    if (job->kind == ids::GaplessJob::Kind::keep) {
      return queue.finish({ids::GaplessReply::Kind::kept, {}, {}});
    }
    if (job->look == ids::GaplessLook::sure) server_.replicate();
    proxy.seen = server_.most();
  }

  // ---- faults

  /// All connections lead to the old primary, which takes no more writes.
  void fail_over() {
    server_.fail_over();
    for (Client& each : clients_) {
      if (each.exchange) lose(each);
    }
    orphans_.clear();
  }
  void kill(std::shared_ptr<Proxy>& proxy) {
    for (Client& each : clients_) {
      if (each.proxy == proxy && each.exchange) lose(each);
    }
    proxy = std::make_shared<Proxy>(clock_, random_);
  }
  void execute_orphan() {
    const auto at = static_cast<std::size_t>(roll(static_cast<int>(orphans_.size())));
    server_.execute(orphans_[at], static_cast<std::size_t>(1 + roll(8)));
    orphans_.erase(orphans_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // ---- clients

  void go_on(Client& client) {
    if (!client.exchange) return begin_insert(client);
    if (client.waits) return hear(client);
    if (client.pauses) {
      client.pauses = false;
      return act(client, client.exchange->resume(client.proxy->context, client.proxy->workspace));
    }
    if (one_in(25)) return lose(client);
    if (client.reply.empty()) return execute(client);
    if (client.sent->majority) server_.replicate();
    const std::string reply =
        reply_message(std::exchange(client.reply, {}), client.exchange->request_id());
    client.sent.reset();
    const Exact exact(reply);
    act(client,
        client.exchange->reply(exact.view(), client.proxy->context, client.proxy->workspace),
        reply);
  }

  void execute(Client& client) {
    // A server that is interrupted has executed the first documents.
    if (one_in(30)) {
      server_.execute(*client.sent, static_cast<std::size_t>(roll(4)));
      client.sent.reset();
      return lose(client);
    }
    client.reply = server_.execute(*client.sent, client.sent->documents.size());
  }

  void begin_insert(Client& client) {
    if (client.batch.empty()) {
      const int size = one_in(2) ? 1 : 1 + roll(6);
      for (int i = 0; i < size; ++i) {
        client.batch.push_back({++keys_, one_in(8)   ? Fault::foreign
                                         : one_in(8) ? Fault::invalid
                                                     : Fault::none});
      }
      client.ordered = one_in(2);
      client.session = one_in(2) ? ++sessions_ : 0;
      client.attempts = 0;
    }
    ++client.attempts;
    client.proxy = proxies_[static_cast<std::size_t>(roll(2))];
    client.exchange = std::make_unique<Exchange>();
    const std::string message = message_of(client);
    const Exact exact(message);
    act(client, begin(*client.exchange, exact.view(), nullptr, client.proxy->namespaces,
                      client.proxy->context, client.proxy->workspace));
  }

  static std::string message_of(const Client& client) {
    std::vector<std::string> documents;
    for (const Wanted& each : client.batch) {
      const auto bad = static_cast<std::int32_t>(each.fault);
      documents.push_back(doc(int_field("x", each.key) + (bad == 0 ? "" : int_field("bad", bad))));
    }
    std::string options = bool_field("ordered", client.ordered);
    if (client.session != 0) options += long_field("txnNumber", client.session);
    return op_msg(body(doc(insert_fields() + options)) + sequence("documents", documents));
  }

  void hear(Client& client) {
    auto& answer = *client.waiting.answer;
    if (answer.count == 0 && !one_in(50)) return;
    ids::Result<ids::Grant> grant = ids::Error{ids::Errc::unavailable, "too slow"};
    if (answer.count > 0) grant = std::move(*answer.grant);
    client.waits = false;
    client.waiting = {};
    act(client, client.exchange->answered(std::move(grant), client.proxy->context,
                                          client.proxy->workspace));
  }

  void act(Client& client, const Action& next, const std::string& reply = {}) {
    if (const auto* send = std::get_if<action::Send>(&next)) {
      Buffer out;
      send->message->copy(send->original, 0, out);
      client.sent = read_command(text_of(out.view()));
    } else if (const auto* need = std::get_if<action::AskStore>(&next)) {
      client.waits = true;
      client.waiting.ticket =
          need->strategy->ask(need->count, std::make_unique<NotedWaiter>(client.waiting.answer));
    } else if (std::holds_alternative<action::Wait>(next)) {
      client.pauses = true;
    } else if (const auto* own = std::get_if<action::Reply>(&next)) {
      end(client, text_of(own->message));
    } else {
      ASSERT_TRUE(std::holds_alternative<action::Relay>(next)) << "the reply was not understood";
      end(client, reply);
    }
  }

  /// Holds the client's answer against what is stored.
  void end(Client& client, const std::string& reply) {
    const auto view = *wire::OpMsgView::parse(as_bytes(reply));
    const auto read = *WriteReply::read(view.body(), client.batch.size());
    if (read.ok) {
      ++answered_;
      std::set<std::size_t> failed;
      for (const WriteError& each : read.errors)
        failed.insert(static_cast<std::size_t>(each.index));
      const std::size_t end =
          client.ordered && !failed.empty() ? *failed.begin() : client.batch.size();
      std::int64_t n = 0;
      for (std::size_t i = 0; i < client.batch.size(); ++i) {
        const bool is_stored = i < end && !failed.contains(i);
        n += is_stored ? 1 : 0;
        EXPECT_EQ(server_.count(client.batch[i].key), is_stored ? 1 : 0) << "document " << i;
      }
      EXPECT_EQ(*read.n, n);
      client.batch.clear();
    }
    leave(client);
    if (!read.ok) give_up_or_repeat(client);
  }

  /// The client has lost its connection, and perhaps the server does not know.
  void lose(Client& client) {
    if (client.sent && client.reply.empty() && one_in(2)) orphans_.push_back(*client.sent);
    leave(client);
    give_up_or_repeat(client);
  }
  static void give_up_or_repeat(Client& client) {
    if (client.session == 0 || client.attempts > 3) client.batch.clear();
  }
  static void leave(Client& client) {
    client.waiting = {};
    client.exchange.reset();
    client.sent.reset();
    client.reply.clear();
    client.waits = client.pauses = false;
  }

  std::mt19937 dice_;
  FakeClock clock_;
  SeededRandom random_;
  Server server_;
  std::vector<SentCommand> orphans_;  // commands without a client
  std::shared_ptr<Proxy> proxies_[2];
  std::vector<Client> clients_;
  std::int32_t keys_ = 0;
  std::int32_t sessions_ = 0;
  int answered_ = 0;
};

TEST(GaplessSimulation, HasNoGapAfterAnyStep) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run(4000);
    if (HasFailure()) return;
    EXPECT_GT(simulation.stored(), 50U);
    EXPECT_GT(simulation.answered(), 20);
  }
}

}  // namespace gapless_simulation_test
}  // namespace idproxy::rewrite
