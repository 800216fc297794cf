#include "rewrite/login.hpp"

#include <gtest/gtest.h>

#include "idproxy/wire/op_query.hpp"
#include "support/exchange_script.hpp"

namespace idproxy::rewrite {
namespace login_test {

using namespace test;

/// What becomes of a message where X.509 is refused: "passes", the bytes that go on instead, the
/// code of the answer, or "dropped".
std::string fate(std::string_view bytes) {
  ExchangeWorld world(rule_set());
  world.context.x509 = X509::refused;
  const Exact exact(bytes);
  const ActionKind action = world.request(bytes);
  if (action == ActionKind::relay) return "passes";
  if (action == ActionKind::send) return world.bytes();
  EXPECT_EQ(action, ActionKind::reply);
  EXPECT_FALSE(world.exchange->awaits_reply());
  const Bytes reply = as_bytes(world.bytes());
  if (reply.empty()) return "dropped";
  EXPECT_EQ(wire::read_header(reply).message_length, static_cast<int>(reply.size()));
  EXPECT_EQ(wire::read_header(reply).response_to, wire::read_header(exact.view()).request_id);
  const bool legacy = wire::read_header(exact.view()).op_code == wire::OpCode::query;
  const auto document =
      bson::document_at(reply.subspan(legacy ? wire::kReplyDocuments : wire::kSectionsOffset + 1));
  EXPECT_TRUE(document);
  const auto code = bson::find(*document, "code");
  return code ? std::to_string(*code->as_integer()) : "no code";
}

const std::string kX509 = string_field("mechanism", "MONGODB-X509");
const std::string kScram = string_field("mechanism", "SCRAM-SHA-256");
const std::string kPayload =
    element(bson::Type::binary, "payload", i32(2) + std::string("\0n,", 3));
const std::string kExternal = string_field("$db", "$external");
const std::string kAuthenticate = int_field("authenticate", 1);
const std::string kSaslStart = int_field("saslStart", 1);
/// For a reader of lengths alone it is a string; mongod takes it with net.wireObjectCheck off.
const std::string kUnterminated = element(bson::Type::string, "x", i32(3) + "abc");

std::string legacy(std::string_view fields) {
  return op_query("$external.$cmd", doc(fields));
}

struct Row {
  const char* name;
  std::string bytes;
  std::string fate;
};

void check(std::initializer_list<Row> rows) {
  for (const Row& row : rows) EXPECT_EQ(fate(row.bytes), row.fate) << row.name;
}

/// Each of these logged in as the proxy's subject, through a connection with the proxy's
/// certificate (observed, 6.0.5).
TEST(Login, ByCertificateIsRefusedInEveryFormThatMongodTakes) {
  const std::string login = kAuthenticate + kX509;
  const std::string command = body(doc(login + kExternal));
  const std::string user = string_field("user", "CN=proxy");
  check({
      {"authenticate", op_msg(command), "18"},
      {"with a user", op_msg(body(doc(login + user + kExternal))), "18"},
      {"with an empty user", op_msg(body(doc(login + string_field("user", "") + kExternal))), "18"},
      {"its value a string",
       op_msg(body(doc(string_field("authenticate", "x") + kX509 + kExternal))), "18"},
      {"its value a document",
       op_msg(body(doc(doc_field("authenticate", int_field("ping", 1)) + kX509 + kExternal))),
       "18"},
      {"with an API version",
       op_msg(body(doc(login + kExternal + string_field("apiVersion", "1")))), "18"},
      {"behind sequences", op_msg(sequence("x", {doc()}) + sequence("y", {}) + command), "18"},
      {"before sequences", op_msg(command + sequence("x", {doc()}) + sequence("y.z", {})), "18"},
      {"with a checksum", op_msg(command, wire::flag::kChecksumPresent), "18"},
      {"exhaust allowed", op_msg(command, wire::flag::kExhaustAllowed), "18"},
      {"unknown optional flags", op_msg(command, 1U << 17 | 1U << 31), "18"},
      {"without an answer", op_msg(command, wire::flag::kMoreToCome), "dropped"},
      {"OP_QUERY", legacy(login), "18"},
      {"OP_QUERY, its value a document",
       legacy(doc_field("authenticate", int_field("ping", 1)) + kX509), "18"},
      {"$query", legacy(doc_field("$query", login)), "18"},
      {"query", legacy(doc_field("query", login)), "18"},
      {"query, an array", legacy(element(bson::Type::array, "query", doc(login))), "18"},
      {"$query with a read preference",
       legacy(doc_field("$query", login) + doc_field("$readPreference", "")), "18"},
      {"OP_QUERY with a second document",
       op_query("$external.$cmd", doc(login) + doc(int_field("x", 1))), "18"},
  });
}

/// With net.wireObjectCheck off, these logged in too (observed, 6.0.5).
TEST(Login, IsRefusedWhereItCannotBeRead) {
  const auto unended = [](std::string document) {
    document.back() = '\1';
    return document;
  };
  const std::string login = kAuthenticate + kX509 + kExternal;
  const std::string hello =
      int_field("hello", 1) + doc_field("speculativeAuthenticate", kAuthenticate + kX509);
  const std::string wrapped = element(bson::Type::document, "$query", unended(doc(hello)));
  check({
      {"a document without its end", op_msg(body(unended(doc(login)))), "22"},
      {"a sequence's document without its end",
       op_msg(sequence("x", {unended(doc())}) + body(doc(login))), "18"},
      {"a mechanism without its end",
       op_msg(body(doc(kAuthenticate +
                       element(bson::Type::string, "mechanism", i32(13) + "MONGODB-X509\1") +
                       kExternal))),
       "18"},
      {"hello without its end", op_msg(body(unended(doc(hello)))), "22"},
      {"hello behind a broken string", op_msg(body(doc(int_field("hello", 1) + kUnterminated))),
       "22"},
      {"hello whose own value is broken",
       op_msg(body(doc(element(bson::Type::string, "hello", i32(3) + "abc")))), "22"},
      {"hello that ends in a broken string", op_msg(body(doc(hello + kUnterminated))), "22"},
      {"isMaster behind a broken string",
       legacy(int_field("isMaster", 1) + kUnterminated + doc_field("x", "")), "22"},
      {"$query without its end", legacy(wrapped), "22"},
      {"the login without its end",
       op_msg(
           body(doc(int_field("hello", 1) + element(bson::Type::document, "speculativeAuthenticate",
                                                    unended(doc(kAuthenticate + kX509)))))),
       "22"},
      {"without an answer", op_msg(body(unended(doc(login))), wire::flag::kMoreToCome), "dropped"},
  });
}

/// What mongod refuses to read need not be relayed for that.
TEST(Login, IsRefusedInMessagesThatMongodRefuses) {
  const std::string command = body(doc(kAuthenticate + kX509 + kExternal));
  std::string wrong = op_msg(command, wire::flag::kChecksumPresent);
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  check({
      {"a wrong checksum", wrong, "22"},
      {"an unknown required flag", op_msg(command, 1U << 3), "22"},
      {"behind a section of kind 2", op_msg("\2" + doc() + command), "22"},
      {"before a section of kind 2", op_msg(command + "\2" + doc()), "22"},
      {"two bodies", op_msg(command + command), "22"},
      {"too many sequences",
       op_msg(sequence("a", {}) + sequence("b", {}) + sequence("c", {}) + sequence("d", {}) +
              sequence("e", {}) + command),
       "22"},
      {"no sections", message(2013, i32(0)), "22"},
      {"header only", message(2013, ""), "22"},
      {"on another database", op_msg(body(doc(kAuthenticate + kX509))), "18"},
      {"no mechanism", op_msg(body(doc(kAuthenticate + kExternal))), "18"},
      {"another mechanism", op_msg(body(doc(kAuthenticate + kScram + kExternal))), "18"},
  });
}

TEST(Login, BySaslStartIsRefusedUnlessItNamesOneOtherMechanism) {
  const auto start = [](const std::string& fields) {
    return op_msg(body(doc(kSaslStart + fields + string_field("$db", "admin"))));
  };
  const auto named = [](std::string_view mechanism, bson::Type type = bson::Type::string) {
    return string_field("mechanism", mechanism, type);
  };
  for (const char* mechanism :
       {"SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN", "GSSAPI", "MONGODB-AWS", "MONGODB-OIDC",
        "MONGODB-X50", "MONGODB-X5099", "A-MONGODB-X509", ""}) {
    EXPECT_EQ(fate(start(named(mechanism) + kPayload)), "passes") << mechanism;
    EXPECT_EQ(fate(legacy(kSaslStart + kPayload + named(mechanism))), "passes") << mechanism;
    EXPECT_EQ(fate(legacy(doc_field("$query", kSaslStart + named(mechanism)))), "passes")
        << mechanism;
  }
  check({
      {"MONGODB-X509", start(kX509 + kPayload), "18"},
      {"in lower case", start(named("mongodb-x509") + kPayload), "18"},
      {"in mixed case", start(named("MongoDB-x509") + kPayload), "18"},
      {"with a NUL behind it", start(named(std::string_view("MONGODB-X509\0x", 14))), "18"},
      {"a symbol", start(named("SCRAM-SHA-256", bson::Type::symbol)), "18"},
      {"a number", start(int_field("mechanism", 1)), "18"},
      {"null", start(element(bson::Type::null, "mechanism", "")), "18"},
      {"none", start(kPayload), "18"},
      {"two, SCRAM first", start(kScram + kX509), "18"},
      {"two, SCRAM last", start(kX509 + kScram), "18"},
      {"twice SCRAM", start(kScram + kScram), "18"},
      {"a broken string in front", start(kUnterminated + kScram), "18"},
      {"a broken string behind", start(kScram + kUnterminated), "18"},
      {"OP_QUERY", legacy(kSaslStart + kX509), "18"},
      {"$query", legacy(doc_field("$query", kSaslStart + kX509)), "18"},
      {"without an answer", op_msg(body(doc(kSaslStart + kX509)), wire::flag::kMoreToCome),
       "dropped"},
      {"saslContinue", op_msg(body(doc(int_field("saslContinue", 1) + kX509))), "passes"},
      {"of another command", op_msg(body(doc(int_field("ping", 1) + kX509))), "passes"},
      {"of another legacy command", legacy(doc_field("$query", int_field("ping", 1) + kX509)),
       "passes"},
  });
}

/// The first of these logged in (observed, 6.0.5), the others did not; a SCRAM login stays byte for
/// byte.
TEST(Login, IsTakenOutOfHello) {
  const std::string db = string_field("db", "$external");
  const auto speculative = [](const std::string& fields) {
    return doc_field("speculativeAuthenticate", fields);
  };
  const struct {
    const char* name;
    std::string element;
  } logins[] = {
      {"authenticate", speculative(kAuthenticate + kX509 + db)},
      {"without db", speculative(kAuthenticate + kX509)},
      {"with a user", speculative(kAuthenticate + kX509 + string_field("user", "CN=proxy") + db)},
      {"saslStart", speculative(kSaslStart + kX509 + kPayload + db)},
      {"saslStart in lower case",
       speculative(kSaslStart + string_field("mechanism", "mongodb-x509"))},
      {"two mechanisms", speculative(kSaslStart + kScram + kX509)},
      {"no mechanism", speculative(kSaslStart + kPayload)},
      {"authenticate of SCRAM", speculative(kAuthenticate + kScram)},
      {"mechanism first", speculative(kX509 + kAuthenticate)},
      {"a broken string in front", speculative(kSaslStart + kUnterminated + kScram)},
      {"empty", speculative("")},
      {"an array",
       element(bson::Type::array, "speculativeAuthenticate", doc(kAuthenticate + kX509))},
      {"a number", int_field("speculativeAuthenticate", 1)},
  };
  const std::string scram = speculative(kSaslStart + kScram + kPayload + string_field("db", "a"));
  const std::string rest = string_field("saslSupportedMechs", "$external.CN=proxy");
  for (const char* name : {"hello", "isMaster", "ismaster"}) {
    const std::string hello = int_field(name, 1);
    const std::string value = doc_field(name, int_field("ping", 1));
    for (const auto& [login, element] : logins) {
      SCOPED_TRACE(login);
      EXPECT_EQ(fate(op_msg(body(doc(hello + element + rest)))), op_msg(body(doc(hello + rest))));
      EXPECT_EQ(fate(op_msg(body(doc(value + rest + element)))), op_msg(body(doc(value + rest))));
      EXPECT_EQ(fate(op_msg(body(doc(hello + element)), wire::flag::kMoreToCome)),
                op_msg(body(doc(hello)), wire::flag::kMoreToCome));
      EXPECT_EQ(fate(legacy(hello + element + rest)), legacy(hello + rest));
      EXPECT_EQ(fate(legacy(value + element)), legacy(value));
      EXPECT_EQ(fate(legacy(doc_field("$query", hello + element) + rest)),
                legacy(doc_field("$query", hello) + rest));
      EXPECT_EQ(fate(op_msg(body(doc(hello + scram + element)))), op_msg(body(doc(hello + scram))));
    }
    EXPECT_EQ(fate(op_msg(body(doc(hello + scram + rest)))), "passes");
    EXPECT_EQ(fate(legacy(hello + scram)), "passes");
    EXPECT_EQ(fate(op_msg(body(doc(hello + scram + scram)))), "passes");
  }
  const std::string other = doc_field("SpeculativeAuthenticate", kAuthenticate + kX509);
  EXPECT_EQ(fate(op_msg(body(doc(int_field("hello", 1) + other)))), "passes");
}

/// However a message that would log in is cut, it never goes on.
TEST(Login, DoesNotPassCutAnywhere) {
  const std::string messages[] = {
      op_msg(sequence("x", {}) + body(doc(kAuthenticate + kX509 + kExternal))),
      op_msg(body(doc(kSaslStart + kX509 + kExternal)), wire::flag::kChecksumPresent),
      op_msg(body(doc(int_field("hello", 1) +
                      doc_field("speculativeAuthenticate", kAuthenticate + kX509)))),
      legacy(doc_field("$query", kAuthenticate + kX509)),
      legacy(int_field("isMaster", 1) +
             doc_field("speculativeAuthenticate", kAuthenticate + kX509)),
  };
  for (const std::string& whole : messages) {
    for (std::size_t size = wire::kHeaderSize; size < whole.size(); ++size) {
      std::string cut = whole.substr(0, size);
      cut.replace(0, 4, i32(static_cast<std::int64_t>(size)));
      const std::string result = fate(cut);
      // What leaves the message by its own length is none: every server refuses that.
      EXPECT_TRUE(result == "22" || result == "passes") << size << ": " << result;
    }
    EXPECT_NE(fate(whole), "passes");
  }
}

TEST(Login, IsRefusedWithTheReason) {
  const std::string text =
      "mongo-idproxy: MONGODB-X509 is not possible through a proxy that ends TLS, since the server "
      "would see the proxy's certificate: use SCRAM (see docs/tls-and-logins.md#x509)";
  const std::string error = doc(ok(0) + string_field("errmsg", text) + int_field("code", 18) +
                                string_field("codeName", "AuthenticationFailed"));
  ExchangeWorld world(rule_set());
  world.context.x509 = X509::refused;
  const std::string login = doc(kAuthenticate + kX509 + kExternal);
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent}) {
    ASSERT_EQ(world.request(op_msg(body(login), flags)), ActionKind::reply);
    EXPECT_EQ(addressed(world.bytes(), 0, 7), addressed(op_msg(body(error), flags), 0, 7));
  }
  ASSERT_EQ(world.request(legacy(kAuthenticate + kX509)), ActionKind::reply);
  EXPECT_EQ(addressed(world.bytes(), 0, 7), addressed(op_reply(error), 0, 7));
}

