#include <algorithm>
#include <string>
#include <string_view>

#include "id_store/counter_commands.hpp"
#include "id_store/counter_document.hpp"

// Ranges: counters whose document also has their last number. Any program may use the document
// beside the proxies, and may count beyond the last number, so the server compares the two in the
// command that allocates.
namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

/// {operator: [a, b]}
template <class A, class B>
Document expression(std::string_view what, const A& a, const B& b) {
  return Document().add(what, Array().push(a).push(b));
}

/// True if the range stands at an integer, up to its last number. A double from 2^53 on is none.
Document has_numbers(const ids::CounterPlace& place) {
  const std::string count = "$" + place.value_field;
  const Document is_no_double = expression("$ne", Document().add("$type", count), "double");
  const Document is_integral =
      expression("$and", expression("$lt", count, kMostInDouble),
                 expression("$eq", count, Document().add("$trunc", count)));
  return expression("$and", expression("$lte", count, "$" + place.max_field),
                    expression("$or", is_no_double, is_integral));
}

}  // namespace

Document allocate_from_range(const ids::CounterPlace& place, const Document& query,
                             std::int64_t increment, std::optional<std::int64_t> from) {
  const Document stored = to_long(place.value_field);
  const Document first = from ? expression("$max", stored, *from) : stored;
  const Document behind_last = expression("$add", to_long(place.max_field), std::int64_t{1});
  const Document next = expression("$min", expression("$add", first, increment), behind_last);
  const Document set = Document().add("$set", Document().add(place.value_field, next));
  return Document()
      .add("findAndModify", place.collection)
      .add("query", Document(query).add("$expr", has_numbers(place)))
      .add("update", Array().push(set));
}

CounterDocument::Attempt CounterDocument::allocate_in_range(Run& run,
                                                            std::optional<std::int64_t> from) {
  const auto increment = numbers_.increment(run.count);
  if (!increment) return exhausted("the request is for more numbers than there are");
  const Reply reply = run.client.write(
      spec_.place.db, allocate_from_range(spec_.place, query(bound(*increment)), *increment, from));
  if (!reply.ok()) return after_failure(run, reply, true);
  if (const auto pre_image = value_of(reply)) return use_in_range(run, *pre_image, from);
  const auto found = read(run);
  if (!found) return found.error();
  return explain_range(run, *found);
}

CounterDocument::Attempt CounterDocument::use_in_range(Run& run, Bytes pre_image,
                                                       std::optional<std::int64_t> from) {
  const StoredValue value = stored_value(pre_image, spec_.place.value_field);
  const StoredValue last = stored_value(pre_image, spec_.place.max_field);
  if (!value.is_number() || !last.is_number()) return not_an_integer();
  const std::int64_t first = std::max(value.number, from.value_or(value.number));
  if (first > last.number) return at_max();
  if (first > value.number) events_.healed(first, "max");
  return allocated(run, first, std::min(run.count, Numbers::distance(last.number, first) + 1));
}

/// Why the range gives no numbers; nothing: try again.
CounterDocument::Attempt CounterDocument::explain_range(Run& run, const Found& found) {
  if (!found.exists) return exhausted("the document of a range is missing");
  const bool is_stuck =
      found.value.kind == StoredValue::Kind::integral_double && found.value.number >= kMostInDouble;
  if (!found.value.is_number() || !found.last.is_number() || is_stuck) return not_an_integer();
  if (found.value.number > std::min(found.last.number, numbers_.max())) return at_max();
  if (!numbers_.after(found.value.number, run.count)) return allocate_what_fits(run, {});
  return std::nullopt;  // another program has changed it meanwhile
}

}  // namespace idproxy::id_store
