#include "idproxy/rewrite/classify.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "support/rule_set.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace classify_test {

using namespace test;
enum class Kind {
  relay,
  close,
  write,
  hello,
  status,
  refused,
  next,
  assign,
  other,
  login,
  need_more
};

Kind kind_of(const Decision& decision) {
  if (std::holds_alternative<decision::Relay>(decision)) return Kind::relay;
  if (std::holds_alternative<decision::Close>(decision)) return Kind::close;
  const auto* request = std::get_if<Request>(&decision);
  if (request == nullptr) return Kind::need_more;
  constexpr Kind kRequests[] = {Kind::write,  Kind::hello, Kind::status, Kind::refused, Kind::next,
                                Kind::assign, Kind::other, Kind::other,  Kind::login};
  return kRequests[request->index()];
}

/// The decision on the first bytes of a message.
Kind decide(std::string_view bytes, std::size_t there, X509 x509, std::size_t& needed) {
  Namespaces namespaces(rule_set());
  const Exact exact(bytes.substr(0, there));
  const auto decision =
      classify(wire::read_header(as_bytes(bytes)), exact.view(), namespaces, x509);
  if (const auto* more = std::get_if<decision::NeedMore>(&decision)) needed = more->bytes;
  return kind_of(decision);
}

/// The decision on a message that arrives byte by byte; checks that what it asks for is needed.
Kind decide_slowly(std::string_view bytes, X509 x509) {
  for (std::size_t there = wire::kHeaderSize; there <= bytes.size(); ++there) {
    std::size_t needed = 0;
    const Kind kind = decide(bytes, there, x509, needed);
    if (kind != Kind::need_more) return kind;
    EXPECT_GT(needed, there);
    EXPECT_LE(needed, bytes.size());
    if (needed <= there) break;
  }
  ADD_FAILURE() << "undecided at its end";
  return Kind::need_more;
}

struct Row {
  const char* name;
  std::string bytes;
  Kind kind;
};

void check(const Row& row, X509 x509) {
  const auto kind = static_cast<int>(row.kind);
  std::size_t needed = 0;
  EXPECT_EQ(static_cast<int>(decide(row.bytes, row.bytes.size(), x509, needed)), kind) << row.name;
  EXPECT_EQ(static_cast<int>(decide_slowly(row.bytes, x509)), kind) << row.name;
}