TEST(Login, PassesWhereTheServerSeesTheClientsCertificate) {
  ExchangeWorld world(rule_set());
  const std::string hello =
      doc(int_field("hello", 1) + doc_field("speculativeAuthenticate", kAuthenticate + kX509));
  EXPECT_EQ(world.request(op_msg(body(hello))), ActionKind::relay);
  EXPECT_EQ(world.request(legacy(doc_field("$query", kAuthenticate + kX509))), ActionKind::relay);
  EXPECT_EQ(world.request(op_msg(body(doc(int_field("hello", 1) + kUnterminated)))),
            ActionKind::relay);
  EXPECT_TRUE(world.exchange->is_hello());
}

// ---- whether a login has succeeded -----------------------------------------------------------

std::string answer(const std::string& fields) {
  return fields + ok();
}
const std::string kDone = answer(int_field("conversationId", 1) + bool_field("done", true));
const std::string kMore = answer(int_field("conversationId", 1) + bool_field("done", false));
const std::string kFailed = failure(18, "Authentication failed.");

class LoginStateTest : public ::testing::Test {
 protected:
  ExchangeWorld world{rule_set()};

  /// Whether the connection is logged in after this command and the server's answer to it.
  bool after(const std::string& fields, const std::string& answered) {
    EXPECT_EQ(world.request(op_msg(body(doc(fields + string_field("$db", "admin"))))),
              ActionKind::relay);
    EXPECT_TRUE(world.exchange->awaits_reply());
    EXPECT_EQ(world.reply_with(answered), ActionKind::relay);
    return world.memory.logged_in;
  }
};

