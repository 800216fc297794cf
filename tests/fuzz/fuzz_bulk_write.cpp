// Drives an exchange with bulkWrites, against a model of the server that knows several collections,
// unique indexes, results in batches, and retryable writes.
//
// Input: an odd first byte, and a client's whole message: what is sent must be the same command but
// for the values. An even first byte, and choices: the ops, each for a document of its own, their
// collections, which documents exist, which values are taken, how many results come at once. Then
// each op must have been executed once at most, the reply must say what happened to each, and no
// value may be given back that is stored. The same command again, as a driver repeats it with its
// txnNumber, must change nothing.

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rewrite/bulk_write.hpp"
#include "support/bulk_writes.hpp"
#include "support/replies.hpp"
#include "support/write_options.hpp"
#include "write_fuzz.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;
using rewrite::WriteKind;

std::shared_ptr<const rewrite::RuleSet> rules(std::shared_ptr<test::Lending> lending) {
  const auto lent = [&](const std::string& ns, const std::string& field) {
    auto its = test::rule(ns, field);
    its.strategy = test::shared_source<test::LendingSource>(lending);
    its.retry.attempts = kAttempts;
    its.assign = rewrite::Assign::missing_or_zero;
    return its;
  };
  return test::rule_set_of(lent("shop.*", "number"), lent("crm.*", "number"),
                           test::rule("raw.*", "a.b"), test::rule("raw.*", "_id"));
}

std::string text_of(const std::optional<bson::Element>& element) {
  return element && element->type == bson::Type::string ? std::string(element->text()) : "";
}

/// The namespaces of a bulkWrite.
std::vector<std::string> namespaces_of(const rewrite::WriteCommand& command) {
  std::vector<std::string> all;
  rewrite::Statements entries(command.ns_info(), command.ns_info_in_array);
  while (const auto entry = entries.next()) all.push_back(text_of(bson::find(*entry, "ns")));
  require(!entries.malformed());
  return all;
}

// ---- any message -----------------------------------------------------------------------------

/// The fields of the body that stay as they are.
std::vector<bson::Element> other_fields(const wire::OpMsgView& message) {
  auto all = elements_of(message.body());
  std::erase_if(all, [](const bson::Element& each) {
    return each.key == "ops" || each.key == "nsInfo" || each.key == "errorsOnly";
  });
  return all;
}

void check_op(Bytes original, Bytes sent) {
  if (bson::find(original, "updateMods")) return check_statement(original, sent, "updateMods");
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  require(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    require(before[i].key == after[i].key && before[i].type == after[i].type);
    require(before[i].key == "document" || equal(before[i], after[i]));
  }
}

/// Requires a document with its values, or the one in place of a document that can have none.
void check_document(Bytes original, Bytes sent, const std::string& ns) {
  if (as_text(original) == as_text(sent)) return;
  const bool is_shop = ns.starts_with("shop.") || ns.starts_with("crm.");
  require(is_shop || ns.starts_with("raw."));
  if (as_text(sent) == as_text(rewrite::refused_document())) return;
  if (is_shop) return check_grown(original, sent);
  // An _id in front, and something below `a`.
  const auto before = elements_of(original);
  const auto after = elements_of(sent);
  const auto is_ours = [](const bson::Element& each) {
    return each.key == "_id" || each.key == "a";
  };
  const auto others = [&](std::vector<bson::Element> all) {
    std::erase_if(all, is_ours);
    return all;
  };
  require(std::ranges::equal(others(before), others(after), equal));
  require(after.size() - before.size() <= 2);
}

/// Any message of a client: what is sent differs only by the values, and by where the parts are.
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
  if (before->kind != WriteKind::bulk_write) return;  // fuzz_insert and fuzz_upsert look at those
  const std::string out = bytes_of(*send);
  const auto sent = wire::OpMsgView::parse(as_bytes(out));
  require(sent && sent->header().message_length == static_cast<std::int32_t>(out.size()));
  require(out.substr(wire::kFlagsOffset, 4) == bytes.substr(wire::kFlagsOffset, 4));
  const auto after = rewrite::WriteCommand::read(*sent);
  require(after && after->kind == before->kind);
  require(std::ranges::equal(other_fields(original), other_fields(*sent), equal));
  const auto namespaces = namespaces_of(*before);
  require(namespaces_of(*after) == namespaces);
  rewrite::Statements ours(*after);
  rewrite::Statements theirs(*before);
  while (const auto op = theirs.next()) {
    const auto changed = ours.next();
    require(changed.has_value());
    check_op(*op, *changed);
    const auto document = bson::find(*op, "document");
    const auto read = rewrite::BulkOp::read(*op, namespaces.size());
    require(read && !read->is_unclear);
    if (read->kind != rewrite::BulkOp::Kind::insert) continue;
    check_document(document->value, bson::find(*changed, "document")->value, namespaces[read->ns]);
  }
  require(!ours.next() && !ours.malformed());
}

