// Drives an exchange with updates and findAndModifies, against a model of the server that knows
// $setOnInsert, unique indexes and retryable writes.
//
// Input: an odd first byte, and a client's whole message: what is sent must be the same message but
// for the values. An even first byte, and choices: the kind of the command, its statements, each
// for a document of its own, which of these documents exist, which values are taken. Then each
// statement must have been executed once at most, the reply must say what happened to each, and no
// value may be given back that is stored. The same command again, as a driver repeats it with its
// txnNumber, must change nothing.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "support/fake_clock.hpp"
#include "support/lending_source.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/upserts.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;
using rewrite::Action;
using rewrite::WriteKind;
namespace action = rewrite::action;

constexpr std::uint32_t kAttempts = 3;

/// One choice after the other; zeros at the end of the input.
class Choices {
 public:
  explicit Choices(Bytes input) : rest_(input) {}
  std::uint8_t next() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  bool yes(std::uint8_t one_in) { return next() % one_in == 1; }

 private:
  Bytes rest_;
};

std::shared_ptr<const rewrite::RuleSet> rules(std::shared_ptr<test::Lending> lending) {
  auto number = test::rule("shop.*", "number");
  number.strategy = test::shared_source<test::LendingSource>(std::move(lending));
  number.retry.attempts = kAttempts;
  number.assign = rewrite::Assign::missing_or_zero;
  return test::rule_set_of(std::move(number), test::rule("shop.raw", "a.b"),
                           test::rule("shop.raw", "_id"));
}

/// What an exchange needs. A few values are at hand; every third question to the store fails.
class World {
 public:
  World() { lending_->at_hand = 5; }

  Action begin(rewrite::Exchange& exchange, const std::string& message) {
    return ask(exchange, test::begin(exchange, as_bytes(message), nullptr, namespaces_, context_,
                                     workspace_));
  }
  Action reply(rewrite::Exchange& exchange, const std::string& bytes) {
    return ask(exchange, exchange.reply(as_bytes(bytes), context_, workspace_));
  }
  void end(rewrite::Exchange& exchange) { exchange.release(workspace_); }
  [[nodiscard]] const std::vector<std::int64_t>& given_back() const { return lending_->back; }

 private:
  Action ask(rewrite::Exchange& exchange, Action action) {
    while (const auto* need = std::get_if<action::AskStore>(&action)) {
      const std::uint64_t count = need->count;
      require(count > 0 && ++asked_ < 1000);
      const std::int64_t first = 1'000'000 * asked_;
      if (asked_ % 3 == 0) {
        action = exchange.answered(ids::Error{ids::Errc::exhausted, "none"}, context_, workspace_);
      } else {
        action = exchange.answered(ids::Grant(nullptr, {{first, count}}), context_, workspace_);
      }
    }
    return action;
  }

  std::int64_t asked_ = 0;
  std::shared_ptr<test::Lending> lending_ = std::make_shared<test::Lending>();
  test::FakeClock clock_;
  test::SeededRandom random_;
  rewrite::Namespaces namespaces_{rules(lending_)};
  rewrite::Context context_{clock_, random_};
  rewrite::Workspace workspace_;
};

std::string bytes_of(const action::Send& send) {
  Buffer out;
  send.message->copy(send.original, 0, out);
  return test::text_of(out.view());
}

// ---- any message -----------------------------------------------------------------------------

std::vector<bson::Element> elements_of(Bytes document) {
  std::vector<bson::Element> all;
  bson::Elements elements(document);
  while (const auto element = elements.next()) all.push_back(*element);
  require(!elements.malformed());
  return all;
}

bool equal(const bson::Element& a, const bson::Element& b) {
  return as_text({a.begin, a.end()}) == as_text({b.begin, b.end()});
}

/// What the rule for `number` takes for no value. Leaves aside what zeros of rare types are.
bool may_be_zero(const bson::Element& element) {
  if (element.key != "number") return false;
  using bson::Type;
  if (element.type == Type::string) return element.text().empty();
  const bool is_number = element.type == Type::int32 || element.type == Type::int64 ||
                         element.type == Type::number_double;
  if (is_number) return element.as_integer() == 0;
  return element.type == Type::null || element.type == Type::decimal128 ||
         element.type == Type::object_id || element.type == Type::binary;
}

