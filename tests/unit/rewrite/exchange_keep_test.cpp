// What an exchange does with updates that would take a stored value away.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"
#include "support/lending_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_keep_test {

using namespace test;

std::shared_ptr<const RuleSet> number() {
  return rule_set_of(rule("shop.*", "number"));
}
std::shared_ptr<const RuleSet> always() {
  Rule rule = test::rule("shop.*", "number");
  rule.keep = Keep::always;
  return rule_set_of(std::move(rule));
}

const std::string kX = int_field("x", 1);
const std::string kNothing = n(0) + modified(0) + ok();

std::string query(std::int32_t k) {
  return doc_field("q", int_field("k", k));
}
/// The value of u in place of {x: 1}. `number`: the expression for the field.
std::string pipeline(std::string_view key, std::string_view number) {
  const std::string merge =
      array_of("$mergeObjects",
               {item(string_field("_id", "$_id")), item(doc_field("$literal", kX)), item(number)});
  return array_of(key, {item(doc_field("$replaceWith", merge))});
}
const std::string kStored = string_field("number", "$number");
/// The value in a document that has none.
std::string or_value(std::int64_t value) {
  const std::string is_missing =
      array_of("$eq", {item(string_field("$type", "$number")), string_field("", "missing")});
  return doc_field("number",
                   array_of("$cond", {item(is_missing), item(long_field("$literal", value)),
                                      string_field("", "$number")}));
}
std::string replacement(std::int32_t k) {
  return doc(query(k) + doc_field("u", kX));
}
std::string kept(std::int32_t k) {
  return doc(query(k) + pipeline("u", kStored));
}
std::string saved(std::int32_t k) {
  return doc(upsert_fields(k, kX));
}
std::string kept_or(std::int32_t k, std::int64_t value) {
  return doc(query(k) + pipeline("u", or_value(value)) + bool_field("upsert", true));
}

TEST(Keeps, ReplacementsBecomePipelines) {
  for (const auto form : {update_sequence, update_array}) {
    ExchangeScript(number)
        .request(form(kTxnNumber, {replacement(0), plain_update(1), replacement(2)}, 0))
        .sends(form(kTxnNumber, {kept(0), plain_update(1), kept(2)}, 0))
        .reply(n(3) + modified(3) + ok())
        .relays()
        .counts("")
        .play();
  }
}

TEST(Keeps, WhatBringsAValueOrTouchesNoneIsRelayed) {
  ExchangeWorld world(number());
  EXPECT_EQ(world.request(update_sequence("", {plain_update(0)})), ActionKind::relay);
  const std::string own = doc(query(0) + doc_field("u", kX + long_field("number", 5)));
  EXPECT_EQ(world.request(update_sequence("", {own})), ActionKind::relay);
}

TEST(Keeps, AnUpsertAloneGoesWithoutFirst) {
  ExchangeScript(number)
      .request(update_sequence(kTxnNumber, {saved(0)}))
      .sends(update_sequence(kTxnNumber, {kept(0)}))
      .reply(n(1) + modified(1) + ok())
      .relays()
      .counts("")
      .play();
}

TEST(Keeps, AndDrawsAValueOnlyIfNothingWasFound) {
  ExchangeScript(number)
      .request(update_sequence(kTxnNumber, {saved(0)}))
      .sends(update_sequence(kTxnNumber, {kept(0)}))
      .reply(kNothing)
      .sends_as_the_client(update_sequence(kTxnNumber, {kept_or(0, 1)}))
      .reply(n(1) + upserted({{0, 5}}) + modified(0) + ok())
      .relays()
      .counts("assigned=1")
      .play_once();
}

TEST(Keeps, TheSecondCommandDoesNotBeginTheTransaction) {
  const std::string within = kTxnNumber + bool_field("autocommit", false);
  const std::string begins = within + bool_field("startTransaction", true) +
                             doc_field("readConcern", string_field("level", "snapshot"));
  ExchangeScript(number)
      .request(update_sequence(begins, {saved(0)}))
      .sends(update_sequence(begins, {kept(0)}))
      .reply(kNothing)
      .sends_as_the_client(update_sequence(within, {kept_or(0, 1)}))
      .reply(n(1) + upserted({{0, 5}}) + modified(0) + ok())
      .relays()
      .counts("assigned=1")
      .play_once();
}

