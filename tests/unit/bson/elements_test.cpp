#include "idproxy/bson/elements.hpp"

#include <gtest/gtest.h>

#include "support/hex.hpp"
#include "support/messages.hpp"

namespace idproxy::bson {
namespace elements_test {

using namespace test;

/// Keys in order, "!" at the end if the walk stopped at something malformed.
std::string walk(std::string_view bytes) {
  const Exact exact(bytes);
  const auto document = document_at(exact.view());
  if (!document) return "no document";
  std::string keys;
  Elements elements(*document);
  while (const auto element = elements.next()) keys.append(element->key).append(" ");
  return elements.malformed() ? keys + "!" : keys;
}

struct Sized {
  const char* name;
  Type type;
  std::string value;
};
const Sized kEveryType[] = {
    {"double", Type::number_double, std::string(8, '\1')},
    {"string", Type::string, i32(3) + std::string("ab\0", 3)},
    {"string with NUL inside", Type::string, i32(4) + std::string("a\0b\0", 4)},
    {"document", Type::document, doc(int_field("x", 1))},
    {"array", Type::array, doc()},
    {"binary", Type::binary, i32(2) + std::string("\4ab", 3)},
    {"empty binary", Type::binary, i32(0) + std::string("\0", 1)},
    {"undefined", Type::undefined, ""},
    {"ObjectId", Type::object_id, std::string(12, 'o')},
    {"bool", Type::boolean, std::string(1, '\1')},
    {"date", Type::date, std::string(8, 'd')},
    {"null", Type::null, ""},
    {"regex", Type::regex, std::string("p\0i\0", 4)},
    {"empty regex", Type::regex, std::string("\0\0", 2)},
    {"DBPointer", Type::db_pointer, i32(2) + std::string("c\0", 2) + std::string(12, 'o')},
    {"code", Type::code, i32(2) + std::string("c\0", 2)},
    {"symbol", Type::symbol, i32(2) + std::string("c\0", 2)},
    {"code with scope", Type::code_with_scope,
     i32(4 + 6 + 5) + i32(2) + std::string("c\0", 2) + doc()},
    {"int32", Type::int32, i32(1)},
    {"timestamp", Type::timestamp, std::string(8, 't')},
    {"int64", Type::int64, std::string(8, 'l')},
    {"decimal128", Type::decimal128, std::string(16, 'm')},
    {"MinKey", Type::min_key, ""},
    {"MaxKey", Type::max_key, ""},
};

TEST(Elements, SucceedsWithEveryType) {
  for (const Sized& sized : kEveryType) {
    const std::string bytes =
        doc(element(sized.type, "first", sized.value) + int_field("second", 2));
    EXPECT_EQ(walk(bytes), "first second ") << sized.name;
    const auto found = find(as_bytes(bytes), "first");
    ASSERT_TRUE(found) << sized.name;
    EXPECT_EQ(as_text(found->value), sized.value) << sized.name;
    EXPECT_EQ(found->type, sized.type);
  }
}

TEST(Elements, FailsIfAnyValueIsCut) {
  for (const Sized& sized : kEveryType) {
    const std::string whole = element(sized.type, "k", sized.value);
    // Everything that is shorter than the element by 1 … its whole value, in a document whose own
    // length is right: the walk must stop inside it, or find the rest of another reading malformed.
    for (std::size_t cut = 3; cut < whole.size(); ++cut) {
      const Exact exact(doc(whole.substr(0, cut)));
      const auto document = document_at(exact.view());
      ASSERT_TRUE(document);
      Elements elements(*document);
      while (const auto element = elements.next()) {
        ASSERT_LE(element->end(), document->data() + document->size() - 1) << sized.name;
      }
    }
  }
}

TEST(Elements, FailsIfALengthLies) {
  const struct {
    const char* name;
    std::string elements;
  } rows[] = {
      {"string of length 0", element(Type::string, "k", i32(0) + '\0')},
      {"string of negative length", element(Type::string, "k", i32(-1) + std::string(8, '\0'))},
      {"string of largest length",
       element(Type::string, "k", i32(0x7fffffff) + std::string(8, '\0'))},
      {"string without NUL", element(Type::string, "k", i32(2) + "ab")},
      {"document of length 4", element(Type::document, "k", i32(4) + '\0')},
      {"document without NUL", element(Type::document, "k", i32(5) + 'x')},
      {"document past its parent", element(Type::document, "k", i32(100) + std::string(20, '\0'))},
      {"binary of negative length", element(Type::binary, "k", i32(-5) + std::string(8, '\0'))},
      {"code with scope of 13",
       element(Type::code_with_scope, "k", i32(13) + std::string(9, '\0'))},
      {"DBPointer past its parent",
       element(Type::db_pointer, "k", i32(2) + std::string("c\0oo", 4))},
      {"type 0x14", element(static_cast<Type>(0x14), "k", "")},
      {"type 0x80", element(static_cast<Type>(0x80), "k", "")},
      {"key without NUL", "\x10key"},
      {"terminator inside", std::string("\0\x10k\0", 4) + i32(1)},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(walk(doc(row.elements)).ends_with("!")) << row.name;
  }
}

TEST(DocumentAt, FailsIfItsLengthIsWrong) {
  const std::string good = doc(int_field("a", 1));
  EXPECT_EQ(to_hex(as_bytes(good)), "0c0000001061000100000000");
  EXPECT_EQ(walk(good), "a ");
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_EQ(walk(good.substr(0, cut)), "no document") << cut;
  }
  for (const std::int64_t length : {-1, 0, 4, 11, 13, 0x7fffffff}) {
    std::string bytes = good;
    // At 11 the last byte is a 00 of the value: a document, but no whole element in it.
    EXPECT_EQ(walk(bytes.replace(0, 4, i32(length))), length == 11 ? "!" : "no document") << length;
  }
  EXPECT_EQ(walk(good + "more"), "a ");
}

TEST(Element, ReadsNumbersAsMongoDoes) {
  const auto integer = [](Type type, std::string_view hex) {
    const auto value = from_hex(hex);
    const std::string bytes = doc(element(type, "n", text_of(value)));
    return find(as_bytes(bytes), "n")->as_integer();
  };
  EXPECT_EQ(integer(Type::int32, "FFFFFFFF"), -1);
  EXPECT_EQ(integer(Type::int64, "0000000001000000"), std::int64_t{1} << 32);
  EXPECT_EQ(integer(Type::number_double, "0000000000000840"), 3);
  EXPECT_EQ(integer(Type::number_double, "0000000000000C40"), std::nullopt);  // 3.5
  EXPECT_EQ(integer(Type::number_double, "000000000000F87F"), std::nullopt);  // NaN
  EXPECT_EQ(integer(Type::null, ""), std::nullopt);
  EXPECT_EQ(integer(Type::boolean, "01"), 1);
}

TEST(Elements, NeverLooksDeeperThanItsOwnLevel) {
  std::string deep = doc();
  for (int i = 0; i < 5'000; ++i) deep = doc(element(Type::document, "", deep));
  EXPECT_EQ(walk(deep), " ");
}

TEST(WellFormed, LooksAtEveryLevel) {
  const auto inside = [](const std::string& elements) {
    return doc(int_field("a", 1) + doc_field("b", element(Type::array, "c", doc(elements))));
  };
  const std::string pointer = element(Type::db_pointer, "0", i32(1) + std::string(13, '\0'));
  const struct {
    const char* name;
    std::string document;
    bool good;
  } rows[] = {
      {"plain", inside(int_field("0", 1) + string_field("1", "x")), true},
      {"true", inside(element(Type::boolean, "0", "\1")), true},
      {"neither true nor false", inside(element(Type::boolean, "0", "\2")), false},
      {"a string past its document", inside(element(Type::string, "0", i32(99) + "x")), false},
      {"an unknown type", inside(element(static_cast<Type>(0x20), "0", "")), false},
      {"deprecated", inside(pointer), false},
  };
  for (const auto& row : rows)
    EXPECT_EQ(well_formed(as_bytes(row.document), 10), row.good) << row.name;
  EXPECT_EQ(form_of(as_bytes(inside(pointer)), 10), Form::deprecated);
  const std::string neither = element(Type::boolean, "1", "\2");
  EXPECT_EQ(form_of(as_bytes(inside(pointer + neither)), 10), Form::malformed);
}

TEST(WellFormed, HasALimitOfLevels) {
  std::string deep = doc();
  for (int i = 1; i < 5'000; ++i) deep = doc(element(Type::document, "", deep));
  EXPECT_FALSE(well_formed(as_bytes(deep), 4'999));
  EXPECT_TRUE(well_formed(as_bytes(deep), 5'000));
}

}  // namespace elements_test
}  // namespace idproxy::bson
