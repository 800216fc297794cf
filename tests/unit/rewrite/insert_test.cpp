#include <gtest/gtest.h>

#include <numeric>

#include "idproxy/rewrite/exchange.hpp"
#include "rewrite/operation.hpp"
#include "support/action_kind.hpp"
#include "support/fake_clock.hpp"
#include "support/messages.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"

namespace idproxy::rewrite {
namespace insert_test {

using namespace test;

/// What one request does: the action, and the bytes that go upstream or back.
struct Outcome {
  ActionKind action;
  std::string bytes;
  std::unique_ptr<Exchange> exchange = std::make_unique<Exchange>();
};

class Insert : public ::testing::Test {
 protected:
  template <class... Rules>
  void rules(Rules&&... all) {
    namespaces_.emplace(rule_set_of(std::forward<Rules>(all)...));
  }
  Outcome request(std::string_view bytes) {
    Outcome outcome{};
    Action action;
    {
      const Exact exact(bytes);
      action = begin(*outcome.exchange, exact.view(), nullptr, *namespaces_, context(), workspace_);
    }
    outcome.action = kind_of(action);
    Buffer out;
    if (const auto* send = std::get_if<action::Send>(&action)) {
      send->message->copy(send->original, 0, out);
    }
    if (const auto* reply = std::get_if<action::Reply>(&action)) out.append(reply->message);
    outcome.bytes = text_of(out.view());
    return outcome;
  }
  /// Of an insert with these documents.
  void expect(std::initializer_list<std::string> sent, std::initializer_list<std::string> stored) {
    EXPECT_EQ(request(insert_array(sent)).bytes, insert_array(stored));
  }
  std::string object_id(std::chrono::seconds made) {
    std::string bytes(12, 'o');
    boost::endian::store_big_u32(reinterpret_cast<std::uint8_t*>(bytes.data()),
                                 static_cast<std::uint32_t>(made.count()));
    return bytes;
  }

  Context context() { return {clock_, random_}; }

  FakeClock clock_;
  ScriptedRandom random_;
  std::optional<Namespaces> namespaces_;
  Workspace workspace_;
};

std::string id(std::int64_t value) {
  return long_field("_id", value);
}
const std::string kX = int_field("x", 5);

TEST_F(Insert, PutsIdFirstInEveryForm) {
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent, wire::flag::kMoreToCome}) {
    rules(rule("shop.orders", "_id"));
    EXPECT_EQ(request(insert_sequence({doc(kX), doc(), doc(kX + id(77))}, flags)).bytes,
              insert_sequence({doc(id(1) + kX), doc(id(2)), doc(kX + id(77))}, flags));
    EXPECT_EQ(request(insert_array({doc(kX), doc()}, flags)).bytes,
              insert_array({doc(id(3) + kX), doc(id(4))}, flags));
    const std::string documents = sequence("documents", {doc(kX)});
    const std::string fields = body(doc(insert_fields()));
    EXPECT_EQ(request(op_msg(documents + fields, flags)).bytes,
              op_msg(sequence("documents", {doc(id(5) + kX)}) + fields, flags));
  }
}

TEST_F(Insert, PutsOtherFieldsLastInFileOrder) {
  rules(rule("shop.*", "number"), rule("shop.*", "_id"), rule("shop.*", "zip"));
  expect({doc(kX), doc()}, {doc(id(1) + kX + long_field("number", 1) + long_field("zip", 1)),
                            doc(id(2) + long_field("number", 2) + long_field("zip", 2))});
}

TEST_F(Insert, FollowsDottedPaths) {
  rules(rule("shop.*", "a.b.c"), rule("shop.*", "x"), rule("shop.*", "a.b.d"),
        rule("shop.*", "a.e"));
  const std::string y = int_field("y", 1);
  // Nothing there: one new tree, its parts in file order.
  expect({doc(kX)},
         {doc(kX + doc_field("a", doc_field("b", long_field("c", 1) + long_field("d", 1)) +
                                      long_field("e", 1)))});
  // `a` there, `b` not.
  expect({doc(doc_field("a", y) + kX)},
         {doc(doc_field("a", y + doc_field("b", long_field("c", 2) + long_field("d", 2)) +
                                 long_field("e", 2)) +
              kX)});
  // Both there, with a value that stays.
  expect({doc(doc_field("a", doc_field("b", int_field("c", 9)) + y) + kX + y)},
         {doc(doc_field("a", doc_field("b", int_field("c", 9) + long_field("d", 3)) + y +
                                 long_field("e", 3)) +
              kX + y)});
}

