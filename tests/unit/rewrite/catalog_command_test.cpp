#include "rewrite/catalog_command.hpp"

#include <gtest/gtest.h>

#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"

namespace idproxy::rewrite {
namespace catalog_command_test {

using namespace test;
using ids::CatalogChange;
using Changes = std::vector<CatalogChange>;

std::string command(const std::string& fields, const std::string& db = "shop") {
  return op_msg(body(doc(fields + string_field("$db", db))));
}

std::string aggregate(const std::vector<std::string>& stages) {
  return command(string_field("aggregate", "carts") + array_field("pipeline", stages));
}

std::string operation(const std::string& op) {
  return doc(string_field("op", op) + string_field("ns", "shop.orders"));
}

struct Row {
  const char* name;
  std::string message;
  Changes changes;
  bool lasts = true;  // nothing is believed until it is answered
};

TEST(CatalogCommand, SaysWhatItChanges) {
  const Changes orders{{"shop", "orders"}};
  const Row kRows[] = {
      {"drop", command(string_field("drop", "orders")), orders},
      {"create", command(string_field("create", "orders")), orders, false},
      {"collMod", command(string_field("collMod", "orders")), orders},
      {"dropIndexes", command(string_field("dropIndexes", "orders")), orders},
      {"deleteIndexes", command(string_field("deleteIndexes", "orders")), orders},
      {"createIndexes", command(string_field("createIndexes", "orders")), orders, false},
      {"convertToCapped", command(string_field("convertToCapped", "orders")), orders},
      {"dropDatabase", command(int_field("dropDatabase", 1)), {{"shop", ""}}},
      {"rename",
       command(string_field("renameCollection", "shop.a") + string_field("to", "b.c.d"), "admin"),
       {{"shop", "a"}, {"b", "c.d"}}},
      {"out", aggregate({doc(int_field("$limit", 1)), doc(string_field("$out", "orders"))}), orders,
       false},
      {"out_elsewhere",
       aggregate(
           {doc(doc_field("$out", string_field("db", "bank") + string_field("coll", "orders")))}),
       {{"bank", "orders"}},
       false},
      {"applyOps",
       command(array_field("applyOps", {operation("i"), operation("c")}), "admin"),
       {{"", ""}}},
      {"applyOps_of_documents", command(array_field("applyOps", {operation("i")}), "admin"), {}},
      {"aggregate", aggregate({doc(int_field("$limit", 1))}), {}},
      {"no_name", command(int_field("drop", 1)), {}},
  };
  for (const Row& row : kRows) {
    const auto view = wire::OpMsgView::parse(as_bytes(row.message));
    ASSERT_TRUE(view) << row.name;
    EXPECT_TRUE(may_change_catalog(bson::Elements(view->body()).next()->key)) << row.name;
    const CatalogRequest found = read_catalog_command(*view);
    EXPECT_EQ(found.changes, row.changes) << row.name;
    if (row.changes.empty()) continue;
    EXPECT_EQ(found.done == CatalogRequest::Done::when_answered, row.lasts) << row.name;
  }
  for (const char* other : {"find", "insert", "ping", "listIndexes", "count", "drops"}) {
    EXPECT_FALSE(may_change_catalog(other)) << other;
  }
}

struct CatalogExchange : ::testing::Test {
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  ExchangeWorld world{std::make_shared<const RuleSet>(std::vector<Rule>{rule("shop.*", "number")},
                                                      "idproxy", store)};
};

TEST_F(CatalogExchange, WhatIsKnownIsVoidUntilTheCommandIsAnswered) {
  EXPECT_EQ(world.request(command(string_field("drop", "orders"))), ActionKind::relay);
  EXPECT_EQ(store->changes, (Changes{{"shop", "orders"}}));
  EXPECT_EQ(store->under_way, 1);
  EXPECT_TRUE(world.exchange->awaits_reply());
  EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
  EXPECT_EQ(store->under_way, 0);
}

TEST_F(CatalogExchange, ACommandThatMayTakeHoursIsLookedAtBeforeAndAfter) {
  EXPECT_EQ(world.request(command(string_field("createIndexes", "orders"))), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 1U);
  EXPECT_EQ(store->under_way, 0);
  EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 2U);
}

TEST_F(CatalogExchange, ALostConnectionEndsTheChange) {
  EXPECT_EQ(world.request(command(int_field("dropDatabase", 1))), ActionKind::relay);
  EXPECT_EQ(store->under_way, 1);
  world.exchange.reset();
  EXPECT_EQ(store->under_way, 0);
}

/// Of a collection in which the proxy makes the index.
struct IndexConflict : CatalogExchange {
  void SetUp() override {
    Rule made = rule("shop.*", "number");
    made.unique_index = ids::UniqueIndex::create;
    world.reload(std::make_shared<const RuleSet>(std::vector<Rule>{made}, "idproxy", store));
  }
  static std::string create_indexes(const std::string& more = {}) {
    return command(string_field("createIndexes", "orders") +
                   array_field("indexes", {doc(string_field("name", "number_1"))}) + more);
  }
  static std::string refusal(std::int32_t code) {
    return double_field("ok", 0) + int_field("code", code);
  }
};

TEST_F(IndexConflict, TheCommandGoesAgainOnceTheProxysOwnIndexHasMadeRoom) {
  for (const std::int32_t code : {85, 86}) {
    EXPECT_EQ(world.request(create_indexes()), ActionKind::relay);
    EXPECT_EQ(world.reply_with(refusal(code)), ActionKind::ask_store);
    ASSERT_NE(store->room, nullptr);
    EXPECT_EQ(store->room->in(), (CatalogChange{"shop", "orders"}));
    EXPECT_NE(text_of(store->room->indexes()).find("number_1"), std::string::npos);
    store->changes.clear();
    EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
    EXPECT_EQ(world.bytes(), create_indexes());
    EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
    EXPECT_EQ(store->changes.size(), 2U) << "before and after";
    EXPECT_EQ(store->under_way, 0);
  }
}

TEST_F(IndexConflict, TheSecondRefusalIsTheClients) {
  EXPECT_EQ(world.request(create_indexes()), ActionKind::relay);
  EXPECT_EQ(world.reply_with(refusal(85)), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
  EXPECT_EQ(world.reply_with(refusal(85)), ActionKind::relay);
}

TEST_F(IndexConflict, WithoutRoomTheRefusalIsTheClients) {
  EXPECT_EQ(world.request(create_indexes()), ActionKind::relay);
  EXPECT_EQ(world.reply_with(refusal(86)), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{ids::Errc::unavailable, "none"}), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(refusal(86)));
}

TEST_F(IndexConflict, AProxyThatStopsMakesNoRoom) {
  EXPECT_EQ(world.request(create_indexes()), ActionKind::relay);
  EXPECT_EQ(world.reply_with(refusal(86)), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{.code = ids::Errc::unavailable,
                                    .reason = "mongo-idproxy is shutting down",
                                    .is_transient = true}),
            ActionKind::reply);
  EXPECT_NE(world.body().find(int_field("code", 91)), std::string::npos);
  EXPECT_NE(world.body().find("mongo-idproxy is shutting down"), std::string::npos);
}

