#include "idproxy/rewrite/hello.hpp"

#include <gtest/gtest.h>

#include "idproxy/rewrite/members.hpp"
#include "support/messages.hpp"
#include "support/replies.hpp"

namespace idproxy::rewrite {
namespace hello_test {

using namespace test;

/// The patched message, or "other", "as it is".
std::string patched(std::string_view bytes, X509 x509 = X509::allowed,
                    wire::Compressors allowed = {}) {
  const Exact exact(bytes);
  wire::PatchedMessage out;
  const auto command = Command::find(exact.view());
  if (!command || !is_hello(command->name)) return "other";
  if (!patch_hello_request(exact.view(), *command, x509, allowed, out)) return "as it is";
  Buffer copy;
  out.copy(exact.view(), 0, copy);
  return text_of(copy.view());
}

const std::string kCompression =
    element(bson::Type::array, "compression", doc(string_field("0", "zlib")));
const std::string kHello = int_field("hello", 1);
const std::string kRest = string_field("$db", "admin");

TEST(PatchHelloRequest, TakesCompressionOut) {
  for (const std::uint32_t flags :
       {0U, wire::flag::kChecksumPresent, wire::flag::kExhaustAllowed}) {
    EXPECT_EQ(patched(op_msg(body(doc(kHello + kCompression + kRest)), flags)),
              op_msg(body(doc(kHello + kRest)), flags));
  }
  EXPECT_EQ(
      patched(op_msg(sequence("x", {}) + body(doc(kHello + kCompression)) + sequence("y", {}))),
      op_msg(sequence("x", {}) + body(doc(kHello)) + sequence("y", {})));
}

std::string offer(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) list += string_field(std::to_string(i), names[i]);
  return element(bson::Type::array, "compression", doc(list));
}

TEST(PatchHelloRequest, CutsCompressionToWhatIsAllowed) {
  const auto cut = [](const std::vector<std::string>& names, wire::Compressors allowed) {
    return patched(op_msg(body(doc(kHello + offer(names) + kRest))), X509::allowed, allowed);
  };
  const auto left = [](const std::vector<std::string>& names) {
    return op_msg(body(doc(kHello + offer(names) + kRest)));
  };
  const auto all = wire::Compressors::all();
  EXPECT_EQ(cut({"zstd", "zlib", "snappy"}, all), "as it is");
  EXPECT_EQ(cut({"zlib", "zlib"}, all), "as it is");
  EXPECT_EQ(cut({}, all), "as it is");
  EXPECT_EQ(cut({"lz4", "zstd", "noop", "snappy", "ZLIB"}, all), left({"zstd", "snappy"}));
  EXPECT_EQ(cut({"lz4", "noop"}, all), op_msg(body(doc(kHello + kRest))));
  wire::Compressors zlib;
  zlib.add(wire::Compressor::zlib);
  EXPECT_EQ(cut({"zstd", "zlib", "snappy"}, zlib), left({"zlib"}));
}

TEST(AgreedCompressors, AreThoseThatTheReplyNames) {
  const auto of = [](const std::string& fields) {
    return agreed_compressors(as_bytes(op_msg(body(doc(fields + int_field("ok", 1))))));
  };
  wire::Compressors both;
  both.add(wire::Compressor::snappy);
  both.add(wire::Compressor::zstd);
  EXPECT_EQ(of(offer({"zstd", "lz4", "snappy"})), both);
  EXPECT_EQ(of({}), wire::Compressors());
  EXPECT_EQ(of(int_field("compression", 1)), wire::Compressors());
}

TEST(PatchHelloRequest, LeavesAllElse) {
  EXPECT_EQ(patched(op_msg(body(doc(kHello + kRest)))), "as it is");
  EXPECT_EQ(patched(op_msg(body(doc(int_field("ping", 1) + kCompression)))), "other");
  EXPECT_EQ(patched(op_msg(body(doc(kHello + "\x10")))), "as it is");
  EXPECT_EQ(patched(op_msg(body(doc()))), "other");
  // Left to mongod's own errors.
  EXPECT_EQ(patched(op_msg(body(doc(kHello + kCompression + kRest + kCompression)))), "as it is");
  EXPECT_EQ(patched(op_msg(body(doc(kHello + int_field("compression", 1))))), "as it is");
  const std::string ints = element(bson::Type::array, "compression", doc(int_field("0", 1)));
  EXPECT_EQ(patched(op_msg(body(doc(kHello + ints)))), "as it is");
}

TEST(PatchHelloRequest, ReadsTheLegacyForms) {
  const auto query = [](std::string_view document) { return op_query("admin.$cmd", document); };
  const std::string is_master = int_field("isMaster", 1);
  EXPECT_EQ(patched(query(doc(is_master + kCompression))), query(doc(is_master)));
  EXPECT_EQ(patched(query(doc(doc_field("$query", is_master + kCompression) + kRest))),
            query(doc(doc_field("$query", is_master) + kRest)));
  EXPECT_EQ(patched(query(doc(doc_field("$query", int_field("ping", 1) + kCompression)))), "other");
  EXPECT_EQ(patched(query("")), "other");
  // For mongod an array is a document; what another name has inside is no command.
  const std::string array = element(bson::Type::array, "query", doc(is_master + kCompression));
  EXPECT_EQ(patched(query(doc(array))),
            query(doc(element(bson::Type::array, "query", doc(is_master)))));
  EXPECT_EQ(patched(query(doc(doc_field("x", is_master + kCompression)))), "other");
  EXPECT_EQ(patched(op_query("admin.x", doc(is_master + kCompression))), "other");
}

const std::string kX509 =
    doc_field("speculativeAuthenticate",
              int_field("authenticate", 1) + string_field("mechanism", "MONGODB-X509"));
const std::string kScram =
    doc_field("speculativeAuthenticate",
              int_field("saslStart", 1) + string_field("mechanism", "SCRAM-SHA-256") +
                  element(bson::Type::binary, "payload", i32(2) + std::string("\0n,", 3)));

TEST(PatchHelloRequest, TakesLoginsOutWhereX509IsRefused) {
  const auto refused = [](const std::string& fields, std::uint32_t flags = 0) {
    return patched(op_msg(body(doc(kHello + fields)), flags), X509::refused);
  };
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent, wire::flag::kMoreToCome}) {
    const std::string plain = op_msg(body(doc(kHello + kRest)), flags);
    EXPECT_EQ(refused(kX509 + kRest, flags), plain);
    EXPECT_EQ(refused(kX509 + kRest + kX509, flags), plain);
    EXPECT_EQ(refused(kCompression + kX509 + kRest, flags), plain);
    EXPECT_EQ(refused(kX509 + kRest + kCompression, flags), plain);
  }
  EXPECT_EQ(refused(kScram + kRest), "as it is");
  EXPECT_EQ(refused(kScram + kCompression), op_msg(body(doc(kHello + kScram))));
  EXPECT_EQ(refused(kScram + kX509 + kRest), op_msg(body(doc(kHello + kScram + kRest))));
  // A compression that mongod refuses stays.
  EXPECT_EQ(refused(kCompression + kX509 + kCompression),
            op_msg(body(doc(kHello + kCompression + kCompression))));
  EXPECT_EQ(refused(int_field("compression", 1) + kX509),
            op_msg(body(doc(kHello + int_field("compression", 1)))));
  EXPECT_EQ(patched(op_msg(body(doc(kHello + kX509 + kRest)))), "as it is");
}