TEST_F(Insert, AddsFieldsToOneSubDocument) {
  const std::string y = int_field("y", 1);
  const std::string b = int_field("b", 9);
  const std::string large = string_field("s", std::string(2000, 's'));
  const auto added = [](std::int64_t b_value, std::int64_t e_value) {
    return (b_value == 0 ? "" : long_field("b", b_value)) + long_field("e", e_value);
  };
  using Form = std::string (*)(const std::vector<std::string>&, std::uint32_t);
  // What stands around the sub-document; a large document is not copied, but sent in slices.
  const std::pair<std::string, std::string> around[] = {{"", y}, {"", large}, {large, y}};
  for (const auto& [before, behind] : around) {
    for (const Form insert : {Form(insert_array), Form(insert_sequence)}) {
      rules(rule("shop.*", "a.b"), rule("shop.*", "x"), rule("shop.*", "a.e"));
      const auto with = [&](const std::string& fields, const std::string& x = kX) {
        return doc(before + doc_field("a", fields) + behind + x);
      };
      const std::string whole = with(b + int_field("e", 8));
      const std::string lacking_x = with(y, "");
      EXPECT_EQ(
          request(insert({with(""), with(y), whole, whole, with(b), with(b + y), lacking_x}, 0))
              .bytes,
          insert({with(added(1, 1)), with(y + added(2, 2)), whole, whole, with(b + added(0, 3)),
                  with(b + y + added(0, 4)), with(y + added(3, 5), long_field("x", 1))},
                 0));
    }
  }
}

TEST_F(Insert, LeavesWhatIsInASubDocument) {
  rules(rule("shop.*", "a.b"), rule("shop.*", "c.d"));
  const std::string with_b = doc_field("a", int_field("b", 9));
  expect({doc(with_b + doc_field("c", kX)), doc(with_b)},
         {doc(with_b + doc_field("c", kX + long_field("d", 1))),
          doc(with_b + doc_field("c", long_field("d", 2)))});
  EXPECT_EQ(request(insert_array({doc(with_b + doc_field("c", int_field("d", 9)))})).action,
            ActionKind::relay);
}

TEST_F(Insert, LeavesAMessageInWhichNothingIsAssigned) {
  rules(rule("shop.*", "_id"));
  EXPECT_EQ(request(insert_array({doc(id(1)), doc(kX + id(2))})).action, ActionKind::relay);
  EXPECT_EQ(request(insert_array({doc(element(bson::Type::null, "_id", ""))})).action,
            ActionKind::relay);
}

TEST_F(Insert, ReplacesWhatTheModeSays) {
  const std::string null = element(bson::Type::null, "_id", "");
  const std::string fresh = element(bson::Type::object_id, "_id", object_id(FakeClock::kStart));
  const std::string early = element(bson::Type::object_id, "_id",
                                    object_id(FakeClock::kStart - std::chrono::seconds(300)));
  const std::string old = element(bson::Type::object_id, "_id",
                                  object_id(FakeClock::kStart - std::chrono::seconds(301)));
  const std::string text = string_field("_id", "mine");
  struct Row {
    Assign assign;
    std::vector<std::string> replaced, kept;
  };
  const Row rows[] = {
      {Assign::missing, {""}, {null, fresh, early, old, text}},
      {Assign::missing_or_null, {"", null}, {fresh, early, old, text}},
      {Assign::driver, {"", null, fresh, early}, {old, text}},
      {Assign::always, {"", null, fresh, early, old, text}, {}},
  };
  for (const Row& row : rows) {
    rules(rule("shop.*", "_id", row.assign));
    std::int64_t next = 1;
    for (const auto& value : row.replaced) {
      // Where it stands; a missing one goes to the front.
      const std::string stored = value.empty() ? id(next) + kX : kX + id(next);
      expect({doc(kX + value)}, {doc(stored)});
      ++next;
    }
    for (const auto& value : row.kept) {
      EXPECT_EQ(request(insert_array({doc(kX + value)})).action, ActionKind::relay);
    }
  }
}

