#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "support/action_kind.hpp"
#include "support/fake_clock.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"

/// Scripts of an exchange: feed an event, expect an action with these bytes.
namespace idproxy::test {

/// Where a client puts its documents.
enum class Form { sequence, array };

/// A client's insert into shop.orders. `options`: more fields of the body.
inline std::string client(Form form, const std::string& options,
                          const std::vector<std::string>& documents, std::uint32_t flags = 0) {
  if (form == Form::sequence) {
    return op_msg(body(doc(insert_fields() + options)) + sequence("documents", documents), flags);
  }
  return op_msg(body(doc(string_field("insert", "orders") + array_field("documents", documents) +
                         string_field("$db", "shop") + options)),
                flags);
}
/// A command of the proxy with some of the client's documents, and their statement numbers if
/// needed.
inline std::string part(const std::string& options, const std::vector<std::string>& documents,
                        const std::vector<std::int32_t>& numbers = {}, std::uint32_t flags = 0) {
  const std::string stmt_ids = numbers.empty() ? "" : numbers_field("stmtIds", numbers);
  return client(Form::sequence, options + stmt_ids, documents, flags);
}
inline const std::string kUnordered = bool_field("ordered", false);
inline const std::string kTxnNumber = long_field("txnNumber", 5);
inline const std::string kTransaction = kTxnNumber + bool_field("autocommit", false);

/// The update by which the proxy asks a server before 6.0 which of the statements with these
/// numbers it has executed.
inline std::string asks_about(const std::vector<std::int32_t>& numbers,
                              const std::string& more = {}) {
  const std::string statement = doc(doc_field("q", doc_field("_id", array_field("$in", {}))) +
                                    doc_field("u", doc_field("$set", int_field("_", 0))));
  return op_msg(
      body(doc(string_field("update", "orders") +
               array_field("updates", std::vector<std::string>(numbers.size(), statement)) +
               numbers_field("stmtIds", numbers) + bool_field("ordered", false) +
               doc_field("writeConcern", int_field("w", 1)) + more + kTxnNumber +
               string_field("$db", "shop"))));
}

/// The answer: these of them, by position, have been executed.
inline std::string executed(const std::vector<std::int32_t>& positions) {
  if (positions.empty()) return n(0) + ok();
  std::vector<std::string> entries;
  for (const std::int32_t each : positions) {
    entries.push_back(doc(int_field("index", each) + int_field("_id", 1)));
  }
  return n(static_cast<std::int32_t>(positions.size())) + array_field("upserted", entries) + ok();
}

/// {idproxy: "next"} for a field of shop.orders.
inline std::string next_value_of(std::string_view field) {
  return op_msg(body(doc(string_field("idproxy", "next") + string_field("ns", "shop.orders") +
                         string_field("field", field) + string_field("$db", "admin"))));
}

/// Document i, with a value from the proxy as its `_id`, or without `_id`.
inline std::string nth(std::int32_t i) {
  return doc(int_field("x", i));
}
inline std::string nth(std::int32_t i, std::int64_t id) {
  return doc(long_field("_id", id) + int_field("x", i));
}

inline rewrite::Rule with(rewrite::Retry retry, rewrite::Rule rule) {
  rule.retry = retry;
  return rule;
}

/// An exchange with everything that it needs.
class ExchangeWorld {
 public:
  explicit ExchangeWorld(std::shared_ptr<const rewrite::RuleSet> rules,
                         std::string_view random_hex = {})
      : random(random_hex), namespaces(rules), rules_(std::move(rules)) {}

