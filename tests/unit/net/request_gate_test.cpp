#include "net/request_gate.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/fake_store.hpp"
#include "support/messages.hpp"
#include "support/rule_set.hpp"
#include "support/upserts.hpp"

namespace idproxy::net {
namespace request_gate_test {

using namespace test;
using Kind = RequestGate::Step::Kind;
using Texts = std::vector<std::string>;

constexpr const char* kTls = "tls_on_plain_port";
constexpr const char* kLength = "bad_message_length";
constexpr const char* kCompressed = "compressed_message";

/// A client's bytes on their way through a gate, and what became of them: "relayed" and the bytes,
/// then "!" at a message's end; "collected" and the bytes; "waits"; "later"; "late" and the length;
/// or the event of the fault.
class Client {
 public:
  Client(Budget& budget, rewrite::Namespaces& namespaces)
      : gate(budget, inflation_), namespaces_(namespaces) {}

  void sends(std::string_view bytes) {
    held_ += bytes;
    go_on();
  }
  void go_on() {
    while (!ended_ && !gate.queued() && !held_.empty() && held_.size() >= needed_ && take()) {
    }
  }
  /// There is room: what the budget has granted is brought to the gate.
  void is_admitted() {
    ASSERT_GT(granted.bytes(), 0U);
    gate.admitted(std::move(granted));
    go_on();
  }

  Inflation inflation_;
  Budget::Share granted;  // and not brought to the gate; before it: the gate leaves the queue first
  RequestGate gate;
  rewrite::X509 x509 = rewrite::X509::allowed;
  bool draining = false;
  bool needs_login = false;
  bool has_replies = true;
  std::size_t expected = 0;
  wire::Compressors agreed = wire::Compressors::all();
  Texts seen;
  std::string inside;  ///< the message, or its beginning, as the gate has read it
  bool expects_reply = false;
  int changes_of_user = 0;
  Texts past;                        ///< rules, by message that is relayed
  std::vector<std::uint64_t> rooms;  ///< that the collected messages had

  [[nodiscard]] std::size_t needed() const { return needed_; }

 private:
  bool take() {
    const Exact front(held_);
    const auto step = gate.decide(
        front.view(), {draining, needs_login, has_replies, x509, agreed, expected}, namespaces_);
    needed_ = 0;
    switch (step.kind) {
      case Kind::need:
        EXPECT_GT(step.bytes, held_.size()) << "or it would be asked for ever";
        needed_ = step.bytes;
        return false;
      case Kind::wait:
        seen.emplace_back("waits");
        gate.queue([this](Budget::Share share) { granted = std::move(share); });
        return false;
      case Kind::later:
        seen.emplace_back("later");
        return false;
      case Kind::relay:
        pass(step);
        return true;
      case Kind::collect:
        inside = text_of(step.message);
        seen.push_back("collected " + consume(step.bytes));
        rooms.push_back(gate.take_share().bytes());
        gate.forwarded();
        return true;
      case Kind::late:
        seen.push_back("late " + std::to_string(step.bytes));
        break;
      case Kind::reject:
        seen.emplace_back(step.fault.event);
        break;
    }
    ended_ = true;
    return false;
  }
  void pass(const RequestGate::Step& step) {
    EXPECT_GT(step.bytes, 0U);
    if (step.begins) {
      inside = text_of(step.message);
      expects_reply = step.about.expects_reply;
      seen.emplace_back("relayed ");
      const auto& relay = std::get<rewrite::decision::Relay>(step.decision);
      changes_of_user += relay.changes_user ? 1 : 0;
      past.emplace_back();
      for (const rewrite::Forwarded& each : relay.past) past.back() += each.assignment->ns + ' ';
      gate.forwarded();
    }
    seen.back() += consume(step.bytes);
    if (gate.relayed(step)) seen.back() += '!';
  }
  std::string consume(std::size_t bytes) {
    std::string front = held_.substr(0, bytes);
    held_.erase(0, bytes);
    return front;
  }