/// Requires `sent` to be `original` with elements added at its end, and values in place of zeros.
void check_grown(Bytes original, Bytes sent) {
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  require(before.size() <= after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool replaced = before[i].key == after[i].key && may_be_zero(before[i]) &&
                          after[i].type == bson::Type::int64 && !may_be_zero(after[i]);
    require(replaced || equal(before[i], after[i]));
  }
}

void check_update(const bson::Element& original, const bson::Element& sent) {
  require(original.type == sent.type);
  const auto before = elements_of(original.value);
  const auto after = elements_of(sent.value);
  require(before.size() <= after.size());
  if (original.type == bson::Type::array) {  // stages in front
    const std::size_t added = after.size() - before.size();
    for (std::size_t i = 0; i < before.size(); ++i) {
      require(after[added + i].key == std::to_string(added + i));
      require(as_text(after[added + i].value) == as_text(before[i].value));
    }
    return;
  }
  require(after.size() <= before.size() + 1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    require(before[i].key == after[i].key);
    if (before[i].key == "$setOnInsert") {
      check_grown(before[i].value, after[i].value);
    } else {
      require(equal(before[i], after[i]));
    }
  }
  require(after.size() == before.size() || after.back().key == "$setOnInsert");
}

void check_statement(Bytes original, Bytes sent, std::string_view update) {
  if (as_text(original) == as_text(sent)) return;
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  require(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].key == update) {
      check_update(before[i], after[i]);
    } else {
      require(equal(before[i], after[i]));
    }
  }
}

/// Any message of a client: what is sent differs only by the values.
void drive_any(Bytes message) {
  if (message.size() < wire::kHeaderSize) return;
  std::string bytes = test::text_of(message);
  bytes.replace(0, 4, test::i32(static_cast<std::int64_t>(bytes.size())));
  World world;
  rewrite::Exchange exchange;
  const Action action = world.begin(exchange, bytes);
  const auto* send = std::get_if<action::Send>(&action);
  if (send == nullptr || exchange.is_hello() || exchange.is_status()) return;
  const auto original = *wire::OpMsgView::parse(as_bytes(bytes));
  const auto before = rewrite::WriteCommand::read(original);
  require(before.has_value());
  if (before->kind == WriteKind::insert) return;  // fuzz_insert looks at those
  const std::string out = bytes_of(*send);
  const auto sent = wire::OpMsgView::parse(as_bytes(out));
  require(sent && sent->header().message_length == static_cast<std::int32_t>(out.size()));
  const auto after = rewrite::WriteCommand::read(*sent);
  require(after && after->kind == before->kind);
  rewrite::Statements ours(*after);
  rewrite::Statements theirs(*before);
  while (const auto statement = theirs.next()) {
    const auto changed = ours.next();
    require(changed.has_value());
    check_statement(*statement, *changed, before->kind == WriteKind::update ? "u" : "update");
  }
  require(!ours.next() && !ours.malformed());
}

// ---- a model of the server -------------------------------------------------------------------

/// The value that this update gives to `number` when it inserts a document.
std::optional<std::int64_t> number_in(const bson::Element& update) {
  std::optional<bson::Element> value;
  if (update.type == bson::Type::array) {
    for (const bson::Element& stage : elements_of(update.value)) {
      const auto set = bson::find(stage.value, "$set");
      const auto field = set ? bson::find(set->value, "number") : std::nullopt;
      if (!field) continue;
      const auto condition = bson::find(field->value, "$cond");
      require(condition && elements_of(condition->value).size() == 3);
      value = bson::find(elements_of(condition->value)[1].value, "$literal");
    }
  } else if (const auto on_insert = bson::find(update.value, "$setOnInsert")) {
    value = bson::find(on_insert->value, "number");
  } else {
    value = bson::find(update.value, "number");
  }
  if (!value) return std::nullopt;
  return value->as_integer();
}