TEST(Keeps, OneThatFailsIsAnswered) {
  ExchangeScript(number)
      .request(update_sequence("", {saved(0)}))
      .sends(update_sequence("", {kept(0)}))
      .reply(n(0) + write_errors({write_error(0, 66)}) + modified(0) + ok())
      .relays()
      .counts("")
      .play();
}

TEST(Keeps, LossesAreCounted) {
  Rule lax = rule("shop.*", "number");
  lax.keep = Keep::off;
  const auto rules = rule_set_of(std::move(lax));
  ExchangeWorld world(rules);
  EXPECT_EQ(world.request(update_sequence("", {replacement(0), replacement(1)})),
            ActionKind::relay);
  ASSERT_EQ(world.exchange->facts().taken_away.size(), 1U);
  EXPECT_EQ(world.exchange->facts().taken_away.front().updates, 2U);
  EXPECT_EQ(rules->outcomes(0).taken_away[static_cast<std::size_t>(LossReason::off)], 2U);
}

TEST(Keeps, AlwaysLeavesOutWhatTakesAway) {
  const auto unset = doc_field("$unset", string_field("number", ""));
  const auto set = doc_field("$set", kX + element(bson::Type::null, "number", ""));
  const auto statement = [&](const std::string& update) {
    return doc(query(0) + doc_field("u", update));
  };
  ExchangeScript(always)
      .request(update_sequence("", {statement(unset + set), statement(unset)}))
      .sends(update_sequence(
          "", {statement(doc_field("$set", kX)),
               statement(doc_field("$setOnInsert", element(bson::Type::null, "number", "")))}))
      .reply(n(2) + modified(1) + ok())
      .relays()
      .counts("")
      .play();
}

/// A draft gets no value, and one that has been published keeps its own.
TEST(Keeps, AlwaysAlsoInUpsertsThatDoNotFulfilTheConditions) {
  const auto drafts = [] {
    Rule rule = test::rule("shop.*", "number");
    rule.keep = Keep::always;
    rule.when.push_back({"x", true});
    return rule_set_of(std::move(rule));
  };
  const std::string y = int_field("y", 1);
  const std::string unset = doc_field("$unset", string_field("number", ""));
  const auto statement = [&](const std::string& update) {
    return update_sequence("", {doc(upsert_fields(0, update))});
  };
  ExchangeScript(drafts)
      .request(statement(doc_field("$set", y) + unset))
      .sends(statement(doc_field("$set", y)))
      .reply(n(1) + modified(1) + ok())
      .relays()
      .counts("")
      .play();
  // It would have nothing to insert.
  ExchangeWorld alone(drafts());
  EXPECT_EQ(alone.request(statement(unset)), ActionKind::relay);
  EXPECT_EQ(alone.exchange->facts().taken_away.front().reason, LossReason::unset);
  // Nor where two rules leave out all between them, unless one of them gives a value.
  const auto two = [&](bool gives) {
    return [gives] {
      Rule number = test::rule("shop.*", "number");
      Rule code = test::rule("shop.*", "code");
      for (Rule* each : {&number, &code}) each->keep = Keep::always;
      number.when.push_back({"x", true});
      if (!gives) code.when.push_back({"x", true});
      return rule_set_of(std::move(number), std::move(code));
    };
  };
  const std::string unsets =
      doc_field("$unset", string_field("number", "") + string_field("code", ""));
  ExchangeWorld none(two(false)());
  EXPECT_EQ(none.request(statement(unsets)), ActionKind::relay);
  ExchangeWorld one(two(true)());
  EXPECT_EQ(one.request(statement(unsets)), ActionKind::send);
  EXPECT_EQ(one.bytes(), statement(doc_field("$setOnInsert", long_field("code", 1))));
  ExchangeWorld published(drafts());
  EXPECT_EQ(published.request(statement(doc_field("$set", kX) + unset)), ActionKind::send);
  EXPECT_EQ(published.bytes(),
            statement(doc_field("$set", kX) + doc_field("$setOnInsert", long_field("number", 1))));
}

