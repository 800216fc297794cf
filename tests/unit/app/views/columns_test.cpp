#include "app/views/columns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "app/state/status_document.hpp"
#include "app/views/metrics_table.hpp"
#include "support/rule_set.hpp"

namespace idproxy::app::views {
namespace columns_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace json = boost::json;

/// A proxy with one of everything, and a figure of its own for each.
struct ColumnsTest : ::testing::Test {
  ColumnsTest() {
    snapshot.rules = test::rule_set_of(test::rule("shop.orders", "number"));
    snapshot.rules->outcomes(0).assigned += 12;
    snapshot.rules->outcomes(0).resent = 13;
    snapshot.rules->outcomes(0).given_up = 14;
    snapshot.not_ready = {0};
    snapshot.reasons.resize(1);
    snapshot.numbers = {{0, "shop.orders", ids::CounterNumbers{1001, 99, 9000}},
                        {0, "shop.orders", ids::MachineNumber{"default", 15}}};
    net::ServerStatistics::Listener& server = snapshot.net.listeners.emplace_back();
    server.listener = "127.0.0.1:27117";
    server.server = "db1:27017";
    server.connections = 3;
    server.in_flight = 4;
    server.oldest = 5s;
    server.requests = 6;
    server.replies = 7;
    server.round_trip = 8ms;
    server.bytes_sent = 9;
    server.bytes_received = 10;
    server.connect_failures = 11;
    snapshot.proxies.emplace_back();
    clients.clients.emplace_back();
    clients.applications.emplace_back();
    sources.lines.emplace_back();
    document = state::status_document(sources, &snapshot, {}, clients, {});
    const json::object& all = document;
    rows = {{&kServers, all.at("servers").at(0).as_object()},
            {&kRules, all.at("rules").at(0).as_object()},
            {&kApplications, all.at("clients").at("applications").at(0).as_object()},
            {&kClients, all.at("clients").at("list").at(0).as_object()},
            {&kProxies, all.at("proxies").at(0).as_object()},
            {&kEvents, all.at("events").at(0).as_object()}};
  }

  state::Snapshot snapshot;
  state::StatusSources sources;
  net::ClientList clients;
  json::object document;
  std::vector<std::pair<const FigureTable*, json::object>> rows;
};

TEST_F(ColumnsTest, AreOfWhatTheDocumentHas) {
  for (const auto& [table, row] : rows) {
    for (const Figure& each : table->figures) {
      EXPECT_TRUE(row.contains(each.key)) << table->name << ": " << each.key;
    }
  }
}

TEST_F(ColumnsTest, ShowAllThatTheDocumentHas) {
  // These are in the cells of others, above the tables, or for programs.
  const std::set<std::string_view> others{"me",
                                          "advertised",
                                          "slow",
                                          "set",
                                          "origin",
                                          "cured",
                                          "foreign",
                                          "transient",
                                          "surfaced",
                                          "unacknowledged",
                                          "handed_out",
                                          "up",
                                          "fault",
                                          "reason",
                                          "self",
                                          "warning",
                                          "driver_made_ids",
                                          "fields",
                                          "refused",
                                          "fill",
                                          "max_fill",
                                          "not_ready_collections",
                                          "unguarded_collections"};
  for (const auto& [table, row] : rows) {
    for (const auto& member : row) {
      const bool is_shown = std::ranges::find(table->figures, std::string_view(member.key()),
                                              &Figure::key) != table->figures.end();
      EXPECT_NE(is_shown, others.contains(member.key())) << table->name << ": " << member.key();
    }
  }
}

/// Of a metric, as `name` or `name{label}`; -1: it has no such series.
double value_of(std::string_view metric, const std::string& exposition) {
  const std::string_view name = metric.substr(0, metric.find('{'));
  const std::string label(metric.size() == name.size()
                              ? ""
                              : metric.substr(name.size() + 1, metric.size() - name.size() - 2));
  std::istringstream in(exposition);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(std::string(name) + "{") || line.find(label) == line.npos) continue;
    return std::stod(line.substr(line.rfind(' ')));
  }
  return -1;
}

TEST_F(ColumnsTest, HaveTheValuesOfTheirMetrics) {
  const std::string page = exposition("1.2.3", {}, {}, snapshot);
  std::set<double> values;
  for (const auto& [table, row] : rows) {
    for (const Figure& each : table->figures) {
      if (each.metric.empty()) continue;
      const double shown = JsonView(row.at(each.key)).number().value_or(0);
      EXPECT_DOUBLE_EQ(value_of(each.metric, page), shown) << each.metric;
      values.insert(shown);
    }
  }
  EXPECT_GE(values.size(), 15U) << "they differ from each other";
}

/// As docs/status.md has it.
std::string explanation(const FigureTable& table) {
  std::string text = "| " + std::string(table.name) +
                     " | Page | Terminal | Meaning | Metric |\n|---|---|---|---|---|\n";
  const auto code = [](std::string_view word) {
    return word.empty() ? std::string(" |") : " `" + std::string(word) + "` |";
  };
  std::string column;
  for (const Figure& each : table.figures) {
    if (!each.page.title.empty())
      column = std::string(each.page.group) + ": " + std::string(each.page.title);
    const bool is_on_page = !each.page.title.empty() || !each.page.joint.empty();
    text += "|" + code(each.key) + (is_on_page ? " " + column : "") + " |" +
            code(each.line.header) + " " + std::string(each.means) + " |" + code(each.metric) +
            "\n";
  }
  return text;
}

TEST_F(ColumnsTest, AreExplained) {
  std::ifstream in(IDPROXY_SOURCE_DIR "/docs/status.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  for (const auto& [table, row] : rows) EXPECT_THAT(page, HasSubstr(explanation(*table) + "\n"));
}

}  // namespace columns_test
}  // namespace idproxy::app::views