TEST(Classify, DecidesOnWhatMongodWouldRead) {
  const std::string documents = sequence("documents", {doc(int_field("a", 1))});
  const auto insert = [](std::string_view collection, std::string_view db) {
    return body(doc(insert_fields(collection, db)));
  };
  const std::string hello = doc(int_field("hello", 1) + string_field("$db", "admin"));
  const auto cstring = [](const char* text) { return std::string(text) + '\0'; };
  const Row rows[] = {
      {"insert with a rule", op_msg(insert("orders", "shop") + documents), Kind::write},
      {"sections the other way round", op_msg(documents + insert("orders", "shop")), Kind::write},
      {"array form", insert_array({doc()}), Kind::write},
      {"name as a symbol",
       op_msg(body(doc(string_field("insert", "orders", bson::Type::symbol) +
                       string_field("$db", "shop"))) +
              documents),
       Kind::write},
      {"$db before other fields",
       op_msg(body(doc(string_field("insert", "orders") + string_field("$db", "shop") +
                       int_field("ordered", 0))) +
              documents),
       Kind::write},
      {"other database", op_msg(insert("orders", "bank") + documents), Kind::relay},
      {"system collection", op_msg(insert("system.users", "shop") + documents), Kind::relay},
      {"store's database", op_msg(insert("orders", "idproxy") + documents), Kind::relay},
      {"name that is no text",
       op_msg(body(doc(int_field("insert", 1) + string_field("$db", "shop")))), Kind::relay},
      {"no $db", op_msg(body(doc(string_field("insert", "orders")))), Kind::relay},
      {"insert not first",
       op_msg(body(doc(string_field("$db", "shop") + string_field("insert", "orders")))),
       Kind::relay},
      {"Insert in other case",
       op_msg(body(doc(string_field("Insert", "orders") + string_field("$db", "shop")))),
       Kind::relay},
      {"longer command",
       op_msg(body(doc(string_field("inserted", "orders") + string_field("$db", "shop")))),
       Kind::relay},
      {"find", op_msg(body(doc(string_field("find", "orders") + string_field("$db", "shop")))),
       Kind::relay},
      {"empty body", op_msg(body(doc())), Kind::relay},
      {"hello", op_msg(body(hello)), Kind::hello},
      {"isMaster", op_msg(body(doc(int_field("isMaster", 1) + string_field("$db", "admin")))),
       Kind::hello},
      {"hello behind a sequence", op_msg(sequence("x", {doc()}) + body(hello)), Kind::hello},
      {"more sequences than any command has",
       op_msg(sequence("a", {}) + sequence("b", {}) + sequence("c", {}) + sequence("d", {}) +
              sequence("e", {}) + insert("orders", "shop")),
       Kind::relay},
      {"kind 2", op_msg("\2" + doc()), Kind::relay},
      {"name longer than the body",
       op_msg(body(doc(element(bson::Type::string, "insert", i32(900) + "orders")))), Kind::relay},
      {"no room for sections", message(2013, i32(0)), Kind::relay},
      {"header only", message(2013, ""), Kind::relay},
      {"OP_QUERY isMaster", op_query("admin.$cmd", doc(int_field("isMaster", 1))), Kind::hello},
      {"OP_QUERY with $query",
       op_query("admin.$cmd", doc(doc_field("$query", int_field("ismaster", 1)))), Kind::hello},
      {"another command in $query",
       op_query("admin.$cmd", doc(doc_field("$query", int_field("ping", 1)))), Kind::relay},
      {"an insert with a broken section behind it",
       op_msg(insert("orders", "shop") + documents + std::string(1, '\0')), Kind::relay},
      {"an insert without documents", op_msg(insert("orders", "shop")), Kind::relay},
      {"status",
       op_msg(body(doc(string_field("idproxy", "status") + string_field("$db", "admin")))),
       Kind::status},
      {"another question to the proxy",
       op_msg(body(doc(string_field("idproxy", "help") + string_field("$db", "admin")))),
       Kind::refused},
      {"values",
       op_msg(body(doc(string_field("idproxy", "next") + string_field("ns", "shop.orders") +
                       string_field("field", "number") + string_field("$db", "admin")))),
       Kind::next},
      {"values of nothing",
       op_msg(body(doc(string_field("idproxy", "next") + string_field("$db", "admin")))),
       Kind::refused},
      {"OP_QUERY find", op_query("shop.orders", doc()), Kind::relay},
      {"OP_QUERY other command", op_query("admin.$cmd", doc(int_field("ping", 1))), Kind::relay},
      {"OP_QUERY without a name's end", message(2004, i32(0) + "admin"), Kind::relay},
      {"OP_QUERY cut", message(2004, i32(0) + std::string("admin.$cmd\0ab", 13)), Kind::relay},
      {"OP_COMPRESSED", message(2012, "anything"), Kind::close},
      {"OP_INSERT", message(2002, "anything"), Kind::relay},
      {"OP_INSERT with a rule", message(2002, i32(0) + cstring("shop.orders") + doc()),
       Kind::close},
      {"OP_INSERT without", message(2002, i32(0) + cstring("plain.orders") + doc()), Kind::relay},
      {"OP_UPDATE with a rule",
       message(2001, i32(0) + cstring("shop.orders") + i32(1) + doc() + doc()), Kind::close},
      {"OP_DELETE with a rule", message(2006, i32(0) + cstring("shop.orders") + doc()),
       Kind::relay},
      {"insert in OP_QUERY", op_query("shop.$cmd", doc(string_field("insert", "orders"))),
       Kind::refused},
      {"insert in $query",
       op_query("shop.$cmd", doc(doc_field("$query", string_field("insert", "orders")))),
       Kind::refused},
      {"findAndModify in OP_QUERY",
       op_query("shop.$cmd", doc(string_field("findAndModify", "orders"))), Kind::refused},
      {"delete in OP_QUERY", op_query("shop.$cmd", doc(string_field("delete", "orders"))),
       Kind::relay},
      {"insert in OP_QUERY without a rule",
       op_query("plain.$cmd", doc(string_field("insert", "orders"))), Kind::relay},
      {"insert in OP_QUERY of no name", op_query("shop.$cmd", doc(int_field("insert", 1))),
       Kind::relay},
      {"unknown opcode", message(4711, "anything"), Kind::relay},
  };
  for (const Row& row : rows) check(row, X509::allowed);
}

