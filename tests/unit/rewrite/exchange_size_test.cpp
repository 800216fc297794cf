// No command that an exchange sends has more than 48,000,000 bytes, whatever the proxy adds to the
// client's: values, the collection's UUID, the numbers of statements, a write concern, a maxTimeMS.

#include "idproxy/ids/guard.hpp"
#include "support/bulk_writes.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/turn_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_size_test {

using namespace test;

constexpr std::size_t kMost = 48'000'000;
constexpr std::int32_t kStatements = 3;

using Fill = std::vector<std::string>;

std::string inserts(const std::string& options, const Fill& fill, std::uint32_t flags) {
  std::vector<std::string> documents;
  for (const std::string& each : fill) documents.push_back(doc(string_field("t", each)));
  return client(Form::sequence, options, documents, flags);
}
std::string updates(const std::string& options, const Fill& fill, std::uint32_t flags) {
  std::vector<std::string> statements;
  for (const std::string& each : fill) {
    statements.push_back(doc(upsert_fields(1, doc_field("$set", string_field("t", each)))));
  }
  return update_sequence(options, statements, flags);
}
std::string bulk_inserts(const std::string& options, const Fill& fill, std::uint32_t flags) {
  std::vector<std::string> ops;
  for (const std::string& each : fill) ops.push_back(insert_op(0, doc(string_field("t", each))));
  return bulk(BulkForm::sequences, options, ops, {doc(string_field("ns", "shop.orders"))}, flags);
}

/// The answer to a command with so many statements: all go well, or the first value is taken.
std::string inserted(std::int32_t count, bool is_taken) {
  if (!is_taken) return n(count) + ok();
  return n(0) + write_errors({duplicate(0, {"number"})}) + ok();
}
std::string updated(std::int32_t count, bool is_taken) {
  if (is_taken) return n(0) + modified(0) + write_errors({duplicate(0, {"number"})}) + ok();
  std::vector<std::pair<std::int32_t, std::int64_t>> entries;
  for (std::int32_t i = 0; i < count; ++i) entries.emplace_back(i, i);
  return n(count) + upserted(entries) + modified(0) + ok();
}
std::string bulk_inserted(std::int32_t count, bool is_taken) {
  if (is_taken) return bulk_reply({.errors = 1}, {taken(0, {"number"})});
  std::vector<std::string> results;
  for (std::int32_t i = 0; i < count; ++i) results.push_back(well(i));
  return bulk_reply({.inserted = count}, results);
}

struct Row {
  const char* name;
  decltype(&inserts) message;
  decltype(&inserted) reply;
  std::string options;
  bool in_turn = false;  // numbers without gaps; else the first number is taken
  std::uint32_t flags = 0;
};

/// A client's message of exactly this size, with three statements.
std::string sized(const Row& row, std::size_t size) {
  const std::size_t room = size - row.message(row.options, Fill(kStatements), row.flags).size();
  Fill fill(2, std::string(room / kStatements, 'x'));
  fill.emplace_back(room - 2 * (room / kStatements), 'x');
  return row.message(row.options, fill, row.flags);
}

std::int32_t statements_in(std::string_view bytes) {
  const auto message = wire::OpMsgView::parse(as_bytes(bytes));
  const auto command = WriteCommand::read(*message);
  std::int32_t count = 0;
  Statements statements(*command);
  while (statements.next()) ++count;
  return count;
}

std::shared_ptr<const RuleSet> rules(bool in_turn) {
  auto store = std::make_shared<FakeStore>();
  store->guarding = std::make_shared<ids::Guard>(0, "shop", "orders", nullptr);
  store->guarding->set({ids::GuardState::Kind::guarded, {}, ids::CollectionUuid{1}},
                       FakeClock().monotonic());
  Rule its = rule("shop.*", "number");
  if (in_turn) its.strategy = std::make_shared<TurnRule>(std::make_shared<Turns>());
  return std::make_shared<const RuleSet>(std::vector<Rule>{its}, "idproxy", store);
}

/// Plays the server, for which no command may be too large.
void expect_all_stored(const Row& row, std::size_t size) {
  SCOPED_TRACE(row.name + std::string(", bytes of the client: ") + std::to_string(size));
  ExchangeWorld world(rules(row.in_turn), "0000000000000000");
  bool is_taken = !row.in_turn;
  std::int32_t stored = 0;
  ActionKind action = world.request(sized(row, size), true);
  while (action == ActionKind::send) {
    EXPECT_LE(world.bytes().size(), kMost);
    const std::int32_t count = statements_in(world.bytes());
    stored += is_taken ? 0 : count;
    action = world.reply_with(row.reply(count, std::exchange(is_taken, false)));
    if (action == ActionKind::wait) action = world.resume();
  }
  EXPECT_TRUE(action == ActionKind::reply || action == ActionKind::relay) << name_of(action);
  EXPECT_EQ(stored, kStatements);
  EXPECT_EQ(world.body().find("errmsg"), std::string::npos);
}

TEST(ExchangeSize, NoCommandIsLargerThanAMessage) {
  const std::string time = int_field("maxTimeMS", 60'000);
  const Row rows[] = {
      {"gapless insert, maxTimeMS", inserts, inserted, time, true},
      {"repeated insert, checksum", inserts, inserted, kTxnNumber + time, false,
       wire::flag::kChecksumPresent},
      {"repeated upserts", updates, updated, kTxnNumber},
      {"repeated bulkWrite", bulk_inserts, bulk_inserted, kTxnNumber},
  };
  // What the proxy adds has some 100 to 200 bytes.
  for (const Row& row : rows) {
    for (const std::size_t below : {160U, 120U, 100U}) expect_all_stored(row, kMost - below);
  }
}

/// The numbers of statements go into the body, which has a limit of its own.
TEST(ExchangeSize, NoBodyIsLargerThanADocument) {
  // Without the numbers, the body has 300 bytes to spare.
  const std::string note(bson::kMaxInternalDocument, 'x');
  const std::vector<std::string> documents(50, doc(string_field("t", "x")));
  ExchangeWorld world(rules(false), "0000000000000000");
  std::string options = kTxnNumber + string_field("comment", note);
  const std::size_t body = doc(insert_fields() + options).size();
  options =
      kTxnNumber + string_field("comment", note.substr(body + 300 - bson::kMaxInternalDocument));
  ActionKind action = world.request(client(Form::sequence, options, documents));
  bool is_taken = true;
  std::int32_t stored = 0;
  while (action == ActionKind::send) {
    EXPECT_LE(wire::OpMsgView::parse(as_bytes(world.bytes()))->body().size(),
              bson::kMaxInternalDocument);
    const std::int32_t count = statements_in(world.bytes());
    stored += is_taken ? 0 : count;
    action = world.reply_with(inserted(count, std::exchange(is_taken, false)));
    if (action == ActionKind::wait) action = world.resume();
  }
  EXPECT_EQ(stored, 50);
}

}  // namespace exchange_size_test
}  // namespace idproxy::rewrite