TEST_F(Insert, KeepsTheDriversIdWhereTold) {
  auto replaced = rule("shop.*", "_id", Assign::always);
  replaced.keep_driver_id = "driver_id";
  rules(std::move(replaced), rule("shop.*", "n"));
  const std::string made = object_id(FakeClock::kStart);
  const auto oid = [&](std::string_view key) { return element(bson::Type::object_id, key, made); };
  expect({doc(oid("_id") + kX), doc(string_field("_id", "s")), doc(oid("_id") + oid("driver_id"))},
         {doc(id(1) + kX + long_field("n", 1) + oid("driver_id")), doc(id(2) + long_field("n", 2)),
          doc(id(3) + oid("driver_id") + long_field("n", 3))});
}

TEST_F(Insert, MakesMongodRefuseADocumentThatCannotTakeItsValue) {
  rules(rule("shop.*", "_id"), rule("shop.*", "a.b"));
  const std::string refused = text_of(refused_document());
  const std::string array = element(bson::Type::array, "a", doc(doc_field("0", kX)));
  const auto outcome = request(insert_array(
      {doc(int_field("a", 1)), doc(kX), doc(array), doc(doc_field("a", "") + doc_field("a", ""))}));
  EXPECT_EQ(outcome.bytes,
            insert_array(
                {refused, doc(id(1) + kX + doc_field("a", long_field("b", 1))), refused, refused}));
  EXPECT_EQ(outcome.exchange->facts().refused, 3U);
}

TEST_F(Insert, NamesTheTypeThatIsInTheWay) {
  using bson::Type;
  rules(rule("shop.*", "a.b"));
  const std::string eight(8, '\0');
  const struct {
    std::string a;
    const char* name;
  } rows[] = {
      {element(Type::array, "a", doc()), "array"},
      {string_field("a", "s"), "string"},
      {element(Type::null, "a", ""), "null"},
      {element(Type::object_id, "a", std::string(12, '\0')), "objectId"},
      {bool_field("a", true), "bool"},
      {element(Type::date, "a", eight), "date"},
      {element(Type::binary, "a", i32(0) + '\0'), "binData"},
      {double_field("a", 1.5), "number"},
      {long_field("a", 1), "number"},
      {element(Type::decimal128, "a", eight + eight), "number"},
      {element(Type::timestamp, "a", eight), "scalar"},
  };
  for (const auto& row : rows) {
    const auto outcome = request(insert_sequence({doc(row.a), doc(kX)}));
    const std::string refused = op_msg(
        body(doc(int_field("n", 0) +
                 array_field("writeErrors", {doc(int_field("index", 0) + int_field("code", 53) +
                                                 string_field("errmsg", "no array"))}) +
                 int_field("ok", 1))),
        0, 7);
    ASSERT_EQ(kind_of(outcome.exchange->reply(as_bytes(refused), context(), workspace_)),
              ActionKind::reply)
        << row.name;
    EXPECT_NE(text_of(workspace_.reply.view())
                  .find("cannot create field 'a.b': 'a' is of type " + std::string(row.name) +
                        ", not object"),
              std::string::npos)
        << row.name;
  }
}

TEST_F(Insert, ReplacesTheErrorsOfRefusedDocuments) {
  rules(rule("shop.*", "a.b"));
  const auto unordered = [&] {
    return request(
        op_msg(body(doc(insert_fields() + element(bson::Type::boolean, "ordered", {"\0", 1}))) +
               sequence("documents", {doc(int_field("a", 1)), doc(kX), doc(kX)})));
  };
  auto outcome = unordered();
  const auto error = [](std::int32_t index, std::int32_t code, std::string_view text) {
    return doc(int_field("index", index) + int_field("code", code) + string_field("errmsg", text));
  };
  const auto reply = [&](const std::string& first) {
    return op_msg(body(doc(int_field("n", 1) +
                           array_field("writeErrors", {first, error(2, 53, "the client's own")}) +
                           int_field("ok", 1))),
                  0, 7);
  };
  const std::string theirs = reply(error(0, 53, "The '_id' value cannot be of type array"));
  EXPECT_EQ(kind_of(outcome.exchange->reply(as_bytes(theirs), context(), workspace_)),
            ActionKind::reply);
  EXPECT_EQ(
      text_of(workspace_.reply.view()),
      reply(error(0, 28,
                  "mongo-idproxy: cannot create field 'a.b': 'a' is of type number, not object")));
  const std::string others[] = {op_msg(body(doc(int_field("ok", 0))), 0, 7),
                                reply(error(0, 11000, "E11000")),
                                op_msg(body(doc(int_field("writeErrors", 1))), 0, 7)};
  for (const std::string& other : others) {
    auto again = unordered();
    EXPECT_EQ(kind_of(again.exchange->reply(as_bytes(other), context(), workspace_)),
              ActionKind::relay);
  }
}