TEST(Classify, RefusesWhatLogsInWhereX509IsRefused) {
  const auto command = [](std::string_view name) {
    return doc(int_field(name, 1) + string_field("$db", "$external"));
  };
  const auto legacy = [](std::string_view name) {
    return op_query("$external.$cmd", doc(int_field(name, 1)));
  };
  const Row logins[] = {
      {"authenticate", op_msg(body(command("authenticate"))), Kind::refused},
      {"saslStart", op_msg(body(command("saslStart"))), Kind::refused},
      {"behind sequences",
       op_msg(sequence("x", {doc()}) + sequence("y", {}) + body(command("authenticate"))),
       Kind::refused},
      {"without an answer", op_msg(body(command("authenticate")), wire::flag::kMoreToCome),
       Kind::refused},
      {"OP_QUERY authenticate", legacy("authenticate"), Kind::refused},
      {"OP_QUERY saslStart", legacy("saslStart"), Kind::refused},
  };
  for (const Row& row : logins) {
    check(row, X509::refused);
    check({row.name, row.bytes, Kind::login}, X509::allowed);
  }
  const Row unclear[] = {
      // Where the command is cannot be told.
      {"kind 2 first", op_msg("\2" + doc() + body(command("ping"))), Kind::refused},
      {"more sequences than any command has",
       op_msg(sequence("a", {}) + sequence("b", {}) + sequence("c", {}) + sequence("d", {}) +
              sequence("e", {}) + body(command("ping"))),
       Kind::refused},
      {"a sequence that leaves the message", op_msg("\1" + i32(900) + body(command("ping"))),
       Kind::refused},
      {"no room for sections", message(2013, i32(0)), Kind::refused},
      {"header only", message(2013, ""), Kind::refused},
  };
  for (const Row& row : unclear) {
    check(row, X509::refused);
    check({row.name, row.bytes, Kind::relay}, X509::allowed);
  }
  const Row others[] = {
      {"Authenticate", op_msg(body(command("Authenticate"))), Kind::relay},
      {"authenticate2", op_msg(body(command("authenticate2"))), Kind::relay},
      {"authenticat", op_msg(body(command("authenticat"))), Kind::relay},
      {"saslContinue", op_msg(body(command("saslContinue"))), Kind::login},
      {"ping", op_msg(body(command("ping"))), Kind::relay},
      {"authenticate not first",
       op_msg(body(doc(int_field("ping", 1) + int_field("authenticate", 1)))), Kind::relay},
      {"a body that leaves the message", op_msg(body(i32(900) + "\1authenticate")), Kind::relay},
      {"OP_QUERY on a collection", op_query("$external.x", doc(int_field("authenticate", 1))),
       Kind::relay},
      {"OP_QUERY ping", legacy("ping"), Kind::relay},
  };
  for (const Row& row : others) check(row, X509::refused);
  // Decided by the body, however much of the message is there.
  const std::string broken = sequence("documents", {doc()}) + std::string(1, '\0');
  check({"a broken insert elsewhere", op_msg(body(doc(insert_fields("orders", "bank"))) + broken),
         Kind::relay},
        X509::refused);
  check({"a broken insert that a rule applies to",
         op_msg(body(doc(insert_fields("orders", "shop"))) + broken), Kind::refused},
        X509::refused);
}

/// Whether the message is taken for one that may change the connection's user.
bool changes_user(const std::string& bytes) {
  Namespaces namespaces(rule_set());
  const auto decision =
      classify(wire::read_header(as_bytes(bytes)), as_bytes(bytes), namespaces, X509::allowed);
  if (const auto* request = std::get_if<Request>(&decision)) {
    return std::holds_alternative<LoginRequest>(*request);
  }
  return std::get<decision::Relay>(decision).changes_user;
}