/// Of replacements in one command nobody knows which find a draft: an update gives it no value.
TEST(Keeps, ReplacementsTogetherGetNoValuesByARuleWithConditions) {
  Rule rule = test::rule("shop.*", "number");
  rule.when.push_back({"x", true});
  ExchangeWorld world(rule_set_of(std::move(rule)));
  EXPECT_EQ(world.request(update_sequence("", {saved(0), saved(1)})), ActionKind::send);
  const auto kept_upsert = [](std::int32_t k) {
    return doc(query(k) + pipeline("u", kStored) + bool_field("upsert", true));
  };
  EXPECT_EQ(world.bytes(), update_sequence("", {kept_upsert(0), kept_upsert(1)}));
  ASSERT_EQ(world.exchange->facts().forwarded.size(), 1U);
  EXPECT_EQ(world.exchange->facts().forwarded.front().reason, ForwardReason::depends_on_document);
}

TEST(Keeps, AlwaysLeavesConstantsOutOfStages) {
  const auto null = [](const char* name) { return element(bson::Type::null, name, ""); };
  const auto statement = [&](const std::vector<std::string>& stages) {
    return doc(query(0) + array_of("u", stages) + bool_field("multi", true));
  };
  const auto set = [](const char* name, const std::string& fields) {
    return item(doc_field(name, fields));
  };
  const std::string literal = doc_field("number", null("$literal"));
  ExchangeScript(always)
      .request(update_sequence("", {statement({set("$set", kX + literal)}),
                                    statement({set("$addFields", null("number"))})}))
      .sends(update_sequence(
          "", {statement({set("$set", kX)}), statement({set("$addFields", kStored)})}))
      .reply(n(2) + modified(1) + ok())
      .relays()
      .counts("")
      .play();
}

TEST(Keeps, OtherPipelinesAreSentAsTheyAre) {
  const std::string literal = doc_field("number", element(bson::Type::null, "$literal", ""));
  const std::vector<std::string> set = {item(doc_field("$set", literal))};
  for (const std::string& update :
       {array_of("u", set) + bool_field("upsert", true),
        array_of("u", {set.front(), item(string_field("$unset", "number"))}),
        array_of("u", {item(doc_field("$set", doc_field("number", int_field("$literal", 5))))})}) {
    ExchangeWorld world(always());
    EXPECT_EQ(world.request(update_sequence("", {doc(query(0) + update)})), ActionKind::relay);
    ASSERT_EQ(world.exchange->facts().taken_away.size(), 1U);
    EXPECT_EQ(world.exchange->facts().taken_away.front().reason, LossReason::pipeline);
  }
}

// ---- values that come back -------------------------------------------------------------------

class KeptLent : public testing::Test {
 protected:
  std::shared_ptr<const RuleSet> rules() const {
    Rule lent = rule("shop.*", "number");
    lent.strategy = shared_source<LendingSource>(lending);
    return rule_set_of(std::move(lent));
  }
  void SetUp() override { lending->at_hand = 100; }
  std::shared_ptr<Lending> lending = std::make_shared<Lending>();
};

TEST_F(KeptLent, OfSeveralOnlyIfNoDocumentChanged) {
  const std::string request = update_sequence("", {saved(0), saved(1)});
  const std::string sent = update_sequence("", {kept_or(0, 1), kept_or(1, 2)});
  for (const int changed : {0, 1}) {
    lending->back.clear();
    lending->at_hand = 100;
    ExchangeWorld world(rules());
    ASSERT_EQ(world.request(request), ActionKind::send);
    world.reply_with(n(2) + upserted({{1, 5}}) + modified(changed) + ok());
    world.exchange.reset();
    EXPECT_EQ(lending->back.size(), changed == 0 ? 1U : 0U);
  }
}

}  // namespace exchange_keep_test
}  // namespace idproxy::rewrite
