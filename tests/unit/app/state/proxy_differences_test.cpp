#include "app/state/proxy_differences.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace proxy_differences_test {

using namespace std::chrono_literals;
using id_store::KnownProxy;
using Names = std::vector<std::string>;

KnownProxy proxy(std::string host, std::string rules_hash, std::string version = "1",
                 std::string listener = "127.0.0.1:27117") {
  KnownProxy proxy;
  proxy.host = std::move(host);
  proxy.rules_hash = std::move(rules_hash);
  proxy.version = std::move(version);
  proxy.listeners = {std::move(listener)};
  proxy.self = proxy.host == "app1";
  return proxy;
}

class ProxyDifferencesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { log::start({.level = log::Level::info}); }

  /// The rules' names; nothing else may differ.
  Names rules(const std::vector<KnownProxy>& proxies, std::chrono::nanoseconds now) {
    differences.update(proxies, now);
    EXPECT_TRUE(differences.current().versions.empty());
    return differences.current().rules;
  }
  static std::size_t logged() {
    std::size_t count = 0;
    for (const log::Line& each : log::last_lines()) count += each.event == "proxies_differ";
    return count;
  }

  ProxyDifferences differences;
};

TEST_F(ProxyDifferencesTest, ADifferenceHasToLast) {
  const std::vector all{proxy("app1", "a"), proxy("app2", "b"), proxy("app3", "a")};
  const std::size_t before = logged();
  EXPECT_EQ(rules(all, 10s), Names{});
  EXPECT_EQ(rules(all, 10s + 2min - 1ns), Names{});
  EXPECT_EQ(logged(), before);
  EXPECT_EQ(rules(all, 10s + 2min), Names{"app2"});
  EXPECT_EQ(rules(all, 10s + 5min), Names{"app2"});
  EXPECT_EQ(logged(), before + 1) << "once";
  EXPECT_EQ(log::last_lines().back().fields[0].second, "app2");
}

TEST_F(ProxyDifferencesTest, ARollingReloadIsNone) {
  EXPECT_EQ(rules({proxy("app1", "a"), proxy("app2", "b"), proxy("app3", "a")}, 0s), Names{});
  EXPECT_EQ(rules({proxy("app1", "b"), proxy("app2", "b"), proxy("app3", "a")}, 90s), Names{});
  EXPECT_EQ(rules({proxy("app1", "b"), proxy("app2", "b"), proxy("app3", "a")}, 3min), Names{});
  EXPECT_EQ(rules({proxy("app1", "b"), proxy("app2", "b"), proxy("app3", "b")}, 10min), Names{});
}

TEST_F(ProxyDifferencesTest, ItEndsWhenTheyAgreeAndBeginsAnew) {
  const std::vector differ{proxy("app1", "a"), proxy("app2", "b")};
  const std::vector agree{proxy("app1", "b"), proxy("app2", "b")};
  const std::size_t before = logged();
  EXPECT_EQ(rules(differ, 0s), Names{});
  EXPECT_EQ(rules(differ, 2min), Names{"app2"});
  EXPECT_EQ(rules(agree, 3min), Names{});
  EXPECT_EQ(rules(differ, 4min), Names{});
  EXPECT_EQ(rules(differ, 6min), Names{"app2"});
  EXPECT_EQ(rules({}, 7min), Names{}) << "the id store does not tell";
  EXPECT_EQ(logged(), before + 2);
}

TEST_F(ProxyDifferencesTest, VersionsAreToldApart) {
  const std::vector all{proxy("app1", "a"), proxy("app2", "a", "2")};
  differences.update(all, 0s);
  differences.update(all, 2min);
  EXPECT_TRUE(differences.current().rules.empty());
  EXPECT_EQ(differences.current().versions, Names{"app2"});
}

TEST_F(ProxyDifferencesTest, WithoutThisProxyThereIsNothingToCompare) {
  EXPECT_EQ(rules({proxy("app2", "a"), proxy("app3", "b")}, 0s), Names{});
  EXPECT_EQ(rules({proxy("app2", "a"), proxy("app3", "b")}, 5min), Names{});
}

TEST_F(ProxyDifferencesTest, OfOneHostTheListenerIsNamed) {
  KnownProxy other = proxy("app1", "b", "1", "127.0.0.1:27127");
  other.self = false;
  const std::vector all{proxy("app1", "a"), other};
  EXPECT_EQ(rules(all, 0s), Names{});
  EXPECT_EQ(rules(all, 2min), Names{"app1 (127.0.0.1:27127)"});
}

TEST(InWords, IsShort) {
  EXPECT_EQ(in_words({}), "");
  EXPECT_EQ(in_words({"a"}), "a");
  EXPECT_EQ(in_words({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(in_words({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
}

}  // namespace proxy_differences_test
}  // namespace idproxy::app::state
