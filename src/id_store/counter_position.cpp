#include "idproxy/id_store/counter_position.hpp"

#include "id_store/counter_commands.hpp"

namespace idproxy::id_store {

mongo::Reply read_counter(mongo::Client& client, const ids::CounterPlace& place,
                          StoredValue& value) {
  mongo::Reply reply = client.read_first(
      place.db, {{"find", place.collection}, {"filter", identity_of(place)}, {"limit", 1}});
  value = reply.ok() ? stored_value(reply.document.bytes(), place.value_field) : StoredValue();
  return reply;
}

Commands set_counter_command(const ids::CounterPlace& place, std::int64_t next, std::int64_t step) {
  const bool is_next = place.value_is == ids::CounterPlace::ValueIs::next;
  return set_by_hand(place, is_next ? next : next - step);
}

}  // namespace idproxy::id_store
