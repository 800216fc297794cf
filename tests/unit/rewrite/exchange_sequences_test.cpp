// What an exchange does with a rule whose documents decide which sequence a value comes from.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"
#include "support/sequenced_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_sequences_test {

using namespace test;
using ids::Errc;

constexpr Form kSequencesForms[] = {Form::sequence, Form::array};

/// Documents of the tenants a and b, whose sequences begin at 10 and 20.
class ExchangeSequences : public ::testing::Test {
 protected:
  ExchangeScript::Rules rules(std::size_t at_hand, std::vector<std::string> fields = {"t"},
                              std::string field = "n") {
    return [this, at_hand, fields, field] {
      last = std::make_shared<Lendings>();
      for (const auto& [tenant, first] :
           {std::pair("a", 10), std::pair("b", 20), std::pair("", 1)}) {
        auto lending = std::make_shared<Lending>();
        lending->next = first;
        lending->at_hand = at_hand;
        last->emplace(tenant, std::move(lending));
      }
      Rule made = rule("shop.*", field);
      made.strategy = std::make_shared<SequencedRule>(fields, last);
      return rule_set_of(std::move(made));
    };
  }
  [[nodiscard]] std::string calls(const char* tenant) const { return last->at(tenant)->calls; }

  std::shared_ptr<Lendings> last;
};

std::string of(const char* tenant) {
  return doc(string_field("t", tenant));
}
std::string of(const char* tenant, std::int64_t number) {
  return doc(string_field("t", tenant) + long_field("n", number));
}

TEST_F(ExchangeSequences, GiveEachDocumentAValueOfItsOwn) {
  for (const Form form : kSequencesForms) {
    ExchangeScript(rules(9))
        .request(client(form, "", {of("b"), of("a"), of("b"), of("a"), of("a")}))
        .sends(client(form, "", {of("b", 20), of("a", 10), of("b", 21), of("a", 11), of("a", 12)}))
        .reply(n(5) + ok())
        .relays()
        .counts("assigned=5")
        .play();
    EXPECT_EQ(calls("a") + calls("b"), "");
  }
}

TEST_F(ExchangeSequences, AskForEachInTurn) {
  ExchangeScript(rules(1))
      .request(client(Form::array, "", {of("b"), of("a"), of("b"), of("a"), of("a")}))
      .asks(2)
      .granted(50)
      .asks(3)
      .granted(60)
      .sends_first(client(Form::array, "",
                          {of("b", 50), of("a", 60), of("b", 51), of("a", 61), of("a", 62)}))
      .reply(n(5) + ok())
      .relays()
      .counts("assigned=5")
      .play();
}

TEST_F(ExchangeSequences, GetTheirValuesBackIfOneHasNone) {
  ExchangeWorld world(rules(1)());
  ASSERT_EQ(world.request(client(Form::array, "", {of("b"), of("a"), of("a")})),
            ActionKind::ask_store);
  ASSERT_EQ(world.answer(ids::Error{Errc::exhausted, "the reason"}), ActionKind::reply);
  EXPECT_EQ(calls("b"), "back 20; ");
  EXPECT_EQ(calls("a"), "");
  ASSERT_EQ(world.request(client(Form::array, "", {of("b"), of("a"), of("a")})),
            ActionKind::ask_store);
  world.exchange.reset();              // the client has gone
  EXPECT_EQ(calls("b"), "back 20; ");  // it had none at hand: nothing was drawn
}