  /// Starts an exchange. The bytes are freed when this returns, unless `owned` gives them to the
  /// exchange.
  ActionKind request(std::string_view bytes, bool owned = false) {
    exchange = std::make_unique<rewrite::Exchange>(0, &memory);
    const Exact exact(bytes);
    Buffer owner;
    if (owned) owner.append(exact.view());
    return keep(begin(*exchange, owned ? owner.view() : exact.view(), owned ? &owner : nullptr,
                      namespaces, context, workspace));
  }
  ActionKind reply(std::string_view bytes) {
    const Exact exact(bytes);
    return keep(exchange->reply(exact.view(), context, workspace));
  }
  /// Replaces the rules. The old ones are freed unless the exchange still uses them.
  void reload(std::shared_ptr<const rewrite::RuleSet> rules) {
    namespaces = rewrite::Namespaces(rules);
    rules_ = std::move(rules);
  }
  /// A reply with these fields in its body, to the request id that the exchange expects.
  ActionKind reply_with(std::string_view fields, std::uint32_t flags = 0) {
    return reply(reply_message(fields, exchange->request_id(), flags));
  }
  ActionKind resume() { return keep(exchange->resume(context, workspace)); }
  ActionKind answer(ids::Result<ids::Grant> grant) {
    return keep(exchange->answered(std::move(grant), context, workspace));
  }

  /// The last action, which must be of this kind.
  template <class Alternative>
  [[nodiscard]] const Alternative& last() const {
    return std::get<Alternative>(last_);
  }
  /// The bytes that the last action sends or replies.
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  /// The body of the reply in the last action.
  [[nodiscard]] std::string body() const {
    const auto view = wire::OpMsgView::parse(as_bytes(bytes_));
    return view ? text_of(view->body()) : "no OP_MSG";
  }
  /// The counters that are not 0, summed over all rules: "assigned=5 resent=2 cured=2".
  [[nodiscard]] std::string counts() const {
    using O = rewrite::RuleOutcomes;
    std::string text;
    const auto add = [&](const char* name, auto counter) {
      const auto sum = rules_->sum(counter);
      if (sum == 0) return;
      text += (text.empty() ? "" : " ") + std::string(name) + '=' + std::to_string(sum);
    };
    add("assigned", &O::assigned);
    add("resent", &O::resent);
    add("cured", &O::cured);
    add("given_up", &O::given_up);
    add("foreign", &O::foreign);
    add("transient", &O::transient);
    add("surfaced", &O::surfaced);
    add("unacknowledged", &O::unacknowledged);
    add("handed_out", &O::handed_out);
    add("not_permitted", &O::not_permitted);
    return text;
  }

  FakeClock clock;
  ScriptedRandom random;
  rewrite::Namespaces namespaces;
  rewrite::Context context{clock, random};
  rewrite::Workspace workspace;
  rewrite::ConnectionMemory memory{0, {}, 17};  ///< of the connection, to a server 6.0
  std::unique_ptr<rewrite::Exchange> exchange;

 private:
  ActionKind keep(rewrite::Action action) {
    Buffer out;
    if (const auto* send = std::get_if<rewrite::action::Send>(&action)) {
      out.reserve(send->message->size());
      send->message->copy(send->original, 0, out);
      EXPECT_EQ(out.size(), send->message->size());
      exchange->taken(workspace);
    }
    if (const auto* question = std::get_if<rewrite::action::AskServer>(&action)) {
      question->message->copy({}, 0, out);
      EXPECT_EQ(out.size(), question->message->size());
      exchange->taken(workspace);
    }
    if (const auto* reply = std::get_if<rewrite::action::Reply>(&action)) {
      out.append(reply->message);
    }
    bytes_ = text_of(out.view());
    last_ = action;
    return kind_of(action);
  }

  std::shared_ptr<const rewrite::RuleSet> rules_;
  std::string bytes_;
  rewrite::Action last_;
};

inline std::string name_of(ActionKind action) {
  constexpr const char* kNames[] = {"Relay",    "Send",  "AskServer", "Wait",
                                    "AskStore", "Learn", "Reply",     "Close"};
  return kNames[static_cast<int>(action)];
}

/// A script. Its functions record events, each followed by the action to expect. play() runs them,
/// and then once more for each reply and each fault, with the fault instead of the reply.
class ExchangeScript {
 public:
  using Rules = std::function<std::shared_ptr<const rewrite::RuleSet>()>;
  explicit ExchangeScript(Rules rules, std::string random_hex = {})
      : rules_(std::move(rules)), random_(std::move(random_hex)) {}

