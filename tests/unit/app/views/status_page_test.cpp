#include "app/views/status_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "app/state/findings.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::views {
namespace status_page_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
namespace json = boost::json;

constexpr const char* kEvil = "<script>alert('x')</script>\"&\x01\xff";

struct StatusPageTest : ::testing::Test {
  StatusPageTest() {
    snapshot.rules =
        test::rule_set_of(test::rule("shop.orders", "number"), test::rule("shop.*", "_id"));
    snapshot.not_ready = {0, 0};
    snapshot.reasons.resize(2);
    snapshot.outlooks.resize(2);
    snapshot.net.connections_limit = 100;
    snapshot.net.listeners = {{.listener = "127.0.0.1:27117",
                               .server = "db1:27017",
                               .up = true,
                               .connections = 3,
                               .state = "PRIMARY",
                               .state_age = 90s}};
    sources.version = "1.2.3";
    sources.phase = state::Phase::serving;
    sources.now = 1'764'260'000s;
    sources.monotonic = 5000s;
    sources.started = 1'764'250'000s;
  }

  json::value document() const {
    return state::status_document(sources, &snapshot, recent, clients, query);
  }
  std::string page() const { return status_page(document(), query); }
  FindingLevel worst() const {
    return state::findings_of(sources.phase, snapshot, std::chrono::sys_seconds(1'764'260'000s))
        .front()
        .kind.level;
  }

  state::Snapshot snapshot;
  state::StatusSources sources;
  state::Recent recent;
  net::ClientList clients;
  state::StatusQuery query;
};

TEST_F(StatusPageTest, SaysThatNothingIsWrong) {
  EXPECT_EQ(document().at("wrong").as_array().size(), 0U);
  EXPECT_THAT(page(), HasSubstr("<span class=\"state ok\">nothing</span>"));
  EXPECT_THAT(page(), HasSubstr("<td class=\"ok\">PRIMARY for 1 min 30 s</td>"));
}

TEST_F(StatusPageTest, IsThereBeforeTheProxyServes) {
  sources.phase = state::Phase::starting;
  const json::value early = state::status_document(sources, nullptr, recent, clients, query);
  EXPECT_EQ(early.at("phase").as_string(), "starting");
  EXPECT_THAT(status_page(early, query), HasSubstr("The proxy is starting."));
}

TEST_F(StatusPageTest, ShowsAServerThatIsDown) {
  auto& server = snapshot.net.listeners[0];
  server.up = false;
  server.state = "down";
  server.fault = server.last_failure = "Connection refused";
  EXPECT_THAT(page(), HasSubstr("<td class=\"bad\">down for 1 min 30 s</td>"));
  EXPECT_THAT(page(), HasSubstr("server db1:27017 cannot be reached: Connection refused"));
  EXPECT_EQ(worst(), FindingLevel::error);
}

TEST_F(StatusPageTest, ShowsASlowServer) {
  snapshot.net.listeners[0].oldest = 8s;
  snapshot.net.listeners[0].in_flight = 2;
  EXPECT_THAT(page(), HasSubstr("<td class=\"bad\">slow: PRIMARY for 1 min 30 s</td>"));
  EXPECT_THAT(page(), HasSubstr("has not answered a request for 8.0 s, and 2 requests wait"));
}

TEST_F(StatusPageTest, MissesAPrimary) {
  snapshot.net.listeners[0].state = "SECONDARY";
  EXPECT_THAT(page(), HasSubstr("no server says that it is the primary"));
  snapshot.net.listeners[0].state = "STANDALONE";
  EXPECT_THAT(page(), Not(HasSubstr("the primary:")));
}

TEST_F(StatusPageTest, ShowsRulesThatFailAndThoseThatEnd) {
  snapshot.reasons[0].text = "no unique index";
  snapshot.run_out = {{1, "shop.bills", state::RunOut::End::max, 37, 1000}};
  snapshot.outlooks[1] = state::RunOut::Outlook{.left = 37, .at_hour_rate = 2min};
  EXPECT_THAT(page(), HasSubstr("<td class=\"bad\"><a href=\"#wrong\">not ready</a></td>"));
  EXPECT_THAT(page(), HasSubstr("<a href=\"#wrong\">ready, runs out</a>"));
  EXPECT_THAT(page(), HasSubstr("(2 min"));
  EXPECT_EQ(document().at("rules").at(1).at("full_at_hour_rate").to_number<std::int64_t>(),
            1'764'260'120);
  EXPECT_EQ(worst(), FindingLevel::error);

  snapshot.reasons[0] = {};
  query.rules = state::StatusQuery::Rules::failing;
  EXPECT_EQ(document().at("rules").as_array().size(), 1U);
  EXPECT_EQ(worst(), FindingLevel::warning);
}

TEST_F(StatusPageTest, ShowsClients) {
  clients = {.matching = 1,
             .clients = {{.id = 17,
                          .address = "10.0.0.7:50122",
                          .application = "shop",
                          .driver = "PyMongo 4.6",
                          .user = "ada",
                          .server = "db1:27017",
                          .age = 61s,
                          .waits = 7s,
                          .port = 40112}}};
  const std::string shown = page();
  for (const char* text : {"10.0.0.7:50122", "<a href=\"/?clients=app:shop#clients\">shop</a>",
                           "PyMongo 4.6", "<td>ada</td>", "40112", "1 min 1 s", "bad\">7.0 s"}) {
    EXPECT_THAT(shown, HasSubstr(text));
  }
}

TEST_F(StatusPageTest, ShowsClientsByApplication) {
  clients.applications = {{.application = "import & co",
                           .connections = 924,
                           .requests_per_second = 12.5,
                           .documents_per_second = 5000,
                           .transactions = 1,
                           .oldest_transaction = 61s,
                           .waits = 7s,
                           .memory = 2048},
                          {.connections = 3}};
  EXPECT_TRUE(document().at("clients").at("other_applications").is_null());
  clients.others = 5;
  clients.other_applications = {.connections = 8};
  const std::string shown = page();
  for (const char* text :
       {"id=\"application-import &amp; co\"", "/?clients=app:import%20%26%20co#clients", ">924<",
        ">5,000<", "1, 1 min 1 s", "bad\">7.0 s", "id=\"application-\"", "<td>and 5 more</td>"}) {
    EXPECT_THAT(shown, HasSubstr(text));
  }
  const json::value its = document().at("clients");
  EXPECT_TRUE(its.at("applications").at(1).at("application").is_null());
  EXPECT_EQ(its.at("other_applications").at("applications").to_number<int>(), 5);
}

TEST_F(StatusPageTest, ShowsTheProxiesOfTheStore) {
  EXPECT_THAT(page(), Not(HasSubstr("id=\"proxies\"")));
  snapshot.proxies = {{{"app1", "1.2.3", {"127.0.0.1:27117"}, "0123456789ab"}, 61s, 7s, true},
                      {{"app1", "1.2.3", {"127.0.0.1:27127"}, "ba9876543210"}, 60s, 8s}};
  snapshot.differences.rules = {"app1 (127.0.0.1:27127)"};
  const std::string shown = page();
  for (const char* text : {"app1 (this proxy)", "id=\"proxy-app1-127.0.0.1:27127\"", "ba9876543210",
                           "7.0 s ago", "app1 (127.0.0.1:27127) has other rules than this proxy",
                           "operations.md#several-proxies"}) {
    EXPECT_THAT(shown, HasSubstr(text));
  }
  EXPECT_EQ(worst(), FindingLevel::warning);
  const json::object first = document().at("proxies").at(0).as_object();
  EXPECT_EQ(first.at("since").as_int64(), 1'764'260'000 - 61);
  EXPECT_EQ(first.at("seen").as_int64(), 1'764'260'000 - 7);
  EXPECT_TRUE(first.at("self").as_bool());

  snapshot.differences = {.versions = {"app2", "app3"}};
  EXPECT_THAT(page(), HasSubstr("app2 and app3 have another version than this proxy"));
}

TEST_F(StatusPageTest, NothingThatPeersSayIsMarkup) {
  rewrite::Rule rule = test::rule(std::string("x.") + kEvil, kEvil);
  snapshot.rules = test::rule_set_of(rule);
  snapshot.reasons = {{kEvil}};
  snapshot.net.listeners[0].server = kEvil;
  snapshot.net.listeners[0].fault = kEvil;
  clients.clients = {{.address = kEvil, .application = kEvil, .driver = kEvil, .user = kEvil}};
  clients.applications = {{.application = kEvil}};
  snapshot.proxies = {{{kEvil, kEvil, {kEvil}, kEvil}}};
  snapshot.differences = {{kEvil}, {kEvil}};
  query.application = kEvil;
  sources.lines = {{{}, log::Level::error, "event", kEvil, {{"field", kEvil}}}};
  const std::string shown = page();
  EXPECT_THAT(shown, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(shown, Not(HasSubstr("alert('x')")));
  EXPECT_THAT(shown,
              HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\\u0001"));
  EXPECT_NO_THROW((void)json::parse(json::serialize(document())));
}

TEST_F(StatusPageTest, StaysSmallWithManyRulesAndClients) {
  std::vector<rewrite::Rule> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(test::rule("shop.c" + std::to_string(i), "number"));
  }
  snapshot.rules = std::make_shared<const rewrite::RuleSet>(std::move(many), "idproxy");
  snapshot.reasons.assign(1000, {});
  snapshot.not_ready.assign(1000, 0);
  snapshot.outlooks.assign(1000, std::nullopt);
  snapshot.reasons[700].text = "why";
  snapshot.outlooks[900] = state::RunOut::Outlook{.left = 5, .at_hour_rate = 1h};
  snapshot.rules->outcomes(800).assigned += 5;
  snapshot.net.connections_open = 10'000;
  for (std::uint64_t i = 0; i < 50; ++i) {
    clients.clients.push_back({.id = i, .address = "10.0.0.7:50122", .application = "shop"});
  }
  for (std::uint64_t i = 0; i < net::ClientList::kMostApplications; ++i) {
    clients.applications.push_back({.application = "job" + std::to_string(i), .connections = i});
  }
  for (int i = 0; i < 50; ++i) {
    sources.lines.push_back({{}, log::Level::error, "event", std::string(300, 'x'), {}});
  }
  for (int i = 0; i < 600; ++i) {
    recent.sample(snapshot.net, {}, *snapshot.rules, std::chrono::seconds(i + 1));
  }
  EXPECT_LT(page().size(), 200'000U);
  const json::value shown = document();
  const json::array& rules = shown.at("rules").as_array();
  ASSERT_EQ(rules.size(), 100U);
  EXPECT_EQ(rules[0].at("rule").to_number<std::int64_t>(), 700) << "fails";
  EXPECT_EQ(rules[1].at("rule").to_number<std::int64_t>(), 900) << "ends first";
  EXPECT_EQ(rules[2].at("rule").to_number<std::int64_t>(), 800) << "the busiest";
}

TEST(StatusFiles, AreSmall) {
  EXPECT_LT(status_css().size() + status_js().size() + status_icon().size(), 12'000U);
  EXPECT_THAT(status_js(), HasSubstr("fetch("));
}

TEST(StatusQuery, ReadsWhatItKnows) {
  EXPECT_EQ(state::StatusQuery::parse("").application, std::nullopt);
  EXPECT_EQ(state::StatusQuery::parse("clients=app:my%20shop").application, "my shop");
  EXPECT_EQ(state::StatusQuery::parse("x=1&clients=app:a+b&rules=failing").application, "a b");
  EXPECT_EQ(state::StatusQuery::parse("x=1&clients=app:a+b&rules=failing").rules,
            state::StatusQuery::Rules::failing);
  EXPECT_EQ(state::StatusQuery::parse("rules=failing2").rules, state::StatusQuery::Rules::some);
  EXPECT_EQ(state::StatusQuery::parse("clients=app:%").application, "%");
  EXPECT_EQ(state::StatusQuery::parse("clients=app:%4").application, "%4");
}

}  // namespace status_page_test
}  // namespace idproxy::app::views
