#include "app/state/servers_log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace servers_log_test {

using namespace std::chrono_literals;
using Listener = net::ServerStatistics::Listener;
using Lines = std::vector<std::string>;

/// The events that a look logs, each with one of its fields.
class ServersLogTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { log::start({.level = log::Level::info}); }

  Lines update(const std::vector<Listener>& servers) {
    const std::size_t before = total();
    log_.update(servers, {});
    Lines lines;
    for (const log::Line& each : log::last_lines()) {
      if (each.fields.empty() || each.fields.back().first != "in_flight") {
        lines.push_back(std::string(each.event) + " " + each.fields[1].second);
      } else {
        lines.push_back(std::string(each.event) + " " + each.fields[0].second);
      }
    }
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
    return lines;
  }
  static std::size_t total() { return log::last_lines().size(); }

  static Listener server(std::string name, std::string state,
                         std::optional<std::chrono::nanoseconds> oldest = {}) {
    Listener listener;
    listener.server = std::move(name);
    listener.up = true;
    listener.state = std::move(state);
    listener.oldest = oldest;
    return listener;
  }

  ServersLog log_;
};

TEST_F(ServersLogTest, TellsOfASlowServerOnceAndOfItsAnswer) {
  EXPECT_EQ(update({server("db1", "PRIMARY", 4999ms)}), Lines{});
  EXPECT_EQ(update({server("db1", "PRIMARY", 5s)}), Lines{"server_slow db1"});
  EXPECT_EQ(update({server("db1", "PRIMARY", 9s)}), Lines{});
  EXPECT_EQ(update({server("db1", "PRIMARY", 1s)}), Lines{"server_answers db1"});
  EXPECT_EQ(update({server("db1", "PRIMARY")}), Lines{});
  EXPECT_EQ(update({server("db1", "PRIMARY", 6s)}), Lines{"server_slow db1"});
  EXPECT_EQ(update({}), Lines{}) << "it has left the set";
  EXPECT_EQ(update({server("db1", "PRIMARY", 6s)}), Lines{"server_slow db1"});
}

TEST_F(ServersLogTest, TellsOfAServerThatDoesNotAnswerTheProxy) {
  Listener idle = server("db1", "PRIMARY");
  idle.asked = 1999ms;
  EXPECT_EQ(update({idle}), Lines{});
  idle.asked = 2100ms;
  EXPECT_EQ(update({idle}), Lines{"server_slow db1"});
  EXPECT_EQ(slow_text(idle), "has not answered hello for 2.1 s");
  idle.oldest = 5s;
  EXPECT_EQ(slow_text(idle), "has not answered a request for 5.0 s");
  idle.oldest.reset();
  idle.up = false;
  EXPECT_EQ(update({idle}), Lines{}) << "that it cannot be reached is no answer";
  EXPECT_EQ(update({server("db1", "PRIMARY")}), Lines{"server_answers db1"});
}

TEST_F(ServersLogTest, TellsOfAnotherPrimary) {
  EXPECT_EQ(update({server("a", "PRIMARY"), server("b", "SECONDARY")}), Lines{});
  EXPECT_EQ(update({server("a", "unknown"), server("b", "SECONDARY")}), Lines{});
  EXPECT_EQ(update({server("a", "PRIMARY"), server("b", "SECONDARY")}), Lines{})
      << "the same again";
  EXPECT_EQ(update({server("a", "SECONDARY"), server("b", "PRIMARY")}), Lines{"primary_changed b"});
}

}  // namespace servers_log_test
}  // namespace idproxy::app::state
