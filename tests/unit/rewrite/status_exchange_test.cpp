// {idproxy: "status"} from its request to its answer, as an exchange handles it.

#include <gtest/gtest.h>

#include "support/exchange_script.hpp"

namespace idproxy::rewrite {
namespace status_exchange_test {

using namespace test;

constexpr std::uint32_t kChecksum = wire::flag::kChecksumPresent;
const std::string kTimes = timestamp_field("operationTime", 4);
const std::string kAdmin = string_field("$db", "admin");

std::string ask(std::uint32_t flags = 0) {
  return op_msg(body(doc(string_field("idproxy", "status") + kAdmin)), flags);
}
/// The command that checks the client's right.
std::string question(std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field("hostInfo", 1) + kAdmin)), flags);
}

class StatusExchange : public ::testing::Test {
 protected:
  StatusExchange() {
    world.context.status = [this](ServerId asked) {
      asked_.push_back(asked);
      return [this] { return std::exchange(looks_, looks_ - 1) > 0 ? nullptr : made(); };
    };
  }
  static std::shared_ptr<const Buffer> made() {
    Buffer document;
    document.append(as_bytes(doc(string_field("version", "1.2.3"))));
    return std::make_shared<const Buffer>(std::move(document));
  }
  /// The text of that field in the answer.
  std::string text(std::string_view field) {
    const auto view = wire::OpMsgView::parse(as_bytes(world.bytes()));
    if (!view) return "no OP_MSG";
    const auto found = bson::find(view->body(), field);
    return found ? std::string(found->text()) : "none";
  }

  std::shared_ptr<const RuleSet> rules = rule_set();
  ExchangeWorld world{rules};
  std::vector<ServerId> asked_;
  int looks_ = 0;  // for nothing, until it is made
};

TEST_F(StatusExchange, AsksTheServerAndAnswers) {
  for (const std::uint32_t flags : {0U, kChecksum}) {
    for (const bool owned : {false, true}) {
      asked_.clear();
      EXPECT_EQ(world.request(ask(flags), owned), ActionKind::send);
      EXPECT_EQ(world.bytes(), question(flags));
      EXPECT_TRUE(world.exchange->is_status());
      EXPECT_TRUE(world.exchange->awaits_reply());
      EXPECT_TRUE(asked_.empty());
      EXPECT_EQ(world.reply_with(doc_field("system", "") + ok()), ActionKind::reply);
      EXPECT_EQ(asked_, std::vector<ServerId>{0});
      EXPECT_EQ(text("version"), "1.2.3");
      const auto answer = wire::OpMsgView::parse(as_bytes(world.bytes()));
      EXPECT_EQ(answer->header().response_to, 7);
      EXPECT_EQ(answer->has(kChecksum), flags == kChecksum);
      EXPECT_FALSE(bson::find(answer->body(), "system"));
      world.exchange->release(world.workspace);
    }
  }
}

TEST_F(StatusExchange, WaitsUntilItIsMade) {
  looks_ = 2;
  world.request(ask());
  EXPECT_EQ(world.reply_with(ok() + kTimes), ActionKind::wait);
  EXPECT_EQ(world.resume(), ActionKind::wait);
  EXPECT_EQ(world.resume(), ActionKind::reply);
  EXPECT_EQ(text("version"), "1.2.3");
  const auto answer = wire::OpMsgView::parse(as_bytes(world.bytes()));
  EXPECT_TRUE(bson::find(answer->body(), "operationTime")) << "the server's reply is kept";
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(StatusExchange, GivesUpAfterTenSeconds) {
  looks_ = 1000;
  world.request(ask());
  EXPECT_EQ(world.reply_with(ok()), ActionKind::wait);
  world.clock.advance(std::chrono::seconds(10));
  EXPECT_EQ(world.resume(), ActionKind::reply);
  EXPECT_EQ(text("codeName"), "MaxTimeMSExpired");
}

TEST_F(StatusExchange, PassesAMissingRightOn) {
  world.request(ask());
  EXPECT_EQ(world.reply_with(failure(13, "not authorized")), ActionKind::reply);
  EXPECT_NE(text("errmsg").find("not authorized"), std::string::npos);
  EXPECT_EQ(text("version"), "none");
}

TEST_F(StatusExchange, RelaysTheServersReplyIfThereIsNoStatus) {
  world.context.status = {};
  world.request(ask());
  EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
}

TEST_F(StatusExchange, ClosesIfTheServersAnswerIsNone) {
  const std::string replies[] = {
      reply_message(int_field("system", 1)),                   // no ok
      reply_message(ok(), 7, wire::flag::kMoreToCome),         // not a single reply
      message(2013, i32(0) + "abc", 7),                        // no sections
      op_msg(body(doc(ok())) + sequence("x", {doc()}), 0, 7),  // a sequence
  };
  for (const std::string& reply : replies) {
    world.request(ask());
    EXPECT_EQ(world.reply(addressed(reply, 4711, world.exchange->request_id())), ActionKind::close);
    world.exchange->release(world.workspace);
  }
}

TEST_F(StatusExchange, SaysNothingIfNobodyWaits) {
  EXPECT_EQ(world.request(ask(wire::flag::kMoreToCome)), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "");
  EXPECT_FALSE(world.exchange->is_status());
  EXPECT_FALSE(world.exchange->awaits_reply());
}

}  // namespace status_exchange_test
}  // namespace idproxy::rewrite
