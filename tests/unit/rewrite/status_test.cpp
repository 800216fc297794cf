#include "idproxy/rewrite/status.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support/fake_store.hpp"
#include "support/replies.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace status_test {

using namespace test;
using ids::Errc;
using ids::Readiness;

const std::string kAdmin = string_field("$db", "admin");
const std::string kStatus = string_field("idproxy", "status");
constexpr std::uint32_t kChecksum = wire::flag::kChecksumPresent;
const std::string kTimes = doc_field("$clusterTime", timestamp_field("clusterTime", 5)) +
                           timestamp_field("operationTime", 4);

std::string request(std::string_view fields = {}, std::uint32_t flags = 0) {
  return addressed(op_msg(body(doc(kStatus + kAdmin + std::string(fields))), flags), 11, 0);
}

// --- The request ---

std::string fault(std::string_view fields) {
  const Exact exact(op_msg(body(doc(fields))));
  const auto error = fault_of_status_request(*wire::OpMsgView::parse(exact.view()));
  if (!error) return "";
  return std::to_string(static_cast<int>(error->code)) + " " + error->message;
}

TEST(StatusRequest, IsForAdminAlone) {
  const std::string only_admin = "13 idproxy may only be run against the admin database.";
  EXPECT_EQ(fault(kStatus + kAdmin), "");
  EXPECT_EQ(fault(kAdmin + kStatus),
            "2 mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: \"next\"}, and "
            "nothing else");
  EXPECT_EQ(fault(kStatus + long_field("maxTimeMS", 1) + kAdmin), "");
  EXPECT_EQ(fault(kStatus + string_field("$db", "test")), only_admin);
  EXPECT_EQ(fault(kStatus + string_field("$db", "Admin")), only_admin);
  EXPECT_EQ(fault(kStatus + int_field("$db", 1)), only_admin);
  EXPECT_EQ(fault(kStatus), only_admin);
  EXPECT_EQ(fault(int_field("idproxy", 1) + string_field("$db", "test")), only_admin);
}

TEST(StatusRequest, KnowsOneWord) {
  for (const std::string& what :
       {int_field("idproxy", 1), string_field("idproxy", "Status"), string_field("idproxy", ""),
        string_field("idproxy", "status", bson::Type::symbol), doc_field("idproxy", kStatus)}) {
    EXPECT_EQ(fault(what + kAdmin),
              "2 mongo-idproxy: it answers {idproxy: \"status\"} and {idproxy: \"next\"}, and "
              "nothing else");
  }
}

TEST(StatusRequest, AsksTheServerForNothingElse) {
  for (const std::uint32_t flags : {0U, kChecksum, wire::flag::kExhaustAllowed}) {
    const Exact exact(request(doc_field("lsid", "") + long_field("txnNumber", 1), flags));
    wire::PatchedMessage out;
    ask_for_right(*wire::OpMsgView::parse(exact.view()), out);
    EXPECT_FALSE(out.borrows());
    Buffer copy;
    out.copy({}, 0, copy);
    EXPECT_EQ(
        text_of(copy.view()),
        addressed(op_msg(body(doc(int_field("hostInfo", 1) + kAdmin)), flags & kChecksum), 11, 0));
  }
}

// --- The reply ---