TEST_F(Insert, SendsNothingWithoutAllValues) {
  rules(rule("shop.*", "_id", Assign::missing, 2));
  const auto outcome = request(insert_array({doc(), doc(), doc()}));
  EXPECT_EQ(outcome.action, ActionKind::reply);
  const auto reply = wire::OpMsgView::parse(as_bytes(outcome.bytes));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header().response_to, 7);
  EXPECT_EQ(bson::find(reply->body(), "code")->as_integer(), 96);
  EXPECT_EQ(bson::find(reply->body(), "codeName")->text(), "OperationFailed");
  EXPECT_EQ(bson::find(reply->body(), "ok")->as_integer(), 0);
  EXPECT_NE(bson::find(reply->body(), "errmsg")->text().find("'_id'"), std::string::npos);
  // Nobody waits for an answer to an unacknowledged one.
  EXPECT_EQ(request(insert_array({doc(), doc()}, wire::flag::kMoreToCome)).bytes, "");
}

TEST_F(Insert, LeavesToMongodWhatItRefuses) {
  rules(rule("shop.*", "_id"), rule("shop.*", "a.b"));
  const std::string documents = sequence("documents", {doc(kX)});
  const std::string fields = doc(insert_fields());
  const std::string bad = element(bson::Type::string, "s", i32(-1) + std::string(6, '\0'));
  const struct {
    const char* name;
    std::string bytes;
  } rows[] = {
      {"documents twice",
       op_msg(body(doc(insert_fields() + array_field("documents", {doc()}))) + documents)},
      {"documents nowhere", op_msg(body(fields))},
      {"documents twice in the body",
       op_msg(body(doc(insert_fields() + array_field("documents", {doc()}) +
                       array_field("documents", {doc()}))))},
      {"insert twice",
       op_msg(body(doc(insert_fields() + string_field("insert", "other"))) + documents)},
      {"$db twice", op_msg(body(doc(insert_fields() + string_field("$db", "other"))) + documents)},
      {"documents no array", op_msg(body(doc(insert_fields() + int_field("documents", 1))))},
      {"an element that is no document",
       op_msg(body(doc(insert_fields() +
                       element(bson::Type::array, "documents", doc(int_field("0", 1))))))},
      {"another sequence", op_msg(body(fields) + documents + sequence("other", {doc()}))},
      {"bad BSON in a document", insert_array({doc(kX), doc(bad)})},
      {"bad BSON in a document on the path", insert_sequence({doc(doc_field("a", bad))})},
      {"a document past its sequence",
       op_msg(body(fields) + sequence("documents", {i32(99) + doc().substr(4)}))},
      {"bytes behind the last document",
       op_msg(body(fields) + sequence("documents", {doc(), "ab"}))},
      {"no documents", op_msg(body(fields) + sequence("documents", {}))},
      {"wrong checksum",
       op_msg(body(fields) + documents, wire::flag::kChecksumPresent).replace(30, 1, "?")},
  };
  for (const auto& row : rows) EXPECT_EQ(request(row.bytes).action, ActionKind::relay) << row.name;
}

