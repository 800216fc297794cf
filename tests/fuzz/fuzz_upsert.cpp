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

#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "support/replies.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/upserts.hpp"
#include "support/write_options.hpp"
#include "write_fuzz.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;
using rewrite::Action;
using rewrite::WriteKind;
namespace action = rewrite::action;

std::shared_ptr<const rewrite::RuleSet> rules(std::shared_ptr<test::Lending> lending) {
  auto number = test::rule("shop.*", "number");
  number.strategy = test::shared_source<test::LendingSource>(std::move(lending));
  number.retry.attempts = kAttempts;
  number.assign = rewrite::Assign::missing_or_zero;
  return test::rule_set_of(std::move(number), test::rule("shop.raw", "a.b"),
                           test::rule("shop.raw", "_id"));
}

// ---- any message -----------------------------------------------------------------------------

/// Any message of a client: what is sent differs only by the values.
void drive_any(Bytes message) {
  if (message.size() < wire::kHeaderSize) return;
  std::string bytes = test::text_of(message);
  bytes.replace(0, 4, test::i32(static_cast<std::int64_t>(bytes.size())));
  World world(rules);
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

class Server : public Documents {
 public:
  using Documents::Documents;

  /// Executes a command; returns the fields of the reply.
  std::string execute(const std::string& bytes) {
    const auto view = *wire::OpMsgView::parse(as_bytes(bytes));
    const auto command = rewrite::WriteCommand::read(view);
    const auto options = test::options_in(view.body());
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
    if (number && was_executed(*number, k)) {
      outcomes.retried.push_back(*number);
      ++outcomes.n;
      if (inserted(k)) outcomes.upserted.emplace_back(index, k);
      return true;
    }
    try_once(k);
    const bool multi = bson::find(statement, "multi").has_value();
    if (!exists(k)) {
      if (!upsert || upsert->as_integer() == 0) return true;
      if (const auto keys = insert(k, number_in(*update), multi); !keys.empty()) {
        outcomes.errors.push_back(test::duplicate(index, keys));
        outcomes.error = test::int_field("code", 11000) + test::duplicate_fields(keys);
        return false;
      }
      outcomes.upserted.emplace_back(index, k);
    }
    ++outcomes.n;
    note_executed(k, number);
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
};

// ---- commands of a client --------------------------------------------------------------------

struct Command {
  std::string bytes;
  WriteKind kind = WriteKind::update;
  bool ordered = true;
  bool numbered = false;
  std::vector<bool> multi;  // by statement; statement i is for the document k = i
};

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

void drive_model(Bytes input) {
  Choices choices(input);
  const Command command = command_of(choices);
  Server server(choices);
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(command.multi.size()); ++k) {
    const std::uint8_t document = choices.next() % 6;
    if (document == 1) server.add_document(k);
    if (document == 2) server.make_foreign(k);
  }
  World world(rules);
  const auto reply = run(world, server, command);
  if (!reply) return;
  if (command.kind == WriteKind::update) check_update_reply(*reply, command, server);
  check_tries(server, command.multi.size());
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
