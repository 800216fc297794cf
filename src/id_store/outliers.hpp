#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "id_store/numbers.hpp"

namespace idproxy::id_store {

/// The most numbers that can be outliers.
inline constexpr std::size_t kMostOutliers = 99;
/// How many of the numbers furthest ahead are needed to tell outliers from the others.
inline constexpr std::size_t kOutlierSample = 2 * kMostOutliers + 1;

/// Whether the counter may reach a number that is stored already.
enum class MayMeet { no, yes };

/// How many of the stored numbers `furthest` (the one furthest ahead first; all there are, or
/// kOutlierSample) are outliers, which the counter ignores instead of continuing behind them. A
/// client that stores one number near 2^63 must not use up the counter. But numbers that an earlier
/// program gave out must not be given out again, however far from `start` they are. So numbers are
/// outliers only if
/// - more than `max_jump` lies between them and the next one behind them, or `from`, which the
///   counter would give out if nothing were stored;
/// - they are fewer than 100;
/// - those behind them are more, or more than half of what the counter had is already behind them:
///   5,000,000,001 to 5,000,000,050 alone are somebody's numbers, 2^63 - 2 alone is not.
///
/// Example: start 1, max_jump 10^9. Of {2^63-2, 5, 4, 3} one, of {2^63-2, 5·10^9+50 … 5·10^9+1}
/// one, of a thousand numbers from 5·10^9 on none.
///
/// MayMeet::no: no unique index keeps such a number from being stored a second time when the
/// counter reaches it, so only numbers that it never reaches are outliers.
[[nodiscard]] std::size_t count_outliers(const Numbers& numbers, std::uint64_t max_jump,
                                         std::int64_t from, std::span<const std::int64_t> furthest,
                                         MayMeet may_meet);

/// How many of the hidden numbers `furthest` (descending) of the latest documents are not the
/// counter's: a value of somebody else looks like any number, and the counter's lie close together.
/// So these are further ahead of the median than 100 times the distance of the lower quartile and
/// the count. If too many are left out, the search for free numbers only begins earlier.
[[nodiscard]] std::size_t count_outliers_of_latest(std::span<const std::int64_t> furthest);

/// True if `number` is further ahead of `from` than `max_jump`.
[[nodiscard]] bool is_jump_too_large(const Numbers& numbers, std::uint64_t max_jump,
                                     std::int64_t from, std::int64_t number);

}  // namespace idproxy::id_store