TEST_F(Insert, RefusesEqualStmtIds) {
  rules(rule("shop.*", "_id"));
  const auto numbered = [](std::initializer_list<std::int32_t> numbers, std::uint32_t flags = 0) {
    std::string elements;
    int i = 0;
    for (const auto number : numbers) elements += int_field(std::to_string(i++), number);
    const std::string ids = element(bson::Type::array, "stmtIds", doc(elements));
    return op_msg(body(doc(insert_fields() + ids)) + sequence("documents", {doc(), doc()}), flags);
  };
  EXPECT_EQ(request(numbered({1, 0})).action, ActionKind::send);
  const auto outcome = request(numbered({1, 1}));
  ASSERT_EQ(outcome.action, ActionKind::reply);
  const auto reply = wire::OpMsgView::parse(as_bytes(outcome.bytes));
  EXPECT_EQ(bson::find(reply->body(), "code")->as_integer(), 72);
  EXPECT_EQ(request(numbered({1, 1}, wire::flag::kMoreToCome)).bytes, "");
}

TEST_F(Insert, LeavesOtherArrayKeysToMongod) {
  rules(rule("shop.*", "_id"));
  const auto keyed = [](const std::string& document) {
    return op_msg(
        body(doc(insert_fields() + element(bson::Type::array, "documents",
                                           doc(element(bson::Type::document, "00", document))))));
  };
  EXPECT_EQ(request(keyed(doc(kX))).bytes, keyed(doc(id(1) + kX)));
}

TEST_F(Insert, BoundsTheErrorTextsOfAReply) {
  const std::string field = std::string(1000, 'f') + ".b";
  rules(rule("shop.*", field));
  const std::string blocked = doc(int_field(std::string(1000, 'f'), 1));
  std::string documents;
  std::string errors;
  for (int i = 0; i < 10'000; ++i) {
    documents += blocked;
    errors += element(bson::Type::document, std::to_string(i),
                      doc(int_field("index", i) + int_field("code", 53)));
  }
  const std::string unordered = element(bson::Type::boolean, "ordered", {"\0", 1});
  auto outcome =
      request(op_msg(body(doc(insert_fields() + unordered)) + sequence("documents", {documents})));
  ASSERT_EQ(outcome.exchange->facts().refused, 10'000U);
  const std::string reply =
      op_msg(body(doc(int_field("n", 0) + element(bson::Type::array, "writeErrors", doc(errors)) +
                      int_field("ok", 1))),
             0, 7);
  ASSERT_EQ(kind_of(outcome.exchange->reply(as_bytes(reply), context(), workspace_)),
            ActionKind::reply);
  EXPECT_LE(workspace_.reply.size(), 16'793'600U);
  EXPECT_TRUE(wire::OpMsgView::parse(workspace_.reply.view()));
}

TEST_F(Insert, SurvivesBeingCutAtAnyByte) {
  rules(rule("shop.*", "_id"), rule("shop.*", "a.b"));
  for (const auto& whole : {insert_array({doc(doc_field("a", kX) + kX)}),
                            insert_sequence({doc(kX), doc(doc_field("a", kX))})}) {
    for (std::size_t cut = 21; cut < whole.size(); ++cut) {
      std::string bytes = whole.substr(0, cut);
      request(bytes.replace(0, 4, i32(static_cast<std::int64_t>(cut))));
    }
  }
}

TEST_F(Insert, MovesDocumentsToASequenceWhenTheBodyOutgrowsItsLimit) {
  rules(rule("shop.*", "_id"));
  const std::string empty = doc(string_field("big", ""));
  const std::size_t room = 16'793'600 - (insert_array({empty, empty}).size() - 21);
  const std::string big(room / 2, 'b');  // the body is at its limit, or one byte below
  const std::string large = doc(string_field("big", big));
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent}) {
    const std::int64_t first = flags == 0 ? 1 : 3;
    const std::string sent = insert_array({large, large}, flags);
    const auto outcome = request(sent);
    ASSERT_EQ(outcome.action, ActionKind::send);
    const std::string big_field = string_field("big", big);
    EXPECT_TRUE(outcome.bytes == op_msg(body(doc(insert_fields())) +
                                            sequence("documents", {doc(id(first) + big_field),
                                                                   doc(id(first + 1) + big_field)}),
                                        flags));
  }
}