  rewrite::Namespaces& namespaces_;
  std::string held_;
  std::size_t needed_ = 0;
  bool ended_ = false;
};

std::string command(const std::string& name, const std::string& more = {},
                    std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field(name, 1) + string_field("$db", "admin") + more)), flags);
}

const std::string kPing = command("ping");
const std::string kHello = command("hello");
const std::string kInsert = insert_sequence({doc(int_field("x", 1))});
const std::string kInsertElsewhere =
    op_msg(body(doc(insert_fields("orders", "elsewhere"))) + sequence("documents", {doc()}));
const std::string kUnacknowledged =
    insert_sequence({doc(int_field("x", 1))}, wire::flag::kMoreToCome);

/// Of more than this size.
std::string insert_of(std::size_t size) {
  return insert_sequence({doc(string_field("text", std::string(size, 'x')))});
}

/// The header and the first bytes of a message of `length` bytes.
std::string front_of(std::string bytes, std::int32_t length) {
  return bytes.replace(0, 4, i32(length));
}

class RequestGateTest : public ::testing::Test {
 protected:
  /// What became of it, sent to a gate of its own.
  Texts seen_of(const std::string& bytes) {
    Client other(budget, namespaces);
    other.sends(bytes);
    return other.seen;
  }
  /// Leaves no room, except for the first large message that waits for some.
  void fill() { others = budget.overdraw(budget.limit()); }

  Budget budget{100'000'000};
  Budget::Share others;
  rewrite::Namespaces namespaces{rule_set()};
  Client client{budget, namespaces};
};

// ---- pieces ------------------------------------------------------------------------------------

struct Sent {
  std::string bytes;
  bool collected;
};
const std::vector<Sent> kMessages = {
    {kPing, false},
    {kHello, true},
    {kInsert, true},
    {insert_array({doc(), doc()}), true},
    {op_msg(sequence("documents", {doc(), doc()}) + body(doc(insert_fields()))), true},
    {insert_sequence({doc()}, wire::flag::kChecksumPresent), true},
    {kInsertElsewhere, false},
    {kUnacknowledged, true},
    {command("ping", {}, wire::flag::kMoreToCome), false},
    {op_query("admin.$cmd", doc(int_field("isMaster", 1))), true},
    {op_query("shop.orders", doc()), false},
    {message(4711, ""), false},
    {message(4711, "?"), false},
    {op_msg(""), false},
    {command("idproxy"), true},
};

Texts expected() {
  Texts texts;
  for (const Sent& sent : kMessages) {
    texts.push_back(sent.collected ? "collected " + sent.bytes : "relayed " + sent.bytes + '!');
  }
  return texts;
}

TEST_F(RequestGateTest, SeesTheSameWhereverTheBytesAreCut) {
  std::string all;
  for (const Sent& sent : kMessages) all += sent.bytes;
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    Client one(budget, namespaces);
    one.sends(all.substr(0, cut));
    one.sends(all.substr(cut));
    ASSERT_EQ(one.seen, expected()) << "cut at " << cut;
    EXPECT_FALSE(one.gate.inside());
  }
}

TEST_F(RequestGateTest, SeesTheSameByteByByte) {
  for (const Sent& sent : kMessages) {
    for (const char byte : sent.bytes) client.sends({&byte, 1});
  }
  EXPECT_EQ(client.seen, expected());
}

