#include "rewrite/login.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace client_description_test {

using namespace test;

std::string login(std::string_view payload, std::string_view mechanism = "SCRAM-SHA-256") {
  return int_field("saslStart", 1) + string_field("mechanism", mechanism) +
         element(bson::Type::binary, "payload",
                 i32(static_cast<std::int64_t>(payload.size())) + '\0' + std::string(payload));
}

std::string hello_with(std::string_view fields) {
  return doc(int_field("hello", 1) + std::string(fields));
}

/// "application, driver, user"; "nothing" if the client has said none of them.
std::string names_in(const std::string& hello, ConnectionMemory&& memory = {}) {
  const Exact exact(hello);
  note_names(exact.view(), memory);
  if (memory.client == nullptr) return "nothing";
  return memory.client->application + ", " + memory.client->driver + ", " + memory.client->user;
}

TEST(NoteNames, ReadsTheHandshake) {
  const std::string driver =
      doc_field("driver", string_field("name", "PyMongo") + string_field("version", "4.6.1"));
  const std::string application = doc_field("application", string_field("name", "shop"));
  EXPECT_EQ(names_in(hello_with(doc_field("client", driver + application))),
            "shop, PyMongo 4.6.1, ");
  EXPECT_EQ(names_in(hello_with(doc_field("client", driver) +
                                doc_field("speculativeAuthenticate", login("n,,n=ada,r=x")))),
            ", PyMongo 4.6.1, ada");
  EXPECT_EQ(names_in(hello_with("")), "nothing");
}

TEST(NoteNames, NamesLibrariesThatUseTheDriver) {
  const auto named = [](std::string_view name, std::string_view version) {
    return names_in(hello_with(doc_field(
        "client",
        doc_field("driver", string_field("name", name) + string_field("version", version)))));
  };
  EXPECT_EQ(named("nodejs|Mongoose", "6.3.0|9.1"), ", nodejs 6.3.0, Mongoose 9.1, ");
  EXPECT_EQ(named("PyMongo|c", "4.6.1|"), ", PyMongo 4.6.1, c, ");
  EXPECT_EQ(named("a|b|c", "1"), ", a 1, b, c, ");
  EXPECT_EQ(named("|", "|||"), ", , ");
}

TEST(NoteNames, TakesNothingFromOtherForms) {
  EXPECT_EQ(names_in(hello_with(int_field("client", 1))), "nothing");
  EXPECT_EQ(names_in(hello_with(doc_field("client", int_field("application", 1)))), ", , ");
  EXPECT_EQ(names_in(hello_with(
                doc_field("client", doc_field("application", int_field("name", 1)) +
                                        doc_field("driver", string_field("version", "1"))))),
            ",  1, ");
  const std::string cut = hello_with(doc_field("client", string_field("a", "b")) + "\x02");
  EXPECT_EQ(names_in(cut), ", , ");
}

TEST(NoteNames, CutsLongNames) {
  const std::string long_name(10'000, 'x');
  EXPECT_EQ(names_in(hello_with(
                doc_field("client", doc_field("application", string_field("name", long_name))))),
            std::string(ClientDescription::kLongestName, 'x') + ", , ");
}

/// "=" and the user; "no change".
std::string user_in(const std::string& fields) {
  const std::string bytes = op_msg(body(doc(fields + string_field("$db", "admin"))));
  const Exact exact(bytes);
  const auto command = Command::find(exact.view());
  if (!command) return "malformed";
  const auto user = user_after(*command);
  return user ? "=" + std::string(*user) : "no change";
}

TEST(UserAfter, ReadsScramsFirstMessage) {
  EXPECT_EQ(user_in(login("n,,n=ada,r=fyko+d2lbbFgONRv9qkxdawL")), "=ada");
  EXPECT_EQ(user_in(login("y,a=other,n=a=2Cb,r=x")), "=a=2Cb");
  EXPECT_EQ(user_in(login("n,,n=ada")), "=ada");
  EXPECT_EQ(user_in(login("n,,n=ada,r=x", "SCRAM-SHA-1")), "=ada");
  for (const char* other : {"", "n", "n,", "n,,", "n,,r=x,n=ada", "ada"}) {
    EXPECT_EQ(user_in(login(other)), "=") << other;
  }
}

TEST(UserAfter, NeverReadsAPassword) {
  EXPECT_EQ(user_in(login(std::string("\0ada\0secret", 11), "PLAIN")), "=");
  EXPECT_EQ(user_in(login("n,,n=ada,r=x", "MONGODB-AWS")), "=");
}

TEST(UserAfter, EndsWithALogout) {
  EXPECT_EQ(user_in(int_field("logout", 1)), "=");
  EXPECT_EQ(user_in(int_field("saslContinue", 1)), "no change");
  EXPECT_EQ(user_in(int_field("ping", 1)), "no change");
}

TEST(ConnectionMemory, KeepsTheUser) {
  ConnectionMemory memory;
  memory.user_changed("");
  EXPECT_EQ(memory.client, nullptr);
  memory.user_changed("ada");
  EXPECT_EQ(memory.client->user, "ada");
  memory.user_changed("");
  EXPECT_EQ(memory.client->user, "");
}

}  // namespace client_description_test
}  // namespace idproxy::rewrite
