#include "idproxy/id_store/counter_position.hpp"

#include "id_store/counter_commands.hpp"

namespace idproxy::id_store {

mongo::Reply read_counter(mongo::Client& client, const ids::CounterPlace& place,
                          StoredValue& value) {
  const mongo::Document find = mongo::Document()
                                   .add("find", place.collection)
                                   .add("filter", identity_of(place))
                                   .add("limit", 1);
  value = {};
  return client.read_all(place.db, find, [&](Bytes document) {
    value = stored_value(document, place.value_field);
    return false;
  });
}

Commands set_counter_command(const ids::CounterPlace& place, std::int64_t next, std::int64_t step) {
  const bool is_next = place.value_is == ids::CounterPlace::ValueIs::next;
  return set_by_hand(place, is_next ? next : next - step);
}

}  // namespace idproxy::id_store
