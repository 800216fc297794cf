#include "id_store/advice.hpp"

#include <algorithm>
#include <string>

#include "id_store/counter_commands.hpp"
#include "id_store/field_places.hpp"
#include "id_store/index.hpp"
#include "id_store/number_texts.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::id_store::advice {
namespace {

/// None if an index does not help, as with a counter of several fields.
Commands unique_index(mongo::Client& client, Fields fields) {
  if (!can_be_guarded(fields)) return {};
  const ids::CounterField& field = fields.front();
  return advise_index(client, split_namespace(field.ns), unique_field(field));
}

/// The first alternative of a reason, or "".
std::string unique_index_or(Fields fields) {
  return can_be_guarded(fields) ? "make a unique index, or " : "";
}

}  // namespace

ids::Error not_sorted(mongo::Client& client, const ids::CounterSpec& spec, Fields fields) {
  const ids::NumberFormat& format = fields.front().format;
  const auto width = [&](std::int64_t number) {
    return ids::digits_in(number, format) + (number < 0 ? 1 : 0);
  };
  const std::string digits = std::to_string(std::max(width(spec.max), width(spec.start)));
  return exhausted(Reason{
      "the stored strings do not sort like their numbers, so that the highest number cannot "
      "be read: " +
          unique_index_or(fields) + "raise format.pad to " + digits + ", so that it covers max",
      ": ", unique_index(client, fields)});
}

ids::Error no_gap(mongo::Client& client, Fields fields) {
  if (can_be_guarded(fields)) {
    return exhausted(Reason{"free numbers are safe only if a unique index guards the field",
                            "; make it with ", unique_index(client, fields)});
  }
  const std::string cure = has_hidden(fields)
                               ? "set the counter's document by hand past the numbers in use"
                               : "set heal.mode to max";
  return exhausted(
      "free numbers are safe only if a unique index guards the field, which is impossible for a "
      "counter of several fields or collections: " +
      cure);
}

ids::Error no_hiding(mongo::Client& client, Fields fields, std::int64_t next) {
  const std::string why = "the counter has given out numbers up to " + std::to_string(next - 1) +
                          " that were not hidden: hidden ones may have their values, which only a "
                          "unique index on the field detects";
  if (can_be_guarded(fields)) {
    return exhausted(Reason{why, "; make it with ", unique_index(client, fields)});
  }
  return exhausted(why +
                   ", and a counter of several fields or collections can have none: give the "
                   "rule another `field` and `name`");
}

ids::Error too_far(mongo::Client& client, Fields fields) {
  return exhausted(Reason{"the largest stored number is more than heal.max_jump ahead: " +
                              unique_index_or(fields) + "raise heal.max_jump",
                          ": ", unique_index(client, fields)});
}

ids::Error no_room(mongo::Client& client, const ids::CounterSpec& spec, Fields fields,
                   std::int64_t value) {
  Reason advice{"the counter was lost, and numbers up to its max may be held by other proxies: " +
                    unique_index_or(fields) +
                    "stop every proxy, set the counter, and start them again",
                ": ", unique_index(client, fields)};
  advice.commands.append(set_by_hand(spec.place, value));
  return exhausted(std::move(advice));
}

}  // namespace idproxy::id_store::advice