TEST_F(ExchangeSequences, RenewATakenValueFromTheSameOne) {
  const std::string options = kUnordered + kTxnNumber;
  ExchangeScript(rules(9))
      .request(client(Form::array, options, {of("b"), of("a"), of("b"), of("a")}))
      .sends(client(Form::array, options, {of("b", 20), of("a", 10), of("b", 21), of("a", 11)}))
      .reply(n(1) +
             write_errors(
                 {duplicate(1, {"n", "t"}), duplicate(2, {"n", "t"}), duplicate(3, {"n", "t"})}) +
             ok())
      .sends(part(options, {of("a", 12), of("b", 22), of("a", 13)}, {1, 2, 3}))
      .reply(n(2) + write_errors({duplicate(1, {"n", "t"})}) + ok())
      .sends(part(options, {of("b", 23)}, {2}))
      .reply(n(1) + ok())
      .replies(n(4) + ok())
      .counts("assigned=4 resent=4 cured=3")
      .play_once();
  EXPECT_EQ(calls("a"), "taken 10 11 of 2; well; ");
  EXPECT_EQ(calls("b"), "taken 21 of 1; taken 22 of 2; well; ");
}

TEST_F(ExchangeSequences, RenewInTheOrderOfABatch) {
  ExchangeScript(rules(9))
      .request(client(Form::array, "", {of("b"), of("a"), of("b")}))
      .sends(client(Form::array, "", {of("b", 20), of("a", 10), of("b", 21)}))
      .reply(n(1) + write_errors({duplicate(1, {"n", "t"})}) + ok())
      .sends(part("", {of("a", 11), of("b", 21)}))
      .reply(n(2) + ok())
      .replies(n(3) + ok())
      .counts("assigned=3 resent=1 cured=1")
      .play_once();
  EXPECT_EQ(calls("a"), "taken 10 of 1; well; ");
  EXPECT_EQ(calls("b"), "");
}

TEST_F(ExchangeSequences, TakeBackWhatIsStoredNowhere) {
  ExchangeScript(rules(9))
      .request(client(Form::array, "", {of("b"), of("a"), of("b"), of("a")}))
      .sends(client(Form::array, "", {of("b", 20), of("a", 10), of("b", 21), of("a", 11)}))
      .reply(n(1) + write_errors({write_error(1, 121)}) + ok())
      .relays()
      .counts("assigned=4")
      .play_once();
  EXPECT_EQ(calls("a"), "back 10 11; ");
  EXPECT_EQ(calls("b"), "back 21; ");
}

TEST_F(ExchangeSequences, RefuseADocumentThatBelongsToNone) {
  const std::string without = doc(int_field("x", 1));
  const std::string refused = text_of(refused_document());
  const std::string why =
      "mongo-idproxy: no value for field 'n': field 't' is "
      "missing: the rule's `scope` needs it";
  const std::string own =
      doc(int_field("index", 1) + int_field("code", 2) + string_field("errmsg", why));
  ExchangeScript(rules(9))
      .request(client(Form::array, kUnordered, {of("b"), without, of("a")}))
      .sends(client(Form::array, kUnordered, {of("b", 20), refused, of("a", 10)}))
      .reply(n(2) + write_errors({write_error(1, 53)}) + ok())
      .replies(n(2) + write_errors({own}) + ok())
      .counts("assigned=2")
      .play_once();
}

TEST_F(ExchangeSequences, OfTheDateServeAllDocuments) {
  for (const char* field : {"n", "_id"}) {
    for (const Form form : kSequencesForms) {
      const std::string first =
          std::string(field) == "n" ? doc(int_field("x", 0) + long_field("n", 1)) : nth(0, 1);
      const std::string second =
          std::string(field) == "n" ? doc(int_field("x", 1) + long_field("n", 2)) : nth(1, 2);
      ExchangeScript(rules(9, {}, field))
          .request(client(form, "", {nth(0), nth(1)}))
          .sends(client(form, "", {first, second}))
          .reply(n(2) + ok())
          .relays()
          .counts("assigned=2")
          .play_once();
    }
  }
}