TEST_F(Insert, DropsAnUnacknowledgedMessageThatOutgrowsTheProtocol) {
  rules(rule("shop.*", "_id"));
  const std::string empty = doc(string_field("big", ""));
  const std::size_t room = 48'000'000 - insert_sequence({empty, empty, empty}).size();
  const std::string large = doc(string_field("big", std::string(room / 3, 'b')));
  const auto outcome = request(insert_sequence({large, large, large}, wire::flag::kMoreToCome));
  EXPECT_EQ(outcome.action, ActionKind::reply);
  EXPECT_EQ(outcome.bytes, "");
}

TEST_F(Insert, LeavesDocumentsAloneThatAreTooLargeAnyway) {
  rules(rule("shop.*", "_id"));
  const std::string over = doc(string_field("big", std::string(16 * 1024 * 1024 - 14, 'b')));
  ASSERT_EQ(over.size(), 16U * 1024 * 1024 + 1);
  EXPECT_EQ(request(insert_sequence({over})).action, ActionKind::relay);
  const std::string just = doc(string_field("big", std::string(16 * 1024 * 1024 - 15, 'b')));
  EXPECT_EQ(request(insert_sequence({just})).action, ActionKind::send);
}

TEST_F(Insert, SaysWhenAllIdsWereTheDrivers) {
  rules(rule("shop.*", "_id"));
  const std::string made = doc(element(bson::Type::object_id, "_id", object_id(FakeClock::kStart)));
  EXPECT_NE(request(insert_array({made, made})).exchange->facts().driver_made, nullptr);
  EXPECT_EQ(request(insert_array({made, doc()})).exchange->facts().driver_made, nullptr);
  EXPECT_EQ(request(insert_array({doc(id(1))})).exchange->facts().driver_made, nullptr);
}

/// What typed languages send for a field that was never set.
std::vector<std::string> zeros(std::string_view field) {
  using bson::Type;
  const std::string uuid(16, '\0');
  const std::string decimal_exponent("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x42\xb0", 16);
  return {element(Type::null, field, ""),
          int_field(field, 0),
          long_field(field, 0),
          double_field(field, 0.0),
          double_field(field, -0.0),
          element(Type::decimal128, field, decimal_exponent),
          string_field(field, ""),
          element(Type::object_id, field, std::string(12, '\0')),
          element(Type::binary, field, i32(16) + "\3" + uuid),
          element(Type::binary, field, i32(16) + "\4" + uuid)};
}

std::vector<std::string> values_beside_zeros(std::string_view field) {
  using bson::Type;
  std::string last_byte(15, '\0');
  last_byte += '\1';
  return {int_field(field, 256),
          long_field(field, std::int64_t{1} << 32),
          double_field(field, 0.5),
          double_field(field, 5e-324),
          element(Type::decimal128, field, "\1" + std::string(14, '\0') + "\x30"),
          string_field(field, std::string_view("\0", 1)),
          string_field(field, "0"),
          bool_field(field, false),
          element(Type::object_id, field, std::string(11, '\0') + "\1"),
          element(Type::binary, field, i32(16) + "\4" + last_byte),
          element(Type::binary, field, i32(16) + std::string(17, '\0')),
          element(Type::binary, field, i32(0) + "\4"),
          doc_field(field, ""),
          element(Type::date, field, std::string(8, '\0')),
          element(Type::timestamp, field, std::string(8, '\0'))};
}

TEST_F(Insert, ReplacesZeros) {
  for (const char* field : {"_id", "n"}) {
    rules(rule("shop.*", field, Assign::missing_or_zero));
    std::int64_t next = 0;
    const auto stored = [&] { return long_field(field, ++next); };
    for (const std::string& zero : zeros(field)) {
      expect({doc(kX + zero + kX)}, {doc(kX + stored() + kX)});
    }
    for (const std::string& value : values_beside_zeros(field)) {
      const auto outcome = request(insert_array({doc(kX + value)}));
      EXPECT_EQ(outcome.action, ActionKind::relay);
      EXPECT_EQ(outcome.exchange->facts().leaves_zero, nullptr);
    }
    EXPECT_EQ(request(insert_array({doc(kX)})).action, ActionKind::send);
  }
  rules(rule("shop.*", "a.b", Assign::missing_or_zero));
  expect({doc(doc_field("a", long_field("b", 0) + kX))},
         {doc(doc_field("a", long_field("b", 1) + kX))});
}

