#include "idproxy/rewrite/field_request.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support/messages.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace field_request_test {

using namespace test;

const std::string kNext = string_field("idproxy", "next");
const std::string kNs = string_field("ns", "shop.orders");
const std::string kField = string_field("field", "number");
const std::string kAdmin = string_field("$db", "admin");

/// The code of the error and its text, or "" for a request.
std::string fault(std::string_view fields) {
  Namespaces namespaces(rule_set());
  const Exact exact(op_msg(body(doc(fields))));
  const auto view = wire::OpMsgView::parse(exact.view());
  const auto read = read_own_request(*view, namespaces);
  EXPECT_TRUE(read);
  const auto* error = read ? std::get_if<CommandError>(&*read) : nullptr;
  if (error == nullptr) return "";
  return std::to_string(static_cast<int>(error->code)) + " " + error->message;
}
std::string code(std::string_view fields) {
  const std::string all = fault(fields);
  return all.substr(0, all.find(' '));
}
std::string code_with_count(const std::string& count) {
  return code(kNext + kNs + kField + count + kAdmin);
}

TEST(NextRequest, IsTheWordNextAsText) {
  const auto asks = [](const std::string& fields) {
    const Exact exact(op_msg(body(doc(fields))));
    Namespaces namespaces(rule_set());
    return read_own_request(*wire::OpMsgView::parse(exact.view()), namespaces).has_value();
  };
  EXPECT_TRUE(asks(kNext));
  EXPECT_TRUE(asks(kNext + "\x42"));
  EXPECT_FALSE(asks(string_field("idproxy", "status")));
  EXPECT_FALSE(asks(string_field("idproxy", "Next")));
  EXPECT_FALSE(asks(string_field("idproxy", "next", bson::Type::symbol)));
  EXPECT_FALSE(asks(int_field("idproxy", 1)));
  EXPECT_FALSE(asks(""));
}

TEST(NextRequest, CarriesWhatIsAsked) {
  Namespaces namespaces(rule_set());
  const std::string bytes = op_msg(
      body(doc(kNext + kNs + string_field("field", "a.b.c") + int_field("count", 7) + kAdmin)));
  const auto read = read_own_request(*wire::OpMsgView::parse(as_bytes(bytes)), namespaces);
  auto next = std::get<NextRequest>(*read);
  const auto check = [&](NextRequest found, const std::string& message) {
    found.bind();
    EXPECT_EQ(found.message.message().data(), as_bytes(message).data());
    EXPECT_EQ(found.db, "shop");
    EXPECT_EQ(found.collection, "orders");
    EXPECT_EQ(found.ns(), "shop.orders");
    EXPECT_EQ(found.count, 7U);
    EXPECT_EQ(found.plan, namespaces.plan("shop", "orders"));
    ASSERT_NE(found.assignment, nullptr);
    EXPECT_EQ(found.assignment->rule->field, "a.b.c");
  };
  check(next, bytes);
  const std::string copy = bytes;
  next.refer_to(as_bytes(copy));
  check(next, copy);
}

/// What is wrong about it only those are told who may insert there.
TEST(NextRequest, SucceedsWithoutARule) {
  const auto assignment = [](const std::string& ns, const std::string& field) {
    Namespaces namespaces(rule_set());
    const std::string bytes =
        op_msg(body(doc(kNext + string_field("ns", ns) + string_field("field", field) + kAdmin)));
    auto read = read_own_request(*wire::OpMsgView::parse(as_bytes(bytes)), namespaces);
    auto& next = std::get<NextRequest>(*read);
    next.bind();
    return next.assignment != nullptr;
  };
  EXPECT_TRUE(assignment("shop.orders", "number"));
  for (const char* field : {"", "Number", "a", "a.b", "a.b.c.d", "numbe"}) {
    EXPECT_FALSE(assignment("shop.orders", field)) << field;
  }
  for (const char* ns : {"bank.orders", "shop.items", "shop.system.users", "idproxy.orders"}) {
    EXPECT_FALSE(assignment(ns, "number")) << ns;
  }
}