  // Events.
  ExchangeScript& request(std::string bytes) { return event(Event::request, std::move(bytes)); }
  ExchangeScript& reply(std::string fields, std::uint32_t flags = 0) {
    return event(Event::reply, reply_message(fields, 0, flags));
  }
  /// The answer to a command that only asks something, so that the client never gets to see it.
  ExchangeScript& told(std::string fields) {
    reply(std::move(fields));
    steps_.back().told = true;
    return *this;
  }
  ExchangeScript& resume() { return event(Event::resume, {}); }
  /// The store grants numbers from `first` on, as many as the exchange asked for.
  ExchangeScript& granted(std::int64_t first) {
    event(Event::answer, {});
    steps_.back().granted = first;
    return *this;
  }
  ExchangeScript& refused(ids::Errc code) {
    event(Event::answer, {});
    steps_.back().refused = code;
    return *this;
  }
  /// Lets time pass before the next event.
  ExchangeScript& pass(std::chrono::nanoseconds time) {
    pass_ += time;
    return *this;
  }

  // Actions that the previous event leads to.
  /// Sends `bytes`, except for the request id: first the client's, later new ones.
  ExchangeScript& sends(std::string bytes) { return expect(ActionKind::send, std::move(bytes)); }
  /// Sends the client's request after the store has answered.
  ExchangeScript& sends_first(std::string bytes) {
    steps_.back().first_send = true;
    return sends(std::move(bytes));
  }
  /// Sends a refused command in another form, with the client's own request id.
  ExchangeScript& sends_as_the_client(std::string bytes) {
    steps_.back().client_id = true;
    return sends(std::move(bytes));
  }
  ExchangeScript& waits(std::chrono::nanoseconds delay) {
    steps_.back().delay = delay;
    return expect(ActionKind::wait, {});
  }
  ExchangeScript& asks(std::size_t count) {
    steps_.back().count = count;
    return expect(ActionKind::ask_store, {});
  }
  ExchangeScript& relays() { return expect(ActionKind::relay, {}); }
  ExchangeScript& closes() { return expect(ActionKind::close, {}); }
  /// A reply to the client's request id.
  ExchangeScript& replies(std::string_view fields, std::uint32_t flags = 0) {
    return expect(ActionKind::reply, reply_message(fields, 7, flags));
  }
  /// At the end: ExchangeWorld::counts(), and the field of the rule that gave up, if any.
  ExchangeScript& counts(std::string counts, std::optional<std::string> given_up = {}) {
    counts_ = std::move(counts);
    given_up_ = std::move(given_up);
    return *this;
  }
  /// The first command carries only a part of the batch, so that its reply is never the whole
  /// reply.
  ExchangeScript& in_parts() {
    in_parts_ = true;
    return *this;
  }

  /// The server's maxWireVersion; 6.0 without it.
  ExchangeScript& of_server(std::int32_t wire_version) {
    wire_version_ = wire_version;
    return *this;
  }