TEST_F(Insert, SaysWhenItLeavesAZero) {
  for (const char* field : {"_id", "n"}) {
    for (const Assign assign : {Assign::missing, Assign::missing_or_null}) {
      rules(rule("shop.*", field, assign));
      const auto of = [&](const std::string& element) {
        return request(insert_array({doc(int_field(field, 7)), doc(kX + element), doc(kX)}));
      };
      bool is_null = true;
      for (const std::string& zero : zeros(field)) {
        const bool replaced = std::exchange(is_null, false) && assign == Assign::missing_or_null;
        const auto outcome = of(zero);
        ASSERT_EQ(outcome.action, ActionKind::send);
        EXPECT_EQ(outcome.exchange->facts().leaves_zero == nullptr, replaced);
      }
      for (const std::string& value : values_beside_zeros(field)) {
        EXPECT_EQ(of(value).exchange->facts().leaves_zero, nullptr);
      }
    }
  }
  const auto left = [this](const std::string& document) {
    const auto outcome = request(insert_array({document}));
    return outcome.exchange->facts().leaves_zero != nullptr;
  };
  rules(rule("shop.*", "a.b"));
  EXPECT_TRUE(left(doc(doc_field("a", long_field("b", 0)))));
  EXPECT_FALSE(left(doc(doc_field("a", long_field("b", 1)))));
  EXPECT_FALSE(left(doc(long_field("b", 0))));
  rules(rule("shop.*", "a.b.c"));
  EXPECT_TRUE(left(doc(doc_field("a", doc_field("b", long_field("c", 0))))));
  rules(rule("shop.*", "n", Assign::driver));
  EXPECT_FALSE(left(doc(long_field("n", 0)))) << "missing-or-zero would be another policy";
}

TEST_F(Insert, HoldsLaterMessagesUntilItsReply) {
  rules(rule("shop.*", "_id"));
  const auto acknowledged = request(insert_array({doc()}));
  EXPECT_TRUE(acknowledged.exchange->awaits_reply());
  EXPECT_EQ(acknowledged.exchange->request_id(), 7);
  EXPECT_FALSE(request(insert_array({doc()}, wire::flag::kMoreToCome)).exchange->awaits_reply());
}

// ---- commands of our own ---------------------------------------------------------------------

/// A client's insert and what its documents are given, before anything is written.
struct AssignedInsert {
  explicit AssignedInsert(std::string_view bytes, const RuleSet& rules)
      : plan(std::make_shared<const Plan>(rules.plan("shop", "orders"))),
        request(read(as_bytes(bytes))),
        result(drawn(rewriter.scan(request, given))) {}

  [[nodiscard]] WriteRequest read(Bytes bytes) const {
    const auto view = *wire::OpMsgView::parse(bytes);
    return {view, *WriteCommand::read(view), plan, FakeClock::kStart};
  }

  ScanResult drawn(ScanResult scanned) {
    for (std::size_t i = 0; i < plan->size(); ++i) {
      EXPECT_TRUE((*plan)[i].source->next(given.wanted[i], given.values[i]));
    }
    return scanned;
  }
  std::vector<std::string> part(std::span<const std::int32_t> documents,
                                const WriteOptions* options = nullptr) {
    wire::PatchedMessage out;
    EXPECT_TRUE(
        rewriter.emit_part(request, given, {documents, options, true, std::nullopt, 9}, out));
    return documents_of(out);
  }
  std::vector<std::string> whole() {
    wire::PatchedMessage out;
    emit(request, given, rewriter, out);
    return documents_of(out);
  }
  [[nodiscard]] std::vector<std::string> documents_of(const wire::PatchedMessage& message) const {
    Buffer bytes;
    message.copy(request.message.message(), 0, bytes);
    const auto sent = wire::OpMsgView::parse(bytes.view());
    const auto insert = WriteCommand::read(*sent);
    std::vector<std::string> documents;
    Statements walk(*insert);
    while (const auto document = walk.next()) documents.push_back(text_of(*document));
    return documents;
  }

  std::shared_ptr<const Plan> plan;
  WriteRequest request;
  InsertRewriter rewriter;
  GivenValues given;
  ScanResult result;
};

