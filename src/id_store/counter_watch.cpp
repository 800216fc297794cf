#include "id_store/counter_watch.hpp"

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "id_store/numbers.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/scope.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;

// A key may have 400 bytes and more, and a command must stay below 16 MiB.
constexpr std::int32_t kMostInOneFind = 1000;

using ByKey = std::multimap<std::string_view, const WatchedCounter*>;

/// Everything but the key.
auto family_of(const ids::CounterPlace& place) {
  return std::tie(place.db, place.collection, place.key_field, place.value_field, place.filter);
}
using Family = decltype(family_of({}));

/// Finds the counters from `next` on, as many as fit, and advances it.
Document find_next(ByKey::const_iterator& next, ByKey::const_iterator end) {
  const ids::CounterPlace& place = next->second->spec.place;
  Array keys;
  for (std::int32_t n = 0; n < kMostInOneFind && next != end; ++n, ++next) {
    const ids::CounterPlace& each = next->second->spec.place;
    if (each.has_document_key()) {
      keys.push(Document(as_bytes(each.key)));
    } else {
      keys.push(each.key);
    }
  }
  Document filter;
  filter.add(place.key_field, Document().add("$in", keys));
  if (!place.filter.empty()) filter.append(Document(as_bytes(place.filter)));
  return Document()
      .add("find", place.collection)
      .add("filter", filter)
      .add("batchSize", kMostInOneFind);  // no getMore
}

void tell(const ByKey& family, Bytes document) {
  const ids::CounterPlace& place = family.begin()->second->spec.place;
  const auto key = bson::find(document, place.key_field);
  const StoredValue value = stored_value(document, place.value_field);
  if (!key || !value.is_number()) return;
  const bool is_text = key->type == bson::Type::string;
  if (!is_text && key->type != bson::Type::document) return;
  // Other programs may have written a number of the scope as another type.
  const auto scope = place.is_scope() ? ids::as_scope(key->value) : std::nullopt;
  const auto [begin, end] = family.equal_range(scope     ? *scope
                                               : is_text ? key->text()
                                                         : as_text(key->value));
  for (auto counter = begin; counter != end; ++counter) {
    const WatchedCounter& watched = *counter->second;
    const auto next = Numbers(watched.spec).first_at(value.number);
    if (next) watched.cache->watched(*next, watched.mark);
  }
}

}  // namespace

void read_counters(mongo::Client& client, std::span<const WatchedCounter> counters) {
  std::map<Family, ByKey> families;
  for (const WatchedCounter& counter : counters) {
    families[family_of(counter.spec.place)].emplace(counter.spec.place.key, &counter);
  }
  for (const auto& [place, family] : families) {
    for (auto next = family.begin(); next != family.end();) {
      (void)client.read_all(std::get<0>(place), find_next(next, family.end()), [&](Bytes document) {
        tell(family, document);
        return true;
      });
    }
  }
}

}  // namespace idproxy::id_store