  /// `stride`: for large messages, tries only every stride-th fault, different ones at each reply.
  void play(std::size_t stride = 1) const {
    play_once(false);
    if (stride == 1) play_once(true);
    std::size_t replies = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].event != Event::reply) continue;
      const bool only = replies == 0 && !in_parts_ && !steps_[i].told;
      fail_at(i, only, stride == 1 ? 0 : replies * 7 + 6, stride);
      if (!steps_[i].told) ++replies;
      if (::testing::Test::HasFailure()) return;
    }
  }
  /// Runs the script without faults.
  void play_once(bool owned = false) const {
    ExchangeWorld world(rules_(), random_);
    world.memory.wire_version = wire_version_;
    std::set<std::int32_t> ids;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      const ActionKind action = run(world, steps_[i], owned);
      ASSERT_EQ(name_of(action), name_of(steps_[i].action));
      check(world, steps_[i], ids);
    }
    EXPECT_EQ(world.counts(), counts_);
    const auto given_up = world.exchange->facts().given_up;
    if (given_up_) {
      EXPECT_EQ(given_up ? given_up->rule->field : "", *given_up_);
    }
    EXPECT_EQ(world.random.left(), 0U);
    world.exchange->release(world.workspace);
  }

 private:
  enum class Event { request, reply, resume, answer };
  struct Step {
    Event event;
    std::string bytes;
    std::chrono::nanoseconds pass{};
    ActionKind action{};
    std::string out;
    std::chrono::nanoseconds delay{};
    bool client_id = false;
    bool first_send = false;  // the store's answer precedes it
    bool told = false;
    std::size_t count = 0;
    std::int64_t granted = 0;
    ids::Errc refused{};
  };
  /// What the exchange must do after a fault: close; relay the reply if it is the whole reply, else
  /// close; pass it on.
  enum class End { close, relay_or_close, pass };
  struct Fault {
    const char* name;
    std::string bytes;
    End end;
  };

  ExchangeScript& event(Event event, std::string bytes) {
    steps_.push_back({});
    steps_.back().event = event;
    steps_.back().bytes = std::move(bytes);
    steps_.back().pass = std::exchange(pass_, {});
    return *this;
  }
  ExchangeScript& expect(ActionKind action, std::string out) {
    steps_.back().action = action;
    steps_.back().out = std::move(out);
    return *this;
  }

  static ActionKind run(ExchangeWorld& world, const Step& step, bool owned) {
    world.clock.advance(step.pass);
    if (step.event == Event::request) return world.request(step.bytes, owned);
    if (step.event == Event::resume) return world.resume();
    if (step.event == Event::answer) {
      if (step.refused != ids::Errc{}) return world.answer(ids::Error{step.refused, "the reason"});
      const std::uint64_t count = world.last<rewrite::action::AskStore>().count;
      return world.answer(ids::Grant(nullptr, {{step.granted, count}}));
    }
    return world.reply(addressed(step.bytes, 4711, world.exchange->request_id()));
  }

  static void check(const ExchangeWorld& world, const Step& step, std::set<std::int32_t>& ids) {
    if (step.action == ActionKind::wait) {
      EXPECT_EQ(world.last<rewrite::action::Wait>().delay, step.delay);
    }
    if (step.action == ActionKind::ask_store) {
      EXPECT_EQ(world.last<rewrite::action::AskStore>().count, step.count);
    }
    if (step.action == ActionKind::send) {
      const std::int32_t id = world.exchange->request_id();
      const bool first = step.event == Event::request || step.client_id || step.first_send;
      EXPECT_TRUE(first ? id == 7 : ids.insert(id).second && id != 7) << id;
      if (step.out.size() > 5000) {  // too large to print or copy
        EXPECT_EQ(world.bytes().compare(8, std::string::npos, step.out, 8), 0);
      } else {
        EXPECT_EQ(world.bytes(), addressed(step.out, id, 0));
      }
    }
    if (step.action != ActionKind::reply || (step.out.empty() && world.bytes().empty())) return;
    const auto reply = wire::OpMsgView::parse(as_bytes(world.bytes()));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->header().message_length, static_cast<std::int32_t>(world.bytes().size()));
    EXPECT_EQ(addressed(world.bytes(), 0, 7), addressed(step.out, 0, 7));
    EXPECT_EQ(reply->header().response_to, 7);
  }

  void fail_at(std::size_t failing, bool only, std::size_t first, std::size_t stride) const {
    const std::vector<Fault> all = faults(steps_[failing].bytes);
    for (std::size_t next = first; next < all.size(); next += stride) {
      const Fault& fault = all[next];
      SCOPED_TRACE("step " + std::to_string(failing) + ": " + fault.name);
      ExchangeWorld world(rules_(), random_);
      world.memory.wire_version = wire_version_;
      for (std::size_t i = 0; i < failing; ++i) run(world, steps_[i], false);
      world.clock.advance(steps_[failing].pass);
      const std::string bytes = addressed(fault.bytes, 4711, world.exchange->request_id());
      const ActionKind action = world.reply(bytes);
      const bool closes = fault.end == End::close || (fault.end == End::relay_or_close && !only);
      const ActionKind expected = closes                 ? ActionKind::close
                                  : only                 ? ActionKind::relay
                                  : steps_[failing].told ? ActionKind::send
                                                         : ActionKind::reply;
      ASSERT_EQ(name_of(action), name_of(expected));
      if (action == ActionKind::reply) {
        EXPECT_EQ(world.bytes(), addressed(bytes, 4711, 7));
      }
      world.exchange->release(world.workspace);
    }
  }

  static std::vector<Fault> faults(const std::string& reply) {
    const auto of = [](const std::string& fields) { return reply_message(fields, 0); };
    const std::string int_array = element(bson::Type::array, "writeErrors", doc(int_field("0", 1)));
    const std::string unknown_type = element(static_cast<bson::Type>(0x42), "n", "");
    std::vector<Fault> faults = {
        {"no sections", message(2013, i32(0) + "abc"), End::close},
        {"two bodies", op_msg(body(doc(ok())) + body(doc(ok()))), End::close},
        {"unknown flag", op_msg(body(doc(n(0) + ok())), 1U << 3), End::close},
        {"a sequence", op_msg(body(doc(n(0) + ok())) + sequence("x", {doc()})), End::close},
        {"bad BSON", of(unknown_type + ok()), End::close},
        {"moreToCome", reply_message(n(0) + ok(), 0, wire::flag::kMoreToCome), End::close},
        {"empty body", of(""), End::relay_or_close},
        {"ok alone", of(ok()), End::relay_or_close},
        {"no ok", of(n(1)), End::relay_or_close},
        {"ok is 2", of(n(1) + ok(2)), End::relay_or_close},
        {"ok is text", of(n(1) + string_field("ok", "1")), End::relay_or_close},
        {"ok twice", of(n(1) + ok() + ok()), End::relay_or_close},
        {"n too large", of(n(99'999) + ok()), End::relay_or_close},
        {"n negative", of(n(-1) + ok()), End::relay_or_close},
        {"n is text", of(string_field("n", "1") + ok()), End::relay_or_close},
        {"writeErrors is a number", of(n(0) + int_field("writeErrors", 1) + ok()),
         End::relay_or_close},
        {"writeErrors of numbers", of(n(0) + int_array + ok()), End::relay_or_close},
        {"writeErrors twice",
         of(n(0) + write_errors({duplicate(0)}) + write_errors({duplicate(0)}) + ok()),
         End::relay_or_close},
        {"index out of range", of(n(0) + write_errors({duplicate(99'999)}) + ok()),
         End::relay_or_close},
        {"index negative", of(n(0) + write_errors({duplicate(-1)}) + ok()), End::relay_or_close},
        {"indexes not ascending", of(n(0) + write_errors({duplicate(0), duplicate(0)}) + ok()),
         End::relay_or_close},
        {"no index",
         of(n(0) + write_errors({doc(int_field("code", 11000) + duplicate_fields({"_id"}))}) +
            ok()),
         End::relay_or_close},
        {"no code", of(n(0) + write_errors({doc(int_field("index", 0))}) + ok()),
         End::relay_or_close},
        {"n and errors are more than was sent", of(n(99'999) + write_errors({duplicate(0)}) + ok()),
         End::relay_or_close},
        {"an error of the whole", of(failure(13, "not authorized")), End::pass},
        {"an error with a label", of(failure(10107, "not primary", {"RetryableWriteError"})),
         End::pass},
        {"an error of another 11000",
         of(failure(11000, "E11000", {}) + doc_field("keyPattern", int_field("other", 1))),
         End::pass},
    };
    faults.push_back({"no OP_MSG", std::string(reply).replace(12, 4, i32(1)), End::close});
    for (std::size_t cut = wire::kHeaderSize; reply.size() < 2000 && cut < reply.size();
         cut += 13) {
      std::string bytes = reply.substr(0, cut);
      if (cut >= wire::kSectionsOffset) {
        faults.push_back({"cut", bytes.replace(0, 4, i32(static_cast<int>(cut))), End::close});
      }
    }
    return faults;
  }

  Rules rules_;
  std::string random_;
  std::vector<Step> steps_;
  std::chrono::nanoseconds pass_{};
  std::string counts_;
  std::optional<std::string> given_up_;
  bool in_parts_ = false;
  std::int32_t wire_version_ = 17;
};

}  // namespace idproxy::test
