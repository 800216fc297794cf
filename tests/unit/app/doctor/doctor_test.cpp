#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "app/doctor/certificates_check.hpp"
#include "app/doctor/host_check.hpp"
#include "app/doctor/proxies_check.hpp"
#include "app/doctor/report.hpp"
#include "app/doctor/servers_check.hpp"
#include "app/doctor/store_check.hpp"
#include "app/state/process_statistics.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::app::doctor {
namespace doctor_test {

using id_store::KnownProxy;
using id_store::ServerHello;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> ids_of(const DoctorCheck& check) {
  std::vector<std::string> ids;
  for (const Finding& each : check.findings) ids.emplace_back(each.kind.id);
  return ids;
}

// ---- texts -------------------------------------------------------------------------------------

std::vector<std::string> lines_of(const Finding& finding) {
  std::vector<std::string> lines;
  const Commands commands = finding.commands();
  for (const TypedCommand& each : commands.all()) lines.push_back(each.line());
  return lines;
}

DoctorReport example() {
  DoctorReport report{"a.yaml", {{"file", "1 rule"}, {"tls", "no TLS", true}, {"servers", "1"}}};
  report.checks[0].add(finding::kMemberUnlisted, "db3", "a note", Commands().mongosh("rs.conf()"));
  report.checks[0].add(finding::kConfigWarning, "a.yaml:1", "a warning\x1b",
                       Commands().shell({"vi", "a b.yaml"}));
  report.checks[2].add(finding::kPrimaryMissing, "rs0", "an error",
                       Commands().mongosh("rs.status()"));
  return report;
}

TEST(DoctorTest, ReportsTheWorstFirst) {
  EXPECT_EQ(doctor_text(example(), {}),
            "  RESULT   CHECK    LOOKED AT\n"
            "  warning  file     1 rule\n"
            "  skipped  tls      no TLS\n"
            "  error    servers  1\n"
            "\n"
            "error: primary-missing: rs0\n"
            "  an error\n"
            "  mongosh> rs.status()\n"
            "\n"
            "warning: config-warning: a.yaml:1\n"
            "  a warning\\u001b\n"
            "  $ vi 'a b.yaml'\n"
            "\n"
            "note: member-unlisted: db3\n"
            "  a note\n"
            "  mongosh> rs.conf()\n"
            "\n"
            "1 error, 1 warning, 1 note; docs/troubleshooting.md explains each under its name\n");
}

TEST(DoctorTest, SaysInOneLineThatNothingIsWrong) {
  const DoctorReport report{"a.yaml", {{"file", "1 rule"}, {"tls", "no TLS", true}}};
  EXPECT_EQ(doctor_text(report, {}), "Nothing is wrong with file; tls: no TLS\n");
  EXPECT_FALSE(has_faults(report));
}

TEST(DoctorTest, HasColoursAndWordsBesides) {
  const views::Terminal terminal{80, 24, true};
  EXPECT_THAT(doctor_text(example(), terminal), HasSubstr("\x1b[31merror: primary-missing: rs0"));
}

TEST(DoctorTest, NotesAreNoFaults) {
  DoctorReport report = example();
  EXPECT_TRUE(has_faults(report));
  report.checks[2].findings.clear();
  EXPECT_TRUE(has_faults(report));
  report.checks[0].findings.pop_back();
  EXPECT_FALSE(has_faults(report));
  EXPECT_EQ(doctor_json(report).at("checks").at(0).at("result"), "note");
}

// ---- privileges --------------------------------------------------------------------------------

TEST(DoctorTest, FindsWhatPrivilegesLack) {
  const NeededPrivileges collection{"shop", "orders", {"find", "listIndexes", "listCollections"}};
  EXPECT_THAT(lacking(collection, {}), ElementsAre("find", "listIndexes", "listCollections"));
  EXPECT_THAT(lacking(collection, {{"shop", "", {"find", "listCollections"}}}),
              ElementsAre("listIndexes"));
  EXPECT_THAT(lacking(collection, {{"", "", {"find", "listIndexes", "listCollections"}}}),
              IsEmpty());
  EXPECT_THAT(lacking(collection, {{"shop", "orders", {"find", "listCollections"}},
                                   {"shop", "bills", {"listIndexes"}},
                                   {"bank", "", {"listIndexes"}}}),
              ElementsAre("listIndexes", "listCollections"))
      << "listCollections is of a database";
  const NeededPrivileges everywhere{"", "", {"find"}};
  EXPECT_THAT(lacking(everywhere, {{"shop", "", {"find"}}}), ElementsAre("find"));
}

// ---- servers -----------------------------------------------------------------------------------

ServerHello member(const std::string& address, const std::string& state) {
  ServerHello server;
  server.address = address;
  server.state = state;
  server.set_name = "rs0";
  server.members = {"db1:27017", "db2:27017"};
  server.wire_version = 17;
  server.version = "6.0.5";
  return server;
}

DoctorCheck check_of(std::vector<ServerHello> servers, std::vector<ServerHello> store = {},
                     const std::string& uri = "mongodb://db1,db2/?replicaSet=rs0") {
  config::Config config;
  config.written.upstream_uri_place = {3, 5};
  config.id_store.uri = "mongodb://db3/?replicaSet=rs0";
  config.id_store.uri_key = store.empty() ? "upstream.uri" : "id_store.uri";
  return check_servers(config, uri, {std::move(servers), std::move(store)}, "a b.yaml");
}

TEST(DoctorTest, ASoundSetGivesNoFinding) {
  const DoctorCheck check =
      check_of({member("db1:27017", "primary"), member("db2:27017", "secondary")});
  EXPECT_THAT(check.findings, IsEmpty());
  EXPECT_EQ(check.what, "db1:27017 primary 6.0.5, db2:27017 secondary 6.0.5");
}

TEST(DoctorTest, AMemberThatKnowsThePrimaryIsEnough) {
  ServerHello secondary = member("db1:27017", "secondary");
  EXPECT_THAT(ids_of(check_of({secondary, member("db2:27017", "secondary")})),
              ElementsAre("primary-missing"));
  secondary.primary = "db9:27017";
  EXPECT_THAT(ids_of(check_of({secondary, member("db2:27017", "secondary")})), IsEmpty());
}

TEST(DoctorTest, ReasonsAreTakenFromTheLibrarysText) {
  const auto check_fault = [](const std::string& reason) {
    ServerHello server;
    server.address = "[::1]:27018";
    server.fault = "No suitable servers found: [" + reason + " on '[::1]:27018']";
    return check_of({server}).findings.at(0);
  };
  EXPECT_STREQ(check_fault("Failed to resolve").kind.id, "server-name-unknown");
  EXPECT_STREQ(check_fault("TLS handshake failed: x").kind.id, "server-tls-fails");
  const Finding refused = check_fault("connection refused");
  EXPECT_STREQ(refused.kind.id, "server-unreachable");
  EXPECT_THAT(refused.text(), Not(HasSubstr("tls=true")));
  EXPECT_EQ(refused.commands().all().at(0).line(), "nc -vz -w 3 ::1 27018");
  EXPECT_THAT(check_fault("connection closed calling hello").text(), HasSubstr("tls=true"));
}

TEST(DoctorTest, TheNameOfASetIsToldOnce) {
  const DoctorCheck check =
      check_of({member("db1:27017", "primary"), member("db2:27017", "secondary")}, {},
               "mongodb://db1,db2/?replicaSet=old");
  ASSERT_THAT(ids_of(check), ElementsAre("set-name-differs"));
  EXPECT_THAT(check.findings[0].text(),
              EndsWith("has replicaSet=old: write replicaSet=rs0, in line 3 of a b.yaml"));
  EXPECT_THAT(
      lines_of(check.findings[0]),
      ElementsAre("sudoedit 'a b.yaml'", "mongo-idproxy check --connect --config 'a b.yaml'"));
}

TEST(DoctorTest, ServersOfBothStringsAreLookedAtOnce) {
  ServerHello down = member("db3:27017", "");
  down.fault = "[connection refused]";
  const std::vector<ServerHello> both{member("db1:27017", "primary"), down};
  EXPECT_THAT(ids_of(check_of(both, both)), ElementsAre("server-unreachable", "member-unlisted"));
}

TEST(DoctorTest, AServerThatAcceptsAndSaysNothingIsCalledThat) {
  ServerHello server;
  server.address = "db1:27017";
  server.fault = "[socket timeout calling hello on 'db1:27017']";
  server.is_silent = true;
  const Finding found = check_of({server}).findings.at(0);
  EXPECT_STREQ(found.kind.id, "server-silent");
  for (const std::string& line : lines_of(found)) {
    EXPECT_THAT(line, AllOf(Not(HasSubstr("nc ")), Not(HasSubstr("systemctl"))));
  }
}

TEST(DoctorTest, AServerWhoseNameIsInAnothersIsNamed) {
  EXPECT_EQ(
      check_of({member("11.0.0.1:27017", "primary"), member("1.0.0.1:27017", "secondary")}).what,
      "11.0.0.1:27017 primary 6.0.5, 1.0.0.1:27017 secondary 6.0.5");
  ServerHello nameless = member("db1:27017", "primary");
  nameless.version.clear();
  nameless.wire_version = 0;
  EXPECT_EQ(check_of({nameless}).what, "db1:27017 primary") << "it says no release";
}

// ---- proxies -----------------------------------------------------------------------------------

KnownProxy proxy(const std::string& host, const std::string& hash, const std::string& version) {
  KnownProxy known;
  known.host = host;
  known.rules_hash = hash;
  known.version = version;
  known.listeners = {"10.0.0.1:27117"};
  return known;
}

TEST(DoctorTest, TheProxyOfThisHostIsNoOther) {
  const boost::json::value status =
      boost::json::parse(R"({"servers": [{"listener": "10.0.0.1:27117"}]})");
  const ExaminedFile file{"a.yaml", "same"};
  const std::vector<KnownProxy> proxies{proxy(state::host_name(), "other", "0"),
                                        proxy("app2", "same", "1")};
  EXPECT_THAT(ids_of(check_proxies(proxies, JsonView(status), file, "1")), IsEmpty());
  EXPECT_THAT(ids_of(check_proxies(proxies, JsonView(), file, "1")),
              ElementsAre("proxies-disagree", "proxy-versions-differ"))
      << "none answers: it is looked at like the others";
}

TEST(DoctorTest, TheLimitOfARunningProxyMatters) {
  config::Config config;
  config.net.max_connections = 5000;
  const boost::json::value few = boost::json::parse(R"({"limits": {"clients": {"limit": 800}}})");
  const DoctorCheck check = check_descriptors(config, JsonView(few));
  EXPECT_THAT(ids_of(check), ElementsAre("descriptors-too-few"));
  EXPECT_THAT(lines_of(check.findings.at(0)), ElementsAre("sudo systemctl edit mongo-idproxy"));
}

TEST(DoctorTest, OnlyTheSameOfTheSameIsLeftOut) {
  const boost::json::value status = boost::json::parse(R"({"wrong": [
      {"level": "error", "text": "not ready", "subject": "shop.a, n", "id": "rule-not-ready"},
      {"level": "error", "text": "6 inserts refused", "subject": "shop.a, n", "id": null},
      {"level": "warning", "text": "no index", "subject": "shop.a, n", "id": "index-missing"},
      {"level": "error", "text": "down", "subject": "db1:27017", "id": "server-unreachable"},
      {"level": "error", "text": "also down", "subject": "b1:27017", "id": "server-unreachable"}]})");
  DoctorCheck others{"others"};
  others.add(finding::kRuleNotReady, "shop.a, n", "", {});
  others.add(finding::kNumbersRunOut, "shop.a, n", "", {});
  others.add(finding::kServerSilent, "db1:27017", "", {});
  std::vector<std::string> said;
  const DoctorCheck check = check_proxy(JsonView(status), {"a.yaml", ""}, {&others});
  for (const Finding& each : check.findings) {
    const bool is_its = each.kind == finding::kProxyError || each.kind == finding::kProxyWarning;
    if (is_its) said.push_back(each.text());
  }
  EXPECT_THAT(said, ElementsAre("6 inserts refused: ", "no index: ", "also down: "));
}