TEST_F(LoginStateTest, SucceedsWithItsLastStep) {
  EXPECT_FALSE(after(kSaslStart + kScram + kPayload, kMore));
  EXPECT_FALSE(after(int_field("saslContinue", 1), kMore));
  EXPECT_TRUE(after(int_field("saslContinue", 1), kDone));
}

TEST_F(LoginStateTest, MayHaveOneStep) {
  EXPECT_TRUE(after(kSaslStart + string_field("mechanism", "PLAIN"), kDone));
  world.memory.logged_in = false;
  EXPECT_TRUE(after(kAuthenticate + kScram, answer(string_field("user", "ada"))));
}

TEST_F(LoginStateTest, BeginsInHello) {
  const std::string hello =
      int_field("hello", 1) + doc_field("speculativeAuthenticate", kSaslStart + kScram + kPayload);
  const auto said = [](const std::string& login) {
    return answer(login) + int_field("maxWireVersion", 17);
  };
  EXPECT_FALSE(after(hello, said("")));
  EXPECT_FALSE(after(hello, said(doc_field("speculativeAuthenticate", kMore))));
  EXPECT_TRUE(after(hello, said(doc_field("speculativeAuthenticate", kDone))));
  EXPECT_TRUE(after(int_field("hello", 1), said("")));
}

