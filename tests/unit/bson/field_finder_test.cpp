#include "idproxy/bson/field_finder.hpp"

#include <gtest/gtest.h>

#include "support/found_by_walk.hpp"
#include "support/messages.hpp"

namespace idproxy::bson {
namespace field_finder_test {

using namespace test;

// Names around the length of a word, of which some begin alike.
const std::string_view kNames[] = {"_id",
                                   "a",
                                   "number",
                                   "numbers",
                                   "eightlen",
                                   "eightle",
                                   "eightlens",
                                   "eightlensX",
                                   "",
                                   "_id",
                                   "a-name-of-more-than-sixteen-bytes"};

void expect_same(std::string_view bytes) {
  const Exact exact(bytes);
  const auto document = document_at(exact.view());
  if (!document) return;
  EXPECT_EQ(found_by_finder(*document, kNames), found_by_walk(*document, kNames))
      << ::testing::PrintToString(bytes);
}

/// All names, with values of several types and sizes in between.
std::string sample() {
  std::string fields;
  int i = 0;
  for (const std::string_view name : kNames) {
    ++i;
    fields += int_field(name, i) + string_field("s" + std::to_string(i), "text") +
              doc_field("numberx", int_field("number", 1)) + element(Type::null, "n", "") +
              array_field("array", {doc()});
  }
  return fields;
}

TEST(FieldFinder, FindsNamesOfEveryLengthAtEveryDistanceFromTheEnd) {
  for (const std::string_view name : kNames) {
    for (std::size_t before = 0; before < 12; ++before) {
      for (std::size_t behind = 0; behind < 12; ++behind) {
        const std::string front = before == 0 ? "" : bool_field(std::string(before, 'x'), true);
        const std::string back =
            behind == 0 ? "" : element(Type::null, std::string(behind, 'y'), "");
        expect_same(doc(front + element(Type::null, name, "") + back));
        expect_same(doc(front + int_field(name, 1) + back + int_field(name, 2)));
      }
    }
  }
}

TEST(FieldFinder, FindsThemAllAndTellsTheFirst) {
  const std::string bytes = doc(sample());
  expect_same(bytes);
  const Exact exact(bytes);
  const std::string found = found_by_finder(exact.view(), kNames);
  EXPECT_TRUE(found.starts_with("4! ")) << found;
  EXPECT_EQ(found.find('-'), std::string::npos) << found;
}

TEST(FieldFinder, AgreesWithTheWalkWhateverOneByteIs) {
  const std::string bytes = doc(sample());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char byte :
         {'\0', '\1', '\2', '\3', '\4', '\5', '\x0b', '\x0f', '\x7f', '\x80', '\xff', 'a'}) {
      std::string changed = bytes;
      changed[at] = byte;
      expect_same(changed);
    }
  }
}

TEST(FieldFinder, AgreesWithTheWalkWhereverTheDocumentEnds) {
  const std::string bytes = doc(sample());
  for (std::size_t size = kMinDocument; size < bytes.size(); ++size) {
    std::string cut = bytes.substr(0, size);
    store_i32(reinterpret_cast<std::uint8_t*>(cut.data()), static_cast<std::int32_t>(size));
    cut.back() = '\0';
    expect_same(cut);
  }
}

TEST(FieldFinder, StopsOnceAllAreFound) {
  const std::string bytes =
      doc(int_field("_id", 1) + int_field("a", 2) + element(Type{0x66}, "b", ""));
  const Exact exact(bytes);
  FieldFinder finder;
  finder.add("a");
  finder.add("_id");
  EXPECT_EQ(finder.all(), 3U);
  FieldFinder::Places places{};
  const auto found = finder.find(exact.view(), FieldFinder::Until::all_found, places);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->there, 3U);
  EXPECT_EQ(found->twice, 0U);
  EXPECT_FALSE(finder.find(exact.view(), FieldFinder::Until::the_end, places));
}

TEST(FieldFinder, TakesTheMostNames) {
  FieldFinder finder;
  for (std::size_t i = 0; i < FieldFinder::kMost; ++i) finder.add(i % 2 == 0 ? "a" : "b");
  const std::string bytes = doc(int_field("b", 1));
  const Exact exact(bytes);
  FieldFinder::Places places{};
  EXPECT_EQ(finder.find(exact.view(), FieldFinder::Until::the_end, places)->there, 0xaaaaaaaaU);
}

}  // namespace field_finder_test
}  // namespace idproxy::bson
