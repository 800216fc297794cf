#include "id_store/hello_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {
namespace hello_guard_test {

using mongo::Array;
using mongo::Document;
using testing::EndsWith;
using testing::HasSubstr;

/// As a primary says it, with one field in place of its own.
std::string fault_with(const std::string& key, const Document& field) {
  Document hello;
  hello.add("ismaster", true).add("setName", "rs0").add("maxWireVersion", 17);
  hello.add("hosts", Array().push("db1:27017")).add("me", "db1:27017");
  Document changed;
  for (const char* each : {"ismaster", "setName", "maxWireVersion", "hosts", "me"}) {
    const auto element = bson::find(hello.bytes(), each);
    if (each != key) changed.add(each, element->type, element->value);
  }
  return fault_of_hello(changed.append(field).add("ok", 1.0).bytes());
}

// A25: what a server says of its set.
TEST(HelloGuard, RefusesMembersThatAreNoAddress) {
  for (const char* key : {"hosts", "passives", "arbiters"}) {
    EXPECT_EQ(fault_with(key, Document().add(key, Array().push("db1:1").push("[::1]:2"))), "");
    EXPECT_THAT(fault_with(key, Document().add(key, Array().push("db1:1").push("x:0"))),
                EndsWith(R"(must be a list of HOST:PORT, not "x:0")"));
    EXPECT_EQ(fault_with(key, Document().add(key, Array().push("bücher:1"))), "");
  }
  for (const char* key : {"me", "primary"}) {
    EXPECT_EQ(fault_with(key, Document().add(key, "db1:1")), "");
    EXPECT_EQ(fault_with(key, Document().add(key, "")), "");
    EXPECT_THAT(fault_with(key, Document().add(key, "x:0")),
                EndsWith(R"(must be a HOST:PORT, not "x:0")"));
  }
}

TEST(HelloGuard, RefusesOtherTypes) {
  Array many;
  for (int i = 0; i < 101; ++i) many.push("db1:27017");
  for (const char* key : {"hosts", "passives", "arbiters"}) {
    for (const Document& field :
         {Document().add(key, 1), Document().add(key, "db1:27017"), Document().add(key, Document()),
          Document().add(key, Array().push(1)), Document().add(key, Array().push(Document())),
          Document().add(key, many)}) {
      EXPECT_THAT(fault_with(key, field), HasSubstr("must be a list of HOST:PORT"));
    }
    EXPECT_EQ(fault_with(key, Document().add(key, Array())), "");
  }
  EXPECT_THAT(fault_with("setName", Document().add("setName", 1)), EndsWith("must be a name"));
  EXPECT_THAT(fault_with("setName", Document().add("setName", "")), EndsWith("must be a name"));
  EXPECT_THAT(fault_with("me", Document().add("me", 1)), EndsWith("me must be a HOST:PORT"));
  EXPECT_THAT(fault_with("", Document().add("compression", Array().push(1))),
              EndsWith("must be a list of names"));
  EXPECT_THAT(fault_with("", Document().add("msg", 1)), EndsWith("must be a text"));
  EXPECT_THAT(fault_with("", Document().add("speculativeAuthenticate", Array())),
              EndsWith("speculativeAuthenticate must be a document"));
  EXPECT_EQ(fault_with("", Document().add("speculativeAuthenticate", Document())), "");
  for (const Document& odd :
       {Document().add("maxWireVersion", -1), Document().add("maxWireVersion", 1001),
        Document().add("maxWireVersion", std::int64_t{17}),
        Document().add("maxWireVersion", "17")}) {
    EXPECT_THAT(fault_with("maxWireVersion", odd), EndsWith("a number from 0 to 1000"));
  }
}

TEST(HelloGuard, RefusesWhatIsNoDocument) {
  const Document whole = Document().add("hosts", Array().push("db1:27017"));
  for (std::size_t size = 0; size < whole.bytes().size(); ++size) {
    EXPECT_NE(fault_of_hello(whole.bytes().first(size)), "") << size;
  }
  std::string inside(as_text(whole.bytes()));
  inside[inside.find("db1") - 4] = '\x7f';  // the length of the member's name
  EXPECT_NE(fault_of_hello(as_bytes(inside)), "");
}

}  // namespace hello_guard_test
}  // namespace idproxy::id_store
