#include "id_store/field_numbers.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "id_store/stored_value.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterField;
using ids::NumberFormat;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

constexpr std::size_t kPage = 1000;
constexpr int kMostPages = 200;   // of taken numbers only: the next job goes on behind them
constexpr int kEnoughPages = 10;  // for a row of the wished length
constexpr std::int32_t kMaxTimeMs = 5000;

std::string command_of(const CounterField& field, const Namespace& ns) {
  return create_index_command(ns.db, ns.collection, field.field);
}

ids::CounterReply unreadable(const Namespace& ns, const Reply& reply) {
  if (reply.kind != Reply::Kind::refused) return failed("the id store does not answer");
  if (reply.code == mongo::kUnauthorized) {
    return exhausted("the id store's user may not read " + ns.text() +
                     ": grant it find, listCollections and listIndexes there");
  }
  return failed("reading " + ns.text() + " was answered with error " + std::to_string(reply.code));
}

bool is_set(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key);
  return element && element->as_integer().value_or(0) != 0;
}

/// An ordinary ascending or descending index, all documents in it, whose first field is `field`.
bool begins_with(Bytes index, std::string_view field) {
  const auto key = bson::find(index, "key");
  if (!key || key->type != bson::Type::document) return false;
  const auto first = bson::Elements(key->value).next();
  return first && first->key == field && first->type != bson::Type::string &&
         !is_set(index, "hidden") && !bson::find(index, "partialFilterExpression") &&
         !bson::find(index, "collation");
}

bool has_one_field(Bytes index) {
  bson::Elements elements(bson::find(index, "key")->value);
  return elements.next() && !elements.next();
}

Document find(const Namespace& ns, std::string_view field, const Document& filter) {
  Document projection;
  projection.add("_id", field == "_id" ? 1 : 0);
  if (field != "_id") projection.add(field, 1);
  return Document()
      .add("find", ns.collection)
      .add("filter", Document().add(field, filter))
      .add("projection", projection)
      .add("maxTimeMS", kMaxTimeMs);
}

Array values_of(std::span<const std::int64_t> numbers, const NumberFormat& format) {
  Array values;
  for (const std::int64_t number : numbers) {
    if (format.output == NumberFormat::Output::string) {
      values.push(ids::number_text(number, format));
    } else {
      values.push(number);
    }
  }
  return values;
}

std::optional<std::int64_t> number_in(Bytes document, const CounterField& field) {
  const auto element = find_path(document, field.field);
  if (!element) return std::nullopt;
  if (field.format.output != NumberFormat::Output::string) return floor_of(*element);
  return ids::read_number(element->type, element->value, field.format);
}

/// Looks for a row of `count` free numbers among candidates in their order.
class Row {
 public:
  explicit Row(std::uint64_t count) : count_(count) {}
  void see(std::int64_t number, bool is_taken) {
    if (is_taken) {
      row_ = {};
    } else if (row_.count++ == 0) {
      row_.first = number;
    }
    if (row_.count > longest_.count) longest_ = row_;
  }
  [[nodiscard]] bool is_done() const { return longest_.count >= count_; }
  [[nodiscard]] const ids::Range& longest() const { return longest_; }

 private:
  std::uint64_t count_;
  ids::Range row_{};
  ids::Range longest_{};
};

}  // namespace

Outcome<FieldNumbers::Indexed> FieldNumbers::indexed(const CounterField& field,
                                                     const Namespace& ns) {
  if (field.field == "_id") return Indexed{true, true};
  Indexed result;
  const Reply reply =
      client_.read_all(ns.db, Document().add("listIndexes", ns.collection), [&](Bytes index) {
        if (!begins_with(index, field.field)) return true;
        result.is_indexed = true;
        result.is_unique = result.is_unique || (is_set(index, "unique") && has_one_field(index));
        return true;
      });
  if (!reply.ok() && !reply.refused(mongo::kNamespaceNotFound)) return unreadable(ns, reply);
  return result;
}

Outcome<bool> FieldNumbers::is_empty(const Namespace& ns) {
  bool empty = true;
  const Reply reply =
      client_.read_all(ns.db, find(ns, "_id", Document().add("$exists", true)).add("limit", 1),
                       [&](Bytes) { return empty = false; });
  if (!reply.ok()) return unreadable(ns, reply);
  return empty;
}

Outcome<void> FieldNumbers::add_place(const CounterField& field, const Namespace& ns,
                                      std::vector<Place>& places) {
  const auto found = indexed(field, ns);
  if (!found) return found.error();
  if (!found->is_indexed) {
    const auto empty = is_empty(ns);
    if (!empty) return empty.error();
    if (!*empty) {
      return exhausted("what " + field.field + " holds in " + ns.text() +
                       " cannot be read without an index: " + command_of(field, ns));
    }
  }
  places.push_back({&field, ns, found->is_unique, !found->is_indexed});
  return {};
}

Outcome<std::vector<FieldNumbers::Place>> FieldNumbers::places() {
  std::vector<Place> places;
  for (const CounterField& field : fields_) {
    std::vector<Namespace> found;
    const Reply reply = find_namespaces(client_, field.ns, found);
    if (!reply.ok()) return unreadable(split_namespace(field.ns), reply);
    for (const Namespace& ns : found) {
      const auto added = add_place(field, ns, places);
      if (!added) return added.error();
    }
  }
  return places;
}