TEST(PatchHelloRequest, TakesLoginsOutOfTheLegacyForms) {
  const auto query = [](std::string_view document) { return op_query("admin.$cmd", document); };
  for (const char* name : {"isMaster", "ismaster", "hello"}) {
    const std::string hello = int_field(name, 1);
    EXPECT_EQ(patched(query(doc(hello + kX509 + kCompression)), X509::refused), query(doc(hello)));
    for (const char* wrapper : {"$query", "query"}) {
      EXPECT_EQ(patched(query(doc(doc_field(wrapper, hello + kX509) + kRest)), X509::refused),
                query(doc(doc_field(wrapper, hello) + kRest)));
    }
  }
}

const std::string kNames = texts_field("hosts", {"DB1:27017", "db2:27017"}) +
                           texts_field("passives", {"db3:27017"}) +
                           texts_field("arbiters", {"db4:27017"});
const std::string kOk = double_field("ok", 1);

TEST(ReadHelloReply, KnowsAMemberOfAReplicaSet) {
  const std::string election = "\x7f\xff\xff\xff" + std::string(7, '\0') + '\5';
  const std::string document =
      doc(kNames + string_field("setName", "rs0") + int_field("setVersion", 3) +
          bool_field("isWritablePrimary", true) + string_field("primary", "db1:27017") +
          string_field("me", "db1:27017") + element(bson::Type::object_id, "electionId", election) +
          doc_field("topologyVersion", element(bson::Type::object_id, "processId", election) +
                                           long_field("counter", 6)) +
          kOk);
  for (const std::string& bytes : {op_msg(body(document)), op_reply(document)}) {
    const Exact exact(bytes);
    const auto reply = read_hello_reply(exact.view());
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->state, HelloReply::State::primary);
    EXPECT_EQ(reply->set_name, "rs0");
    EXPECT_EQ(reply->me, "db1:27017");
    EXPECT_EQ(reply->set_version, 3);
    EXPECT_EQ(reply->election_id, election);
    EXPECT_EQ(reply->process_id, election);
    EXPECT_EQ(reply->counter, 6);
    EXPECT_EQ(reply->members,
              (std::vector<std::string>{"db1:27017", "db2:27017", "db3:27017", "db4:27017"}));
  }
}

