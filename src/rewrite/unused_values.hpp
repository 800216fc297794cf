#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// True of the error of a whole command if the server finds it before it stores anything.
[[nodiscard]] bool stores_nothing(std::int64_t code);

/// True if an entry of writeErrors proves that its statement has stored nothing. A mongos answers
/// with writeErrors too when it has lost a shard that may have stored everything. A duplicate that
/// does not say of which keys may be about the value itself, which would then fail the next write.
[[nodiscard]] bool denies(Bytes error);

/// The values that stand at these places of given.given are stored nowhere: they return to the
/// strategies that take values back, to serve others.
void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused);

}  // namespace idproxy::rewrite
