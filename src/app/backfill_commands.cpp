#include "app/backfill_commands.hpp"

#include <algorithm>
#include <array>

#include "app/value_text.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/zero_value.hpp"

namespace idproxy::app {
namespace {

using id_store::mongo::Array;
using id_store::mongo::Document;

/// {key: value}
Document of_one(std::string_view key, bson::Type type, Bytes value) {
  Buffer bytes;
  bson::Scope document(bytes);
  bson::append_head(bytes, type, key);
  bytes.append(value);
  document.close();
  return Document(bytes.view());
}

/// {key: _id} of a document.
Document of_id(std::string_view key, const BackfillId& id) {
  const auto element = bson::find(as_bytes(id), "_id");
  return element ? of_one(key, element->type, element->value) : Document();
}

void append_uuid_of_zeros(Buffer& out, std::string_view key, std::uint8_t subtype) {
  constexpr std::array<std::uint8_t, 16> kZeros{};
  bson::append_head(out, bson::Type::binary, key);
  out.append(std::array<std::uint8_t, 5>{kZeros.size(), 0, 0, 0, subtype});
  out.append(kZeros);
}

/// {$in: […]} of all that rewrite::is_zero() says of. 0 matches numbers of each type. Not "", but a
/// regular expression: some collations take other texts for equal to an empty one.
Document among_zeros() {
  Buffer zeros;
  bson::Scope array(zeros);
  bson::append_head(zeros, bson::Type::null, "0");
  bson::append_int32(zeros, "1", 0);
  bson::append_head(zeros, bson::Type::regex, "2");
  zeros.append(as_bytes(std::string_view("^\\z\0\0", 5)));  // the text, and no options
  bson::append_head(zeros, bson::Type::object_id, "3");
  zeros.append(std::array<std::uint8_t, 12>{});
  append_uuid_of_zeros(zeros, "4", 4);
  append_uuid_of_zeros(zeros, "5", 3);
  array.close();
  return of_one("$in", bson::Type::array, zeros.view());
}

/// That nothing is in the way at each part before the last one. An array matches the type of its
/// elements, too.
Array open_path(const std::string& path) {
  Array conditions;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    const std::string parent = path.substr(0, dot);
    const Document no_array = Document().add("$type", "array");
    Array either;
    either.push(Document().add(parent, Document().add("$exists", false)));
    either.push(Document().add(parent, Document().add("$type", "object").add("$not", no_array)));
    conditions.push(Document().add("$or", either));
  }
  return conditions;
}

bool lies_within(const std::string& path, const std::string& parent) {
  return path == parent || path.starts_with(parent + ".");
}

/// The _id and the fields beside it. A server refuses a path and one within it.
Document projection_of(const BackfillTarget& target) {
  std::vector<std::string> shown{"_id"};
  for (const std::string& path : target.beside) {
    if (std::ranges::any_of(shown, [&](const auto& each) { return lies_within(path, each); })) {
      continue;
    }
    std::erase_if(shown, [&](const auto& each) { return lies_within(each, path); });
    shown.push_back(path);
  }
  Document projection;
  for (const std::string& path : shown) projection.add(path, 1);
  return projection;
}

bool has_parents(const BackfillTarget& target) {
  return target.field.find('.') != std::string::npos;
}

}  // namespace

BackfillId id_of(Bytes document) {
  const auto id = bson::find(document, "_id");
  if (!id) return {};
  Buffer bytes;
  bson::Scope scope(bytes);
  bson::append_copy(bytes, *id);
  scope.close();
  return BackfillId(as_text(bytes.view()));
}

Document without_value(const BackfillTarget& target) {
  if (target.lacks == BackfillTarget::Lacks::field) {
    return Document().add(target.field, Document().add("$exists", false));
  }
  const Document no_array = Document().add("$type", "array");  // an array with a null is a value
  Document none = target.lacks == BackfillTarget::Lacks::field_or_value
                      ? of_one("$eq", bson::Type::null, {})
                      : among_zeros();
  return Document().add(target.field, none.add("$not", no_array));
}

bool is_none(const BackfillTarget& target, const bson::Element& value) {
  switch (target.lacks) {
    case BackfillTarget::Lacks::field:
      return false;
    case BackfillTarget::Lacks::field_or_value:
      return value.type == bson::Type::null;
    case BackfillTarget::Lacks::value_or_zero:
      break;
  }
  return rewrite::is_zero(value);
}

Document without_value_and_open(const BackfillTarget& target) {
  Document filter = without_value(target);
  if (has_parents(target)) filter.add("$and", open_path(target.field));
  return filter;
}

std::optional<Document> without_value_and_blocked(const BackfillTarget& target) {
  if (!has_parents(target)) return std::nullopt;
  const Document is_open = Document().add("$and", open_path(target.field));
  return without_value(target).add("$nor", Array().push(is_open));
}

Document count_documents(const BackfillTarget& target, const Document& filter) {
  return Document().add("count", target.ns.collection).add("query", filter);
}

Document find_ids(const BackfillTarget& target, const Document& filter, const BackfillOrder& order,
                  std::int32_t batch) {
  return Document()
      .add("find", target.ns.collection)
      .add("filter", filter)
      .add("sort", Document().add(order.field, order.direction))
      .add("projection", projection_of(target))
      .add("batchSize", batch)
      .add("allowDiskUse", true);
}

Document update_of(const BackfillTarget& target, std::span<const BackfillId> ids,
                   const ids::Values& values) {
  const Document lacks = without_value(target);
  Array updates;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Document query = Document().add("_id", of_id("$eq", ids[i])).append(lacks);
    const Document change = Document().add("$set", of_one(target.field, values.type(), values[i]));
    updates.push(Document().add("q", query).add("u", change));
  }
  return Document().add("update", target.ns.collection).add("updates", updates);
}

void add_uuid(const ids::CollectionUuid& uuid, Document& update) {
  bson_append_binary(update.get(), "collectionUUID", -1, BSON_SUBTYPE_UUID, uuid.data(),
                     static_cast<std::uint32_t>(uuid.size()));
}

Document update_of_nothing(const BackfillTarget& target) {
  const Document nothing = Document().add("_id", Document().add("$in", Array()));
  const Document change = Document().add("$set", Document().add(target.field, 0));
  return Document()
      .add("update", target.ns.collection)
      .add("updates", Array().push(Document().add("q", nothing).add("u", change)));
}

Document find_values(const BackfillTarget& target, std::span<const BackfillId> ids) {
  Document keys;
  for (std::size_t i = 0; i < ids.size(); ++i) keys.append(of_id(std::to_string(i), ids[i]));
  Document among;
  bson_append_array(among.get(), "$in", -1, keys.get());
  const auto most = static_cast<std::int32_t>(ids.size());
  return Document()
      .add("find", target.ns.collection)
      .add("filter", Document().add("_id", among))
      .add("projection", Document().add(target.field, 1))
      .add("batchSize", most);
}

std::string show_without_value(const BackfillTarget& target) {
  static constexpr std::array<std::string_view, 3> kConditions{
      "{$exists: false}", "null",
      "{$in: [null, 0, \"\", ObjectId(\"000000000000000000000000\"), "
      "UUID(\"00000000-0000-0000-0000-000000000000\"), BinData(3, \"AAAAAAAAAAAAAAAAAAAAAA==\")]}"};
  return "db.getSiblingDB(" + in_quotes(target.ns.db) + ").getCollection(" +
         in_quotes(target.ns.collection) + ").find({" + in_quotes(target.field) + ": " +
         std::string(kConditions[static_cast<std::size_t>(target.lacks)]) + "})";
}

}  // namespace idproxy::app