/// A collection with unique indexes on `number` and `mail`, whose documents have the key k.
class Server {
 public:
  explicit Server(Choices& choices) : choices_(choices) {}

  void add_document(std::int32_t k) { exists_.insert(k); }
  void make_foreign(std::int32_t k) { foreign_.insert(k); }

  /// Executes a command; returns the fields of the reply.
  std::string execute(const std::string& bytes) {
    const auto view = *wire::OpMsgView::parse(as_bytes(bytes));
    const auto command = rewrite::WriteCommand::read(view);
    const auto options = rewrite::WriteOptions::read(view.body());
    require(command && options);
    Outcomes outcomes;
    rewrite::Statements statements(*command);
    std::set<std::int32_t> distinct;
    for (std::int32_t i = 0; const auto statement = statements.next(); ++i) {
      std::optional<std::int32_t> number;
      if (options->has_txn_number) number = options->number_of(i);
      require(!number || distinct.insert(*number).second);
      const bool well = execute(*statement, command->kind, i, number, outcomes);
      if (!well && options->ordered) break;
    }
    require(!statements.malformed());
    return command->kind == WriteKind::update ? of_update(outcomes) : of_modify(outcomes);
  }

  /// How often a statement has changed or inserted the document k.
  [[nodiscard]] int executions(std::int32_t k) const {
    const auto found = executions_.find(k);
    return found == executions_.end() ? 0 : found->second;
  }
  /// How often a statement has been tried, without those that were executed earlier.
  [[nodiscard]] int tries(std::int32_t k) const {
    const auto found = tries_.find(k);
    return found == tries_.end() ? 0 : found->second;
  }
  [[nodiscard]] bool inserted(std::int32_t k) const { return inserted_.contains(k); }
  /// True if this value is stored, by a statement or by somebody else.
  [[nodiscard]] bool holds(std::int64_t number) const {
    return numbers_.contains(number) || taken_.contains(number);
  }

 private:
  struct Outcomes {
    std::int32_t n = 0;
    std::vector<std::string> errors;
    std::string error;  // of the only statement, for a findAndModify
    std::vector<std::pair<std::int32_t, std::int64_t>> upserted;
    std::vector<std::int32_t> retried;
  };

  bool execute(Bytes statement, WriteKind kind, std::int32_t index,
               std::optional<std::int32_t> number, Outcomes& outcomes) {
    const bool batch = kind == WriteKind::update;
    const auto filter = bson::find(statement, batch ? "q" : "query");
    const auto update = bson::find(statement, batch ? "u" : "update");
    const auto upsert = bson::find(statement, "upsert");
    const auto k = static_cast<std::int32_t>(*bson::find(filter->value, "k")->as_integer());
    if (number && executed_.contains(*number)) {
      require(executed_.at(*number) == k);
      outcomes.retried.push_back(*number);
      ++outcomes.n;
      if (inserted_.contains(k)) outcomes.upserted.emplace_back(index, k);
      return true;
    }
    ++tries_[k];
    require(!final_.contains(k));
    const bool multi = bson::find(statement, "multi").has_value();
    if (!exists_.contains(k)) {
      if (!upsert || upsert->as_integer() == 0) return true;
      if (!insert(k, number_in(*update), index, multi, outcomes)) return false;
      outcomes.upserted.emplace_back(index, k);
    }
    ++outcomes.n;
    ++executions_[k];
    if (number) executed_.emplace(*number, k);
    return true;
  }

  bool insert(std::int32_t k, std::optional<std::int64_t> number, std::int32_t index, bool multi,
              Outcomes& outcomes) {
    require(number != 0);
    const auto fails = [&](const std::vector<std::string>& keys) {
      outcomes.errors.push_back(test::duplicate(index, keys));
      outcomes.error = test::int_field("code", 11000) + test::duplicate_fields(keys);
      return false;
    };
    if (foreign_.contains(k)) return fails({"mail"});
    // With multi, such an error may hide that documents were changed: it is the last one.
    if (number && multi && choices_.yes(4)) {
      final_.insert(k);
      return fails({"number", "t"});
    }
    if (number && (numbers_.contains(*number) || choices_.yes(3))) {
      taken_.insert(*number);
      return fails({"number"});
    }
    if (number && taken_.contains(*number)) return fails({"number"});
    if (number) numbers_.insert(*number);
    exists_.insert(k);
    inserted_.insert(k);
    return true;
  }