/// True if strings of this format sort as their numbers do: all have the same number of digits.
bool FieldNumbers::is_sorted(const NumberFormat& format) const {
  if (format.output != NumberFormat::Output::string) return true;
  const std::int64_t lowest = std::min(spec_.start, spec_.max);
  const std::int64_t highest = std::max(spec_.start, spec_.max);
  return lowest >= 0 && std::to_string(highest).size() <= format.pad;
}

Outcome<FieldNumbers::Most> FieldNumbers::most() {
  const auto all = places();
  if (!all) return all.error();
  Most most;
  for (const Place& place : *all) {
    most.is_guarded = most.is_guarded && place.is_guarded;
    if (place.is_empty) continue;
    most.is_known = most.is_known && is_sorted(place.field->format);
    if (!is_sorted(place.field->format)) continue;
    const bool is_text = place.field->format.output == NumberFormat::Output::string;
    const auto found = is_text ? most_text(place) : most_number(place);
    if (!found) return found.error();
    if (*found) most.number = most.number ? numbers_.further(*most.number, **found) : **found;
  }
  return most;
}

/// Without the brackets, strings and ObjectIds would sort behind all numbers. Nothing beyond the
/// counter's max will ever be in its way.
Outcome<std::optional<std::int64_t>> FieldNumbers::most_number(const Place& place) {
  Document bracket;
  bracket.add("$gte", numbers_.upwards() ? INT64_MIN : spec_.max);
  bracket.add("$lte", numbers_.upwards() ? spec_.max : INT64_MAX);
  const Document sort = Document().add(place.field->field, numbers_.upwards() ? -1 : 1);
  std::optional<std::int64_t> most;
  const Reply reply = client_.read_all(
      place.ns.db, find(place.ns, place.field->field, bracket).add("sort", sort).add("limit", 1),
      [&](Bytes document) {
        most = number_in(document, *place.field);
        return false;
      });
  if (!reply.ok()) return unreadable(place.ns, reply);
  return most;
}

/// All strings that begin with the prefix and a digit; those that are none of ours are skipped.
Outcome<std::optional<std::int64_t>> FieldNumbers::most_text(const Place& place) {
  const NumberFormat& format = place.field->format;
  Document bracket;
  bracket.add("$gte", format.prefix + "0").add("$lt", format.prefix + ":");  // ':' follows '9'
  const Document sort = Document().add(place.field->field, numbers_.upwards() ? -1 : 1);
  const std::size_t width = format.prefix.size() + format.pad + format.suffix.size();
  std::optional<std::int64_t> most;
  const Reply reply =
      client_.read_all(place.ns.db, find(place.ns, place.field->field, bracket).add("sort", sort),
                       [&](Bytes document) {
                         const auto element = find_path(document, place.field->field);
                         if (!element || element->type != bson::Type::string) return true;
                         if (element->text().size() != width) return true;
                         most = number_in(document, *place.field);
                         if (most && numbers_.is_beyond_max(*most)) most.reset();
                         return !most;
                       });
  if (!reply.ok()) return unreadable(place.ns, reply);
  return most;
}

/// The next numbers, up to the counter's max.
std::vector<std::int64_t> FieldNumbers::page(std::int64_t from) const {
  std::vector<std::int64_t> numbers;
  std::optional<std::int64_t> next = from;
  while (next && !numbers_.is_beyond_max(*next) && numbers.size() < kPage) {
    numbers.push_back(*next);
    next = numbers_.after(*next);
  }
  return numbers;
}

Outcome<std::set<std::int64_t>> FieldNumbers::taken(const std::vector<Place>& places,
                                                    std::span<const std::int64_t> numbers) {
  std::set<std::int64_t> taken;
  for (const Place& place : places) {
    if (place.is_empty) continue;
    const Document among = Document().add("$in", values_of(numbers, place.field->format));
    const Reply reply = client_.read_all(
        place.ns.db, find(place.ns, place.field->field, among), [&](Bytes document) {
          if (const auto number = number_in(document, *place.field)) taken.insert(*number);
          return true;
        });
    if (!reply.ok()) return unreadable(place.ns, reply);
  }
  return taken;
}

Outcome<ids::Range> FieldNumbers::first_free(std::int64_t from, std::uint64_t count) {
  const auto all = places();
  if (!all) return all.error();
  Row row(count);
  std::optional<std::int64_t> next = from;
  for (int looked = 0; next && looked < kMostPages; ++looked) {
    const std::vector<std::int64_t> candidates = page(*next);
    if (candidates.empty()) break;
    const auto found = taken(*all, candidates);
    if (!found) return found.error();
    for (const std::int64_t number : candidates) {
      row.see(number, found->contains(number));
      if (row.is_done()) return row.longest();
    }
    next = numbers_.after(candidates.back());
    if (row.longest().count > 0 && looked + 1 >= kEnoughPages) break;
  }
  if (row.longest().count > 0) return row.longest();
  if (!next || numbers_.is_beyond_max(*next))
    return exhausted("all numbers up to its max are taken");
  return ids::Range{*next, 0};
}

}  // namespace idproxy::id_store
