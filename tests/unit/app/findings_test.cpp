#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "app/doctor/proxies_check.hpp"
#include "app/doctor/report.hpp"
#include "app/state/findings.hpp"
#include "app/state/health.hpp"
#include "app/state/readiness.hpp"
#include "app/state/refusals.hpp"
#include "app/state/servers_log.hpp"
#include "app/state/status_document.hpp"
#include "app/views/status_page.hpp"
#include "app/views/status_text.hpp"
#include "app/views/wait_reason.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace findings_test {

using namespace std::chrono_literals;

/// Where each finding is to be seen, with the same level and text. "everywhere" is the page,
/// /status.json, the terminal, /readyz and doctor.
const std::map<std::string, std::string> kShown{
    {"config-error", "doctor"},
    {"config-warning", "doctor"},
    {"variable-undefined", "doctor"},
    {"secret-file-open", "doctor"},
    {"password-in-file", "doctor"},
    {"certificate-unusable", "doctor"},
    {"certificate-expired", "everywhere"},
    {"certificate-expires", "everywhere"},
    {"certificate-not-yet-valid", "everywhere"},
    {"port-in-use", "doctor"},
    {"address-unavailable", "doctor"},
    {"descriptors-too-few", "doctor"},
    {"descriptors-of-shell", "doctor"},
    {"server-unreachable", "everywhere log"},
    {"server-silent", "doctor"},
    {"server-name-unknown", "doctor"},
    {"server-tls-fails", "doctor"},
    {"server-slow", "everywhere log"},
    {"server-too-old", "doctor"},
    {"server-lacks", "doctor log"},
    {"server-releases-differ", "doctor"},
    {"fcv-behind", "doctor"},
    {"set-name-differs", "everywhere log"},
    {"set-not-initiated", "everywhere"},
    {"primary-missing", "everywhere"},
    {"member-not-ready", "doctor"},
    {"member-unlisted", "doctor"},
    {"standalone-server", "doctor"},
    {"clock-skew", "doctor"},
    {"store-elsewhere", "doctor"},
    {"store-down", "everywhere log"},
    {"login-refused", "doctor"},
    {"login-missing", "doctor"},
    {"role-missing", "doctor"},
    {"rule-not-ready", "everywhere wait log"},
    {"writes-refused", "page json terminal doctor log"},
    {"number-held", "page json terminal doctor log"},
    {"index-missing", "everywhere log"},
    {"duplicates-stored", "doctor"},
    {"counter-behind", "doctor"},
    {"numbers-run-out", "everywhere log"},
    {"proxy-unknown", "doctor"},
    {"proxy-stopping", "everywhere wait"},
    {"clients-at-limit", "everywhere"},
    {"memory-at-limit", "everywhere"},
    {"reload-failed", "everywhere log"},
    {"proxy-reads-other-file", "doctor"},
    {"config-not-loaded", "doctor"},
    {"file-not-loaded", "doctor"},
    {"proxy-not-ready", "doctor"},
    {"proxy-error", "doctor"},
    {"proxy-warning", "doctor"},
    {"upsert-bypasses-rule", "doctor"},
    {"write-bypasses-rule", "doctor"},
    {"driver-sends-id", "doctor"},
    {"proxies-disagree", "everywhere log"},
    {"proxy-versions-differ", "everywhere log"},
    {"proxy-silent", "doctor"},
    {"proxy-gone", "doctor"},
    {"no-answer-in-time", "doctor"},
};

/// The table in include/idproxy/base/finding.hpp: levels by id.
std::map<std::string, std::string> table() {
  std::ifstream in(IDPROXY_SOURCE_DIR "/include/idproxy/base/finding.hpp");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::regex row("FindingKind k\\w+\\{\\s*\"([\\w-]+)\",\\s+k(\\w+)[,}]");
  std::map<std::string, std::string> levels;
  for (std::sregex_iterator each(text.begin(), text.end(), row), end; each != end; ++each) {
    levels.emplace((*each)[1].str(), ascii_lower((*each)[2].str()));
  }
  return levels;
}

/// A proxy with all that it can find, and what its log says of that.
struct FindingsTest : ::testing::Test {
  static void SetUpTestSuite() { log::start({.level = log::Level::info}); }

