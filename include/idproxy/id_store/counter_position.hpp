#pragma once

#include <cstdint>
#include <string>

#include "idproxy/base/typed_command.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/counter_spec.hpp"

/// Where a counter stands, for programs that look at it from outside.
namespace idproxy::id_store {

/// Reads the counter's document, and sets `value` if the reply is ok.
[[nodiscard]] mongo::Reply read_counter(mongo::Client& client, const ids::CounterPlace& place,
                                        StoredValue& value);

/// The mongosh command that sets the counter so that `next` is handed out next.
[[nodiscard]] Commands set_counter_command(const ids::CounterPlace& place, std::int64_t next,
                                           std::int64_t step);

}  // namespace idproxy::id_store