TEST(Classify, TellsWhatMayChangeTheUser) {
  const auto command = [](std::string_view name) {
    return doc(int_field(name, 1) + string_field("$db", "admin"));
  };
  for (const char* name : {"saslStart", "saslContinue", "authenticate", "logout"}) {
    EXPECT_TRUE(changes_user(op_msg(body(command(name))))) << name;
    EXPECT_TRUE(changes_user(op_msg(sequence("x", {doc()}) + body(command(name))))) << name;
    EXPECT_TRUE(changes_user(op_msg(body(command(name)), wire::flag::kMoreToCome))) << name;
    EXPECT_TRUE(changes_user(op_query("admin.$cmd", command(name)))) << name;
    EXPECT_TRUE(changes_user(op_query("admin.$cmd", doc(doc_field("$query", int_field(name, 1))))))
        << name;
    const std::string many = sequence("a", {}) + sequence("b", {}) + sequence("c", {}) +
                             sequence("d", {}) + sequence("e", {});
    EXPECT_TRUE(changes_user(op_msg(many + body(command(name))))) << name;
  }
  for (const char* name : {"ping", "find", "Logout", "logoutt", "endSessions"}) {
    EXPECT_FALSE(changes_user(op_msg(body(command(name))))) << name;
    EXPECT_FALSE(changes_user(op_query("admin.$cmd", command(name)))) << name;
  }
}

/// Whether the server may hold back its reply to the message, of which `size` bytes have arrived.
bool may_wait(const std::string& bytes, std::size_t size) {
  Namespaces namespaces(rule_set());
  const auto decision = classify(wire::read_header(as_bytes(bytes)), as_bytes(bytes).first(size),
                                 namespaces, X509::allowed);
  const auto* relay = std::get_if<decision::Relay>(&decision);
  EXPECT_NE(relay, nullptr);
  return relay != nullptr && relay->may_wait;
}

TEST(Classify, TellsWhichGetMoreWaitsForData) {
  const std::string limit = int_field("maxTimeMS", 1000);
  const auto command = [](std::string_view name, const std::string& more) {
    return op_msg(body(doc(long_field(name, 5) + string_field("collection", "orders") + more)));
  };
  const std::string waits = command("getMore", limit);
  EXPECT_TRUE(may_wait(waits, waits.size()));
  EXPECT_FALSE(may_wait(waits, waits.size() - 1)) << "nobody waits for the rest of a getMore";
  for (const std::string& other :
       {command("getMore", ""), command("getMores", limit), command("find", limit)}) {
    EXPECT_FALSE(may_wait(other, other.size()));
  }
}

/// "ID", "ID, begins", "ID, ends" or "none".
std::string step_of(const std::string& bytes) {
  const Exact exact(bytes);
  const auto step = transaction_step(wire::read_header(as_bytes(bytes)), exact.view());
  if (!step) return "none";
  return std::string(as_text(step->session)) + (step->begins ? ", begins" : "") +
         (step->ends ? ", ends" : "");
}

TEST(Classify, TellsWhichTransactionAMessageIsOf) {
  const std::string id = element(bson::Type::binary, "id", i32(16) + "\4" + "0123456789abcdef");
  const std::string lsid = doc_field("lsid", id);
  const std::string in_one = lsid + long_field("txnNumber", 1) + bool_field("autocommit", false);
  const auto command = [](std::string_view name, const std::string& more) {
    return op_msg(body(doc(string_field(name, "orders") + more + string_field("$db", "shop"))));
  };
  EXPECT_EQ(step_of(command("find", in_one)), "0123456789abcdef");
  EXPECT_EQ(step_of(command("insert", in_one + bool_field("startTransaction", true))),
            "0123456789abcdef, begins");
  const std::string padding = string_field("padding", std::string(5000, 'x'));
  EXPECT_EQ(step_of(command("insert", padding + in_one)), "0123456789abcdef");
  EXPECT_EQ(step_of(command("commitTransaction", in_one)), "0123456789abcdef, ends");
  EXPECT_EQ(step_of(command("abortTransaction", in_one)), "0123456789abcdef, ends");
  for (const std::string& other :
       {command("find", lsid), command("find", lsid + bool_field("autocommit", true)),
        command("find", padding + lsid + bool_field("autocommit", true)),
        command("find", lsid + doc_field("filter", bool_field("autocommit", false))),
        command("find", bool_field("autocommit", false)), op_msg(body(doc())),
        command("find", doc_field("lsid", int_field("id", 1)) + bool_field("autocommit", false)),
        command("find", doc_field("lsid", "") + bool_field("autocommit", false)),
        op_query("shop.$cmd", doc(string_field("find", "orders") + in_one)),
        op_msg(sequence("x", {}) + body(doc(string_field("find", "orders") + in_one))),
        std::string(command("find", in_one)).substr(0, 60)}) {
    EXPECT_EQ(step_of(other), "none");
  }
}