TEST(DoctorTest, AProxyThatIsGoneIsAnError) {
  const KnownProxy own = proxy(state::host_name(), "same", "1");
  ExaminedFile file{"a.yaml", "same"};
  EXPECT_THAT(ids_of(check_proxies({own}, JsonView(), file, "1")), IsEmpty());
  file.deserted = {"10.0.0.1:27117"};
  EXPECT_THAT(ids_of(check_proxies({own, proxy("app2", "same", "1")}, JsonView(), file, "1")),
              ElementsAre("proxy-gone"));
}

TEST(DoctorTest, ProxiesThatShareNoCollectionMayDiffer) {
  KnownProxy other = proxy("app2", "other", "1");
  ExaminedFile file{"a.yaml", "same", {"shop.*"}};
  EXPECT_THAT(ids_of(check_proxies({other}, JsonView(), file, "1")),
              ElementsAre("proxies-disagree"))
      << "it does not say what its rules are for";
  other.namespaces = {"bank.*"};
  EXPECT_THAT(ids_of(check_proxies({other}, JsonView(), file, "1")), IsEmpty());
  other.namespaces.emplace_back("*.orders");
  EXPECT_THAT(ids_of(check_proxies({other}, JsonView(), file, "1")),
              ElementsAre("proxies-disagree"));
}

