#include "app/jobs/verify_commands.hpp"

#include <algorithm>
#include <utility>

#include "app/jobs/backfill_commands.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Array;
using id_store::mongo::Document;

constexpr std::int32_t kVerifyBatch = 5000;

Document exists(bool does) {
  return Document().add("$exists", does);
}

Document with_field(const VerifyTarget& target, bool has_it) {
  Document filter = Document(target.among).add(target.field, exists(has_it));
  return has_it ? filter : filter.append(only_those(target.when));
}

/// True if documents are in the index whenever they have the field. Of a sparse one with several
/// keys, too: one of them is enough.
bool holds_all(Bytes index, const std::string& field) {
  const auto partial = bson::document_in(index, "partialFilterExpression");
  const Document has_field = Document().add(field, exists(true));
  return !partial || std::ranges::equal(*partial, has_field.bytes());
}

bool is_in_byte_order(Bytes index) {
  return !bson::find(index, "collation") && !bson::find(index, "buildUUID") &&
         !bson::is_true(index, "hidden");
}

/// The first keys of the index, as many as are asked for; none if they are not all ascending or all
/// descending.
std::vector<std::string> keys_of(Bytes index, std::size_t count) {
  std::vector<std::string> keys;
  const auto described = bson::document_in(index, "key");
  if (!described) return keys;
  bson::Elements elements(*described);
  std::int64_t direction = 0;
  while (keys.size() < count) {
    const auto key = elements.next();
    const std::int64_t its = key ? key->as_integer().value_or(0) : 0;
    if (its == 0 || (direction != 0 && its != direction)) return {};
    direction = its;
    keys.emplace_back(key->key);
  }
  return keys;
}

bool is_ordered_by(const std::vector<std::string>& keys, const VerifyTarget& target) {
  return !keys.empty() && keys.back() == target.field &&
         std::is_permutation(keys.begin(), keys.end() - 1, target.scope.begin(),
                             target.scope.end());
}

Document verify_projection(const VerifyTarget& target) {
  std::vector<std::string> paths{target.field};
  paths.insert(paths.end(), target.scope.begin(), target.scope.end());
  paths.insert(paths.end(), target.beside.begin(), target.beside.end());
  std::ranges::sort(paths);
  return projection_of(paths);
}

}  // namespace

VerifyOrder verify_order(const VerifyTarget& target, std::span<const Document> indexes) {
  for (const Document& index : indexes) {
    std::vector<std::string> keys = keys_of(index.bytes(), target.scope.size() + 1);
    const bool will_do = is_in_byte_order(index.bytes()) &&
                         holds_all(index.bytes(), target.field) && is_ordered_by(keys, target);
    if (!will_do) continue;
    return {std::move(keys), std::string(bson::text_in(index.bytes(), "name"))};
  }
  VerifyOrder sorted{target.scope, {}};
  sorted.keys.push_back(target.field);
  return sorted;
}

Document count_verified(const VerifyTarget& target) {
  return Document()
      .add("count", target.ns.collection)
      .add("query", target.among)
      .add("collation", id_store::mongo::simple_collation());
}

Document count_without_field(const VerifyTarget& target) {
  return Document()
      .add("count", target.ns.collection)
      .add("query", with_field(target, false))
      .add("collation", id_store::mongo::simple_collation());
}

Document find_without_field(const VerifyTarget& target) {
  return Document()
      .add("find", target.ns.collection)
      .add("filter", with_field(target, false))
      .add("projection", Document().add("_id", 1))
      .add("collation", id_store::mongo::simple_collation())
      .add("limit", static_cast<std::int32_t>(VerifyFound::kExamples));
}

Document find_verified(const VerifyTarget& target, const VerifyOrder& order,
                       const std::string& concern) {
  Document sort;
  for (const std::string& key : order.keys) sort.add(key, 1);
  Document find = Document()
                      .add("find", target.ns.collection)
                      .add("filter", with_field(target, true))
                      .add("sort", sort)
                      .add("projection", verify_projection(target))
                      .add("batchSize", kVerifyBatch)
                      .add("collation", id_store::mongo::simple_collation());
  if (!concern.empty()) find.add("readConcern", Document().add("level", concern));
  return order.index.empty() ? find.add("allowDiskUse", true) : find.add("hint", order.index);
}

Document find_numbers(const VerifyTarget& target, const VerifiedSequence& sequence,
                      const VerifyRuns::Gap& among) {
  ids::Values values;
  for (std::int64_t number = among.first;; ++number) {
    ids::append_number(number, sequence.format, values);
    if (number == among.last) break;
  }
  Array any;
  for (std::size_t i = 0; i < values.size(); ++i) any.push(values.type(), values[i]);
  Document filter = sequence.scope.empty() ? Document() : Document(as_bytes(sequence.scope));
  filter.add(target.field, Document().add("$in", any));
  return Document()
      .add("find", target.ns.collection)
      .add("filter", filter)
      .add("projection", Document().add(target.field, 1))
      .add("collation", id_store::mongo::simple_collation());
}

}  // namespace idproxy::app::jobs
