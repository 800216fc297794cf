#include "id_store/known_proxies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "idproxy/base/bytes.hpp"

namespace idproxy::id_store {
namespace known_proxies_test {

using namespace std::chrono_literals;
using mongo::Array;
using mongo::Document;

constexpr std::int64_t kServerTime = 1'700'000'000'000;
constexpr std::chrono::nanoseconds kReadAt = 500s;

std::string date(std::int64_t milliseconds) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(milliseconds) >> shift);
  }
  return bytes;
}

Document& add_date(Document& to, std::string_view key, std::int64_t at) {
  return to.add(key, bson::Type::date, as_bytes(date(at)));
}

/// As a proxy writes it; `without` one of the fields.
Document proxy(const std::string& host, std::chrono::milliseconds unseen,
               std::string_view without = {}) {
  Document document;
  if (without != "_id") document.add("_id", host + " 127.0.0.1:27117");
  if (without != "host") document.add("host", host);
  if (without != "version") document.add("version", "0.1.0");
  if (without != "rules_hash") document.add("rules_hash", "0123456789ab");
  if (without != "listeners") {
    document.add("listeners", Array().push("127.0.0.1:27117").push("127.0.0.1:27118"));
  }
  if (without != "since") add_date(document, "since", kServerTime - 3'600'000);
  if (without != "seen") add_date(document, "seen", kServerTime - unseen.count());
  return document;
}

std::vector<std::string> hosts(const std::vector<KnownProxy>& proxies) {
  std::vector<std::string> names;
  for (const KnownProxy& each : proxies) names.push_back(each.host);
  return names;
}

struct KnownProxiesTest : ::testing::Test {
  KnownProxies known{"app1 127.0.0.1:27117", kReadAt, kServerTime};
};

TEST_F(KnownProxiesTest, TellsThemWithTheirAges) {
  known.add(proxy("app2", 20s).bytes());
  known.add(proxy("app1", 0s).bytes());
  const auto found = known.at(kReadAt + 10s);
  ASSERT_EQ(hosts(found), (std::vector<std::string>{"app1", "app2"}));
  EXPECT_TRUE(found[0].self);
  EXPECT_FALSE(found[1].self);
  EXPECT_EQ(found[1].version, "0.1.0");
  EXPECT_EQ(found[1].rules_hash, "0123456789ab");
  EXPECT_EQ(found[1].listeners, (std::vector<std::string>{"127.0.0.1:27117", "127.0.0.1:27118"}));
  EXPECT_EQ(found[1].unseen, 30s);
  EXPECT_EQ(found[1].age, 3610s);
}

TEST_F(KnownProxiesTest, ForgetsThoseThatAreNotSeenAnyMore) {
  known.add(proxy("app1", 0s).bytes());
  known.add(proxy("killed", 60s).bytes());
  EXPECT_EQ(hosts(known.at(kReadAt + 30s)), (std::vector<std::string>{"app1", "killed"}));
  EXPECT_EQ(hosts(known.at(kReadAt + 30s + 1ms)), std::vector<std::string>{"app1"});
  EXPECT_TRUE(known.at(kReadAt + 90s + 1ms).empty()) << "nothing was read for so long";
}

TEST_F(KnownProxiesTest, IgnoresWhatLacksSomething) {
  for (const char* field : {"_id", "host", "version", "rules_hash", "since", "seen"}) {
    known.add(proxy("app2", 0s, field).bytes());
    EXPECT_TRUE(known.at(kReadAt).empty()) << field;
  }
  known.add(proxy("app2", 0s, "listeners").bytes());
  EXPECT_EQ(known.at(kReadAt).size(), 1U);
}

TEST_F(KnownProxiesTest, IgnoresWhatIsOfAnotherType) {
  known.add(Document().bytes());
  for (const char* field : {"_id", "host", "version", "rules_hash", "since", "seen"}) {
    known.add(proxy("app2", 0s, field).add(field, 7).bytes());
    known.add(proxy("app2", 0s, field).add(field, "").bytes());
    known.add(proxy("app2", 0s, field).add(field, Array().push("x")).bytes());
    EXPECT_TRUE(known.at(kReadAt).empty()) << field;
  }
  known.add(proxy("app2", 0s, "listeners").add("listeners", "text").bytes());
  known.add(proxy("app3", 0s, "listeners").add("listeners", Array().push(1).push("a")).bytes());
  ASSERT_EQ(known.at(kReadAt).size(), 2U);
  EXPECT_TRUE(known.at(kReadAt)[0].listeners.empty());
  EXPECT_EQ(known.at(kReadAt)[1].listeners, std::vector<std::string>{"a"});
}

TEST_F(KnownProxiesTest, IgnoresDatesThatCannotBe) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t at :
       {Limits::min(), std::int64_t{-1}, kServerTime + 10'001, Limits::max()}) {
    for (const char* field : {"since", "seen"}) {
      Document document = proxy("app2", 0s, field);
      known.add(add_date(document, field, at).bytes());
    }
  }
  EXPECT_TRUE(known.at(kReadAt).empty());
  known.add(proxy("late", -5s).bytes());
  ASSERT_EQ(known.at(kReadAt).size(), 1U) << "it was written after the own document";
  EXPECT_EQ(known.at(kReadAt)[0].unseen, 0s);
  KnownProxies insane("app1", kReadAt, Limits::max());
  insane.add(proxy("app2", 0s).bytes());
  EXPECT_TRUE(insane.at(kReadAt).empty());
}

TEST_F(KnownProxiesTest, CutsOffWhatIsTooLong) {
  const std::string is_long(1'000'000, 'x');
  Array many;
  for (int i = 0; i < 1000; ++i) many.push(std::string(1000, 'y'));
  known.add(proxy("app2", 0s, "listeners").add("listeners", many).bytes());
  known.add(proxy(is_long, 0s).bytes());
  const auto found = known.at(kReadAt);
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[0].listeners.size(), KnownProxies::kMostListeners);
  EXPECT_EQ(found[0].listeners[0].size(), KnownProxies::kMostTextBytes);
  EXPECT_EQ(found[1].host.size(), KnownProxies::kMostTextBytes);
}

TEST(ProxyId, IsOfTheHostAndTheFirstListener) {
  EXPECT_EQ(proxy_id({"app1", "1", {"127.0.0.1:27117", "127.0.0.1:27118"}, "x"}),
            "app1 127.0.0.1:27117");
  EXPECT_EQ(proxy_id({"app1", "2", {}, "y"}), "app1");
}

}  // namespace known_proxies_test
}  // namespace idproxy::id_store