/// As mongod has it (observed, 6.0.5): the earlier user stays.
TEST_F(LoginStateTest, IsLeftAsItWasByALoginThatFails) {
  const std::string hello =
      int_field("hello", 1) + doc_field("speculativeAuthenticate", kSaslStart + kScram + kPayload);
  for (const bool before : {false, true}) {
    world.memory.logged_in = before;
    for (const std::string& command : {kSaslStart + kScram + kPayload, int_field("saslContinue", 1),
                                       kAuthenticate + kScram, hello}) {
      EXPECT_EQ(after(command, kFailed), before);
    }
  }
}

/// It may be of one of several users.
TEST_F(LoginStateTest, IsLeftAsItWasByALogout) {
  for (const bool before : {false, true}) {
    world.memory.logged_in = before;
    EXPECT_EQ(after(int_field("logout", 1), ok()), before);
  }
}

TEST_F(LoginStateTest, IsReadFromOldReplies) {
  EXPECT_EQ(world.request(legacy(kSaslStart + kScram + kPayload)), ActionKind::relay);
  EXPECT_EQ(world.reply(op_reply(doc(kDone), 7)), ActionKind::relay);
  EXPECT_TRUE(world.memory.logged_in);
}

TEST_F(LoginStateTest, ClosesWhereTheAnswerCannotBeRead) {
  for (const std::uint32_t flags : {0U, static_cast<std::uint32_t>(wire::flag::kMoreToCome)}) {
    world.request(op_msg(body(doc(int_field("saslContinue", 1) + string_field("$db", "admin")))));
    std::string reply = reply_message(kDone, world.exchange->request_id(), flags);
    if (flags == 0) reply.resize(reply.size() - 1);
    EXPECT_EQ(world.reply(reply), ActionKind::close);
    EXPECT_FALSE(world.memory.logged_in);
  }
}

}  // namespace login_test
}  // namespace idproxy::rewrite