/// A document in a command with some of them is the same as in the command with all, whatever it
/// was given: also after other documents' values, replaced ones, and one that is refused.
TEST(InsertRewriter, PutsTheSameDocumentsIntoAPart) {
  auto kept = rule("shop.*", "_id", Assign::driver);
  kept.keep_driver_id = "driver_id";
  const auto rules =
      rule_set_of(rule("shop.*", "a.b"), std::move(kept), rule("shop.*", "n", Assign::always));
  std::string made(12, 'o');
  boost::endian::store_big_u32(reinterpret_cast<std::uint8_t*>(made.data()),
                               static_cast<std::uint32_t>(FakeClock::kStart.count()));
  const std::string object_id = element(bson::Type::object_id, "_id", made);
  const std::string shapes[] = {doc(),
                                doc(kX + object_id),
                                doc(int_field("a", 1)),
                                doc(doc_field("a", kX) + int_field("n", 5)),
                                doc(id(70) + doc_field("a", int_field("b", 1))),
                                doc(string_field("n", "replaced") + kX)};
  SeededRandom random;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> documents;
    for (auto left = 1 + uniform(random, 12); left > 0; --left) {
      documents.push_back(shapes[uniform(random, std::size(shapes))]);
    }
    const std::string bytes = round % 2 == 0 ? insert_array(documents) : insert_sequence(documents);
    AssignedInsert insert(bytes, *rules);
    ASSERT_EQ(insert.result.kind, ScanResult::Kind::assigned);
    const auto whole = insert.whole();
    ASSERT_EQ(whole.size(), documents.size());
    std::vector<std::int32_t> some;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (uniform(random, 2) == 0) continue;
      some.push_back(static_cast<std::int32_t>(i));
      expected.push_back(whole[i]);
    }
    EXPECT_EQ(insert.part(some), expected);
  }
}

/// Neither those that get a value nor those before them.
TEST(InsertRewriter, CopiesNoLargeDocuments) {
  const auto rules = rule_set_of(rule("shop.*", "n"), rule("shop.*", "a.b"));
  const std::string large = string_field("s", std::string(100'000, 's'));
  const std::string n = int_field("n", 1);
  const std::string nothing = doc(large + n + doc_field("a", int_field("b", 1)));
  const std::string at_the_top = doc(large + doc_field("a", int_field("b", 1)));
  const std::string below = doc(doc_field("a", kX) + large + n);
  const std::string both = doc(doc_field("a", kX) + large);
  const std::string small = doc(doc_field("a", kX) + n);
  for (const std::string& document : {at_the_top, below, both, small}) {
    const std::string bytes = insert_array({nothing, document, nothing, document});
    AssignedInsert insert(bytes, *rules);
    wire::PatchedMessage out;
    emit(insert.request, insert.given, insert.rewriter, out);
    EXPECT_GT(out.size(), bytes.size());
    EXPECT_LT(out.capacity(), 4096U);
  }
}

TEST(InsertRewriter, FillsAMessageButNotMore) {
  const auto rules = rule_set_of(rule("shop.*", "_id"), rule("shop.*", "a.long.path"));
  const std::string large = doc(string_field("s", std::string(1'000'000, 's')));
  const std::string bytes = insert_sequence(std::vector<std::string>(60, large));
  AssignedInsert insert(bytes, *rules);
  std::vector<std::int32_t> documents(60);
  std::iota(documents.begin(), documents.end(), 0);
  documents.erase(documents.begin() + 3);
  const WriteOptions options;
  wire::PatchedMessage out;
  const auto fitting = [&](std::span<const std::int32_t> some) {
    return insert.rewriter.emit_part(insert.request, insert.given,
                                     {some, &options, true, std::nullopt, 9}, out);
  };
  EXPECT_EQ(fitting(documents), 47U);
  EXPECT_GT(out.size(), 48'000'000U) << "shows that it is too large";
  EXPECT_EQ(fitting(std::span(documents).first(47)), 47U);
  EXPECT_LE(out.size(), 48'000'000U);
  EXPECT_EQ(fitting(std::span(documents).first(5)), 5U);
  EXPECT_EQ(fitting(std::span(documents).last(1)), 1U);
}

}  // namespace insert_test
}  // namespace idproxy::rewrite