TEST_F(RequestGateTest, BeginsNoExchangeBeforeTheClientHasAllReplies) {
  client.has_replies = false;
  const std::string large =
      insert_array({doc(), doc(string_field("a", std::string(100'000, 'x')))});
  client.sends(kPing + kInsertElsewhere + large.substr(0, 8'000));
  const Texts relayed{"relayed " + kPing + '!', "relayed " + kInsertElsewhere + '!', "later"};
  EXPECT_EQ(client.seen, relayed);
  EXPECT_EQ(client.gate.room(), 0U) << "it holds nothing that others wait for";
  client.has_replies = true;
  client.sends(large.substr(8'000));
  EXPECT_EQ(client.seen.back(), "collected " + large);
}

TEST_F(RequestGateTest, TellsWhatMayChangeTheUser) {
  const std::string many = sequence("a", {}) + sequence("b", {}) + sequence("c", {}) +
                           sequence("d", {}) + sequence("e", {});
  client.sends(kPing + op_msg(many + body(doc(int_field("logout", 1)))) + kPing);
  EXPECT_EQ(client.seen.size(), 3U);
  EXPECT_EQ(client.changes_of_user, 1);
}

TEST_F(RequestGateTest, TellsOnceWhichRulesAnInsertIntoATimeSeriesCollectionGoesPast) {
  const auto store = std::make_shared<FakeStore>();
  store->set({ids::Readiness::Kind::left_alone, {}, true});
  std::vector<rewrite::Rule> rules;
  rules.push_back(rule("shop.*", "number"));
  rules.push_back(rule("shop.*", "code"));
  rewrite::Namespaces with_store(
      std::make_shared<const rewrite::RuleSet>(std::move(rules), "idproxy", store));
  with_store.admit("shop", "orders");
  const std::string all = kInsert + kPing + update_sequence("", {upsert(1)});
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    Client one(budget, with_store);
    one.sends(all.substr(0, cut));
    one.sends(all.substr(cut));
    ASSERT_EQ(one.past, (Texts{"shop.orders shop.orders ", "", ""})) << "cut at " << cut;
  }
}

TEST_F(RequestGateTest, RelaysAMessageBeforeItIsWhole) {
  const std::string bytes = front_of(kPing + "rest", 48'000'000);
  client.sends(bytes);
  EXPECT_EQ(client.seen, Texts{"relayed " + bytes});
  EXPECT_TRUE(client.gate.inside());
}

TEST_F(RequestGateTest, CollectsAMessageOnlyWhole) {
  client.sends(kInsert.substr(0, kInsert.size() - 1));
  EXPECT_EQ(client.seen, Texts{});
  EXPECT_EQ(client.needed(), kInsert.size());
  EXPECT_FALSE(client.gate.inside());
  client.sends(kInsert.substr(kInsert.size() - 1) + kPing);
  EXPECT_EQ(client.seen, (Texts{"collected " + kInsert, "relayed " + kPing + '!'}));
}

TEST_F(RequestGateTest, CollectsLogins) {
  for (const char* name : {"authenticate", "saslStart", "saslContinue", "logout"}) {
    EXPECT_EQ(seen_of(command(name)), Texts{"collected " + command(name)});
  }
}

// ---- room --------------------------------------------------------------------------------------

TEST_F(RequestGateTest, TakesNoRoomForTheBeginningOfAWrite) {
  client.sends(kInsert.substr(0, 80));
  EXPECT_EQ(budget.used(), 0U);
  client.sends(kInsert.substr(80));
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{kInsert.size()});
  EXPECT_EQ(budget.used(), 0U) << "the room is the exchange's";
}

/// A24. A client holds what it has sent, at most twice as much, and never more than the whole.
TEST_F(RequestGateTest, TakesRoomByWhatHasBeenReceived) {
  const std::string large = insert_of(1'000'000);
  std::size_t sent = 0;
  const auto room_after = [&](std::size_t bytes) {
    client.sends(large.substr(sent, bytes - sent));
    sent = bytes;
    EXPECT_EQ(budget.used(), client.gate.room());
    return client.gate.room();
  };
  EXPECT_EQ(room_after(88), 0U);
  EXPECT_EQ(room_after(4095), 0U);
  EXPECT_EQ(room_after(4096), 4096U);
  EXPECT_EQ(room_after(65'535), 4096U) << "it looks again at 64 KiB";
  EXPECT_EQ(room_after(65'536), 131'072U);
  EXPECT_EQ(room_after(131'072), 262'144U);
  EXPECT_EQ(room_after(600'000), large.size());
  EXPECT_EQ(room_after(large.size()), 0U);
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{large.size()});
  EXPECT_EQ(client.seen, Texts{"collected " + large});
}

/// Or it would be copied each time that it has grown.
TEST_F(RequestGateTest, TakesRoomAtOnceForAMessageAsLargeAsThoseBefore) {
  const std::string large = insert_of(1'000'000);
  client.expected = large.size();
  client.sends(large.substr(0, 5000));
  EXPECT_EQ(client.gate.room(), large.size());
  EXPECT_EQ(client.needed(), large.size());
  client.sends(large.substr(5000));
  EXPECT_EQ(client.seen, Texts{"collected " + large});
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{large.size()});
  client.expected = 300'000;
  client.sends(large.substr(0, 5000));
  EXPECT_EQ(client.gate.room(), 300'000U);
  client.sends(large.substr(5000, 295'000));
  EXPECT_EQ(client.gate.room(), 600'000U) << "it is larger than those before";
}

TEST_F(RequestGateTest, TakesNoRoomAheadWhereLittleIsLeft) {
  const Budget::Share others_have = budget.overdraw(39'000'000);
  client.expected = 1'000'000;
  client.sends(insert_of(1'000'000).substr(0, 5000));
  EXPECT_EQ(client.gate.room(), 5000U);
}

TEST_F(RequestGateTest, WaitsForRoomAndGoesOnWhenItIsAdmitted) {
  fill();
  client.sends(kInsert);
  EXPECT_EQ(client.seen, Texts{"waits"});
  EXPECT_TRUE(client.gate.queued());
  EXPECT_EQ(budget.waiting(), 1U);
  client.sends(kPing);
  EXPECT_EQ(client.seen, Texts{"waits"}) << "nothing goes on";
  others.reset();
  EXPECT_EQ(client.granted.bytes(), kInsert.size());
  client.is_admitted();
  EXPECT_FALSE(client.gate.queued());
  EXPECT_EQ(client.seen, (Texts{"waits", "collected " + kInsert, "relayed " + kPing + '!'}));
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{kInsert.size()});
  EXPECT_EQ(budget.used(), 0U);
}

TEST_F(RequestGateTest, HoldsWhatItHasWhileItWaitsForMore) {
  const std::string large = insert_of(1'000'000);
  client.sends(large.substr(0, 70'000));
  EXPECT_EQ(client.gate.room(), 140'000U);
  Budget::Share elder;
  ASSERT_FALSE(budget.grow(elder, {budget.limit(), 2 * budget.limit()}));
  static_cast<void>(budget.wait(elder, {budget.limit(), 2 * budget.limit()},
                                [&](Budget::Share more) { elder.join(std::move(more)); }));
  ASSERT_EQ(elder.bytes(), budget.limit());
  client.sends(large.substr(70'000));
  EXPECT_EQ(client.seen, Texts{"waits"});
  EXPECT_EQ(client.gate.room(), 140'000U);
  elder.reset();
  client.is_admitted();
  EXPECT_EQ(client.seen, (Texts{"waits", "collected " + large}));
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{large.size()});
}

TEST_F(RequestGateTest, ServesOneGateAfterTheOther) {
  fill();
  Client second(budget, namespaces);
  const std::string insert = insert_of(60'000);
  client.sends(insert);
  second.sends(insert);
  Budget::Share most = budget.overdraw(budget.limit() - insert.size());
  others.reset();
  EXPECT_EQ(client.granted.bytes(), insert.size());
  EXPECT_EQ(second.granted.bytes(), 0U);
  most.reset();
  EXPECT_EQ(second.granted.bytes(), insert.size());
}

TEST_F(RequestGateTest, LeavesTheQueue) {
  fill();
  client.sends(kInsert);
  client.gate.leave();
  EXPECT_FALSE(client.gate.queued());
  EXPECT_EQ(budget.waiting(), 0U);
  client.gate.leave();
  others.reset();
  EXPECT_EQ(client.granted.bytes(), 0U);
  EXPECT_EQ(budget.used(), 0U);
}

TEST_F(RequestGateTest, GivesBackTheRoomOfAMessageThatIsNotWhole) {
  client.sends(insert_of(60'000).substr(0, 5000));
  EXPECT_EQ(budget.used(), insert_of(60'000).size()) << "all of a small one";
  client.gate.leave();
  EXPECT_EQ(budget.used(), 0U);
}

TEST_F(RequestGateTest, LeavesWhenItIsGone) {
  {
    Client gone(budget, namespaces);
    gone.sends(insert_of(60'000).substr(0, 5000));
    EXPECT_GT(budget.used(), 0U);
  }
  EXPECT_EQ(budget.used(), 0U);
  fill();
  {
    Client gone(budget, namespaces);
    gone.sends(kInsert);
    EXPECT_EQ(budget.waiting(), 1U);
  }
  EXPECT_EQ(budget.waiting(), 0U);
}

/// A24.
TEST_F(RequestGateTest, HoldsLittleForWhoNeedsALogin) {
  client.needs_login = true;
  const std::string large = insert_of(70'000);
  client.sends(kPing + kHello + kInsert + large.substr(0, 200));
  EXPECT_EQ(client.seen, (Texts{"relayed " + kPing + '!', "collected " + kHello,
                                "collected " + kInsert, "login_required"}));
  EXPECT_EQ(budget.used(), 0U);
  Client relayed(budget, namespaces);
  relayed.needs_login = true;
  const std::string elsewhere = kInsertElsewhere + std::string(100'000, '\0');
  relayed.sends(front_of(elsewhere, static_cast<std::int32_t>(elsewhere.size())));
  EXPECT_EQ(relayed.seen.size(), 1U);
  EXPECT_EQ(relayed.seen[0].substr(0, 8), "relayed ");
}

TEST_F(RequestGateTest, NeedsNoRoomForWhatIsSmallOrRelayed) {
  fill();
  const std::string large = kInsertElsewhere + std::string(100'000, '\0');
  const std::string relayed = front_of(large, static_cast<std::int32_t>(large.size()));
  client.sends(kHello + kPing + relayed);
  EXPECT_EQ(client.seen,
            (Texts{"collected " + kHello, "relayed " + kPing + '!', "relayed " + relayed + '!'}));
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{0});
}

/// Its command stands behind more than 64 KiB of documents.
TEST_F(RequestGateTest, GivesBackTheRoomOfAMessageThatTurnsOutToBeRelayed) {
  const std::string documents =
      sequence("documents", {doc(string_field("x", std::string(70'000, 'x')))});
  const std::string bytes = op_msg(documents + body(doc(insert_fields("orders", "elsewhere"))));
  client.sends(bytes.substr(0, 5000));
  EXPECT_EQ(budget.used(), 5000U);
  client.sends(bytes.substr(5000));
  EXPECT_EQ(client.seen, Texts{"relayed " + bytes + '!'});
  EXPECT_EQ(budget.used(), 0U);

  fill();
  Client waiting(budget, namespaces);
  waiting.sends(bytes.substr(0, 5000));
  EXPECT_EQ(waiting.seen, Texts{"waits"});
}

// ---- what ends a connection --------------------------------------------------------------------

TEST_F(RequestGateTest, RejectsAMalformedLength) {
  for (const std::int32_t length :
       {15, 0, -1, 48'000'001, std::numeric_limits<std::int32_t>::min()}) {
    const std::string bytes = front_of(kPing, length);
    EXPECT_EQ(seen_of(bytes), Texts{kLength}) << length;
    EXPECT_EQ(seen_of(bytes.substr(0, 16)), Texts{kLength}) << length;
    EXPECT_EQ(seen_of(bytes.substr(0, 15)), Texts{}) << length;
    EXPECT_EQ(seen_of(kPing + bytes), (Texts{"relayed " + kPing + '!', kLength})) << length;
  }
}

TEST_F(RequestGateTest, TakesTheShortestAndTheLongestLength) {
  for (const std::int32_t length : {16, 48'000'000}) {
    const std::string header = front_of(message(4711, ""), length);
    EXPECT_EQ(seen_of(header), Texts{"relayed " + header + (length == 16 ? "!" : "")});
  }
}

/// A ClientHello's first bytes; as a message's length, the first four are `length`.
std::string client_hello(char length_high) {
  return std::string("\x16\x03\x01", 3) + length_high +
         std::string("\x00\x01\x00\x00\x00\x03\x03", 7) + std::string(20, '\x55');
}

TEST_F(RequestGateTest, RejectsTlsThatIsTheFirstMessage) {
  for (const char length_high : {'\x00', '\x02', '\x04'}) {
    EXPECT_EQ(seen_of(client_hello(length_high)), Texts{kTls});
  }
  EXPECT_EQ(seen_of(client_hello('\x02').substr(0, 15)), Texts{}) << "nobody can tell yet";
}

TEST_F(RequestGateTest, TakesWhatLooksLikeTlsForAMessageOnceOneWasForwarded) {
  const std::string bytes = client_hello('\x02');
  EXPECT_EQ(seen_of(kPing + bytes), (Texts{"relayed " + kPing + '!', "relayed " + bytes}));
  EXPECT_EQ(seen_of(kHello + bytes), (Texts{"collected " + kHello, "relayed " + bytes}));
  EXPECT_EQ(seen_of(kPing + client_hello('\x04')), (Texts{"relayed " + kPing + '!', kLength}));
}

// ---- OP_COMPRESSED -----------------------------------------------------------------------------

std::string deflated(const std::string& bytes, wire::Compressor compressor) {
  wire::Codec codec;
  Buffer out;
  codec.deflate(compressor, as_bytes(bytes), out);
  return text_of(out.view());
}

/// Its documents are in the body, whose $db is far behind.
std::string long_insert(const std::string& collection) {
  const std::string text(6000, 'x');
  return op_msg(body(doc(string_field("insert", collection) +
                         array_field("documents", {doc(string_field("text", text))}) +
                         string_field("$db", "shop"))));
}

class OfEachCompressor : public RequestGateTest,
                         public ::testing::WithParamInterface<wire::Compressor> {
 protected:
  [[nodiscard]] static std::string deflated(const std::string& bytes) {
    return request_gate_test::deflated(bytes, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(RequestGate, OfEachCompressor, ::testing::ValuesIn(wire::kCompressors),
                         [](const auto& row) { return std::string(name_of(row.param)); });

TEST_P(OfEachCompressor, DecidesAsAboutThePlainMessage) {
  for (const Sent& each : kMessages) {
    const bool is_msg = wire::read_header(as_bytes(each.bytes)).op_code == wire::OpCode::msg;
    const std::string bytes = deflated(each.bytes);
    if (!is_msg || each.bytes == kHello || each.bytes == op_msg("")) continue;
    const Texts expected{each.collected ? "collected " + bytes : "relayed " + bytes + '!'};
    Client other(budget, namespaces);
    other.sends(bytes);
    EXPECT_EQ(other.seen, expected);
    EXPECT_EQ(other.inside, each.bytes);
    Client slow(budget, namespaces);
    for (const char byte : bytes) slow.sends({&byte, 1});
    EXPECT_EQ(slow.inside, each.bytes);
  }
}

TEST_P(OfEachCompressor, RelaysALargeMessageByItsBeginning) {
  const std::string plain =
      op_msg(body(doc(insert_fields("orders", "elsewhere"))) +
             sequence("documents", {doc(string_field("text", std::string(300'000, 'x')))}));
  const std::string bytes = deflated(plain);
  fill();
  client.sends(bytes);
  EXPECT_EQ(client.seen, Texts{"relayed " + bytes + '!'});
  EXPECT_EQ(client.inside, plain.substr(0, wire::kHeaderSize + wire::Codec::kPrefix));
  EXPECT_TRUE(client.expects_reply);
}

TEST_P(OfEachCompressor, InflatesAllWhereTheBeginningDoesNotTell) {
  const std::string ruled = long_insert("orders");
  client.sends(deflated(ruled) + deflated(kPing));
  EXPECT_EQ(client.seen,
            (Texts{"collected " + deflated(ruled), "relayed " + deflated(kPing) + '!'}));
  const std::string body_last =
      op_msg(sequence("documents", {doc(string_field("text", std::string(6000, 'x')))}) +
             body(doc(insert_fields())));
  EXPECT_EQ(seen_of(deflated(body_last)), Texts{"collected " + deflated(body_last)});
}

TEST_P(OfEachCompressor, HasRoomForBothBeforeItInflates) {
  const std::string bytes =
      deflated(insert_sequence({doc(string_field("x", std::string(400'000, 'x')))}));
  fill();
  client.sends(bytes);
  EXPECT_EQ(client.seen, Texts{"waits"});
  others.reset();
  client.is_admitted();
  EXPECT_EQ(client.seen, (Texts{"waits", "collected " + bytes}));
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{bytes.size() + client.inside.size()});
}

TEST_P(OfEachCompressor, HasRoomForTheWholeInTheEnd) {
  std::string digits(400'000, '0');
  std::mt19937 random(1);
  for (char& digit : digits) digit = "0123456789abcdef"[random() % 16];
  const std::string bytes = deflated(insert_sequence({doc(string_field("x", digits))}));
  for (std::size_t at = 0; at < bytes.size(); at += 1000) client.sends(bytes.substr(at, 1000));
  EXPECT_EQ(client.seen, Texts{"collected " + bytes});
  EXPECT_EQ(client.rooms, std::vector<std::uint64_t>{bytes.size() + client.inside.size()});
}

TEST_P(OfEachCompressor, MustHaveBeenAgreedOn) {
  client.agreed = {};
  for (const wire::Compressor each : wire::kCompressors) {
    if (each != GetParam()) client.agreed.add(each);
  }
  client.sends(deflated(kPing));
  EXPECT_EQ(client.seen, Texts{kCompressed});
}

TEST_P(OfEachCompressor, RefusesWhatMustNotBeCompressed) {
  for (const char* name : {"createUser", "updateUser"}) {
    EXPECT_EQ(seen_of(deflated(command(name))), Texts{kCompressed}) << name;
    const std::string behind =
        op_msg(sequence("x", {doc(string_field("text", std::string(6000, 'x')))}) +
               body(doc(int_field(name, 1) + string_field("$db", "admin"))));
    EXPECT_EQ(seen_of(deflated(behind)), Texts{kCompressed}) << name;
  }
}

/// Members of a replica set compress them. `behind`: behind what is inflated to look.
TEST_P(OfEachCompressor, CollectsLogins) {
  const std::string behind = string_field("padding", std::string(6000, 'x'));
  const std::string scram = string_field("mechanism", "SCRAM-SHA-256");
  for (const auto& [name, more] : {std::pair<const char*, std::string>("saslStart", scram),
                                   {"saslStart", behind + scram},
                                   {"saslContinue", ""},
                                   {"saslContinue", behind},
                                   {"logout", ""}}) {
    for (const auto x509 : {rewrite::X509::allowed, rewrite::X509::refused}) {
      const std::string bytes = deflated(command(name, more));
      client.x509 = x509;
      client.seen.clear();
      client.sends(bytes);
      EXPECT_EQ(client.seen, Texts{"collected " + bytes}) << name;
    }
  }
}

TEST_P(OfEachCompressor, CollectsLoginsByCertificateWhereTheyAreRefused) {
  client.x509 = rewrite::X509::refused;
  Texts expected;
  for (const std::string& mechanism : {"MONGODB-X509", "mongodb-x509"}) {
    for (const std::string& message :
         {command("authenticate"), command("authenticate", string_field("mechanism", mechanism)),
          command("saslStart", string_field("mechanism", mechanism)),
          command("saslStart",
                  string_field("x", std::string(6000, 'x')) + string_field("mechanism", mechanism)),
          op_msg(sequence("x", {doc(string_field("text", std::string(6000, 'x')))}) +
                 body(doc(int_field("authenticate", 1))))}) {
      client.sends(deflated(message));
      expected.push_back("collected " + deflated(message));
    }
  }
  EXPECT_EQ(client.seen, expected);
}

/// Node.js and Go compress these.
TEST_P(OfEachCompressor, TakesHello) {
  for (const char* name : {"hello", "isMaster", "ismaster"}) {
    const std::string bytes = deflated(command(name));
    EXPECT_EQ(seen_of(bytes), Texts{"collected " + bytes}) << name;
  }
}

TEST_P(OfEachCompressor, RefusesOneInAnother) {
  EXPECT_EQ(seen_of(deflated(deflated(kPing))), Texts{kCompressed});
}

TEST_P(OfEachCompressor, RefusesWrongSizesAndBytesThatAreLeft) {
  const std::string bytes = deflated(kPing);
  const auto with_size = [&](std::int64_t size) {
    return std::string(bytes).replace(wire::kHeaderSize + 4, 4, i32(size));
  };
  for (const std::int64_t size : {0, 1, -1, 4096, 4097, 100'000, 47'999'984, 47'999'985}) {
    EXPECT_EQ(seen_of(with_size(size)), Texts{kCompressed}) << size;
  }
  const auto longer = static_cast<std::int32_t>(bytes.size()) + 1;
  EXPECT_EQ(seen_of(front_of(bytes + 'x', longer)), Texts{kCompressed});
}

TEST_P(OfEachCompressor, IsLateWhileDraining) {
  client.draining = true;
  client.sends(deflated(kPing));
  EXPECT_EQ(client.seen, Texts{"late " + std::to_string(deflated(kPing).size())});
  Client silent(budget, namespaces);
  silent.draining = true;
  const std::string bytes = deflated(command("ping", {}, wire::flag::kMoreToCome));
  silent.sends(bytes);
  EXPECT_EQ(silent.seen, Texts{"relayed " + bytes + '!'});
  EXPECT_FALSE(silent.expects_reply);
}

TEST_F(RequestGateTest, RejectsACompressedMessageThatIsNone) {
  for (const std::string& bytes :
       {message(2012, ""), message(2012, "?"), message(2012, std::string(9, '\0')),
        message(2012, i32(2013) + i32(10) + '\2')}) {
    EXPECT_EQ(seen_of(bytes), Texts{kCompressed});
    EXPECT_EQ(seen_of(kPing + bytes), (Texts{"relayed " + kPing + '!', kCompressed}));
  }
}

// ---- draining ----------------------------------------------------------------------------------

TEST_F(RequestGateTest, IsTooLateForARequestWhileDraining) {
  for (const std::string& bytes :
       {kPing, kHello, kInsert, op_query("admin.$cmd", doc(int_field("isMaster", 1)))}) {
    for (const std::size_t there : {bytes.size(), bytes.size() - 1, wire::kHeaderSize}) {
      Client late(budget, namespaces);
      late.draining = true;
      late.sends(bytes.substr(0, there));
      EXPECT_EQ(late.seen, Texts{"late " + std::to_string(bytes.size())});
    }
  }
  EXPECT_EQ(budget.used(), 0U) << "it takes no room";
}

TEST_F(RequestGateTest, LetsThroughWhatExpectsNoReplyWhileDraining) {
  const std::string ping = command("ping", {}, wire::flag::kMoreToCome);
  client.draining = true;
  client.sends(ping + kUnacknowledged + message(4711, "?"));
  EXPECT_EQ(client.seen, (Texts{"relayed " + ping + '!', "collected " + kUnacknowledged,
                                "relayed " + message(4711, "?") + '!'}));
}

TEST_F(RequestGateTest, EndsAMessageThatItHasBegunBeforeDraining) {
  client.sends(kPing.substr(0, 45));
  client.draining = true;
  client.sends(kPing.substr(45) + kPing);
  EXPECT_EQ(client.seen, (Texts{"relayed " + kPing + '!', "late " + std::to_string(kPing.size())}));
}

TEST_F(RequestGateTest, IsTooLateForAMessageThatWaitedForRoom) {
  fill();
  client.sends(kInsert);
  client.draining = true;
  others.reset();
  client.is_admitted();
  EXPECT_EQ(client.seen, (Texts{"waits", "late " + std::to_string(kInsert.size())}));
}

}  // namespace request_gate_test
}  // namespace idproxy::net