TEST(NextRequest, IsForAdminAlone) {
  const std::string only_admin = "13 idproxy may only be run against the admin database.";
  EXPECT_EQ(fault(kNext + kNs + kField + kAdmin), "");
  EXPECT_EQ(fault(kNext + kAdmin + kField + kNs), "");
  EXPECT_EQ(fault(kNext + kNs + kField + string_field("$db", "shop")), only_admin);
  EXPECT_EQ(fault(kNext + kNs + kField + int_field("$db", 1)), only_admin);
  EXPECT_EQ(fault(kNext + kNs + kField), only_admin);
  EXPECT_EQ(fault(kNext + int_field("zork", 1) + string_field("$db", "shop")), only_admin);
}

TEST(NextRequest, FailsIfAFieldIsMissingRepeatedOrUnknown) {
  EXPECT_EQ(fault(kNext + kField + kAdmin),
            "40414 BSON field 'idproxy.ns' is missing but a required field");
  EXPECT_EQ(fault(kNext + kNs + kAdmin),
            "40414 BSON field 'idproxy.field' is missing but a required field");
  EXPECT_EQ(fault(kNext + kNs + kField + kNs + kAdmin),
            "40413 BSON field 'idproxy.ns' is a duplicate field");
  EXPECT_EQ(fault(kNext + kNs + kField + kNext + kAdmin),
            "40413 BSON field 'idproxy.idproxy' is a duplicate field");
  EXPECT_EQ(fault(kNext + kNs + kField + kAdmin + kAdmin),
            "40413 BSON field 'idproxy.$db' is a duplicate field");
  EXPECT_EQ(fault(kNext + kNs + int_field("cuont", 5) + kField + kAdmin),
            "40415 BSON field 'idproxy.cuont' is an unknown field.");
  EXPECT_EQ(fault(kNext + kNs + kField + kAdmin + int_field("", 5)),
            "40415 BSON field 'idproxy.' is an unknown field.");
  EXPECT_EQ(fault(kNext + kNs + kField + kAdmin + int_field(std::string(101, 'x'), 5)),
            "40415 BSON field 'idproxy.(a long name)' is an unknown field.");
}

TEST(NextRequest, SucceedsWithWhatEveryCommandMayHave) {
  const std::string generic = doc_field("lsid", "") + doc_field("$clusterTime", "") +
                              doc_field("$readPreference", "") + string_field("apiVersion", "1") +
                              bool_field("apiStrict", true) +
                              bool_field("apiDeprecationErrors", true) + int_field("comment", 1) +
                              int_field("maxTimeMS", 1) + doc_field("readConcern", "") +
                              doc_field("writeConcern", "") + long_field("txnNumber", 1);
  EXPECT_EQ(fault(kNext + kNs + kField + kAdmin + generic), "");
}

TEST(NextRequest, FailsIfATypeIsWrong) {
  for (const char* name : {"ns", "field"}) {
    const std::string other = std::string(name) == "ns" ? kField : kNs;
    for (const std::string& value :
         {int_field(name, 1), string_field(name, "shop.orders", bson::Type::symbol),
          doc_field(name, ""), element(bson::Type::null, name, "")}) {
      EXPECT_EQ(fault(kNext + other + value + kAdmin),
                "14 BSON field 'idproxy." + std::string(name) +
                    "' is the wrong type, expected type 'string'");
    }
  }
}