TEST(Classify, RelaysByTheFirstBytesWhereNoRuleCanApply) {
  Namespaces namespaces(rule_set_of(rule("shop.orders", "_id")));
  const std::string other =
      op_msg(body(doc(string_field("insert", "other") +
                      array_field("documents", {doc(string_field("x", std::string(5000, 'x')))}) +
                      string_field("$db", "shop"))));
  const auto decision = classify(wire::read_header(as_bytes(other)), as_bytes(other).first(60),
                                 namespaces, X509::refused);
  EXPECT_EQ(kind_of(decision), Kind::relay);
}

TEST(Classify, TellsAnInsertBeforeItsDocumentsAreThere) {
  Namespaces namespaces(rule_set());
  const std::string fields = body(doc(insert_fields("orders", "shop")));
  const std::string whole = op_msg(fields + sequence("documents", {doc(int_field("a", 1))}));
  const auto header = wire::read_header(as_bytes(whole));
  const auto front = as_bytes(whole).first(wire::kSectionsOffset + fields.size());
  const auto decision = classify(header, front, namespaces, X509::allowed);
  const auto* more = std::get_if<decision::NeedMore>(&decision);
  ASSERT_NE(more, nullptr);
  EXPECT_TRUE(more->is_write);
  EXPECT_EQ(more->bytes, whole.size());
}

TEST(Classify, CollectsUpdatesWithUpserts) {
  Namespaces namespaces(rule_set());
  const auto classified = [&](const std::string& bytes, std::size_t size) {
    return classify(wire::read_header(as_bytes(bytes)), as_bytes(bytes).first(size), namespaces,
                    X509::allowed);
  };
  const std::string requests[] = {update_sequence("", {upsert(1)}), update_array("", {upsert(1)}),
                                  find_and_modify("")};
  for (const std::string& bytes : requests) {
    EXPECT_EQ(kind_of(classified(bytes, bytes.size())), Kind::write);
    for (std::size_t size = wire::kHeaderSize; size < bytes.size(); ++size) {
      const auto decision = classified(bytes, size);
      const auto* more = std::get_if<decision::NeedMore>(&decision);
      ASSERT_NE(more, nullptr) << size;
      ASSERT_GT(more->bytes, size);
    }
  }
  const std::string without = update_sequence("", {plain_update(1)});
  EXPECT_EQ(kind_of(classified(without, without.size())), Kind::relay);
  const std::string elsewhere =
      op_msg(body(doc(string_field("findAndModify", "none") + string_field("$db", "bank") +
                      bool_field("upsert", true))));
  EXPECT_EQ(kind_of(classified(elsewhere, elsewhere.size())), Kind::relay);
}

TEST(Classify, CarriesWhatItFound) {
  Namespaces namespaces(rule_set());
  const std::string bytes = insert_sequence({doc(int_field("a", 1)), doc()});
  auto decision =
      classify(wire::read_header(as_bytes(bytes)), as_bytes(bytes), namespaces, X509::allowed);
  const auto& insert = std::get<WriteRequest>(std::get<Request>(decision));
  const auto check = [&](const WriteRequest& found, const std::string& message) {
    EXPECT_EQ(found.message.message().data(), as_bytes(message).data());
    EXPECT_EQ(found.command.db(), "shop");
    EXPECT_EQ(found.command.collection(), "orders");
    EXPECT_EQ(text_of(found.command.statements()), doc(int_field("a", 1)) + doc());
    const auto* at = reinterpret_cast<const char*>(found.command.statements().data());
    EXPECT_TRUE(at > message.data() && at < message.data() + message.size());
    EXPECT_EQ(found.plan, namespaces.plan("shop", "orders"));
  };
  check(insert, bytes);
  const std::string copy = bytes;
  WriteRequest moved = insert;
  moved.refer_to(as_bytes(copy));
  check(moved, copy);
}

}  // namespace classify_test
}  // namespace idproxy::rewrite
