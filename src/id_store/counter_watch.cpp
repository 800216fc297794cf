#include "id_store/counter_watch.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

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

/// `family`: counters that differ only in their keys.
Document find_all(std::span<const WatchedCounter* const> family) {
  const ids::CounterPlace& place = family.front()->spec.place;
  Array keys;
  for (const WatchedCounter* counter : family) {
    const ids::CounterPlace& each = counter->spec.place;
    if (each.key_is == ids::CounterPlace::KeyIs::text) {
      keys.push(each.key);
    } else {
      keys.push(Document(as_bytes(each.key)));
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

void read_family(mongo::Client& client, std::span<const WatchedCounter* const> family) {
  ByKey by_key;
  for (const WatchedCounter* counter : family) by_key.emplace(counter->spec.place.key, counter);
  (void)client.read_all(family.front()->spec.place.db, find_all(family), [&](Bytes document) {
    tell(by_key, document);
    return true;
  });
}

}  // namespace

void read_counters(mongo::Client& client, std::span<const WatchedCounter> counters) {
  std::vector<const WatchedCounter*> sorted;
  for (const WatchedCounter& counter : counters) sorted.push_back(&counter);
  const auto family = [](const WatchedCounter* counter) { return family_of(counter->spec.place); };
  std::ranges::sort(sorted, [&](const WatchedCounter* a, const WatchedCounter* b) {
    return family(a) < family(b);
  });
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto other = std::find_if(begin, sorted.end(), [&](const WatchedCounter* counter) {
      return family(counter) != family(*begin);
    });
    const auto end = other - begin > kMostInOneFind ? begin + kMostInOneFind : other;
    read_family(client, {begin, end});
    begin = end;
  }
}

}  // namespace idproxy::id_store