// ---- a model of the server -------------------------------------------------------------------

constexpr std::array<const char*, 4> kNamespaces = {"plain.notes", "shop.orders", "crm.people",
                                                    "shop.bills"};

/// The op i is for the document k = i.
class Server : public Documents {
 public:
  using Documents::Documents;

  /// Executes a bulkWrite or a getMore; returns the fields of the reply.
  std::string execute(const std::string& bytes) {
    const auto view = *wire::OpMsgView::parse(as_bytes(bytes));
    const auto first = bson::Elements(view.body()).next();
    if (first->key == "getMore") {
      require(cursor_ != 0 && load_i64(first->value.data()) == cursor_);
      require(text_of(bson::find(view.body(), "collection")) == "$cmd.bulkWrite");
      require(!bson::find(view.body(), "txnNumber"));
      const auto batch = next_batch();
      return test::more_results(cursor_, batch);
    }
    require(cursor_ == 0);  // all results have been fetched
    return bulk_write(view);
  }

  [[nodiscard]] bool has_more() const { return cursor_ != 0; }

 private:
  struct Outcomes {
    test::BulkCounts counts;
    std::vector<std::int32_t> retried;
  };

  std::string bulk_write(const wire::OpMsgView& view) {
    const auto command = rewrite::WriteCommand::read(view);
    const auto options = test::options_in(view.body());
    require(command && options);
    const auto errors_only = bson::find(view.body(), "errorsOnly");
    hides_ = errors_only && errors_only->as_integer() == 1;
    results_.clear();
    const auto namespaces = namespaces_of(*command);
    Outcomes outcomes;
    rewrite::Statements ops(*command);
    std::set<std::int32_t> distinct;
    for (std::int32_t i = 0; const auto op = ops.next(); ++i) {
      std::optional<std::int32_t> number;
      if (options->has_txn_number) number = options->number_of(i);
      require(!number || distinct.insert(*number).second);
      const bool well = execute(*op, namespaces, i, number, outcomes);
      if (!well && options->ordered) break;
    }
    require(!ops.malformed());
    at_once_ = choices().next() % 4;
    const auto batch = next_batch();
    const bool tells = !hides_ || choices().yes(2);
    return test::bulk_reply(outcomes.counts, batch, cursor_) +
           (outcomes.retried.empty() || !tells
                ? ""
                : test::numbers_field("retriedStmtIds", outcomes.retried));
  }

  /// The next results; with cursor_ 0 there are no others.
  std::vector<std::string> next_batch() {
    const std::size_t count = at_once_ == 0 ? results_.size() : std::min(at_once_, results_.size());
    const auto end = results_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<std::string> batch(results_.begin(), end);
    results_.erase(results_.begin(), end);
    cursor_ = results_.empty() ? 0 : 77;
    return batch;
  }

  void note(const std::string& result) {
    if (!hides_) results_.push_back(result);
  }

  bool execute(Bytes op, const std::vector<std::string>& namespaces, std::int32_t index,
               std::optional<std::int32_t> number, Outcomes& outcomes) {
    const auto read = rewrite::BulkOp::read(op, namespaces.size());
    require(read.has_value());
    const std::string& ns = namespaces[read->ns];
    const bool is_insert = read->kind == rewrite::BulkOp::Kind::insert;
    const auto filter = bson::find(op, is_insert ? "document" : "filter");
    const auto k = static_cast<std::int32_t>(*bson::find(filter->value, "k")->as_integer());
    require(ns == kNamespaces[static_cast<std::size_t>(k) % kNamespaces.size()]);
    const bool retried = number && was_executed(*number, k);
    if (retried) outcomes.retried.push_back(*number);
    if (!retried) try_once(k);
    if (is_insert || (!retried && !exists(k) && may_insert(op))) {
      const bool multi = bson::find(op, "multi").has_value();
      const auto keys =
          retried ? std::vector<std::string>() : insert(k, value_in(op, *read, ns), multi);
      if (!keys.empty()) {
        ++outcomes.counts.errors;
        results_.push_back(test::taken(index, keys, ns));
        return false;
      }
    } else if (!exists(k)) {  // it finds nothing
      note(test::well(index));
      return true;
    }
    if (!retried) note_executed(k, number);
    if (is_insert) {
      ++outcomes.counts.inserted;
      note(test::well(index));
    } else if (inserted(k)) {
      ++outcomes.counts.upserted;
      note(test::upserted_result(index, k));
    } else {
      ++outcomes.counts.modified;
      note(test::found_result(index));
    }
    return true;
  }