  FindingsTest() {
    const auto server = [](const char* name, bool up, const char* fault) {
      return net::ServerStatistics::Listener{.listener = "127.0.0.1:1",
                                             .server = name,
                                             .up = up,
                                             .fault = fault,
                                             .wire_version = 9,
                                             .state = "SECONDARY"};
    };
    all.net.listeners = {server("db1:1", false, "refused"), server("db2:1", true, ""),
                         server("db3:1", true, kNotInitiated.data()),
                         server("db4:1", true, "it has the name rs1")};
    all.net.listeners[0].release = "MongoDB 4.4.2";
    all.net.listeners[1].oldest = 8s;
    all.store.up = false;
    rewrite::Rule reports = test::rule("shop.b", "n");
    reports.report = true;
    all.rules = test::rule_set_of(test::rule("shop.a", "n"), std::move(reports));
    all.reasons = {{"it has no index", "; make it with ", Commands().mongosh("db.x(\"n\")")}, {}};
    all.unguarded[1] = {"shop.b", Commands().mongosh("db.b.createIndex({n: 1})"), "", 1};
    all.run_out = {{1, "shop.b", RunOut::End::max, 37, 0}};
    all.net.connections_open = all.net.connections_limit = 9;
    all.net.buffered_waiting = 1;
    all.last_reload_failed = true;
    all.reloads.file = "/etc/my proxy.yaml";
    all.reloads.last_text = "listen.port needs a restart";
    all.client_side = {{"CN=old", "/old.pem", now - 9h, now - 1h},
                       {"CN=soon", "/soon.pem", now - 9h, now + 100h},
                       {"CN=early", "/early.pem", now + 9h, now + 9000h}};
    tell_log();
  }

  /// Tells the log of what has one.
  void tell_log() {
    const std::vector<rewrite::Rule>& rules = all.rules->rules();
    ServersLog().update(all.net.listeners, rules);
    ServerLimitsLog().update(rules, all.net.listeners);
    const ids::Error error{ids::Errc::unguarded, all.reasons[0].whole(),
                           std::make_shared<const Reason>(all.reasons[0])};
    ReadinessLog().update(rules, {{0, "shop.a", {ids::Readiness::Kind::not_ready, error}}});
    all.rules->outcomes(1).refuse("shop.b", "down");
    all.rules->outcomes(1).refuse("shop.b", "held", std::make_shared<const ids::NumberHolder>());
    Refusals refusals;
    refusals.update(*all.rules, 1h);
    all.refused = refusals.current(1h);
    std::vector<id_store::KnownProxy> proxies(3);
    for (std::size_t i = 0; i < proxies.size(); ++i) proxies[i].host = "app" + std::to_string(i);
    proxies[0].self = true;
    proxies[1].rules_hash = "another";
    proxies[2].version = "another";
    ProxyDifferences differences;
    differences.update(proxies, 0s);
    differences.update(proxies, ProxyDifferences::kLasts);
    all.differences = differences.current();
    log::event(numbers_run_out(rules[1], all.run_out[0]), {});
    log::event(reload_failed(all.reloads), {});
    log::event(server_unreachable("db1:1", "refused"), {});
    log::event(set_name_differs("db4:1", "it has the name rs1"), {});
    log::event(store_down(""), {});
    constexpr FindingKind kIndex = finding::kIndexMissing;
    log::event(log::level_of(kIndex.level), kIndex.event, id_store::kNoUniqueIndex);
    limited = server_lacks("db1:1", 9, limits_of(rules[1], 9)[0], "1 (shop.b, n)");
  }

  [[nodiscard]] boost::json::value document(Phase phase) const {
    StatusSources sources;
    sources.phase = phase;
    sources.now = now.time_since_epoch();
    return status_document(sources, &all, Recent(), net::ClientList(), {});
  }

  [[nodiscard]] static bool is_logged(const Finding& finding) {
    const std::string_view level =
        finding.kind.level == FindingLevel::note ? "info" : name_of(finding.kind.level);
    return finding.kind.event != nullptr &&
           std::ranges::any_of(log::last_lines(), [&](const log::Line& each) {
             return each.event == finding.kind.event && log::name_of(each.level) == level &&
                    (each.message.starts_with(finding.what.whole()) ||
                     // The line's fields name the rule's field.
                     finding.what.whole().ends_with(": " + each.message));
           });
  }