  static std::string of_update(const Outcomes& outcomes) {
    return test::n(outcomes.n) +
           (outcomes.errors.empty() ? "" : test::write_errors(outcomes.errors)) +
           (outcomes.upserted.empty() ? "" : test::upserted(outcomes.upserted)) +
           test::modified(outcomes.n - static_cast<std::int32_t>(outcomes.upserted.size())) +
           (outcomes.retried.empty() ? ""
                                     : test::numbers_field("retriedStmtIds", outcomes.retried)) +
           test::ok();
  }
  static std::string of_modify(const Outcomes& outcomes) {
    if (!outcomes.error.empty()) return test::ok(0) + outcomes.error;
    const std::string retried =
        outcomes.retried.empty() ? "" : test::int_field("retriedStmtId", outcomes.retried.front());
    return (outcomes.upserted.empty() ? test::found_by_modify() : test::inserted_by_modify(1)) +
           retried + test::ok();
  }

  Choices& choices_;
  std::set<std::int32_t> exists_, foreign_, inserted_, final_;
  std::set<std::int64_t> numbers_;  // that are stored by statements
  std::set<std::int64_t> taken_;    // by somebody else
  std::map<std::int32_t, int> executions_, tries_;
  std::map<std::int32_t, std::int32_t> executed_;  // k by statement number
};

// ---- commands of a client --------------------------------------------------------------------

struct Command {
  std::string bytes;
  WriteKind kind = WriteKind::update;
  bool ordered = true;
  bool numbered = false;
  std::vector<bool> multi;  // by statement; statement i is for the document k = i
};

std::string update_of(Choices& choices) {
  const std::string set = test::doc_field("$set", test::int_field("x", 1));
  const std::string stage = test::item(set);
  const auto in_doc = [](const std::string& elements) { return test::doc_field("u", elements); };
  const std::string zeros[] = {test::element(bson::Type::null, "number", ""),
                               test::int_field("number", 0), test::double_field("number", -0.0)};
  switch (choices.next() % 9) {
    case 0:
      return in_doc(test::int_field("x", 1));  // a replacement
    case 1:
      return in_doc(test::long_field("number", -5 - choices.next()));
    case 2:
      return in_doc(set + test::doc_field("$setOnInsert", test::int_field("y", 1)));
    case 3:
      return in_doc(test::doc_field("$setOnInsert", test::long_field("number", -5)) + set);
    case 4:
      return test::array_of("u", {stage});
    case 5:
      return test::array_of("u", {});
    case 6:
      return in_doc("");
    case 8:
      return in_doc(set + test::doc_field("$setOnInsert",
                                          test::int_field("y", 1) + zeros[choices.next() % 3]));
    default:
      return in_doc(set);
  }
}

Command command_of(Choices& choices) {
  Command command;
  const std::uint8_t options = choices.next();
  command.numbered = (options & 1) != 0;
  command.ordered = (options & 2) != 0;
  const std::string txn = command.numbered ? test::long_field("txnNumber", 5) : "";
  if ((options & 4) != 0) {
    command.kind = WriteKind::find_and_modify;
    command.ordered = true;
    command.multi = {false};
    std::string update = update_of(choices);
    update.replace(1, 1, "update");
    command.bytes = test::op_msg(test::body(
        test::doc(test::string_field("findAndModify", "orders") +
                  test::doc_field("query", test::int_field("k", 0)) + update +
                  test::bool_field("upsert", true) + txn + test::string_field("$db", "shop"))));
    return command;
  }
  std::vector<std::string> statements;
  const int count = 1 + choices.next() % 7;
  for (int k = 0; k < count; ++k) {
    const bool upsert = !choices.yes(5);
    const bool multi = !command.numbered && choices.yes(4);  // mongod refuses both together
    statements.push_back(test::doc(test::doc_field("q", test::int_field("k", k)) +
                                   update_of(choices) + test::bool_field("upsert", upsert) +
                                   (multi ? test::bool_field("multi", true) : "")));
    command.multi.push_back(multi);
  }
  const std::string fields = txn + test::bool_field("ordered", command.ordered);
  command.bytes = (options & 8) != 0 ? test::update_array(fields, statements)
                                     : test::update_sequence(fields, statements);
  return command;
}