  static bool may_insert(Bytes op) {
    const auto upsert = bson::find(op, "upsert");
    return upsert && upsert->as_integer() != 0;
  }

  /// The document's number. The rules give one to each inserted document.
  static std::optional<std::int64_t> value_in(Bytes op, const rewrite::BulkOp& read,
                                              const std::string& ns) {
    if (read.kind != rewrite::BulkOp::Kind::insert) return number_in(*bson::find(op, "updateMods"));
    const auto number = bson::find(read.document, "number");
    require(number || ns == kNamespaces.front());
    if (!number) return std::nullopt;
    if (ns == kNamespaces.front()) return std::nullopt;  // which has no index on it
    return number->as_integer();
  }

  bool hides_ = false;
  std::size_t at_once_ = 0;
  std::int64_t cursor_ = 0;
  std::vector<std::string> results_;
};

// ---- commands of a client --------------------------------------------------------------------

struct Command {
  std::string bytes;
  bool ordered = true;
  bool numbered = false;
  bool errors_only = false;
  std::vector<rewrite::UpsertParts::Kind> ops;
};

std::string op_of(Choices& choices, std::int32_t k, bool numbered, Command& command) {
  using Kind = rewrite::UpsertParts::Kind;
  const auto ns = static_cast<std::int32_t>(static_cast<std::size_t>(k) % kNamespaces.size());
  const std::uint8_t kind = choices.next() % 6;
  if (kind < 3) {
    command.ops.push_back(Kind::insert);
    std::string number;  // its own, or a zero that is replaced
    if (kind == 1 && ns != 0) number = test::int_field("number", 0);
    if (kind == 2) number = test::long_field("number", -5 - choices.next());
    return test::insert_op(ns, test::doc(test::int_field("k", k) + number));
  }
  const bool upsert = kind != 5;
  const bool multi = !numbered && choices.yes(4);  // mongod refuses both together
  command.ops.push_back(upsert ? Kind::upsert : Kind::plain);
  std::string update = update_of(choices);
  if (ns == 0) update = test::doc_field("u", test::doc_field("$set", test::int_field("x", 1)));
  update.replace(1, 1, "updateMods");
  return test::doc(
      test::int_field("update", ns) + test::doc_field("filter", test::int_field("k", k)) + update +
      test::bool_field("upsert", upsert) + (multi ? test::bool_field("multi", true) : ""));
}

Command command_of(Choices& choices) {
  Command command;
  const std::uint8_t options = choices.next();
  command.numbered = (options & 1) != 0;
  command.ordered = (options & 2) != 0;
  command.errors_only = (options & 4) != 0;
  const test::BulkForm form = test::kBulkForms[(options >> 3) % std::size(test::kBulkForms)];
  std::vector<std::string> ops;
  const std::int32_t count = 1 + choices.next() % 7;
  for (std::int32_t k = 0; k < count; ++k) {
    ops.push_back(op_of(choices, k, command.numbered, command));
  }
  std::vector<std::string> ns_info;
  for (const char* each : kNamespaces) ns_info.push_back(test::ns_entry(each));
  command.bytes = test::bulk(form,
                             (command.numbered ? test::long_field("txnNumber", 5) : "") +
                                 test::bool_field("ordered", command.ordered) +
                                 test::bool_field("errorsOnly", command.errors_only),
                             ops, ns_info);
  return command;
}

/// Adds the results of a reply.
void add_results(const std::string& body, const char* batch, std::vector<std::string>& results) {
  const auto cursor = bson::find(as_bytes(body), "cursor");
  require(cursor.has_value());
  for (const bson::Element& each : elements_of(bson::find(cursor->value, batch)->value)) {
    results.push_back(test::text_of(each.value));
  }
}

struct Answer {
  std::string body;
  std::vector<std::string> results;
};

/// What the client gets, who fetches the results that a relayed reply has left.
Answer answer_of(const std::string& body, Server& server) {
  Answer answer{body, {}};
  add_results(body, "firstBatch", answer.results);
  const std::string more = test::op_msg(test::body(test::doc(
      test::long_field("getMore", 77) + test::string_field("collection", "$cmd.bulkWrite"))));
  while (server.has_more()) {
    add_results(test::doc(server.execute(more)), "nextBatch", answer.results);
  }
  return answer;
}

