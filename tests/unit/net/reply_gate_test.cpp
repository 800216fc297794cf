#include "net/reply_gate.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/replies.hpp"

namespace idproxy::net {
namespace reply_gate_test {

using namespace test;
using Kind = ReplyGate::Step::Kind;
using Texts = std::vector<std::string>;

constexpr const char* kLength = "a server's message length is not between 16 and 48000000";
constexpr const char* kToNobody = "the server sent a reply without a request";
constexpr const char* kToOther = "a server's reply belongs to no request of this connection";
constexpr const char* kTooEarly = "the server replied to a request that had not been sent whole";

/// A reply with these ids, and another one behind it if `more`.
enum class More { no, yes };
std::string reply(std::int32_t response_to, More more = More::no, std::int32_t request_id = 1000) {
  const std::uint32_t flags = more == More::yes ? wire::flag::kMoreToCome : 0;
  return addressed(reply_message(ok(), response_to, flags), request_id, response_to);
}

/// A server's bytes on their way through a gate, and what became of them: "relayed" and the bytes,
/// then "." for a reply's end and "!" for that of a request's last reply; "exchange" and the bytes;
/// "over", or the fault.
class Server {
 public:
  static Inflation& inflation() {
    static Inflation shared;
    return shared;
  }
  void forwarded(std::initializer_list<std::int32_t> requests) {
    for (const std::int32_t id : requests) gate.ledger().forwarded(id);
  }
  void sends(std::string_view bytes) {
    held_ += bytes;
    while (!ended_ && !held_.empty() && held_.size() >= needed_ && take()) {
    }
  }

  ReplyGate gate{inflation()};
  ReplyGate::Exchange exchange{};
  bool abandoned = false;
  Texts seen;

  [[nodiscard]] std::size_t needed() const { return needed_; }

 private:
  bool take() {
    const Exact front(held_);
    const auto step = gate.decide(front.view(), exchange, abandoned);
    needed_ = 0;
    switch (step.kind) {
      case Kind::need:
        EXPECT_GT(step.bytes, held_.size()) << "or it would be asked for ever";
        needed_ = step.bytes;
        return false;
      case Kind::relay:
        pass(step);
        return true;
      case Kind::exchange:
        seen.push_back("exchange " + held_.substr(0, step.bytes));
        held_.erase(0, step.bytes);
        gate.ledger().answered();
        exchange.awaits_reply = false;
        return true;
      case Kind::over:
        seen.emplace_back("over");
        break;
      case Kind::reject:
        seen.emplace_back(step.fault);
        break;
    }
    ended_ = true;
    return false;
  }
  void pass(const ReplyGate::Step& step) {
    EXPECT_GT(step.bytes, 0U);
    if (step.begins) seen.emplace_back("relayed ");
    seen.back() += held_.substr(0, step.bytes);
    held_.erase(0, step.bytes);
    const auto ended = gate.relayed(step);
    if (ended == ReplyGate::Ended::reply) seen.back() += '.';
    if (ended != ReplyGate::Ended::last_reply) return;
    seen.back() += '!';
    gate.ledger().answered();
  }

