#include "idproxy/bson/field_finder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// With a finder that has seen only this document, until it knows its shape and tries it; with one
/// whose shape is that of the document before; and with one that has seen others before.
void expect_same(std::string_view bytes) {
  const Exact exact(bytes);
  const auto document = document_at(exact.view());
  if (!document) return;
  const std::string expected = found_by_walk(*document, kNames);
  static FieldFinder experienced(kNames);
  static std::string before;
  FieldFinder fresh(kNames);
  FieldFinder of_before(kNames);
  for (int i = 0; i < 3 && !before.empty(); ++i) {
    static_cast<void>(found_by_finder(Exact(before).view(), kNames, of_before));
  }
  before = bytes;
  for (FieldFinder* finder :
       {&fresh, &fresh, &fresh, &fresh, &of_before, &experienced, &experienced}) {
    EXPECT_EQ(found_by_finder(*document, kNames, *finder), expected)
        << ::testing::PrintToString(bytes);
  }
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
  FieldFinder finder(kNames);
  const std::string found = found_by_finder(exact.view(), kNames, finder);
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
  FieldFinder finder(std::array<std::string_view, 2>{"a", "_id"});
  FieldFinder::Places places{};
  FieldFinder::Found found;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(finder.find(exact.view(), FieldFinder::Until::all_found, found, places));
    EXPECT_EQ(found.there, 3U);
    EXPECT_EQ(found.twice, 0U);
    EXPECT_FALSE(finder.find(exact.view(), FieldFinder::Until::the_end, found, places));
  }
}

TEST(FieldFinder, TakesTheMostNames) {
  std::array<std::string_view, FieldFinder::kMost> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = i % 2 == 0 ? "a" : "b";
  FieldFinder finder(names);
  const std::string bytes = doc(int_field("b", 1));
  const Exact exact(bytes);
  FieldFinder::Places places{};
  FieldFinder::Found found;
  EXPECT_TRUE(finder.find(exact.view(), FieldFinder::Until::the_end, found, places));
  EXPECT_EQ(found.there, 0xaaaaaaaaU);
}

/// Type, name and NUL up to, at and beyond the sizes that it compares at once, and remembers.
TEST(FieldFinder, TellsNamesApartThatBeginAlike) {
  for (const char byte : {'x', '\xff'}) {
    for (std::size_t same = 0; same < 50; ++same) {
      const std::string front(same, byte);
      expect_same(doc(int_field(front, 1) + int_field("number", 2)));
      expect_same(doc(int_field(front + "y", 1) + int_field("number", 2)));
      expect_same(doc(int_field(front + "yz", 1) + int_field("number", 2)));
      expect_same(doc(string_field(front + "y", "number") + int_field("number", 2)));
    }
  }
}

/// Documents that lack fields, have others in between, or have them in another order.
TEST(FieldFinder, FindsNamesInDocumentsThatAreNotAlike) {
  std::vector<std::string> fields;
  for (int i = 0; i < 24; ++i) {
    fields.push_back(i % 3 == 0 ? string_field("s" + std::to_string(i), "text")
                                : int_field("a" + std::to_string(i), i));
  }
  fields[11] = int_field("number", 1);
  fields[17] = doc_field("_id", int_field("number", 1));
  std::uint32_t random = 1;
  for (int round = 0; round < 500; ++round) {
    std::string some;
    for (const std::string& field : fields) {
      random = random * 1664525 + 1013904223;
      if (random >> 30 != 0) some += field;
    }
    expect_same(doc(some));
    if (round % 7 == 0) std::swap(fields[random >> 8 & 15], fields[random >> 12 & 15]);
  }
}

/// A sub-document whose length would be read across the document's end.
TEST(FieldFinder, ReadsNothingBehindTheDocument) {
  const std::string name(13, 'x');
  expect_same(doc(doc_field(name, int_field("number", 1)) + int_field("a", 1)));
  for (std::size_t size = 0; size < 8; ++size) {
    expect_same(doc(element(Type::document, name, std::string(size, '\0'))));
    expect_same(doc(element(Type::string, name, std::string(size, '\0'))));
  }
}

TEST(FieldFinder, WalksDocumentsWithMoreElementsThanItRemembers) {
  std::string fields;
  for (int i = 0; i < 100; ++i) fields += int_field("f" + std::to_string(i), i);
  fields += int_field("number", 1);
  expect_same(doc(fields));
  expect_same(doc(int_field("optional", 1) + fields));
  expect_same(doc(fields));
}

}  // namespace field_finder_test
}  // namespace idproxy::bson
