#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "app/doctor_findings.hpp"
#include "app/doctor_proxies.hpp"
#include "app/doctor_report.hpp"
#include "app/doctor_servers.hpp"
#include "app/doctor_store.hpp"
#include "app/process.hpp"

namespace idproxy::app {
namespace doctor_test {

using id_store::KnownProxy;
using id_store::ServerHello;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> ids_of(const DoctorCheck& check) {
  std::vector<std::string> ids;
  for (const DoctorFinding& each : check.findings) ids.emplace_back(each.diagnosis.id);
  return ids;
}

// ---- texts -------------------------------------------------------------------------------------

TEST(DoctorTest, SplitsAdvice) {
  struct Row {
    const char* reason;
    const char* text;
    const char* command;
  };
  const Row rows[] = {
      {"no command (x)", "no command (x)", ""},
      {"no index; make it with db.getSiblingDB(\"a\").getCollection(\"b\").createIndex({\"x\": 1})",
       "no index", "db.getSiblingDB(\"a\").getCollection(\"b\").createIndex({\"x\": 1})"},
      {"the user needs x: db.getSiblingDB(\"a)\\\"\").grantRolesToUser(\"(\", [])",
       "the user needs x", "db.getSiblingDB(\"a)\\\"\").grantRolesToUser(\"(\", [])"},
      {"stop, type db.getSiblingDB(\"a\").x() and start",
       "stop, type db.getSiblingDB(\"a\").x() and start", "db.getSiblingDB(\"a\").x()"},
      {"cut off: db.getSiblingDB(\"a\").x(", "cut off: db.getSiblingDB(\"a\").x(",
       "db.getSiblingDB(\"a\")"},
  };
  for (const Row& row : rows) {
    const Advice advice = split_advice(row.reason);
    EXPECT_EQ(advice.text, row.text);
    EXPECT_EQ(advice.command, row.command);
  }
}

TEST(DoctorTest, QuotesForAShell) {
  EXPECT_EQ(in_shell("/etc/a-b.yaml"), "/etc/a-b.yaml");
  EXPECT_EQ(in_shell("shop.*"), "'shop.*'");
  EXPECT_EQ(in_shell(""), "''");
  EXPECT_EQ(in_shell("it's $HOME"), "'it'\\''s $HOME'");
}

DoctorReport example() {
  DoctorReport report{"a.yaml", {{"file", "1 rule"}, {"tls", "no TLS", true}, {"servers", "1"}}};
  report.checks[0].add(diagnosis::kMemberUnlisted, "db3", "a note", {"rs.conf()"});
  report.checks[0].add(diagnosis::kConfigWarning, "a.yaml:1", "a warning\x1b", {"vi a.yaml"});
  report.checks[2].add(diagnosis::kPrimaryMissing, "rs0", "an error", {"rs.status()"});
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
            "  a warning\xef\xbf\xbd\n"
            "  $ vi a.yaml\n"
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
  const Terminal terminal{80, 24, true};
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
  const Need collection{"shop", "orders", {"find", "listIndexes", "listCollections"}};
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
  const Need everywhere{"", "", {"find"}};
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
  EXPECT_STREQ(check_fault("Failed to resolve").diagnosis.id, "server-name-unknown");
  EXPECT_STREQ(check_fault("TLS handshake failed: x").diagnosis.id, "server-tls-fails");
  const DoctorFinding refused = check_fault("connection refused");
  EXPECT_STREQ(refused.diagnosis.id, "server-unreachable");
  EXPECT_THAT(refused.text, Not(HasSubstr("tls=true")));
  EXPECT_EQ(refused.commands.at(0), "nc -vz -w 3 ::1 27018");
  EXPECT_THAT(check_fault("connection closed calling hello").text, HasSubstr("tls=true"));
}

TEST(DoctorTest, TheNameOfASetIsToldOnce) {
  const DoctorCheck check =
      check_of({member("db1:27017", "primary"), member("db2:27017", "secondary")}, {},
               "mongodb://db1,db2/?replicaSet=old");
  ASSERT_THAT(ids_of(check), ElementsAre("set-name-differs"));
  EXPECT_EQ(check.findings[0].commands.at(0),
            "sudo sed -i s/replicaSet=old/replicaSet=rs0/ 'a b.yaml'");
}

TEST(DoctorTest, ServersOfBothStringsAreLookedAtOnce) {
  ServerHello down = member("db3:27017", "");
  down.fault = "[connection refused]";
  const std::vector<ServerHello> both{member("db1:27017", "primary"), down};
  EXPECT_THAT(ids_of(check_of(both, both)), ElementsAre("server-unreachable", "member-unlisted"));
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
  const std::vector<KnownProxy> proxies{proxy(host_name(), "other", "0"),
                                        proxy("app2", "same", "1")};
  EXPECT_THAT(ids_of(check_proxies(proxies, JsonView(status), file, "1")), IsEmpty());
  EXPECT_THAT(ids_of(check_proxies(proxies, JsonView(), file, "1")),
              ElementsAre("proxies-disagree", "proxy-versions-differ"))
      << "none answers: it is looked at like the others";
}

TEST(DoctorTest, WhatTheProxySaysOfTheSameSubjectIsToldOnce) {
  const boost::json::value status = boost::json::parse(
      R"({"version": "x", "phase": "ready", "wrong": [
          {"level": "error", "text": "server db1:27017 cannot be reached", "remedy": "look"},
          {"level": "error", "text": "server db2:27017 hangs", "remedy": "look"}]})");
  DoctorCheck servers{"servers"};
  servers.add(diagnosis::kServerUnreachable, "db1:27017", "refused", {});
  const DoctorCheck check = check_proxy(JsonView(status), {"a.yaml", ""}, {&servers});
  EXPECT_THAT(ids_of(check), ElementsAre("proxy-versions-differ", "proxy-error"));
  EXPECT_EQ(check.findings.back().text, "server db2:27017 hangs: look");
}

}  // namespace doctor_test
}  // namespace idproxy::app