/// Runs one exchange to its end. Returns the body of the reply that the client gets; nothing if the
/// proxy refused the command.
std::optional<std::string> run(World& world, Server& server, const Command& command) {
  rewrite::Exchange exchange;
  Action action = world.begin(exchange, command.bytes);
  std::string reply;
  if (std::holds_alternative<action::Relay>(action)) {
    return test::doc(server.execute(command.bytes));
  }
  if (std::holds_alternative<action::Reply>(action)) return std::nullopt;
  const std::size_t most = command.multi.size() * (kAttempts + 1) + 1;
  for (std::size_t steps = 0; const auto* send = std::get_if<action::Send>(&action); ++steps) {
    require(steps < most);
    const std::string fields = server.execute(bytes_of(*send));
    reply = test::reply_message(fields, exchange.request_id());
    action = world.reply(exchange, reply);
  }
  if (const auto* ours = std::get_if<action::Reply>(&action)) {
    reply = test::text_of(ours->message);
  } else {
    require(std::holds_alternative<action::Relay>(action));
  }
  const auto view = *wire::OpMsgView::parse(as_bytes(reply));
  require(view.header().response_to == 7);
  std::string body = test::text_of(view.body());
  world.end(exchange);
  return body;
}

void check_update_reply(const std::string& body, const Command& command, const Server& server) {
  const auto reply = rewrite::WriteReply::read(as_bytes(body), command.multi.size());
  require(reply && reply->ok && reply->n);
  std::set<std::int32_t> failed;
  for (const auto& error : reply->errors) failed.insert(error.index);
  const std::set<std::int32_t> upserted(reply->upserted.begin(), reply->upserted.end());
  std::int64_t n = 0;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(command.multi.size()); ++k) {
    n += server.executions(k);
    require(server.inserted(k) == upserted.contains(k));
    require(!failed.contains(k) || server.executions(k) == 0);
    if (command.ordered && !failed.empty() && k > *failed.begin()) {
      require(server.executions(k) == 0);
    }
  }
  require(*reply->n == n);
}

void check_tries(const Command& command, const Server& server) {
  for (std::size_t i = 0; i < command.multi.size(); ++i) {
    const auto k = static_cast<std::int32_t>(i);
    require(server.executions(k) <= 1);
    require(server.tries(k) <= static_cast<int>(kAttempts) + 1);
  }
}

void check_values(const World& world, const Server& server) {
  std::set<std::int64_t> back;
  for (const std::int64_t value : world.given_back()) {
    require(back.insert(value).second && !server.holds(value));
  }
}

void drive_model(Bytes input) {
  Choices choices(input);
  const Command command = command_of(choices);
  Server server(choices);
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(command.multi.size()); ++k) {
    const std::uint8_t document = choices.next() % 6;
    if (document == 1) server.add_document(k);
    if (document == 2) server.make_foreign(k);
  }
  World world;
  const auto reply = run(world, server, command);
  if (!reply) return;
  if (command.kind == WriteKind::update) check_update_reply(*reply, command, server);
  check_tries(command, server);
  check_values(world, server);
  if (!command.numbered) return;
  std::vector<int> before;
  for (std::size_t i = 0; i < command.multi.size(); ++i) {
    before.push_back(server.executions(static_cast<std::int32_t>(i)));
  }
  static_cast<void>(run(world, server, command));
  for (std::size_t i = 0; i < command.multi.size(); ++i) {
    const int now = server.executions(static_cast<std::int32_t>(i));
    require(now <= 1 && now >= before[i]);
  }
  check_values(world, server);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes rest = Bytes(data, size).subspan(1);
  data[0] % 2 == 1 ? drive_any(rest) : drive_model(rest);
  return 0;
}