TEST_F(IndexConflict, OtherErrorsAndCommandsMakeNoRoom) {
  const std::pair<std::string, std::int32_t> kRows[] = {
      {create_indexes(), 13},
      {create_indexes(), 11000},
      {create_indexes(kTransaction), 85},
      {command(string_field("createIndexes", "orders")), 85},
      {command(string_field("collMod", "orders")), 85}};
  for (const auto& [message, code] : kRows) {
    EXPECT_EQ(world.request(message), ActionKind::relay);
    EXPECT_EQ(world.reply_with(refusal(code)), ActionKind::relay);
  }
  world.reload(std::make_shared<const RuleSet>(std::vector<Rule>{rule("shop.*", "number")},
                                               "idproxy", store));
  EXPECT_EQ(world.request(create_indexes()), ActionKind::relay);
  EXPECT_EQ(world.reply_with(refusal(85)), ActionKind::relay);
  EXPECT_EQ(store->room, nullptr);
}

TEST_F(CatalogExchange, WhatTheServerStoresItselfIsCounted) {
  const std::pair<std::string, ForwardReason> kRows[] = {
      {aggregate({doc(doc_field("$merge", string_field("into", "orders")))}), ForwardReason::merge},
      {aggregate({doc(string_field("$merge", "orders"))}), ForwardReason::merge},
      {aggregate({doc(string_field("$out", "orders"))}), ForwardReason::out},
      {command(array_field("applyOps", {operation("i"), operation("i")}), "admin"),
       ForwardReason::apply_ops}};
  for (const auto& [message, reason] : kRows) {
    EXPECT_EQ(world.request(message), ActionKind::relay);
    ASSERT_EQ(world.exchange->facts().forwarded.size(), 1U) << name_of(reason);
    EXPECT_EQ(world.exchange->facts().forwarded.front().reason, reason);
    EXPECT_EQ(world.exchange->facts().forwarded.front().assignment->ns, "shop.orders");
    EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
  }
}

TEST_F(CatalogExchange, OtherCollectionsAreRelayed) {
  for (const std::string& message : {command(string_field("drop", "orders"), "bank"),
                                     aggregate({doc(int_field("$limit", 1))})}) {
    const auto decision = classify(wire::read_header(as_bytes(message)), as_bytes(message),
                                   world.namespaces, X509::allowed);
    EXPECT_TRUE(std::holds_alternative<decision::Relay>(decision));
  }
}

}  // namespace catalog_command_test
}  // namespace idproxy::rewrite
