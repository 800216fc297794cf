#include "id_store/value_lookup.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "id_store/index.hpp"
#include "id_store/index_requests.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/id_store/stored_value.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Document;
using mongo::Reply;

constexpr std::int32_t kMaxTimeMs = 1000;

/// Equal for values that a unique index takes for equal, though an integer may have come back as
/// another type of number.
std::optional<std::string> key_of(const bson::Element& element) {
  if (element.type == bson::Type::string) return std::string(element.text());
  if (const auto number = element.as_integer()) return std::to_string(*number);
  return std::nullopt;
}

/// {field: {$in: [values], and the index's condition}}
Document filter_of(const std::string& field, const ids::Values& values, const Index& index) {
  Buffer bytes;
  bson::Scope document(bytes);
  bson::append_head(bytes, bson::Type::array, "$in");
  bson::Scope array(bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    bson::append_head(bytes, values.type(), std::to_string(i));
    bytes.append(values[i]);
  }
  array.close();
  document.close();
  Document condition(bytes.view());
  if (!index.partial.condition.empty()) {
    condition.append(Document(as_bytes(index.partial.condition)));
  }
  return Document().add(field, condition);
}

/// The best index to read the field: of all documents that have one, with few other keys.
const Index* best_of(const std::vector<Index>& indexes, const std::string& field, ValueType type) {
  const Index* best = nullptr;
  for (const Index& index : indexes) {
    if (!can_read(index, field, type) || index.hidden || index.building) continue;
    if (best == nullptr || index.keys.size() < best->keys.size()) best = &index;
  }
  return best;
}

}  // namespace

Reply look_up(mongo::Client& client, const Namespace& ns, const std::string& field,
              const ids::Values& values, std::vector<bool>& taken) {
  taken.assign(values.size(), false);
  std::vector<Index> indexes;
  Reply listed = list_indexes(client, ns, indexes);
  if (!listed.ok()) return listed;
  const Index* index = best_of(indexes, field, value_type_of(values.type()));
  if (index == nullptr) {
    Reply none;
    none.kind = Reply::Kind::refused;
    none.message = "no index on the field can be read";
    return none;
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auto key = key_of({values.type(), {}, values[i]})) places.emplace(*std::move(key), i);
  }
  Document projection;
  projection.add("_id", field == "_id" ? 1 : 0);
  if (field != "_id") projection.add(field, 1);
  Document command;
  command.add("find", ns.collection).add("filter", filter_of(field, values, *index));
  command.add("projection", projection).add("hint", index->name).add("maxTimeMS", kMaxTimeMs);
  command.add("batchSize", static_cast<std::int32_t>(values.size() + 1));
  return client.read_all(ns.db, command, [&](Bytes document) {
    const auto element = find_path(document, field);
    const auto key = element ? key_of(*element) : std::nullopt;
    const auto place = key ? places.find(*key) : places.end();
    if (place != places.end()) taken[place->second] = true;
    return true;
  });
}

}  // namespace idproxy::id_store
