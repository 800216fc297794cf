#include "id_store/advice.hpp"

#include <algorithm>
#include <string>

#include "id_store/counter_commands.hpp"
#include "id_store/field_places.hpp"
#include "id_store/index.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store::advice {
namespace {

std::string unique_index(mongo::Client& client, Fields fields) {
  const ids::CounterField& field = fields.front();
  return "make a unique index: " +
         advise_index(client, split_namespace(field.ns), unique_field(field));
}

/// The first alternative of a reason, or "": an index does not help a counter of several fields.
std::string unique_index_or(mongo::Client& client, Fields fields) {
  return can_be_guarded(fields) ? unique_index(client, fields) + " – or " : "";
}

}  // namespace

ids::CounterReply not_sorted(mongo::Client& client, const ids::CounterSpec& spec, Fields fields) {
  const std::string digits =
      std::to_string(std::max(std::to_string(spec.max).size(), std::to_string(spec.start).size()));
  return exhausted(
      "the stored strings do not sort like their numbers, so that the highest number cannot be "
      "read: " +
      unique_index_or(client, fields) + "raise format.pad to " + digits +
      ", so that it covers max");
}

ids::CounterReply no_gap(mongo::Client& client, Fields fields) {
  if (can_be_guarded(fields)) {
    return exhausted("free numbers are safe only if a unique index guards the field: " +
                     unique_index(client, fields));
  }
  return exhausted(
      "free numbers are safe only if a unique index guards the field, which is impossible for a "
      "counter of several fields or collections: set heal.mode to max");
}

ids::CounterReply too_far(mongo::Client& client, Fields fields) {
  return exhausted("the largest stored number is more than heal.max_jump ahead: " +
                   unique_index_or(client, fields) + "raise heal.max_jump");
}

ids::CounterReply no_room(mongo::Client& client, const ids::CounterSpec& spec, Fields fields,
                          std::int64_t value) {
  return exhausted(
      "the counter was lost, and numbers up to its max may be held by other proxies: " +
      unique_index_or(client, fields) + "stop every proxy, type " + set_by_hand(spec.place, value) +
      " and start them again");
}

}  // namespace idproxy::id_store::advice