TEST_F(ExchangeSequences, LeaveUpsertsAloneIfTheDocumentDecides) {
  ExchangeScript(rules(9)).request(update_array("", {upsert(1)})).relays().counts("").play_once();
  ExchangeWorld world(rules(9, {})());
  ASSERT_EQ(world.request(update_array("", {upsert(1), upsert(2)})), ActionKind::send);
  EXPECT_EQ(
      world.bytes(),
      addressed(update_array("", {upsert(1, long_field("n", 1)), upsert(2, long_field("n", 2))}), 7,
                0));
  // One of them has found a document.
  const std::string upserted = doc(int_field("index", 0) + int_field("_id", 5));
  ASSERT_EQ(world.reply_with(n(2) + int_field("nModified", 1) +
                             array_field("upserted", {upserted}) + ok()),
            ActionKind::relay);
  EXPECT_EQ(calls(""), "back 2; ");
}

/// An upsert whose document belongs to this tenant, as its filter says.
std::string upsert_of(const char* tenant, std::string_view values = {}) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  return doc(doc_field("q", int_field("k", 1) + string_field("t", tenant)) +
             doc_field("u", doc_field("$set", int_field("x", 1)) + on_insert) +
             bool_field("upsert", true));
}
std::string upsert_of(const char* tenant, std::int64_t number) {
  return upsert_of(tenant, long_field("n", number));
}

TEST_F(ExchangeSequences, ServeUpsertsThatFixTheirField) {
  const auto command = [](const std::vector<std::string>& statements) {
    return update_sequence(kUnordered, statements);
  };
  ExchangeScript(rules(9))
      .request(command({upsert_of("b"), upsert(1), upsert_of("a"), upsert_of("b")}))
      .sends(command({upsert_of("b", 20), upsert(1), upsert_of("a", 10), upsert_of("b", 21)}))
      .reply(n(2) + write_errors({duplicate(2, {"n", "t"}), duplicate(3, {"n", "t"})}) +
             upserted({{0, 50}}) + modified(1) + ok())
      .sends(command({upsert_of("a", 11), upsert_of("b", 22)}))
      .reply(n(2) + upserted({{0, 51}}) + modified(1) + ok())
      .replies(n(4) + upserted({{0, 50}, {2, 51}}) + modified(2) + ok())
      .counts("assigned=3 resent=2 cured=2")
      .play_once();
  EXPECT_EQ(calls("a"), "taken 10 of 1; well; ");
  EXPECT_EQ(calls("b"), "taken 21 of 1; well; back 22; ");
}

TEST_F(ExchangeSequences, ServeAFindAndModifyThatFixesItsField) {
  const auto command = [](const std::string& on_insert) {
    return op_msg(
        body(doc(string_field("findAndModify", "orders") + doc_field("query", int_field("k", 1)) +
                 doc_field("update", doc_field("$setOnInsert", on_insert)) +
                 bool_field("upsert", true) + string_field("$db", "shop"))));
  };
  const std::string tenant = string_field("t", "a");
  ExchangeScript(rules(0))
      .request(command(tenant))
      .asks(1)
      .granted(50)
      .sends_first(command(tenant + long_field("n", 50)))
      .reply(found_by_modify() + ok())
      .relays()
      .counts("assigned=1")
      .play();
}

TEST_F(ExchangeSequences, GiveNoValuesBeforeThereIsADocument) {
  const std::string ask = next_value_of("n");
  ExchangeWorld world(rules(9)());
  world.memory.rights.add("shop.orders", Right::insert, world.clock.monotonic());
  ASSERT_EQ(world.request(ask), ActionKind::reply);
  EXPECT_EQ(bson::find(as_bytes(world.body()), "errmsg")->text(),
            "mongo-idproxy: no values for field 'n' of shop.orders before there is a document: the "
            "rule takes t from it");
  ExchangeWorld dated(rules(9, {})());
  dated.memory.rights.add("shop.orders", Right::insert, dated.clock.monotonic());
  ASSERT_EQ(dated.request(ask), ActionKind::reply);
  EXPECT_EQ(dated.counts(), "handed_out=1");
}

}  // namespace exchange_sequences_test
}  // namespace idproxy::rewrite