struct StatusReply : ::testing::Test {
  /// A rule set of these, and of the store if there are collections that are not ready.
  void watch(std::size_t count, bool with_store = true) {
    std::vector<Rule> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(rule("shop.c" + std::to_string(i), "number"));
    }
    rules =
        std::make_shared<const RuleSet>(std::move(all), "idproxy", with_store ? store : nullptr);
  }

  /// The answer, or "not understood".
  std::string answer(std::string_view server, std::uint32_t request_flags = 0) {
    const Exact asked(request("", request_flags));
    const Exact reply(server);
    Status status{.version = "1.2.3",
                  .listener = "127.0.0.1:27117",
                  .server = "db1:27017",
                  .listeners = listeners,
                  .rules = rules,
                  .connections = 9,
                  .inserts_assigned = 8,
                  .documents_refused = 7,
                  .commands_failed = 6};
    Buffer out;
    out.append(as_bytes("before"));
    const bool understood = append_status_reply(*wire::OpMsgView::parse(asked.view()),
                                                *wire::OpMsgView::parse(reply.view()), status, out);
    EXPECT_EQ(text_of(out.view()).substr(0, 6), "before");
    if (understood) return text_of(out.view()).substr(6);
    EXPECT_EQ(out.size(), 6U);
    return "not understood";
  }

  static std::string of_rule(std::size_t i, std::string_view readiness,
                             std::array<std::int64_t, 9> counts = {},
                             std::string_view forwarded = {}) {
    std::string fields = string_field("ns", "shop.c" + std::to_string(i)) +
                         string_field("field", "number") + string_field("strategy", "counting") +
                         std::string(readiness);
    constexpr const char* kNames[] = {"assigned", "resent",         "cured",
                                      "givenUp",  "foreign",        "transient",
                                      "surfaced", "unacknowledged", "handedOut"};
    for (std::size_t k = 0; k < counts.size(); ++k) fields += long_field(kNames[k], counts[k]);
    return doc(fields + doc_field("upsertsForwarded", forwarded));
  }
  /// Everything in front of `store`.
  std::string head(const std::vector<std::string>& rule_documents,
                   const std::vector<std::string>& listener_documents = {}) {
    return string_field("version", "1.2.3") + string_field("listener", "127.0.0.1:27117") +
           string_field("server", "db1:27017") + array_field("listeners", listener_documents) +
           array_field("rules", rule_documents) +
           doc_field("counters", long_field("connections", 9) + long_field("insertsAssigned", 8) +
                                     long_field("documentsRefused", 7) +
                                     long_field("commandsFailed", 6));
  }
  static std::string counts_of_store(std::array<std::int64_t, 6> counts = {}) {
    return doc_field("store",
                     long_field("roundTrips", counts[0]) + long_field("blocks", counts[1]) +
                         long_field("blocksDropped", counts[2]) +
                         long_field("numbersAllocated", counts[3]) +
                         long_field("numbersReturned", counts[4]) + long_field("heals", counts[5]));
  }

  const std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<const RuleSet> rules;
  std::vector<ListenerStatus> listeners;
};

const std::string kReady = bool_field("ready", true);
const std::string kOk = reply_message(string_field("extra", "x") + ok() + kTimes, 11);

TEST_F(StatusReply, HasRulesWithTheirCounts) {
  watch(2, false);
  RuleOutcomes& of = rules->outcomes(1);
  of.assigned = 1;
  of.resent = 2;
  of.cured = 3;
  of.given_up = 4;
  of.foreign = 5;
  of.transient = 6;
  of.surfaced = 7;
  of.unacknowledged = std::uint64_t{1} << 40;
  of.handed_out = 9;
  of.forwarded[static_cast<std::size_t>(ForwardReason::replacement)] = 10;
  EXPECT_EQ(answer(kOk),
            reply_message(head({of_rule(0, kReady),
                                of_rule(1, kReady, {1, 2, 3, 4, 5, 6, 7, std::int64_t{1} << 40, 9},
                                        long_field("replacement", 10))}) +
                              ok() + kTimes,
                          11));
}

TEST_F(StatusReply, HasListeners) {
  watch(0);
  listeners = {{"127.0.0.1:27117", "db1:27017", "db1.lan:27017", "rs0", "PRIMARY", "uri", 3},
               {"127.0.0.1:27118", "db2:27017", "", "", "unknown", "member", 0}};
  store->counted = {1, 2, 3, 4, 5, 6};
  const std::string first =
      doc(string_field("address", "127.0.0.1:27117") + string_field("server", "db1:27017") +
          string_field("me", "db1.lan:27017") + string_field("setName", "rs0") +
          string_field("state", "PRIMARY") + string_field("origin", "uri") +
          long_field("connections", 3));
  const std::string second =
      doc(string_field("address", "127.0.0.1:27118") + string_field("server", "db2:27017") +
          string_field("state", "unknown") + string_field("origin", "member") +
          long_field("connections", 0));
  EXPECT_EQ(
      answer(reply_message(ok(), 11)),
      reply_message(head({}, {first, second}) + counts_of_store({1, 2, 3, 4, 5, 6}) + ok(), 11));
}

