#include "idproxy/rewrite/plain_insert.hpp"

#include <gtest/gtest.h>

#include <random>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace plain_insert_test {

using namespace test;

/// Values of one type, of any sizes.
ids::Values values(std::mt19937& random, bson::Type type, std::size_t count) {
  ids::Values values;
  for (std::size_t i = 0; i < count; ++i) {
    if (type == bson::Type::string) {
      values.add_string(std::string(random() % 40, static_cast<char>('a' + random() % 26)));
      continue;
    }
    const std::size_t size = type == bson::Type::object_id ? 12 : type == bson::Type::int32 ? 4 : 8;
    std::uint8_t* at = values.add(type, size);
    for (std::size_t byte = 0; byte < size; ++byte) at[byte] = static_cast<std::uint8_t>(random());
  }
  return values;
}

std::string random_document(std::mt19937& random) {
  std::string elements;
  for (auto left = random() % 4; left > 0; --left) {
    const std::string key(random() % 6, static_cast<char>('a' + random() % 26));
    switch (random() % 4) {
      case 0:
        elements += int_field(key, static_cast<std::int32_t>(random()));
        break;
      case 1:
        elements += string_field(key, std::string(random() % 300, 's'));
        break;
      case 2:
        elements += doc_field(key, int_field("customer_id", 1));
        break;
      default:
        elements += long_field(key, static_cast<std::int64_t>(random()));
    }
  }
  return doc(elements);
}

/// Sections in either order, of any fields.
std::string random_insert(std::mt19937& random, std::size_t count) {
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < count; ++i) documents.push_back(random_document(random));
  std::string fields = insert_fields();
  if (random() % 2 == 0) fields += long_field("txnNumber", 1);
  if (random() % 2 == 0) fields += string_field("comment", std::string(random() % 900, 'c'));
  const std::string first = body(doc(fields));
  const std::string second = sequence("documents", documents);
  return op_msg(random() % 2 == 0 ? first + second : second + first,
                random() % 2 == 0 ? 0 : wire::flag::kExhaustAllowed);
}

std::optional<PlainInsert> recognise(const wire::OpMsgView& view) {
  static std::optional<BatchCommand> command;
  command = BatchCommand::read(view);
  return PlainInsert::recognise(view, *command);
}

TEST(PlainInsert, IsRestoredToTheByte) {
  std::mt19937 random(20250101);
  std::size_t all_copied = 0;
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = 1 + random() % 30;
    const std::string bytes = random_insert(random, count);
    const auto view = wire::OpMsgView::parse(as_bytes(bytes));
    const auto plain = recognise(*view);
    ASSERT_TRUE(plain);
    ASSERT_EQ(plain->documents(), count);
    constexpr bson::Type kTypes[] = {bson::Type::string, bson::Type::object_id, bson::Type::int32,
                                     bson::Type::int64};
    const ids::Values given = values(random, kTypes[random() % 4], count);
    wire::PatchedMessage patched;
    plain->patch(given, patched);
    if (!patched.borrows()) ++all_copied;
    Buffer sent;
    patched.copy(as_bytes(bytes), 0, sent);
    Buffer original;
    ids::Values restored;
    const Exact exact(as_text(sent.view()));
    PlainInsert::restore(exact.view(), original, restored);
    ASSERT_EQ(text_of(original.view()), bytes);
    ASSERT_EQ(restored.size(), count);
    ASSERT_EQ(restored.type(), given.type());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(text_of(restored[i]), text_of(given[i]));
  }
  EXPECT_GT(all_copied, 100U);  // of these the original is not kept
}

TEST(PlainInsert, IsOneWithSmallDocumentsWithoutId) {
  const auto one = [](const std::string& document) {
    return insert_sequence({doc(int_field("x", 1)), document});
  };
  const std::string at_limit = doc(string_field("s", std::string(1024 - 13, 's')));
  ASSERT_EQ(at_limit.size(), 1024U);
  const struct {
    const char* name;
    std::string bytes;
    bool plain;
  } rows[] = {
      {"empty documents", insert_sequence({doc(), doc()}), true},
      {"a name that ends so", one(doc(int_field("customer_id", 1))), true},
      {"a name that begins so", one(doc(int_field("_id2", 1))), true},
      {"_id", one(doc(int_field("_id", 1))), false},
      {"_id last", one(doc(int_field("x", 1) + int_field("_id", 1))), false},
      {"_id of MinKey", one(doc(element(bson::Type::min_key, "_id", ""))), false},
      {"_id of MaxKey", one(doc(element(bson::Type::max_key, "_id", ""))), false},
      {"_id below", one(doc(doc_field("a", int_field("_id", 1)))), false},
      {"as large as may be", one(at_limit), true},
      {"too large", one(doc(string_field("s", std::string(1024 - 12, 's')))), false},
      {"no documents", insert_sequence({}), false},
      {"an array", insert_array({doc()}), false},
      {"a checksum", insert_sequence({doc()}, wire::flag::kChecksumPresent), false},
      {"bytes behind the last document", insert_sequence({doc(), "ab"}), false},
      {"a document past its sequence", insert_sequence({i32(99) + doc().substr(4)}), false},
  };
  for (const auto& row : rows) {
    const Exact exact(row.bytes);
    const auto view = wire::OpMsgView::parse(exact.view());
    ASSERT_TRUE(view) << row.name;
    EXPECT_EQ(recognise(*view).has_value(), row.plain) << row.name;
  }
}

/// Wherever in the list `_id` stands, block borders included.
TEST(PlainInsert, OverlooksNoId) {
  for (std::size_t before = 0; before < 600; ++before) {
    const std::string bytes = insert_sequence(
        {doc(string_field("s", std::string(before, 's'))), doc(int_field("_id", 1)), doc()});
    const Exact exact(bytes);
    const auto view = wire::OpMsgView::parse(exact.view());
    ASSERT_FALSE(recognise(*view)) << before;
  }
}

}  // namespace plain_insert_test
}  // namespace idproxy::rewrite
