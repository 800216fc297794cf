#include <sys/stat.h>
#include <unistd.h>

#include "findings_of.hpp"

namespace idproxy::config {
namespace restart_test {

using testing::ElementsAre;
using testing::IsEmpty;

Config config_of(const std::string& text) {
  Loaded loaded = load(text);
  EXPECT_TRUE(loaded.ok()) << text;
  return std::move(loaded.config);
}

std::vector<std::string> between(const std::string& running, const std::string& next) {
  return needs_restart(config_of(running), config_of(next));
}

struct Case {
  const char* key;
  std::string running;
  std::string next;
};

TEST(NeedsRestart, NamesEachKeyThatIsAnother) {
  const std::string twice = "upstream: {uri: 'mongodb://a,b'}\nlisten: ";
  const Case kCases[] = {
      {"listen.address", "", "listen: {address: 127.0.0.2}"},
      {"listen.address", "listen: {address: 'unix:/run/a.sock'}",
       "listen: {address: 'unix:/run/b.sock'}"},
      {"listen.port", "", "listen: {port: 5}"},
      {"listen.port", "listen: {port: 0}", "listen: {port: 5}"},
      {"listen.advertise", "", "listen: {advertise: h}"},
      {"listen.max_connections", "", "listen: {max_connections: 5}"},
      // The listener of a server of the URI is where it is.
      {"listen.members.b:27017", twice + "{}", twice + "{members: {'B:27017': 5}}"},
      {"listen.members.b:27017", twice + "{members: {'b:27017': 5}}", twice + "{}"},
      {"upstream.uri", "", "upstream: {uri: 'mongodb://h'}"},
      {"upstream.uri", "upstream: {uri: 'mongodb://h/?tls=true'}",
       "upstream: {uri: 'mongodb://h'}"},
      {"upstream.uri", "upstream: {uri: 'mongodb+srv://h.x.org/?tls=false'}",
       "upstream: {uri: 'mongodb+srv://i.x.org/?tls=false'}"},
      {"upstream.connect_timeout", "", "upstream: {connect_timeout: 1s}"},
      {"upstream.proxy_protocol", "", "upstream: {proxy_protocol: v2}"},
      {"id_store.uri", "", "id_store: {uri: 'mongodb://127.0.0.1:27017'}"},
      {"id_store.uri", "id_store: {uri: 'mongodb://127.0.0.1:27017'}", ""},
      {"id_store.uri", "id_store: {uri: 'mongodb://bob:secret@127.0.0.1'}",
       "id_store: {uri: 'mongodb://bob:secret2@127.0.0.1'}"},
      {"id_store.db", "", "id_store: {db: other}"},
      {"id_store.wtimeout", "", "id_store: {wtimeout: 1s}"},
      {"admin.listen", "", "admin: {listen: null}"},
      {"admin.listen", "", "admin: {listen: '127.0.0.1:5'}"},
      {"admin.listen", "", "admin: {listen: '127.0.0.2:27216'}"},
      {"admin.listen", "admin: {listen: null}", ""},
      {"admin.hosts", "", "admin: {hosts: [app1]}"},
      {"limits.buffered_messages", "", "limits: {buffered_messages: 64MiB}"},
      {"limits.first_byte", "", "limits: {first_byte: 1s}"},
      {"limits.tls_handshake", "", "limits: {tls_handshake: 1s}"},
      {"limits.message", "", "limits: {message: 1s}"},
      {"limits.drain", "", "limits: {drain: 1s}"},
      {"log.format", "", "log: {format: json}"},
      {"threads", "threads: 1", "threads: 2"},
      {"threads", "threads: 256", "threads: auto"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(between(c.running, c.next), ElementsAre(c.key)) << c.key << ": " << c.next;
  }
}

TEST(NeedsRestart, NamesNothingThatCanBeReloadedOrIsTheSame) {
  const std::string twice = "upstream: {uri: 'mongodb://a,b'}\nlisten: ";
  const std::pair<std::string, std::string> kCases[] = {
      {"", "log: {level: debug}"},
      {"", "rules: [{ns: a.b, field: c, strategy: uuid}]"},
      {twice + "{}", twice + "{members: {'c:27017': 5}}"},
      {"", "listen: {members: {'127.0.0.1:27017': 27117}}"},
      {"listen: {address: '::1'}", "listen: {address: '0::1'}"},
      {"", "admin: {listen: '127.0.0.1:27216'}\nlimits: {message: 30000ms}\nthreads: auto"},
      {"upstream: {uri: 'mongodb+srv://h.x.org/?tls=false'}",
       "upstream: {uri: 'mongodb+srv://h.x.org/?tls=false'}"},
  };
  for (const auto& [running, next] : kCases) {
    EXPECT_THAT(between(running, next), IsEmpty()) << next;
  }
}

TEST(NeedsRestart, NamesAllInTheOrderOfTheFile) {
  EXPECT_THAT(between("", "threads: 256\nlimits: {drain: 1s, message: 1s}\nlisten: {port: 5}"),
              ElementsAre("listen.port", "limits.message", "limits.drain", "threads"));
}

TEST(NeedsRestart, DoesNotMindWhetherTheServersOfSrvAreKnown) {
  static const StoppedClock clock;
  const std::string text = "upstream: {uri: 'mongodb+srv://h.x.org/?tls=false'}";
  const Loaded running =
      parse(text, {clock, system_random()}, "mongodb://a.x.org,b.x.org/?tls=false");
  ASSERT_TRUE(running.ok());
  EXPECT_THAT(needs_restart(running.config, config_of(text)), IsEmpty());
  EXPECT_THAT(needs_restart(running.config, config_of("")), ElementsAre("upstream.uri"));
}

TEST(NeedsRestart, ComparesWhatIsInTheFileOfTheStoresString) {
  const std::string path = testing::TempDir() + "idproxy-restart-" + std::to_string(::getpid());
  const auto write = [&](const char* uri) {
    std::ofstream(path) << uri;
    ::chmod(path.c_str(), 0600);
  };
  const std::string text = "id_store: {uri_file: '" + path + "'}";
  write("mongodb://bob:one@127.0.0.1");
  const Config running = config_of(text);
  EXPECT_THAT(needs_restart(running, config_of(text)), IsEmpty());
  EXPECT_THAT(needs_restart(running, config_of("id_store: {uri: 'mongodb://bob:one@127.0.0.1'}")),
              IsEmpty());
  EXPECT_THAT(needs_restart(running, config_of("")), ElementsAre("id_store.uri_file"));
  write("mongodb://bob:two@127.0.0.1");
  EXPECT_THAT(needs_restart(running, config_of(text)), ElementsAre("id_store.uri_file"));
  ::unlink(path.c_str());
}

}  // namespace restart_test
}  // namespace idproxy::config