  std::string held_;
  std::size_t needed_ = 0;
  bool ended_ = false;
};

// ---- pieces ------------------------------------------------------------------------------------

/// Every sort of reply, the last for the exchange.
const Texts kReplies = {
    reply(1),
    op_reply(doc(ok()), 2),
    message(2013, "", 1000, 3),
    reply(4, More::yes, 50),
    reply(50, More::yes, 51),
    reply(51),
    message(4711, "?", 1000, 5),
    reply(6),
};
const Texts kSeen = {
    "relayed " + kReplies[0] + '!', "relayed " + kReplies[1] + '!', "relayed " + kReplies[2] + '!',
    "relayed " + kReplies[3] + '.', "relayed " + kReplies[4] + '.', "relayed " + kReplies[5] + '!',
    "relayed " + kReplies[6] + '!', "exchange " + kReplies[7],
};

Server server_before_replies() {
  Server server;
  server.forwarded({1, 2, 3, 4, 5, 6});
  server.exchange.awaits_reply = true;
  return server;
}

TEST(ReplyGate, SeesTheSameWhereverTheBytesAreCut) {
  std::string all;
  for (const std::string& bytes : kReplies) all += bytes;
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    Server server = server_before_replies();
    server.sends(all.substr(0, cut));
    server.sends(all.substr(cut));
    ASSERT_EQ(server.seen, kSeen) << "cut at " << cut;
    EXPECT_EQ(server.gate.ledger().outstanding(), 0U);
  }
}

/// A reply in a stream of compressed ones; it is larger than what is inflated of it.
std::string deflated(const std::string& bytes, wire::Compressor compressor) {
  wire::Codec codec;
  Buffer out;
  codec.deflate(compressor, as_bytes(bytes), out);
  return text_of(out.view());
}

TEST(ReplyGate, LooksIntoCompressedRepliesForMoreWhereTheyMayStream) {
  for (const auto compressor : wire::kCompressors) {
    for (const std::size_t size : {0U, 5000U, 300'000U}) {
      const std::string large = string_field("text", std::string(size, 'x'));
      const std::string first = deflated(
          message(2013,
                  text_of(as_bytes(op_msg(body(doc(large)), wire::flag::kMoreToCome))).substr(16),
                  50, 1),
          compressor);
      const std::string last =
          deflated(message(2013, op_msg(body(doc(large))).substr(16), 51, 50), compressor);
      Server server;
      server.gate.may_stream();
      server.forwarded({1});
      for (const char byte : first + last) server.sends({&byte, 1});
      EXPECT_EQ(server.gate.ledger().outstanding(), 0U);
      ASSERT_EQ(server.seen.size(), 2U);
      EXPECT_EQ(server.seen[0], "relayed " + first + '.');
      EXPECT_EQ(server.seen[1], "relayed " + last + '!');
      Server other;
      other.forwarded({1});
      other.sends(first);
      EXPECT_EQ(other.seen, Texts{"relayed " + first + '!'}) << "not looked into";
    }
  }
}

TEST(ReplyGate, RejectsMalformedRepliesWhereTheyMayStream) {
  const std::string good = deflated(reply(1), wire::Compressor::zlib);
  for (const std::string& bytes :
       {message(2012, "", 50, 1), message(2012, std::string(9, '\0'), 50, 1),
        message(2012, good.substr(16) + 'x', 50, 1),
        message(2012, i32(2013) + i32(100'000) + good.substr(24), 50, 1)}) {
    Server server;
    server.gate.may_stream();
    server.forwarded({1});
    server.sends(bytes);
    EXPECT_EQ(server.seen, Texts{"a server's OP_COMPRESSED is malformed"});
  }
}

TEST(ReplyGate, SeesTheSameByteByByte) {
  Server server = server_before_replies();
  for (const std::string& bytes : kReplies) {
    for (const char byte : bytes) server.sends({&byte, 1});
  }
  EXPECT_EQ(server.seen, kSeen);
}

TEST(ReplyGate, RelaysAReplyOnceItsFlagsAreThere) {
  const std::string bytes = reply(1);
  Server server;
  server.forwarded({1});
  server.sends(bytes.substr(0, 15));
  EXPECT_EQ(server.needed(), wire::kHeaderSize);
  server.sends(bytes.substr(15, 1));
  EXPECT_EQ(server.needed(), wire::kSectionsOffset);
  EXPECT_EQ(server.seen, Texts{});
  server.sends(bytes.substr(16, 4));
  EXPECT_EQ(server.seen, Texts{"relayed " + bytes.substr(0, 20)});
}

TEST(ReplyGate, RelaysALegacyReplyOnceItsHeaderIsThere) {
  const std::string bytes = op_reply(doc(ok()), 1);
  Server server;
  server.forwarded({1});
  server.sends(bytes.substr(0, 16));
  EXPECT_EQ(server.seen, Texts{"relayed " + bytes.substr(0, 16)});
}

// ---- order -------------------------------------------------------------------------------------

TEST(ReplyGate, RejectsAReplyThatIsNotTheNextRequests) {
  Server server;
  server.forwarded({1, 2});
  server.sends(reply(2));
  EXPECT_EQ(server.seen, Texts{kToOther});
}

TEST(ReplyGate, RejectsASecondReply) {
  Server server;
  server.forwarded({1, 2});
  server.sends(reply(1) + reply(1));
  EXPECT_EQ(server.seen, (Texts{"relayed " + reply(1) + '!', kToOther}));
}

TEST(ReplyGate, RejectsAReplyToNobody) {
  Server server;
  server.sends(reply(1));
  EXPECT_EQ(server.seen, Texts{kToNobody});
  Server answered;
  answered.forwarded({1});
  answered.sends(reply(1) + reply(1));
  EXPECT_EQ(answered.seen.back(), kToNobody);
}

TEST(ReplyGate, FollowsAStreamFromReplyToReply) {
  const std::string first = reply(1, More::yes, 50);
  Server server;
  server.forwarded({1, 2});
  server.sends(first);
  EXPECT_EQ(server.gate.ledger().outstanding(), 2U);
  server.sends(reply(50));
  EXPECT_EQ(server.gate.ledger().outstanding(), 1U);
  server.sends(reply(2));
  EXPECT_EQ(server.seen, (Texts{"relayed " + first + '.', "relayed " + reply(50) + '!',
                                "relayed " + reply(2) + '!'}));
}

TEST(ReplyGate, RejectsAReplyOfAStreamThatDoesNotNameTheOneBefore) {
  for (const std::int32_t other : {1, 2, 51}) {
    Server server;
    server.forwarded({1, 2});
    server.sends(reply(1, More::yes, 50) + reply(other));
    EXPECT_EQ(server.seen.back(), kToOther) << other;
  }
}

// ---- the exchange ------------------------------------------------------------------------------

TEST(ReplyGate, NeedsTheExchangesReplyWhole) {
  const std::string bytes = reply(1);
  for (std::size_t cut = wire::kHeaderSize; cut < bytes.size(); ++cut) {
    Server server;
    server.forwarded({1});
    server.exchange.awaits_reply = true;
    server.sends(bytes.substr(0, cut));
    ASSERT_EQ(server.seen, Texts{});
    EXPECT_EQ(server.needed(), bytes.size());
    server.sends(bytes.substr(cut));
    EXPECT_EQ(server.seen, Texts{"exchange " + bytes});
  }
}

TEST(ReplyGate, RelaysRepliesToEarlierRequestsWhileAnExchangeWaits) {
  Server server;
  server.forwarded({1, 2});
  server.exchange = {.awaits_reply = true, .sent_whole = false};
  server.sends(reply(1));
  EXPECT_EQ(server.seen, Texts{"relayed " + reply(1) + '!'});
}

TEST(ReplyGate, RejectsAReplyToAMessageThatIsNotSentWhole) {
  Server server;
  server.forwarded({1});
  server.exchange = {.awaits_reply = true, .sent_whole = false};
  server.sends(reply(1));
  EXPECT_EQ(server.seen, Texts{kTooEarly});
}

TEST(ReplyGate, RejectsAReplyThatIsNotTheExchanges) {
  Server server;
  server.forwarded({1});
  server.exchange.awaits_reply = true;
  server.sends(reply(2));
  EXPECT_EQ(server.seen, Texts{kToOther});
}

TEST(ReplyGate, RejectsAReplyWhileTheExchangeAwaitsNone) {
  Server server;
  server.exchange = {.awaits_reply = true, .sent_whole = true};
  server.sends(reply(1));
  EXPECT_EQ(server.seen, Texts{kToNobody});
}

// ---- the end -----------------------------------------------------------------------------------

TEST(ReplyGate, IsOverOnceTheAbandonedReplyComes) {
  Server server;
  server.abandoned = true;
  server.sends(reply(1));
  EXPECT_EQ(server.seen, Texts{"over"});
}

TEST(ReplyGate, RelaysWhatIsOwedBeforeItIsOver) {
  Server server;
  server.forwarded({1});
  server.abandoned = true;
  server.sends(reply(1) + reply(2));
  EXPECT_EQ(server.seen, (Texts{"relayed " + reply(1) + '!', "over"}));
}

// ---- legacy exhaust ----------------------------------------------------------------------------

TEST(ReplyGate, RelaysUnrequestedRepliesOnceTheyArePermitted) {
  Server server;
  server.forwarded({1});
  server.gate.ledger().permit_unrequested();
  const std::string other = op_reply(doc(ok()), 4711);
  server.sends(op_reply(doc(ok()), 1) + other + other);
  EXPECT_EQ(server.seen, (Texts{"relayed " + op_reply(doc(ok()), 1) + '!', "relayed " + other + '!',
                                "relayed " + other + '!'}));
}

TEST(ReplyGate, PermitsTheExchangeNoOtherReply) {
  Server server;
  server.gate.ledger().permit_unrequested();
  server.forwarded({1});
  server.exchange.awaits_reply = true;
  server.sends(reply(2));
  EXPECT_EQ(server.seen, Texts{kToOther});
}

// ---- malformed ---------------------------------------------------------------------------------

TEST(ReplyGate, RejectsAMalformedLength) {
  for (const std::int32_t length :
       {15, 0, -1, 48'000'001, std::numeric_limits<std::int32_t>::min()}) {
    const std::string bytes = reply(1).replace(0, 4, i32(length));
    Server server;
    server.forwarded({1});
    server.sends(bytes);
    EXPECT_EQ(server.seen, Texts{kLength}) << length;

    Server behind_another;
    behind_another.forwarded({1, 2});
    behind_another.sends(reply(1) + bytes);
    EXPECT_EQ(behind_another.seen.back(), kLength) << length;

    Server abandoned;
    abandoned.abandoned = true;
    abandoned.sends(bytes);
    EXPECT_EQ(abandoned.seen, Texts{kLength}) << length;
  }
}

TEST(ReplyGate, TakesTheShortestAndTheLongestLength) {
  for (const std::int32_t length : {16, 48'000'000}) {
    const std::string header = message(4711, "", 9, 1).replace(0, 4, i32(length));
    Server server;
    server.forwarded({1});
    server.sends(header);
    EXPECT_EQ(server.seen, Texts{"relayed " + header + (length == 16 ? "!" : "")});
  }
}

}  // namespace reply_gate_test
}  // namespace idproxy::net
