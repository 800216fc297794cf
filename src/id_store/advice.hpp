#pragma once

#include <cstdint>
#include <span>

#include "id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

/// How a job ends that would give numbers out twice, where no unique index guards the field; the
/// reasons say what to do, with the command to type.
namespace idproxy::id_store::advice {

using Fields = std::span<const ids::CounterField>;

/// Stored strings do not sort as their numbers do.
[[nodiscard]] ids::CounterReply not_sorted(const ids::CounterSpec& spec, Fields fields);
/// Numbers from one free one on are not free, too: only a unique index finds out in time.
[[nodiscard]] ids::CounterReply no_gap(Fields fields);
/// The largest number is further away than heal.max_jump.
[[nodiscard]] ids::CounterReply too_far(Fields fields);
/// The numbers that other proxies may hold of a lost counter reach beyond max. `value`: where the
/// counter could stand, did nobody hold any.
[[nodiscard]] ids::CounterReply no_room(const ids::CounterSpec& spec, Fields fields,
                                        std::int64_t value);

}  // namespace idproxy::id_store::advice