/// Runs one exchange to its end. Returns nothing if the proxy refused the command.
std::optional<Answer> run(World& world, Server& server, const Command& command) {
  rewrite::Exchange exchange;
  Action action = world.begin(exchange, command.bytes);
  if (std::holds_alternative<action::Relay>(action)) {
    return answer_of(test::doc(server.execute(command.bytes)), server);
  }
  if (std::holds_alternative<action::Reply>(action)) return std::nullopt;
  std::string reply;
  const std::size_t most = (command.ops.size() * (kAttempts + 1) + 1) * (command.ops.size() + 1);
  for (std::size_t steps = 0; const auto* send = std::get_if<action::Send>(&action); ++steps) {
    require(steps < most);
    const std::string fields = server.execute(bytes_of(*send));
    reply = test::reply_message(fields, exchange.request_id());
    action = world.reply(exchange, reply);
  }
  if (const auto* ours = std::get_if<action::Reply>(&action)) {
    reply = test::text_of(ours->message);
    require(!server.has_more());
  } else {
    require(std::holds_alternative<action::Relay>(action));
  }
  const auto view = *wire::OpMsgView::parse(as_bytes(reply));
  require(view.header().response_to == 7);
  const std::string body = test::text_of(view.body());
  world.end(exchange);
  return answer_of(body, server);
}

std::int64_t number_at(const std::string& body, std::string_view name) {
  const auto field = bson::find(as_bytes(body), name);
  require(field && field->type == bson::Type::int32);
  return load_i32(field->value.data());
}

void check_reply(const Answer& answer, const Command& command, const Server& server) {
  using Kind = rewrite::UpsertParts::Kind;
  require(!bson::find(as_bytes(answer.body), "writeErrors"));
  std::map<std::int64_t, bool> well;
  std::set<std::int64_t> upserted;
  std::int64_t last = -1;
  for (const std::string& result : answer.results) {
    const std::int64_t idx = number_at(result, "idx");
    require(idx > last && idx < static_cast<std::int64_t>(command.ops.size()));
    last = idx;
    well[idx] = bson::find(as_bytes(result), "ok")->as_integer() == 1;
    require(!(command.errors_only && well[idx]));
    if (bson::find(as_bytes(result), "upserted")) upserted.insert(idx);
  }
  std::int64_t errors = 0;
  std::int64_t inserts = 0;
  std::int64_t upserts = 0;
  bool stopped = false;
  for (std::size_t i = 0; i < command.ops.size(); ++i) {
    const auto k = static_cast<std::int32_t>(i);
    const bool failed = well.contains(k) && !well[k];
    require(!failed || server.executions(k) == 0);
    require(!stopped || (!well.contains(k) && server.executions(k) == 0));
    errors += failed ? 1 : 0;
    if (!command.errors_only) {
      require(stopped || well.contains(k));
      const bool is_upsert = command.ops[i] == Kind::upsert;
      require((is_upsert && server.inserted(k)) == upserted.contains(k));
    }
    if (command.ops[i] == Kind::insert) {
      inserts += server.executions(k);
      require(stopped || failed || server.executions(k) == 1);
    } else {
      upserts += server.inserted(k) ? 1 : 0;
    }
    stopped = stopped || (failed && command.ordered);
  }
  require(number_at(answer.body, "nErrors") == errors);
  require(number_at(answer.body, "nInserted") == inserts);
  require(number_at(answer.body, "nUpserted") == upserts);
}

void drive_model(Bytes input) {
  Choices choices(input);
  const Command command = command_of(choices);
  Server server(choices);
  const std::size_t count = command.ops.size();
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(count); ++k) {
    const std::uint8_t document = choices.next() % 6;
    const bool is_insert =
        command.ops[static_cast<std::size_t>(k)] == rewrite::UpsertParts::Kind::insert;
    if (document == 1 && !is_insert) server.add_document(k);
    if (document == 2) server.make_foreign(k);
  }
  World world(rules);
  const auto answer = run(world, server, command);
  if (!answer) return;
  check_reply(*answer, command, server);
  check_tries(server, count);
  check_values(world, server);
  if (!command.numbered) return;
  std::vector<int> before;
  for (std::size_t i = 0; i < count; ++i) {
    before.push_back(server.executions(static_cast<std::int32_t>(i)));
  }
  const auto again = run(world, server, command);
  if (again) check_reply(*again, command, server);
  for (std::size_t i = 0; i < count; ++i) {
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