TEST(ReadHelloReply, TellsWhatAServerIs) {
  const auto state = [](const std::string& fields) {
    const auto reply = read_hello_reply(as_bytes(op_msg(body(doc(fields)))));
    return std::string(reply ? state_name(reply->state) : "malformed");
  };
  const std::string set = string_field("setName", "rs0") + kOk;
  EXPECT_EQ(state(kOk), "STANDALONE");
  EXPECT_EQ(state(string_field("msg", "isdbgrid") + kOk), "MONGOS");
  EXPECT_EQ(state(bool_field("isreplicaset", true) + kOk), "OTHER");
  EXPECT_EQ(state(bool_field("ismaster", true) + set), "PRIMARY");
  EXPECT_EQ(state(bool_field("secondary", true) + set), "SECONDARY");
  EXPECT_EQ(state(bool_field("arbiterOnly", true) + set), "ARBITER");
  EXPECT_EQ(state(set), "OTHER");
  EXPECT_EQ(state(failure(59, "no such command: 'hello'")), "unknown");
}

TEST(ReadHelloReply, RefusesWhatCouldHideAMember) {
  const auto readable = [](const std::string& bytes) {
    const Exact exact(bytes);
    return read_hello_reply(exact.view()).has_value();
  };
  for (const std::string& fields :
       {string_field("hosts", "db1:27017"), numbers_field("hosts", {1}), int_field("me", 1),
        numbers_field("passives", {1}), numbers_field("arbiters", {1}), int_field("primary", 1),
        element(bson::Type::array, "hosts", doc("\x02")), std::string("\x02")}) {
    EXPECT_FALSE(readable(op_msg(body(doc(kOk + fields)))));
  }
  EXPECT_TRUE(
      readable(op_msg(body(doc(texts_field("hosts", std::vector<std::string>(100, "db1:1")))))));
  EXPECT_FALSE(
      readable(op_msg(body(doc(texts_field("hosts", std::vector<std::string>(101, "db1:1")))))));
  EXPECT_FALSE(readable(op_msg(body(doc(kOk)) + sequence("x", {}))));
  EXPECT_FALSE(readable(op_reply(doc(kOk) + doc(kOk))));
  EXPECT_FALSE(readable(message(1, "short")));
  EXPECT_TRUE(readable(op_msg(body(doc()))));
}

