#include "config/key_meanings.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace key_meanings_test {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(KeyMeanings, AreThoseOfThePage) {
  const std::string docs = std::string(IDPROXY_SOURCE_DIR) + "/docs/";
  EXPECT_EQ(configuration_page(),
            content_of(docs + "configuration.md") + content_of(docs + "permuted.md"));
}

TEST(KeyMeanings, AreTheLastColumnOfTheTables) {
  const auto of_file = key_meanings("");
  EXPECT_EQ(of_file.at("listen.tls.mode"), "`require`: the proxy serves only clients that use TLS");
  EXPECT_EQ(of_file.at("log.level"), "Least severe level that is logged");
  EXPECT_FALSE(of_file.contains("ns"));
  EXPECT_FALSE(of_file.contains("digits"));
}

TEST(KeyMeanings, OfAStrategyAreItsOwnAndThoseOfEveryRule) {
  const auto of_rule = key_meanings("uuid");
  EXPECT_THAT(of_rule.at("ns"), StartsWith("Collections that the rule applies to."));
  EXPECT_THAT(of_rule.at("version"), StartsWith("7 is ordered by time"));
  EXPECT_FALSE(of_rule.contains("listen.port"));
  EXPECT_FALSE(of_rule.contains("digits"));
  // "counter" is the beginning of another name.
  EXPECT_FALSE(key_meanings("counter").contains("pick"));
  EXPECT_NE(key_meanings("counter").at("name"), key_meanings("counter-ranges").at("name"));
}

TEST(KeyMeanings, HaveTheTextsOfLinks) {
  const std::string store = key_meanings("").at("id_store.uri");
  EXPECT_THAT(store, HasSubstr("the store's user"));
  for (const char* part :
       {"", "objectid", "uuid", "counter", "counter-ranges", "gapless", "random-digits"}) {
    for (const auto& [key, meaning] : key_meanings(part)) {
      EXPECT_THAT(meaning, Not(HasSubstr(".md)"))) << key;
      EXPECT_THAT(meaning, Not(HasSubstr("]("))) << key;
      EXPECT_FALSE(meaning.empty() || meaning.ends_with(' ')) << key;
    }
  }
}

}  // namespace key_meanings_test
}  // namespace idproxy::config