TEST(DoctorTest, NoCommandReachesAHostThatAnotherNames) {
  KnownProxy silent = proxy("app2", "other", "0");
  silent.unseen = std::chrono::hours(1);
  for (const std::string& host :
       {std::string("app2"), std::string("-oProxyCommand=x"), state::host_name()}) {
    silent.host = host;
    const DoctorCheck check = check_proxies({silent}, JsonView(), {"/etc/a.yaml", "same"}, "1");
    EXPECT_THAT(ids_of(check),
                ElementsAre("proxy-silent", "proxies-disagree", "proxy-versions-differ"));
    for (const Finding& each : check.findings) {
      EXPECT_THAT(lines_of(each), IsEmpty());
      EXPECT_EQ(each.subject, host + " (10.0.0.1:27117)");
    }
  }
  const boost::json::value status =
      boost::json::parse(R"({"servers": [{"listener": "10.0.0.1:27117"}]})");
  EXPECT_THAT(
      lines_of(check_proxies({silent}, JsonView(status), {"a", "same"}, "1").findings.at(0)),
      ElementsAre("systemctl status mongo-idproxy"));
}

TEST(DoctorTest, ARuleWhoseNamesMayBeATrapGetsNoCommand) {
  EXPECT_EQ(about_rule("verify", "shop.a b", "-x", "-f").text(),
            "mongo-idproxy verify --ns 'shop.a b' --field=-x --config ./-f");
  for (const char* name : {"a'b", "a\"b", "a`b", "a\x1b[2J", "a\nb"}) {
    EXPECT_TRUE(about_rule("verify", name, "x", "f").empty()) << name;
    EXPECT_TRUE(about_rule("verify", "a.b", name, "f").empty()) << name;
  }
}

