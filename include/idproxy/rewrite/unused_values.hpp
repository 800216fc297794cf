#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// True if this error of a whole command means that the server has found the fault before it stored
/// anything.
[[nodiscard]] bool stores_nothing(std::int64_t code);

/// True if an entry of writeErrors proves that its statement has stored nothing. Other errors do
/// not: a mongos also reports writeErrors if it has lost a shard that may have stored everything. A
/// duplicate that does not name its keys may be a duplicate of the value itself, which would then
/// fail the next write, too.
[[nodiscard]] bool denies(Bytes error);

/// Returns values that are stored nowhere to those strategies that take values back, so that they
/// can serve other statements. `is_unused` is called with indexes of given.given.
void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused);

}  // namespace idproxy::rewrite
