// Proxies, clients and a server that interleave at random, with everything that can fail: documents
// that are refused, connections that break before or after a command was executed, commands that
// are executed long after their client has gone, drivers that repeat a batch, other programs that
// insert the highest number + 1, proxies that are killed, failovers that undo what no majority has.
// After every single step the stored numbers are 1, 2, … without a gap, in the whole collection or
// in each of several scopes.

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
#include "idproxy/rewrite/reply_merge.hpp"
#include "support/block_caches.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_store.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"
#include "support/write_options.hpp"

namespace idproxy::rewrite {
namespace gapless_simulation_test {

using namespace test;
using namespace std::chrono_literals;

enum class Fault { none, foreign, invalid };

/// A document of a client: {x: key, scope: 0, 1 …, bad?: 1 or 2}.
struct Wanted {
  std::int32_t key;
  Fault fault;
  std::int32_t scope;
};

/// What the simulation needs of a command that is on its way to the server.
struct SentCommand {
  struct Document {
    std::int32_t key;
    Fault fault;
    std::int64_t number;
    std::int32_t statement;
    std::size_t scope;
  };
  std::vector<Document> documents;
  std::int32_t session = 0;  // 0: none
  bool ordered = true;
  bool majority = true;
  bool asks = false;  // whether the statements have been executed
  std::int32_t request_id = 0;
};

SentCommand read_command(const std::string& bytes) {
  SentCommand command;
  const auto view = *wire::OpMsgView::parse(as_bytes(bytes));
  const auto batch = *WriteCommand::read(view);
  const auto options = *options_in(view.body());
  command.request_id = view.header().request_id;
  command.ordered = options.ordered;
  const auto concern = bson::find(view.body(), "writeConcern");
  command.majority = bson::find(concern->value, "w")->type == bson::Type::string;
  command.asks = bson::find(view.body(), "collectionUUID").has_value();
  if (const auto session = bson::find(view.body(), "txnNumber")) {
    command.session = static_cast<std::int32_t>(*session->as_integer());
  }
  Statements statements(batch);
  for (std::int32_t i = 0; const auto document = statements.next(); ++i) {
    const auto integer = [&](std::string_view key) {
      const auto field = bson::find(*document, key);
      return field ? *field->as_integer() : 0;
    };
    command.documents.push_back({static_cast<std::int32_t>(integer("x")),
                                 static_cast<Fault>(integer("bad")), integer("number"),
                                 options.number_of(i), static_cast<std::size_t>(integer("scope"))});
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
  /// `is_old`: it does not know collectionUUID.
  Server(std::size_t scopes, bool is_old) : logs_(scopes), is_old_(is_old) {}

  /// Executes a command, or only its first documents; returns the fields of the reply.
  std::string execute(const SentCommand& command, std::size_t most) {
    std::int32_t n = 0;
    std::vector<std::string> errors;
    std::vector<std::int32_t> retried;
    if (command.asks && is_old_) return test::ok(0) + int_field("code", 40415);
    for (std::size_t i = 0; i < std::min(most, command.documents.size()); ++i) {
      const SentCommand::Document& each = command.documents[i];
      if (command.session != 0 && executed(command.session, each.statement)) {
        retried.push_back(each.statement);
        ++n;
      } else if (command.asks) {
        errors.push_back(write_error(static_cast<std::int32_t>(i), 361));
        break;
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
  void insert_next(std::size_t scope) { logs_[scope].stored.push_back({-1, 0, 0}); }
  void replicate() {
    for (Log& log : logs_) log.durable = log.stored.size();
  }
  void fail_over() {
    for (Log& log : logs_) log.stored.resize(log.durable);
  }
  [[nodiscard]] std::optional<std::int64_t> most(std::size_t scope) const {
    const auto& stored = logs_[scope].stored;
    return stored.empty() ? std::nullopt : std::optional(static_cast<std::int64_t>(stored.size()));
  }
  [[nodiscard]] std::ptrdiff_t count(std::int32_t key) const {
    std::ptrdiff_t count = 0;
    for (const Log& log : logs_) count += std::ranges::count(log.stored, key, &Stored::key);
    return count;
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t size = 0;
    for (const Log& log : logs_) size += log.stored.size();
    return size;
  }

 private:
  [[nodiscard]] bool executed(std::int32_t session, std::int32_t statement) const {
    return std::ranges::any_of(logs_, [&](const Log& log) {
      return std::ranges::any_of(log.stored, [&](const Stored& each) {
        return each.session == session && each.statement == statement;
      });
    });
  }
  /// Number i + 1 is that of stored[i].
  std::string insert(std::int32_t session, const SentCommand::Document& document,
                     std::size_t index) {
    const auto at = static_cast<std::int32_t>(index);
    if (document.fault == Fault::foreign) return duplicate(at, {"mail"});
    if (document.fault == Fault::invalid) return write_error(at, 121);
    std::vector<Stored>& stored = logs_[document.scope].stored;
    const auto size = static_cast<std::int64_t>(stored.size());
    if (document.number <= size) {
      return duplicate(at, logs_.size() == 1 ? std::vector<std::string>{"number"}
                                             : std::vector<std::string>{"scope", "number"});
    }
    EXPECT_EQ(document.number, size + 1) << "a gap";
    stored.push_back({document.key, session, document.statement});
    return {};
  }

  struct Log {
    std::vector<Stored> stored;
    std::size_t durable = 0;
  };
  std::vector<Log> logs_;  // by scope
  bool is_old_;
};

/// A proxy process: queues, the store's jobs that are under way, and rules.
struct Proxy {
  struct Sequence {
    std::shared_ptr<ids::GaplessQueue> queue;
    std::size_t scope;
    std::optional<std::optional<std::int64_t>> seen{};  // by the look that is under way
  };
  class SequenceStore final : public FakeStore {
   public:
    explicit SequenceStore(const Clock& clock) : clock_(clock) {}
    std::shared_ptr<ids::GaplessQueue> sequence(const ids::GaplessSpec& spec) override {
      for (const Sequence& each : sequences) {
        if (each.queue->spec() == spec) return each.queue;
      }
      std::size_t scope = 0;
      if (!spec.field.scope.empty()) {
        scope = static_cast<std::size_t>(
            *bson::find(as_bytes(spec.field.scope), "scope")->as_integer());
      }
      auto queue = std::make_shared<ids::GaplessQueue>(spec, clock_, [] {});
      sequences.push_back({queue, scope});
      return queue;
    }
    std::vector<Sequence> sequences;

   private:
    const Clock& clock_;
  };

  Proxy(const Clock& clock, RandomSource& random, std::size_t scopes)
      : store(std::make_shared<SequenceStore>(clock)),
        rules(rules_of(clock, random, scopes)),
        namespaces(rules),
        context{clock, random} {
    (void)namespaces.plan("shop", "orders");
  }
  std::shared_ptr<const RuleSet> rules_of(const Clock& clock, RandomSource& random,
                                          std::size_t scopes) const {
    Rule gapless = rule("shop.*", "number");
    FakeParameters::Table keys{{"ns", "shop.*"}, {"field", "number"}};
    if (scopes > 1) keys.insert({{"scope", "scope"}, {"max_scopes", "2"}});
    gapless.strategy = make_strategy("gapless", std::move(keys), {clock, random});
    gapless.retry.deadline = 1h;
    std::vector<Rule> all;
    all.push_back(std::move(gapless));
    return std::make_shared<const RuleSet>(std::move(all), "idproxy", store);
  }

  std::shared_ptr<SequenceStore> store;
  std::shared_ptr<const RuleSet> rules;
  Namespaces namespaces;
  Context context;
  Workspace workspace;
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
  Simulation(std::uint32_t seed, std::size_t scopes)
      : scopes_(scopes), dice_(seed), server_(scopes, seed % 4 == 0), clients_(6) {
    for (auto& each : proxies_) each = std::make_shared<Proxy>(clock_, random_, scopes_);
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
  std::size_t any_scope() { return scopes_ == 1 ? 0 : dice_() % scopes_; }
  int roll(int n) { return static_cast<int>(dice_() % static_cast<std::uint32_t>(n)); }

  void step() {
    clock_.advance(std::chrono::milliseconds(roll(3)));
    if (one_in(3)) return work(*proxies_[static_cast<std::size_t>(roll(2))]);
    if (one_in(40)) return server_.insert_next(any_scope());
    if (one_in(10)) return server_.replicate();
    if (one_in(300)) return fail_over();
    if (one_in(400)) return kill(proxies_[static_cast<std::size_t>(roll(2))]);
    if (!orphans_.empty() && one_in(5)) return execute_orphan();
    go_on(clients_[static_cast<std::size_t>(roll(static_cast<int>(clients_.size())))]);
  }

  // ---- the store

  void work(Proxy& proxy) {
    auto& all = proxy.store->sequences;
    if (all.empty()) return;
    Proxy::Sequence& sequence = all[static_cast<std::size_t>(roll(static_cast<int>(all.size())))];
    ids::GaplessQueue& queue = *sequence.queue;
    if (sequence.seen) {
      const auto most = *std::exchange(sequence.seen, std::nullopt);
      if (one_in(20)) return queue.finish(ids::Error{ids::Errc::unavailable, "down"});
      return queue.finish(most);
    }
    const auto job = queue.begin();
    if (!job) return;
    if (job->kind == ids::GaplessJob::Kind::keep) return queue.finish(job->floor);
    if (job->how == ids::GaplessRead::sure) server_.replicate();
    sequence.seen = server_.most(sequence.scope);
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
    proxy = std::make_shared<Proxy>(clock_, random_, scopes_);
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
        const Fault fault = one_in(8) ? Fault::foreign : one_in(8) ? Fault::invalid : Fault::none;
        client.batch.push_back({++keys_, fault, static_cast<std::int32_t>(any_scope())});
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
      documents.push_back(doc(int_field("x", each.key) + int_field("scope", each.scope) +
                              (bad == 0 ? "" : int_field("bad", bad))));
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

  const std::size_t scopes_;
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

void simulate(std::size_t scopes) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed, scopes);
    simulation.run(4000);
    if (::testing::Test::HasFailure()) return;
    EXPECT_GT(simulation.stored(), 50U);
    EXPECT_GT(simulation.answered(), 20);
  }
}

TEST(GaplessSimulation, HasNoGapAfterAnyStep) {
  simulate(1);
}

/// A batch has the turns of several sequences, of which a process keeps two in memory.
TEST(GaplessSimulation, HasNoGapInAnyScope) {
  simulate(4);
}

}  // namespace gapless_simulation_test
}  // namespace idproxy::rewrite
