#include "config/names.hpp"

#include <gtest/gtest.h>

namespace idproxy::config {
namespace names_test {

TEST(Names, TakesNamespacesThatRulesMayTouch) {
  for (const char* ns :
       {"shop.orders", "shop.orders.2024", "shop.*", "*", "**", "*.orders", "sh?p.orders", "sh?p",
        "shop*", "?*.?*", "a.b", "administration.x", "localx.y", "admin*.x", "*.system.x",
        "shop.systems", "shop.a b", "idproxy2.x"}) {
    EXPECT_EQ(fault_of_ns(ns, "idproxy"), "") << ns;
  }
}

TEST(Names, RefusesWhatIsNoNamespace) {
  for (const char* ns : {"shop", ".orders", "shop.", ".", "?", "??", "", "..", ".*", "*.",
                         "sh/op.orders", "sh op.orders", "shop.$cmd", "shop..orders", "shop.a."}) {
    EXPECT_NE(fault_of_ns(ns, "idproxy"), "") << ns;
  }
  EXPECT_NE(fault_of_ns(std::string(64, 'd') + ".c", "idproxy"), "");
  EXPECT_EQ(fault_of_ns(std::string(63, 'd') + ".c", "idproxy"), "");
  EXPECT_NE(fault_of_ns("db." + std::string(253, 'c'), "idproxy"), "");
  EXPECT_EQ(fault_of_ns("db." + std::string(252, 'c'), "idproxy"), "");
}

TEST(Names, SaysWhyANamespaceIsNeverTouched) {
  EXPECT_EQ(fault_of_ns("admin.x", "idproxy"),
            "'admin.x' is never touched: the databases admin, config and local belong to the "
            "server");
  for (const char* ns : {"config.*", "local.oplog.rs", "admin.*"}) {
    EXPECT_NE(fault_of_ns(ns, "idproxy"), "") << ns;
  }
  EXPECT_EQ(fault_of_ns("ids.counters", "ids"),
            "'ids.counters' is never touched: 'ids' is id_store.db, the proxy's own database");
  EXPECT_EQ(
      fault_of_ns("shop.system.views", "idproxy"),
      "'shop.system.views' is never touched: collections named system.* belong to the server");
  EXPECT_NE(fault_of_ns("shop.system.*", "idproxy"), "");
}

TEST(Names, TakesDottedPaths) {
  for (const char* field : {"_id", "number", "registration.number", "a.b.c", "12", "a.1b", "_ids.x",
                            "a$", "a b", "caf\xc3\xa9.x"}) {
    EXPECT_EQ(fault_of_field(field), "") << field;
  }
}

TEST(Names, RefusesPathsThatCannotBeAssigned) {
  for (const char* field : {"", ".", "a.", ".a", "a..b", "$a", "a.$b", "_id.x", "a.0", "a.12.b"}) {
    EXPECT_NE(fault_of_field(field), "") << field;
  }
  std::string deep = "a";
  for (int i = 0; i < 99; ++i) deep += ".a";
  EXPECT_EQ(fault_of_field(deep), "");
  EXPECT_NE(fault_of_field(deep + ".a"), "");
}

TEST(Names, TakesPlainFields) {
  EXPECT_EQ(fault_of_plain_field("driver_id"), "");
  for (const char* field : {"_id", "a.b", "$a"})
    EXPECT_NE(fault_of_plain_field(field), "") << field;
}

TEST(Names, TakesNamesOfDatabases) {
  EXPECT_EQ(fault_of_database("idproxy"), "");
  for (const char* name : {"", "a.b", "a b", "a/b", "a\\b", "a\"b", "a$b"}) {
    EXPECT_NE(fault_of_database(name), "") << name;
  }
}

TEST(Names, ComparesPathsByTheirParts) {
  EXPECT_TRUE(is_prefix("a", "a"));
  EXPECT_TRUE(is_prefix("a", "a.b"));
  EXPECT_FALSE(is_prefix("a.b", "a"));
  EXPECT_FALSE(is_prefix("a", "ab"));
}

}  // namespace names_test
}  // namespace idproxy::config
