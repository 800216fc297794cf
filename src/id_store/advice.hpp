#pragma once

#include <cstdint>
#include <span>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

/// Replies for jobs that could give out numbers twice because no unique index guards the field.
/// Each reason tells the operator what to do, with the command to type. `client` asks the server
/// which unique index fits the documents.
namespace idproxy::id_store::advice {

using Fields = std::span<const ids::CounterField>;

/// The stored strings do not sort like their numbers.
[[nodiscard]] ids::Error not_sorted(mongo::Client& client, const ids::CounterSpec& spec,
                                    Fields fields);
/// The numbers after a free one may be taken, and only a unique index detects that in time.
[[nodiscard]] ids::Error no_gap(mongo::Client& client, Fields fields);
/// The counter has given out the numbers before `next` without hiding them.
[[nodiscard]] ids::Error no_hiding(mongo::Client& client, Fields fields, std::int64_t next);
/// The largest number is further away than heal.max_jump.
[[nodiscard]] ids::Error too_far(mongo::Client& client, Fields fields);
/// Other proxies may hold numbers of a lost counter, and these reach beyond max. `value`: where the
/// counter could continue if no proxy held any.
[[nodiscard]] ids::Error no_room(mongo::Client& client, const ids::CounterSpec& spec, Fields fields,
                                 std::int64_t value);

}  // namespace idproxy::id_store::advice
