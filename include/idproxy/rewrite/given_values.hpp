#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

/// The source that made a value: the assignment's own, or one of its sequences.
namespace idproxy::rewrite {

/// The number of sources that made values for the assignment, or may have.
[[nodiscard]] std::size_t sources_of(const GivenValues& given, std::size_t assignment);
/// The index of the one that made this value, below sources_of().
[[nodiscard]] std::size_t source_of(const GivenValues& given, std::size_t assignment,
                                    std::uint32_t value);
[[nodiscard]] ids::Source& source_at(const Plan& plan, const GivenValues& given,
                                     std::size_t assignment, std::size_t source);

/// Calls `use` for each source of some values. `which`: indexes in given.values[assignment],
/// ascending; `use` gets those of its source, ascending.
using UseSource = std::function<void(ids::Source&, std::span<const std::uint32_t> which)>;
void by_source(const Plan& plan, const GivenValues& given, std::size_t assignment,
               std::vector<std::uint32_t> which, const UseSource& use);

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