TEST_F(StatusReply, SaysWhereRulesAreNotReady) {
  watch(4);
  store->listed = {{2, "shop.b", {Readiness::Kind::left_alone, {}}},
                   {1, "shop.c1", {Readiness::Kind::not_ready, {Errc::unavailable, "not looked"}}},
                   {2, "shop.a", {Readiness::Kind::not_ready, {Errc::exhausted, "no index"}}}};
  const std::string one =
      bool_field("ready", false) +
      array_field("notReady", {doc(string_field("ns", "shop.c1") + int_field("code", 6) +
                                   string_field("errmsg", "not looked"))});
  const std::string two =
      bool_field("ready", false) +
      array_field("notReady",
                  {doc(string_field("ns", "shop.a") + int_field("code", 96) +
                       string_field("errmsg", "no index")),
                   doc(string_field("ns", "shop.b") +
                       string_field("errmsg",
                                    "a view or a time-series collection: no rule applies to it"))});
  EXPECT_EQ(answer(kOk), reply_message(head({of_rule(0, kReady), of_rule(1, one), of_rule(2, two),
                                             of_rule(3, kReady)}) +
                                           counts_of_store() + ok() + kTimes,
                                       11));
}

TEST_F(StatusReply, SaysWhatCountersAndSpacesHaveLeft) {
  watch(3);
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  store->numbered = {{2, "shop.c2", ids::SpaceUse{880, 0.5, 0.75}},
                     {1, "shop.c1", ids::CounterNumbers{{}, 0, {}}},
                     {0, "shop.b", ids::CounterNumbers{-3, 7, kMost}},
                     {0, "shop.a", ids::CounterNumbers{1001, 99, 9000, {{7, 1000}}}},
                     {2, "shop.c1", ids::SpaceUse{{}, 0.25, 0.75}}};
  const auto numbers = [](const std::vector<std::string>& documents) {
    return kReady + array_field("numbers", documents);
  };
  const std::string first = numbers(
      {doc(string_field("ns", "shop.a") + long_field("next", 1001) + long_field("held", 99) +
           long_field("left", 9000) + long_field("liveRanges", 7) + long_field("ranges", 1000)),
       doc(string_field("ns", "shop.b") + long_field("next", -3) + long_field("held", 7) +
           long_field("left", std::numeric_limits<std::int64_t>::max()))});
  const std::string second = numbers({doc(string_field("ns", "shop.c1") + long_field("held", 0))});
  const std::string third =
      numbers({doc(string_field("ns", "shop.c1") + double_field("fill", 0.25) +
                   double_field("maxFill", 0.75)),
               doc(string_field("ns", "shop.c2") + long_field("documents", 880) +
                   double_field("fill", 0.5) + double_field("maxFill", 0.75))});
  EXPECT_EQ(answer(kOk),
            reply_message(head({of_rule(0, first), of_rule(1, second), of_rule(2, third)}) +
                              counts_of_store() + ok() + kTimes,
                          11));
}

/// The body of the answer.
Bytes body_of(const std::string& answer) {
  const auto view = wire::OpMsgView::parse(as_bytes(answer));
  return view ? view->body() : Bytes();
}

/// How many collections of each rule are listed, "+" if there are more.
std::vector<std::string> listed(const std::string& answer) {
  std::vector<std::string> counts;
  bson::Elements rules(bson::find(body_of(answer), "rules")->value);
  while (const auto rule = rules.next()) {
    const auto not_ready = bson::find(rule->value, "notReady");
    std::size_t count = 0;
    bson::Elements reasons(not_ready ? not_ready->value : as_bytes({"\5\0\0\0\0", 5}));
    while (reasons.next()) ++count;
    counts.push_back(std::to_string(count) + (bson::find(rule->value, "truncated") ? "+" : ""));
  }
  return counts;
}

