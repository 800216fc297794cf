#include "app/views/status_text.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "app/views/status_lists.hpp"

namespace idproxy::app::views {
namespace status_text_test {

using testing::HasSubstr;
using testing::Not;

/// A document of a proxy with one of everything.
boost::json::value document() {
  return boost::json::parse(R"({
    "version": "0.1.0", "pid": 4711, "phase": "ready", "now": 1000000, "started": 992200,
    "configuration": {"file": "/etc/x.yaml", "read": 999940},
    "wrong": [],
    "limits": {"clients": {"current": 3, "most": 7, "most_lately": 5, "limit": 10000},
               "in_flight": {"current": 2, "most": 9, "most_lately": 9, "limit": null},
               "waiting": {"current": 1, "most": 1, "most_lately": 1, "limit": null},
               "held_bytes": {"current": 0, "most": 1024, "most_lately": 0, "limit": 268435456}},
    "store": {"up": true, "reason": null, "round_trips": 12, "p50": 0.001, "p99": 0.004},
    "servers": [{"listener": "127.0.0.1:27117", "server": "db1:27017", "up": true,
                 "state": "PRIMARY", "since": 999940, "release": "MongoDB 6.0", "clients": 3,
                 "in_flight": 2, "oldest": 0.2, "requests": 1234, "replies": 1232, "p50": 0.0004,
                 "p99": 0.002, "last_failure": {"reason": "Connection refused", "at": 999900}}],
    "rules": [{"ns": "shop.orders", "field": "number", "strategy": "counter", "ready": true,
               "values": 100, "values_per_second": 1.5, "duplicates": 2, "next": 101, "held": 20,
               "left": 899, "full_at_hour_rate": 1764290500, "forwarded": {"multi": 3}}],
    "rules_total": 1,
    "clients": {"total": 3, "list": [
      {"id": 17, "address": "127.0.0.1:51234", "application": "shop", "driver": "PyMongo 4.6",
       "user": null, "server": "db1:27017", "since": 999970, "oldest": 6, "requests": 12,
       "values": 3, "bytes_received": 1, "bytes_sent": 2048, "tls": true, "port": 40112},
      {"id": 18, "address": "127.0.0.1:51235", "application": "other", "tls": false}]},
    "history": {"every": 1, "requests": [5, null, 1234], "values": [3.5], "duplicates": [4, null],
                "p50": [0.0004], "p99": [0.002]}
  })");
}

boost::json::object& first(boost::json::value& in, const char* list) {
  return in.as_object().at(list).as_array().at(0).as_object();
}

std::string summary(const boost::json::value& status) {
  return summary_text(JsonView(status), {});
}

TEST(SummaryText, ShowsAHealthyProxy) {
  EXPECT_EQ(summary(document()),
            "mongo-idproxy 0.1.0, ready, up 2 h 10 min, pid 4711\n"
            "/etc/x.yaml, read 1 min ago\n"
            "\n"
            "Nothing is wrong\n"
            "\n"
            "Servers\n"
            "  SERVER     STATE      FOR  CLIENTS  IN FLIGHT  OLDEST  REQUESTS     P50   P99\n"
            "  db1:27017  PRIMARY  1 min        3          2   0.2 s     1,234  0.4 ms  2 ms\n"
            "\n"
            "Rules\n"
            "  NS           FIELD   STRATEGY  STATE  VALUES   /S  WAIT  DUP  NEXT  LEFT\n"
            "  shop.orders  number  counter   ready     100  1.5     -    2   101   899\n"
            "\n"
            "Limits\n"
            "               NOW   MOST  IN 10 MIN    LIMIT\n"
            "  clients        3      7          5   10,000\n"
            "  in flight      2      9          9        -\n"
            "  waiting        1      1          1        -\n"
            "  held memory  0 B  1 KiB        0 B  256 MiB\n"
            "\n"
            "Id store\n"
            "  answers, 12 round trips, p50 1 ms, p99 4 ms\n");
}

TEST(SummaryText, ShowsFirstWhatIsWrong) {
  auto status = document();
  status.as_object()["wrong"] = boost::json::parse(
      R"([{"level": "error", "text": "it gives no values", "remedy": "create it", "link": "where to read"},
          {"level": "warning", "text": "37 numbers are left", "remedy": null, "link": null}])");
  EXPECT_THAT(summary(status), HasSubstr("ago\n\n"
                                         "Wrong now\n"
                                         "  error    it gives no values\n"
                                         "           create it\n"
                                         "           where to read\n"
                                         "  warning  37 numbers are left\n"
                                         "\nServers"));
  EXPECT_TRUE(has_errors(JsonView(status)));
  EXPECT_FALSE(has_errors(JsonView(document())));
}

