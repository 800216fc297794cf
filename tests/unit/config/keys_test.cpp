#include "idproxy/config/keys.hpp"

#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "findings_of.hpp"

namespace idproxy::config {
namespace keys_test {

namespace json = boost::json;
using From = KeyInUse::From;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

/// "KEY = VALUE", and the default if there is one that differs: " instead of DEFAULT".
std::string text_of(const KeyInUse& key) {
  std::string text = key.key + " = " + json::serialize(key.value);
  const bool differs = key.fallback && *key.fallback != key.value;
  return differs ? text + " instead of " + json::serialize(*key.fallback) : text;
}

std::vector<KeyInUse> keys_in(const std::string& text) {
  return keys_of(text, test_sources());
}

/// The keys that the file has, or a secret file that it names.
std::vector<std::string> written_in(const std::string& text) {
  std::vector<std::string> texts;
  for (const KeyInUse& key : keys_in(text)) {
    if (key.from != From::fallback) texts.push_back(text_of(key));
  }
  return texts;
}

std::vector<std::string> texts_in(const std::string& text) {
  std::vector<std::string> texts;
  for (const KeyInUse& key : keys_in(text)) texts.push_back(text_of(key));
  return texts;
}

/// The key of that name, which must be there.
KeyInUse key_in(const std::string& text, const std::string& name) {
  const std::vector<KeyInUse> keys = keys_in(text);
  const auto found = std::ranges::find(keys, name, &KeyInUse::key);
  if (found != keys.end()) return *found;
  ADD_FAILURE() << "no key " << name;
  return {};
}

TEST(Keys, OfAnEmptyFileAreTheDefaultsOfTheShippedFile) {
  const std::vector<KeyInUse> defaults = keys_in("");
  const std::string path = std::string(IDPROXY_SOURCE_DIR) + "/config/mongo-idproxy.yaml";
  const std::vector<KeyInUse> shipped = keys_in(content_of(path));
  ASSERT_EQ(defaults.size(), shipped.size());
  ASSERT_FALSE(defaults.empty());
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    EXPECT_EQ(text_of(defaults[i]), text_of(shipped[i]));
    EXPECT_EQ(defaults[i].fallback, defaults[i].value) << defaults[i].key;
    EXPECT_EQ(defaults[i].from, From::fallback) << defaults[i].key;
    EXPECT_EQ(shipped[i].from, From::file) << shipped[i].key;
  }
}

TEST(Keys, HaveTheirLine) {
  const std::string text = "listen:\n  port: 1234\n\nthreads: 3\n";
  EXPECT_THAT(written_in(text), ElementsAre("listen.port = 1234 instead of 27117",
                                            "threads = 3 instead of \"auto\""));
  EXPECT_EQ(key_in(text, "listen.port").line, 2);
  EXPECT_EQ(key_in(text, "threads").line, 4);
  EXPECT_EQ(key_in(text, "listen.address").line, 0);
}

TEST(Keys, HaveValuesOfTheirTypes) {
  EXPECT_THAT(
      written_in("listen: {members: {'h1:27017': 7001}}\n"
                 "upstream: {uri: 'mongodb://h1,h2/?replicaSet=r'}\n"
                 "admin: {listen: null, hosts: [a, 5]}\n"
                 "limits: {drain: 0ms}\n"
                 "rules: []\n"),
      ElementsAre("listen.members.h1:27017 = 7001",
                  "upstream.uri = \"mongodb://h1,h2/\" instead of \"mongodb://127.0.0.1:27017\"",
                  "admin.listen = null instead of \"127.0.0.1:27216\"",
                  "admin.hosts = [\"a\",\"5\"] instead of []",
                  "limits.drain = \"0ms\" instead of \"25s\"", "rules = []"));
}

TEST(Keys, OfRulesAreThoseOfTheirStrategies) {
  EXPECT_THAT(
      written_in("rules:\n"
                 "- {ns: a.b, field: c, strategy: random-digits, warn_fill: 0.25, report: true}\n"
                 "- {ns: a.c, field: 5, strategy: uuid, version: 4}\n"),
      ElementsAre(R"(rules[0].ns = "a.b")", R"(rules[0].field = "c")",
                  R"(rules[0].strategy = "random-digits")",
                  "rules[0].report = true instead of false",
                  "rules[0].warn_fill = 2.5E-1 instead of 1E-1", R"(rules[1].ns = "a.c")",
                  R"(rules[1].field = "5")", R"(rules[1].strategy = "uuid")",
                  "rules[1].version = 4 instead of 7"));
}

TEST(Keys, ThatMustBeThereHaveNoDefault) {
  const std::string text = "rules: [{ns: a.b, field: c, strategy: uuid}]";
  EXPECT_EQ(key_in(text, "rules[0].ns").fallback, std::nullopt);
  EXPECT_EQ(key_in(text, "rules[0].version").fallback, json::value(7));
  EXPECT_EQ(key_in("listen: {members: {'h1:27017': 5}}\nupstream: {uri: 'mongodb://h1'}",
                   "listen.members.h1:27017")
                .fallback,
            std::nullopt);
}

TEST(Keys, OfAMappingWithAnyNamesAreOneValue) {
  EXPECT_EQ(
      text_of(key_in("rules: [{ns: a.b, field: c, strategy: counter, store: {layout: custom, "
                     "collection: c, key_field: k, value_field: v, value_is: next, "
                     "filter: {a: 1, b: '1', c: true, d: null, e: text}}}]",
                     "rules[0].store.filter")),
      R"(rules[0].store.filter = {"a":1,"b":"1","c":true,"d":null,"e":"text"} instead of {})");
}

TEST(Keys, HaveDefaultsThatFollowFromOthers) {
  EXPECT_THAT(
      texts_in("rules: [{ns: shop.a, field: n, strategy: counter, output: int32}]"),
      AllOf(Contains("rules[0].name = \"shop.a.n\""), Contains("rules[0].store.key = \"shop.a.n\""),
            Contains("rules[0].max = 2147483647"), Contains("rules[0].reserve = null")));
  EXPECT_THAT(
      texts_in("rules: [{ns: 'shop.*', field: n, strategy: counter, "
               "retry: {backoff: 1s}, store: {layout: mongoose-sequence}}]"),
      AllOf(Contains("rules[0].name = \"<ns>.n\""), Contains("rules[0].retry.backoff_max = \"1s\""),
            Contains("rules[0].store.collection = \"counters\"")));
  EXPECT_THAT(
      texts_in("rules: [{ns: a.b, field: n, strategy: uuid, reserve: {collection: t}}]"),
      AllOf(Contains("rules[0].reserve.db = \"a\""), Contains("rules[0].reserve.layout = \"id\"")));
}

TEST(Keys, OfEarlierReleasesAreLeftOut) {
  const std::string text =
      "rules: [{ns: a.b, field: c, strategy: counter, block: {size: 5, idle: 1s}}]";
  EXPECT_TRUE(load(text).ok());
  EXPECT_THAT(texts_in(text), Contains("rules[0].block.size = 5 instead of \"auto\""));
  EXPECT_THAT(texts_in(text), Not(Contains(testing::HasSubstr("idle"))));
}

TEST(Keys, NameTheVariablesInTheirValues) {
  ::setenv("IDPROXY_TEST_A", "7000", 1);
  ::setenv("IDPROXY_TEST_B", "y", 1);
  const std::string text =
      "listen:\n  port: ${IDPROXY_TEST_A:-12}\n"
      "admin: {hosts: [a, 'x${IDPROXY_TEST_A}${IDPROXY_TEST_B}', '${IDPROXY_TEST_B}']}\n";
  const KeyInUse port = key_in(text, "listen.port");
  EXPECT_EQ(text_of(port), "listen.port = 7000 instead of 27117");
  EXPECT_EQ(port.from, From::variable);
  EXPECT_EQ(port.line, 2);
  EXPECT_EQ(port.source, "${IDPROXY_TEST_A}") << "without its default";
  const KeyInUse hosts = key_in(text, "admin.hosts");
  EXPECT_EQ(text_of(hosts), R"(admin.hosts = ["a","x7000y","y"] instead of [])");
  EXPECT_EQ(hosts.source, "${IDPROXY_TEST_A}, ${IDPROXY_TEST_B}, ${IDPROXY_TEST_B}");
  ::unsetenv("IDPROXY_TEST_A");
  ::unsetenv("IDPROXY_TEST_B");
}

TEST(Keys, ShowNoCredentials) {
  ::setenv("IDPROXY_TEST_URI", "mongodb://bob:hush@h1,h2/", 1);
  for (const std::string uri :
       {"mongodb://bob:hush@h1,h2/?replicaSet=r", "${IDPROXY_TEST_URI}",
        "mongodb://bob@h1,h2/?tls=true&tlsCertificateKeyFilePassword=hush"}) {
    const std::vector<std::string> keys = written_in(
        "upstream: {uri: 'mongodb://h1,h2/?replicaSet=r'}\nid_store: {uri: '" + uri + "'}\n");
    if (uri.find("Password") == std::string::npos) {
      EXPECT_THAT(keys, Contains("id_store.uri = \"mongodb://***@h1,h2/\" instead of null"));
    }
    EXPECT_THAT(keys, Not(Contains(testing::HasSubstr("hush")))) << uri;
  }
  ::unsetenv("IDPROXY_TEST_URI");
}

TEST(Keys, ShowTheStoreThatASecretFileNames) {
  const std::string path = testing::TempDir() + "idproxy-keys-test-uri";
  std::ofstream(path) << "mongodb://bob:hush@h1/?replicaSet=r\n";
  ::chmod(path.c_str(), 0600);
  const std::string text =
      "upstream: {uri: 'mongodb://h1/?replicaSet=r'}\nid_store: {uri_file: '" + path + "'}\n";
  const KeyInUse uri = key_in(text, "id_store.uri");
  EXPECT_EQ(text_of(uri), "id_store.uri = \"mongodb://***@h1/\" instead of null");
  EXPECT_EQ(uri.from, From::secret_file);
  EXPECT_EQ(uri.source, path);
  EXPECT_EQ(key_in(text, "id_store.uri_file").value, json::value(path));
  std::filesystem::remove(path);
}

TEST(Keys, AreNoneOfAFileWithErrors) {
  EXPECT_THAT(texts_in("listen: {port: 70000}"), IsEmpty());
  EXPECT_THAT(texts_in("listen: {prot: 1}"), IsEmpty());
  EXPECT_THAT(texts_in("listen: ["), IsEmpty());
}

}  // namespace keys_test
}  // namespace idproxy::config
