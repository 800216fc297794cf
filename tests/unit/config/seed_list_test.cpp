#include "idproxy/config/seed_list.hpp"

#include "config/connection_string.hpp"
#include "findings_of.hpp"

namespace idproxy::config {
namespace seed_list_test {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kTwo = {"a.x.org:27017", "b.x.org:1"};

struct Case {
  const char* name;
  const char* srv;
  std::map<std::string, std::string> txt;
  const char* list;
};

TEST(SeedList, TakesThePlaceOfTheName) {
  const Case kCases[] = {
      {"plain", "mongodb+srv://db.x.org/?tls=false", {}, "a.x.org:27017,b.x.org:1/?tls=false"},
      {"tls_is_implied", "mongodb+srv://db.x.org", {}, "a.x.org:27017,b.x.org:1/?tls=true"},
      {"ssl_is_tls", "mongodb+srv://db.x.org/?SSL=false", {}, "a.x.org:27017,b.x.org:1/?SSL=false"},
      {"all_that_is_there",
       "mongodb+srv://bob:p%40ss@db.x.org/shop?w=1;tls=false",
       {},
       "bob:p%40ss@a.x.org:27017,b.x.org:1/shop?w=1&tls=false"},
      {"user_alone",
       "mongodb+srv://bob@db.x.org/?tls=false",
       {},
       "bob@a.x.org:27017,b.x.org:1/?tls=false"},
      {"record",
       "mongodb+srv://db.x.org/?tls=false",
       {{"authSource", "$external"}, {"replicaSet", "rs 0"}},
       "a.x.org:27017,b.x.org:1/?tls=false&authSource=%24external&replicaSet=rs%200"},
      {"the_string_has_precedence",
       "mongodb+srv://db.x.org/?replicaset=own&tls=false",
       {{"authSource", "a"}, {"replicaSet", "record"}},
       "a.x.org:27017,b.x.org:1/?replicaset=own&tls=false&authSource=a"},
      {"only_with_srv",
       "mongodb+srv://db.x.org/?srvMaxHosts=2&tls=false&srvservicename=mysql",
       {},
       "a.x.org:27017,b.x.org:1/?tls=false"},
      {"repeated",
       "mongodb+srv://db.x.org/?readPreferenceTags=dc:a&readPreferenceTags=&tls=false",
       {},
       "a.x.org:27017,b.x.org:1/?readPreferenceTags=dc:a&readPreferenceTags=&tls=false"},
  };
  for (const Case& c : kCases) {
    const auto list = with_seed_list(c.srv, {kTwo, c.txt});
    ASSERT_TRUE(list) << c.name;
    EXPECT_EQ(*list, std::string("mongodb://") + c.list) << c.name;
  }
}

TEST(SeedList, RefusesHostsThatWouldBeSyntax) {
  for (const char* host :
       {"evil.com,b.x.org:27017", "evil.com/?tls=false&appname=.x.org:27017", "bob:y@b.x.org:27017",
        "%2Ftmp%2Fa.sock.x.org:27017", "[evil.com:27017,b.x.org]:27017", "b x.org:27017",
        "b\n.x.org:27017", "b.x.org", "b.x.org:0", ":27017", ""}) {
    const auto list = with_seed_list("mongodb+srv://bob:x@db.x.org", {{"a.x.org:1", host}, {}});
    ASSERT_FALSE(list) << *list;
    EXPECT_EQ(list.error(),
              std::string("a record names a server that is no host name with a port: ") + host);
  }
}

TEST(SeedList, MakesAStringThatCanBeRead) {
  Mapping m("uri: x");
  const auto list = with_seed_list("mongodb+srv://bob:x@db.x.org/?tls=false&srvMaxHosts=1",
                                   {kTwo, {{"replicaSet", "r&s"}, {"authSource", "admin"}}});
  ASSERT_TRUE(list);
  const auto parsed = parse_connection_string(*list, "uri", m.reader);
  EXPECT_THAT(m.found(), IsEmpty());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->hosts.size(), 2U);
  EXPECT_EQ(parsed->replica_set, "r&s");
  EXPECT_TRUE(parsed->has_user);
  EXPECT_FALSE(parsed->srv);
  EXPECT_FALSE(parsed->tls);
}

constexpr const char* kFile =
    "listen: {port: 65535}\n"
    "upstream: {uri: 'mongodb+srv://bob:x@db.x.org/?tls=false'}\n"
    "rules: [{ns: a.b, field: c, strategy: counter}]\n";

Loaded load_with(const std::string& text, const std::string& seed_list) {
  static const StoppedClock clock;
  return parse(text, {clock, system_random()}, seed_list);
}

TEST(SeedList, IsAskedForWithoutLookingItUp) {
  const Loaded loaded = load(kFile);
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  EXPECT_EQ(loaded.config.srv_uri, "mongodb+srv://bob:x@db.x.org/?tls=false");
  EXPECT_THAT(loaded.config.net.routes, IsEmpty());
}

TEST(SeedList, IsReadInsteadOfTheFile) {
  const Loaded loaded = load_with(kFile, "mongodb://bob:x@a.x.org/?tls=false&replicaSet=r");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  EXPECT_EQ(loaded.config.srv_uri, "");
  ASSERT_EQ(loaded.config.net.routes.size(), 1U);
  EXPECT_EQ(loaded.config.net.routes[0].upstream.text(), "a.x.org:27017");
  EXPECT_EQ(loaded.config.net.replica_set, "r");
  EXPECT_EQ(loaded.config.id_store.uri, "mongodb://bob:x@a.x.org/?tls=false&replicaSet=r");
}

TEST(SeedList, IsCheckedAsAListInTheFile) {
  EXPECT_THAT(texts_of(load_with(kFile, "mongodb://a.x.org,b.x.org/?tls=false").findings),
              ElementsAre("1:10: error: listen.port: must leave a port up to 65535 for each of the "
                          "2 servers of upstream.uri, is 65535"));
  EXPECT_THAT(
      texts_of(load_with(kFile, "mongodb://127.0.0.1:65535").findings),
      ElementsAre("2:12: error: upstream.uri: must not name this proxy itself: 127.0.0.1:65535 is "
                  "one of its listeners"));
}

}  // namespace seed_list_test
}  // namespace idproxy::config