  const std::chrono::sys_seconds now{1'764'260'000s};
  Snapshot all;
  Finding limited;
};

/// Of those that only doctor finds.
std::string shown_by_doctor(const Finding& finding) {
  doctor::DoctorReport report{"a.yaml", {{"check"}}};
  report.checks[0].add(finding, {});
  const std::string head = std::string(name_of(finding.kind.level)) + ": " + finding.kind.id;
  const std::string text = doctor::doctor_text(report, {});
  const boost::json::object json = doctor::doctor_json(report).at("findings").at(0).as_object();
  EXPECT_EQ(json.at("id").as_string(), finding.kind.id);
  EXPECT_EQ(json.at("level").as_string(), name_of(finding.kind.level));
  EXPECT_EQ(json.at("text").as_string(), finding.text());
  EXPECT_THAT(text, testing::HasSubstr(head));
  EXPECT_THAT(text, testing::HasSubstr("\n  " + finding.text() + "\n"));
  return "doctor";
}

TEST_F(FindingsTest, AreTheSameWhereverTheyAreShown) {
  const std::vector<Finding> findings = findings_of(Phase::draining, all, now);
  const boost::json::value status = document(Phase::draining);
  const std::string page = views::status_page(status, {});
  const std::string terminal = views::summary_text(JsonView(status), {});
  const std::string ready = readyz(Phase::draining, all, now).body;
  const doctor::DoctorCheck repeated = doctor::check_proxy(JsonView(status), {"a.yaml", ""}, {});
  const std::vector<std::string> waits{views::why_not_ready(JsonView(status)),
                                       views::why_not_ready(JsonView(document(Phase::serving)))};
  ASSERT_EQ(status.at("wrong").as_array().size(), findings.size());
  EXPECT_TRUE(std::ranges::is_sorted(findings, {}, [](const Finding& f) { return f.kind.level; }));
  std::map<std::string, std::string> shown;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    SCOPED_TRACE(finding.kind.id);
    EXPECT_NE(finding.kind.page, nullptr);
    const std::string text = finding.what.whole();
    const std::string level(name_of(finding.kind.level));
    const bool is_error = finding.kind.level == FindingLevel::error;
    std::string where;
    const auto note = [&](const char* view, bool has) {
      if (has) where += (where.empty() ? "" : " ") + std::string(view);
    };
    note("page", page.find((is_error ? "Error: </strong>" : "Warning: </strong>") +
                           views::escaped(text) + ".</p>") != std::string::npos);
    const boost::json::value& json = status.at("wrong").at(i);
    EXPECT_EQ(json.at("commands").as_array().size(), finding.commands().all().size());
    note("json", json.at("id").as_string() == finding.kind.id &&
                     json.at("level").as_string() == level && json.at("text").as_string() == text);
    note("terminal", terminal.find((is_error ? "  error    " : "  warning  ") + text + "\n") !=
                         std::string::npos);
    note("readyz", ready.find("\n" + level + ": " + text + "\n") != std::string::npos);
    note("doctor", std::ranges::any_of(repeated.findings, [&](const Finding& each) {
           return each.kind.level == finding.kind.level && each.text().starts_with(text);
         }));
    if (where == "page json terminal readyz doctor") where = "everywhere";
    note("wait", std::ranges::find(waits, text) != waits.end());
    note("log", is_logged(finding));
    EXPECT_TRUE(shown.emplace(finding.kind.id, where).second) << "twice";
  }
  const std::map<std::string, std::string> levels = table();
  EXPECT_GT(levels.size(), 50U);
  for (const auto& [id, level] : levels) {
    if (shown.contains(id)) continue;
    const bool is_limit = id == limited.kind.id;
    const FindingLevel its = level == "error"     ? FindingLevel::error
                             : level == "warning" ? FindingLevel::warning
                                                  : FindingLevel::note;
    const Finding finding =
        is_limit ? limited : Finding{{id.c_str(), its}, "subject", {"text of " + id}};
    shown[id] = shown_by_doctor(finding) + (is_logged(finding) ? " log" : "");
  }
  EXPECT_THAT(shown, testing::ContainerEq(kShown));
}

/// A connection to a secondary may be meant; whether its set has a primary, it does not tell.
TEST_F(FindingsTest, ADirectConnectionNeedsAPrimaryOnlyForRules) {
  const auto texts = [&] {
    std::vector<std::string> found;
    for (const Finding& each : findings_of(Phase::serving, all, now)) {
      if (std::string_view(each.kind.id) == "primary-missing") found.push_back(each.what.text);
    }
    return found;
  };
  EXPECT_THAT(texts(), testing::ElementsAre(testing::StartsWith("no server says that it is")));
  all.net.is_direct = true;
  EXPECT_THAT(texts(), testing::ElementsAre(testing::StartsWith("upstream.uri has directConn")));
  all.rules = test::rule_set_of();
  all.run_out.clear();
  all.refused.clear();
  all.unguarded.clear();
  EXPECT_THAT(texts(), testing::IsEmpty());
}

TEST_F(FindingsTest, AReloadThatFailedSaysWhyAndNamesTheFile) {
  const Finding found = reload_failed(all.reloads);
  EXPECT_EQ(found.text(),
            "the last reload failed, and the configuration from before is in force: listen.port "
            "needs a restart: mend that, and reload");
  EXPECT_EQ(found.commands().text(), "sudo mongo-idproxy reload --config '/etc/my proxy.yaml'");
}

TEST_F(FindingsTest, OfDoctorAreThoseOfTheProxy) {
  doctor::DoctorCheck check{"rules"};
  check.add(rule_not_ready(all.rules->rules()[0], 0, all.reasons[0]), {});
  check.add(index_missing(all.rules->rules()[1], 1, all.unguarded.at(1)), {});
  EXPECT_EQ(check.findings[0].text(),
            "rule 0 (shop.a, n) is not ready: it has no index: inserts that need one get an error "
            "until that is mended");
  EXPECT_EQ(check.findings[0].commands().text(), "db.x(\"n\")");
  EXPECT_EQ(check.findings[1].commands().text(), "db.b.createIndex({n: 1})");
}

}  // namespace findings_test
}  // namespace idproxy::app::state