TEST(DoctorTest, AServerWhoseNameIsNoneGetsNoCommand) {
  ServerHello server;
  server.address = "-oProxyCommand=x:27017";
  for (const char* fault : {"[Failed to resolve]", "[TLS handshake failed]", "[refused]"}) {
    server.fault = fault;
    EXPECT_THAT(lines_of(check_of({server}).findings.at(0)), IsEmpty()) << fault;
  }
}

TEST(DoctorTest, WhatTheProxySaysOfTheSameSubjectIsToldOnce) {
  const boost::json::value status = boost::json::parse(
      R"({"version": "x", "phase": "ready", "wrong": [
          {"level": "error", "text": "server db1:27017 cannot be reached", "remedy": "look",
           "subject": "db1:27017", "id": "server-unreachable"},
          {"level": "error", "text": "server db2:27017 hangs", "remedy": "look",
           "subject": "db2:27017", "id": "server-unreachable"}]})");
  DoctorCheck servers{"servers"};
  servers.add(finding::kServerUnreachable, "db1:27017", "refused", {});
  const DoctorCheck check = check_proxy(JsonView(status), {"a.yaml", ""}, {&servers});
  EXPECT_THAT(ids_of(check), ElementsAre("proxy-versions-differ", "proxy-error"));
  EXPECT_EQ(check.findings.back().text(), "server db2:27017 hangs: look");
}

TEST(DoctorTest, AProxyThatStartsIsNotReady) {
  const boost::json::value status = boost::json::parse(R"({"version": "x", "phase": "starting"})");
  const DoctorCheck check = check_proxy(JsonView(status), {"a.yaml", ""}, {});
  EXPECT_THAT(ids_of(check), ElementsAre("proxy-versions-differ", "proxy-not-ready"));
  EXPECT_EQ(check.findings.back().text(), "the proxy is starting");
}

// A25: what others name hides nothing.
TEST(DoctorTest, ASubjectInTheProxysWordsIsNotTheSameSubject) {
  const boost::json::value status = boost::json::parse(
      R"({"version": "x", "phase": "ready", "rules": [
          {"ns": "shop.orders", "field": "n", "ready": false, "reason": "no primary"}],
          "wrong": [{"level": "error", "text": "server db1:27017 hangs", "remedy": "look",
                     "subject": "db1:27017", "id": "server-unreachable"},
                    {"level": "error", "text": "rule 0 is not ready", "remedy": "look",
                     "subject": "shop.orders, n", "id": "rule-not-ready"}]})");
  DoctorCheck others{"proxies"};
  others.add(finding::kProxiesDisagree, "n", "other rules", {});
  others.add(finding::kProxiesDisagree, "db1:27017", "other rules", {});
  others.add(finding::kServerUnreachable, "db1", "refused", {});
  others.add(finding::kNumbersRunOut, "shop.orders, n", "a hundredth", {});
  const auto ids = [&] { return ids_of(check_proxy(JsonView(status), {"a.yaml", ""}, {&others})); };
  EXPECT_THAT(ids(), ElementsAre("proxy-versions-differ", "proxy-error", "proxy-error"));
  others.add(finding::kServerUnreachable, "db1:27017", "refused", {});
  EXPECT_THAT(ids(), ElementsAre("proxy-versions-differ", "proxy-error"));
  others.add(finding::kRuleNotReady, "shop.orders, n", "no primary", {});
  EXPECT_THAT(ids(), ElementsAre("proxy-versions-differ"));
}

}  // namespace doctor_test
}  // namespace idproxy::app::doctor