/// db1 and db2 have listeners; so has a server that its set calls db3.
Members members() {
  std::vector<ServerDescription> servers(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    servers[i].id = i;
    servers[i].name = "db" + std::to_string(i + 1) + ":27017";
    servers[i].listener = "127.0.0.1:" + std::to_string(27117 + i);
  }
  servers[2].name = "10.0.0.3:27017";
  servers[2].alias = "db3:27017";
  return Members(servers);
}

std::string mapped(std::string_view bytes) {
  const Exact exact(bytes);
  wire::PatchedMessage out;
  EXPECT_TRUE(read_hello_reply(exact.view()));
  if (!patch_hello_reply(exact.view(), members(), out)) return "as it is";
  Buffer copy;
  out.copy(exact.view(), 0, copy);
  return text_of(copy.view());
}

TEST(PatchHelloReply, NamesListenersAndLeavesOutTheRest) {
  const std::string before = int_field("maxBsonObjectSize", 16777216);
  const std::string after = int_field("connectionId", 5) + kOk;
  const auto reply = [&](const std::string& hosts, const std::string& rest) {
    return doc(before + hosts + string_field("setName", "rs0") + rest + after);
  };
  const std::string server =
      reply(kNames, string_field("primary", "db2:27017") + string_field("me", "DB1:27017"));
  const std::string client =
      reply(texts_field("hosts", {"127.0.0.1:27117", "127.0.0.1:27118"}) +
                texts_field("passives", {"127.0.0.1:27119"}) + texts_field("arbiters", {}),
            string_field("primary", "127.0.0.1:27118") + string_field("me", "127.0.0.1:27117"));
  EXPECT_EQ(mapped(op_msg(body(server))), op_msg(body(client)));
  EXPECT_EQ(mapped(op_msg(body(server), wire::flag::kChecksumPresent)),
            op_msg(body(client), wire::flag::kChecksumPresent));
  EXPECT_EQ(mapped(op_msg(body(server), wire::flag::kMoreToCome)),
            op_msg(body(client), wire::flag::kMoreToCome));
  EXPECT_EQ(mapped(op_reply(server)), op_reply(client));
  EXPECT_EQ(mapped(op_msg(body(doc(string_field("primary", "db7:1"))))), op_msg(body(doc())));
  // Positions close up behind a member that is left out, and a primary without a listener is none.
  EXPECT_EQ(
      mapped(op_msg(body(doc(texts_field("hosts", {"db1:27017", "db7:1", "x:0", "db2:27017"}) +
                             string_field("primary", "db7:1") + kOk)))),
      op_msg(body(doc(texts_field("hosts", {"127.0.0.1:27117", "127.0.0.1:27118"}) + kOk))));
}

TEST(PatchHelloReply, LeavesAllElse) {
  EXPECT_EQ(mapped(op_msg(body(doc(kOk)))), "as it is");
  EXPECT_EQ(mapped(op_msg(body(doc(failure(91, "db1:27017 is shutting down"))))), "as it is");
  // What is ours already.
  EXPECT_EQ(mapped(op_msg(body(doc(texts_field("hosts", {"127.0.0.1:27117"}))))), "as it is");
  EXPECT_EQ(
      mapped(op_msg(body(doc(doc_field("topologyVersion", texts_field("hosts", {"db1:27017"})))))),
      "as it is");
}

}  // namespace hello_test
}  // namespace idproxy::rewrite