TEST(NextRequest, HasACountOfOneTo100000) {
  for (const std::string& good : {std::string(), int_field("count", 1), int_field("count", 100'000),
                                  long_field("count", 100'000), double_field("count", 7),
                                  element(bson::Type::null, "count", "")}) {
    EXPECT_EQ(code_with_count(good), "");
  }
  for (const std::string& value :
       {int_field("count", 0), int_field("count", -1), int_field("count", 100'001),
        long_field("count", std::int64_t{1} << 40), double_field("count", 0),
        double_field("count", 1e9)}) {
    EXPECT_EQ(code_with_count(value), "2");
  }
  EXPECT_EQ(fault(kNext + kNs + kField + int_field("count", 0) + kAdmin),
            "2 BSON field 'idproxy.count' must be 1 to 100000, actual value '0'");
  for (const double value : {1.5, 1e300, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(code_with_count(double_field("count", value)), "9") << value;
  }
  for (const std::string& value :
       {bool_field("count", true), string_field("count", "5"), doc_field("count", ""),
        element(bson::Type::decimal128, "count", std::string(16, '\0'))}) {
    EXPECT_EQ(code_with_count(value), "14");
  }
}

TEST(NextRequest, FailsIfTheNamespaceIsNone) {
  const auto with_ns = [](const std::string& ns) {
    return code(kNext + string_field("ns", ns) + kField + kAdmin);
  };
  for (const std::string& ns :
       {std::string(), std::string("shop"), std::string("shop."), std::string(".orders"),
        std::string("shop..orders"), std::string("sh op.orders"), std::string("sh/op.orders"),
        std::string("$shop.orders"), std::string("sh\"op.orders"), std::string("s\0op.orders", 11),
        std::string("shop.or\0ers", 11), std::string(64, 'd') + ".c",
        "d." + std::string(254, 'c')}) {
    EXPECT_EQ(with_ns(ns), "73") << ns;
  }
  for (const std::string& ns : {std::string("shop.orders"), std::string("shop.a.b"),
                                std::string(63, 'd') + ".c", "d." + std::string(253, 'c')}) {
    EXPECT_EQ(with_ns(ns), "") << ns;
  }
}

TEST(NextRequest, FailsInATransaction) {
  const std::string transaction = long_field("txnNumber", 1) + bool_field("autocommit", false);
  EXPECT_EQ(code(kNext + kNs + kField + transaction + kAdmin), "263");
  EXPECT_EQ(
      code(kNext + kNs + kField + transaction + bool_field("startTransaction", true) + kAdmin),
      "263");
}

TEST(NextRequest, FailsIfCut) {
  const std::string fields = kNext + kAdmin + kNs + kField + int_field("count", 5);
  const std::size_t without_count = (kNext + kAdmin + kNs + kField).size();
  for (std::size_t cut = (kNext + kAdmin).size(); cut < fields.size(); ++cut) {
    const std::string found = code(fields.substr(0, cut));
    if (cut == without_count) {
      EXPECT_EQ(found, "");
    } else if (cut == (kNext + kAdmin).size() || cut == (kNext + kAdmin + kNs).size()) {
      EXPECT_EQ(found, "40414");
    } else {
      EXPECT_EQ(found, "22") << cut;
    }
  }
}

// ---- assign ----------------------------------------------------------------------------------

const std::string kAssign = string_field("idproxy", "assign");
std::string fault_of_filter(const std::string& fields) {
  return fault(kAssign + kNs + kField + doc_field("filter", fields) + kAdmin);
}

TEST(AssignRequest, NamesADocumentByEqualities) {
  for (const std::string& fields :
       {int_field("_id", 7), string_field("a.b", "x") + long_field("c", 1),
        doc_field("_id", int_field("a", 1)), bool_field("b", true)}) {
    EXPECT_EQ(fault_of_filter(fields), "");
  }
  const std::string text =
      "2 BSON field 'idproxy.filter' must name one document by the values of its fields, {_id: 7} "
      "or those of a unique index: no operators, null, arrays or regular expressions";
  for (const std::string& fields :
       {element(bson::Type::null, "code", ""), array_field("code", {}),
        doc_field("_id", doc_field("$gt", "")), doc_field("_id", ""), array_field("$or", {}),
        int_field("a", 1) + element(bson::Type::null, "b", "")}) {
    EXPECT_EQ(fault_of_filter(fields), text);
  }
  EXPECT_EQ(fault_of_filter(""),
            "2 BSON field 'idproxy.filter' must name one document, and is empty");
}

TEST(AssignRequest, HasAFilterAndNoCount) {
  const std::string filter = doc_field("filter", int_field("_id", 1));
  EXPECT_EQ(code(kAssign + kNs + kField + filter + kAdmin), "");
  EXPECT_EQ(code(kAssign + kNs + kField + kAdmin), "40414");
  EXPECT_EQ(code(kAssign + kNs + kField + string_field("filter", "x") + kAdmin), "14");
  EXPECT_EQ(code(kAssign + kNs + kField + filter + int_field("count", 1) + kAdmin), "40415");
  EXPECT_EQ(code(kNext + kNs + kField + filter + kAdmin), "40415");
  EXPECT_EQ(code(kAssign + kNs + kField + filter + filter + kAdmin), "40413");
}

TEST(AssignRequest, MayBeInATransaction) {
  const std::string transaction = long_field("txnNumber", 1) + bool_field("autocommit", false);
  EXPECT_EQ(code(kAssign + kNs + kField + doc_field("filter", int_field("_id", 1)) + transaction +
                 kAdmin),
            "");
}

}  // namespace field_request_test
}  // namespace idproxy::rewrite
