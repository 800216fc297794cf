// A hello from its request to its replies, as an exchange handles it.

#include <gtest/gtest.h>

#include "support/exchange_script.hpp"

namespace idproxy::rewrite {
namespace hello_exchange_test {

using namespace test;

constexpr std::uint32_t kMoreToCome = wire::flag::kMoreToCome;

std::string hello(std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field("hello", 1) + string_field("$db", "admin"))), flags);
}
/// A primary's reply.
std::string primary(const std::string& host, std::int32_t wire_version = 21) {
  return bool_field("isWritablePrimary", true) + string_field("setName", "rs0") +
         texts_field("hosts", {host}) + string_field("me", host) +
         int_field("maxWireVersion", wire_version) + ok();
}

class HelloExchange : public ::testing::Test {
 protected:
  /// db1:27017 is behind the proxy's only listener, and has said this last; nothing: nothing yet.
  void know(const std::string& said = {}) {
    ServerDescription server;
    server.name = "db1:27017";
    server.listener = "127.0.0.1:27117";
    const std::string reply = reply_message(said);
    if (!said.empty()) server.said = *read_hello_reply(as_bytes(reply));
    world.context.members = std::make_shared<const Members>(std::vector<ServerDescription>{server});
  }
  [[nodiscard]] ActionKind learned(std::string& bytes) {
    const Action action = world.exchange->learned(world.context, world.workspace);
    if (const auto* reply = std::get_if<action::Reply>(&action)) bytes = text_of(reply->message);
    return kind_of(action);
  }

  ExchangeWorld world{rule_set()};
};

TEST_F(HelloExchange, RelaysRepliesIfThereAreNoListenersToName) {
  world.memory.rights.add("shop.orders", Right::insert, world.clock.monotonic());
  EXPECT_EQ(world.request(hello()), ActionKind::relay);
  EXPECT_TRUE(world.exchange->awaits_reply());
  EXPECT_FALSE(world.memory.rights.has("shop.orders", Right::insert));
  EXPECT_EQ(world.reply_with(primary("db1:27017", 13)), ActionKind::relay);
  EXPECT_EQ(world.memory.wire_version, 13);
  EXPECT_FALSE(world.exchange->streams());
}

TEST_F(HelloExchange, NamesListenersInAReplyThatIsNotNew) {
  know(primary("db1:27017"));
  world.request(hello());
  EXPECT_EQ(world.reply_with(primary("db1:27017")), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(primary("127.0.0.1:27117")));
  world.context.maps_hello = false;
  world.request(hello());
  EXPECT_EQ(world.reply_with(primary("db1:27017")), ActionKind::relay);
}

TEST_F(HelloExchange, HasANewReplyTakenIntoAccountFirst) {
  know();
  world.request(hello());
  ASSERT_EQ(world.reply_with(primary("db1:27017")), ActionKind::learn);
  EXPECT_EQ(world.last<action::Learn>().said->me, "db1:27017");
  std::string bytes;
  EXPECT_EQ(learned(bytes), ActionKind::reply);
  EXPECT_EQ(bytes, reply_message(primary("127.0.0.1:27117")));
  // There is nothing to change in this one.
  world.request(hello());
  const std::string standalone = bool_field("isWritablePrimary", true) + ok();
  ASSERT_EQ(world.reply_with(standalone), ActionKind::learn);
  EXPECT_EQ(learned(bytes), ActionKind::reply);
  EXPECT_EQ(bytes, reply_message(standalone));
}

TEST_F(HelloExchange, FollowsAStreamThatTheClientAllows) {
  world.request(hello(wire::flag::kExhaustAllowed));
  EXPECT_EQ(world.reply(addressed(reply_message(primary("db1:27017"), 7, kMoreToCome), 90, 7)),
            ActionKind::relay);
  EXPECT_TRUE(world.exchange->streams());
  EXPECT_EQ(world.exchange->request_id(), 90) << "the next reply answers this one";
  world.request(hello());
  EXPECT_EQ(world.reply_with(primary("db1:27017"), kMoreToCome), ActionKind::close);
}

TEST_F(HelloExchange, ClosesIfTheServersAnswerIsNone) {
  world.request(hello());
  EXPECT_EQ(world.reply_with(int_field("hosts", 1) + ok()), ActionKind::close);
}

TEST_F(HelloExchange, NotesTheCompressorsThatBothMayUse) {
  world.context.compressors = {};
  world.context.compressors.add(wire::Compressor::zlib);
  world.request(hello());
  EXPECT_EQ(world.reply_with(texts_field("compression", {"snappy", "zlib"}) + ok()),
            ActionKind::relay);
  EXPECT_TRUE(world.memory.compressors.has(wire::Compressor::zlib));
  EXPECT_FALSE(world.memory.compressors.has(wire::Compressor::snappy));
}

}  // namespace hello_exchange_test
}  // namespace idproxy::rewrite