TEST_F(StatusReply, ListsTwentyCollectionsOfARule) {
  watch(3);
  for (std::size_t i = 0; i < 20; ++i) store->listed.push_back({1, "shop.c", {}});
  for (std::size_t i = 0; i < 21; ++i) store->listed.push_back({2, "shop.c", {}});
  EXPECT_EQ(listed(answer(kOk)), (std::vector<std::string>{"0", "20", "20+"}));
}

TEST_F(StatusReply, StaysBelowWhatAReplyMayHave) {
  constexpr std::size_t kRules = 1000;
  watch(kRules);
  const ids::Error error{Errc::exhausted, std::string(2000, 'r')};
  for (std::size_t i = 0; i < 20 * kRules; ++i) {
    store->listed.push_back({i / 20, std::string(255, 'n'), {Readiness::Kind::not_ready, error}});
  }
  const std::string all = answer(kOk);
  EXPECT_LT(all.size(), 10U * 1024 * 1024);
  EXPECT_TRUE(bson::well_formed(body_of(all), 10));
  EXPECT_EQ(listed(all).front(), "20");
  EXPECT_EQ(listed(all).back(), "0+");
}

TEST_F(StatusReply, HasAChecksumIfTheRequestHas) {
  watch(0, false);
  const std::string fields = head({}) + ok();
  for (const std::uint32_t flags : {0U, kChecksum}) {
    for (const std::uint32_t server_flags : {0U, kChecksum}) {
      EXPECT_EQ(answer(reply_message(ok(), 11, server_flags), flags),
                reply_message(fields, 11, flags));
      EXPECT_EQ(answer(reply_message(failure(91, "ends"), 11, server_flags), flags),
                reply_message(failure(91, "ends"), 11, flags));
    }
  }
}

// --- Errors ---

TEST_F(StatusReply, NamesTheRightThatIsNeeded) {
  watch(1);
  const auto error = [](const std::string& text) {
    return reply_message(ok(0) + string_field("errmsg", text) + int_field("code", 13) +
                             string_field("codeName", "Unauthorized") + kTimes,
                         11);
  };
  EXPECT_EQ(answer(error("command hostInfo requires authentication")),
            error("mongo-idproxy: the status is for those who may do hostInfo on the cluster, "
                  "which the role clusterMonitor includes; the server says: command hostInfo "
                  "requires authentication"));
}

TEST_F(StatusReply, PassesOtherErrorsOn) {
  watch(1);
  const std::string version = doc_field(
      "topologyVersion",
      element(bson::Type::object_id, "processId", std::string(12, 'p')) + long_field("counter", 3));
  for (const std::string& fields :
       {failure(91, "The server is in quiesce mode", {"RetryableWriteError"}) + version + kTimes,
        ok(0), int_field("ok", 0) + int_field("errmsg", 1) + int_field("code", 13)}) {
    EXPECT_EQ(answer(reply_message(fields, 11)), reply_message(fields, 11));
  }
}

TEST_F(StatusReply, IsNoneIfTheServersCannotBeUnderstood) {
  watch(1);
  for (const std::string& fields :
       {std::string(), ok() + ok(), ok(2), ok(0.5), string_field("ok", "1"), ok() + "\x10",
        string_field("errmsg", "no ok"), ok() + element(bson::Type::string, "errmsg", i32(99))}) {
    EXPECT_EQ(answer(reply_message(fields, 11)), "not understood");
  }
}

TEST_F(StatusReply, NeedsAWholeReply) {
  watch(1);
  const std::string last = kTimes;
  const std::string fields = failure(13, "no") + last;
  const std::size_t ends[] = {
      ok(0).size(), (ok(0) + string_field("errmsg", "no")).size(), failure(13, "no").size(),
      fields.size() - timestamp_field("operationTime", 4).size(), fields.size()};
  for (std::size_t cut = 0; cut <= fields.size(); ++cut) {
    const bool whole = std::ranges::find(ends, cut) != std::end(ends);
    EXPECT_EQ(answer(reply_message(fields.substr(0, cut), 11)) != "not understood", whole) << cut;
  }
}

}  // namespace status_test
}  // namespace idproxy::rewrite