TEST(SummaryText, NamesStatesOfServersAndRules) {
  auto status = document();
  first(status, "servers")["up"] = false;
  first(status, "rules")["ready"] = false;
  first(status, "rules")["reason"] = "the user lacks readWrite";
  status.as_object()["store"].as_object()["up"] = false;
  status.as_object()["store"].as_object()["reason"] = "no primary";
  const std::string text = summary(status);
  EXPECT_THAT(text, HasSubstr("  db1:27017  down "));
  EXPECT_THAT(text, HasSubstr("    last failure 1 min 40 s ago: Connection refused\n"));
  EXPECT_THAT(text, HasSubstr("NOT READY"));
  EXPECT_THAT(text, HasSubstr("    the user lacks readWrite\n"));
  EXPECT_THAT(text, HasSubstr("does not answer: no primary"));
}

TEST(SummaryText, ShowsTheFirstRulesOfMany) {
  auto status = document();
  boost::json::array& rules = status.as_object()["rules"].as_array();
  while (rules.size() < 30) rules.push_back(boost::json::value(rules[0]));
  status.as_object()["rules_total"] = 1000;
  EXPECT_THAT(summary(status), HasSubstr("  and 980 more: status --rules\n"));
  EXPECT_THAT(rules_text(JsonView(status), {}, Detail::full), HasSubstr("  and 970 more\n"));
}

TEST(SummaryText, OfAProxyThatStartsIsShort) {
  EXPECT_EQ(summary(boost::json::parse(
                R"({"version": "0.1.0", "phase": "starting", "pid": 7, "now": 9, "started": 5})")),
            "mongo-idproxy 0.1.0, starting, up 4.0 s, pid 7\n");
}

TEST(SummaryText, TakesAnyDocument) {
  for (const char* text :
       {"{}", "[]", "null", R"({"servers": [1, null, {}], "rules": [{}], "clients": 7})",
        R"({"wrong": [null, "x"], "limits": [], "history": {"requests": {}}, "store": {}})"}) {
    const auto status = boost::json::parse(text);
    EXPECT_THAT(summary(status), HasSubstr("mongo-idproxy -, -, up -"));
    EXPECT_THAT(clients_text(JsonView(status), {}, ""), HasSubstr("none"));
    EXPECT_THAT(watch_line(JsonView(status)), HasSubstr(" - "));
    EXPECT_FALSE(has_errors(JsonView(status)));
  }
}

TEST(SummaryText, ShowsOtherProxiesOfTheSet) {
  auto status = document();
  status.as_object()["proxies"] = boost::json::parse(
      R"([{"host": "app1", "self": true},
          {"host": "app2", "version": "0.1.0", "rules_hash": "abc", "since": 999900, "seen": 999997}])");
  EXPECT_THAT(summary(status), HasSubstr("Other proxies\n"
                                         "  HOST  VERSION  RULES    FOR  SEEN BEFORE\n"
                                         "  app2  0.1.0    abc    1 min        3.0 s\n"));
}

TEST(ListsText, HaveAllFiguresIfAskedForThem) {
  const auto status = document();
  const std::string servers = servers_text(JsonView(status), {}, Detail::full);
  for (const char* text : {"127.0.0.1:27117", "MongoDB 6.0", "last failure", "1,232"}) {
    EXPECT_THAT(servers, HasSubstr(text));
  }
  const std::string rules = rules_text(JsonView(status), {}, Detail::full);
  for (const char* text : {"HELD", "20", "multi 3", "2025-11-"})
    EXPECT_THAT(rules, HasSubstr(text));
}

TEST(ListsText, HaveTheClientsOfAnApplication) {
  const auto status = document();
  const std::string all = clients_text(JsonView(status), {}, "");
  EXPECT_THAT(all,
              HasSubstr("  17  127.0.0.1:51234  shop         -     PyMongo 4.6  db1:27017  30 s"));
  EXPECT_THAT(all, HasSubstr("yes  40112\n"));
  EXPECT_THAT(all, HasSubstr("  and 1 more\n"));
  const std::string own = clients_text(JsonView(status), {}, "shop");
  EXPECT_THAT(own, HasSubstr("Clients of shop\n"));
  EXPECT_THAT(own, Not(HasSubstr("51235")));
  EXPECT_EQ(clients_text(JsonView(status), {}, "none of them"),
            "Clients of none of them\n  none\n");
}

TEST(ListsText, HaveTheColourOfTheirState) {
  auto status = document();
  const Terminal terminal{.colours = true};
  EXPECT_THAT(servers_text(JsonView(status), terminal, Detail::brief),
              HasSubstr("\x1b[32mPRIMARY"));
  first(status, "servers")["oldest"] = 7.9;
  EXPECT_THAT(servers_text(JsonView(status), terminal, Detail::brief), HasSubstr("\x1b[31m7.9 s"));
}

TEST(WatchLine, HasTheFiguresOfTheLastSecond) {
  const std::string headers = watch_headers();
  const std::string line = watch_line(JsonView(document()));
  EXPECT_EQ(headers.substr(8),
            "  clients     req/s  values/s  dup/s       p50       p99 in flight  waiting\n");
  EXPECT_EQ(line.substr(8),
            "        3     1,234       3.5      -    0.4 ms      2 ms         2        1\n");
}

}  // namespace status_text_test
}  // namespace idproxy::app::views
