#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/typed_command.hpp"

namespace idproxy::app::jobs {

/// The counts of a backfill's documents, by outcome.
struct BackfillTally {
  static constexpr std::size_t kExamples = 3;

  /// Documents that are left for one reason.
  struct Left {
    std::uint64_t documents = 0;
    std::vector<std::string> examples;  ///< the first kExamples, as JSON
  };
  std::uint64_t given = 0;           ///< got a value from this run
  std::string first, last;           ///< of those values, as mongosh writes them
  std::uint64_t had_one = 0;         ///< before
  std::uint64_t got_one = 0;         ///< meanwhile, from another program or another backfill
  std::uint64_t deleted = 0;         ///< meanwhile
  std::uint64_t renewed = 0;         ///< duplicates that led to another value
  std::uint64_t gaps = 0;            ///< values that the store counts as used, but no document has
  std::map<std::string, Left> left;  ///< by reason

  /// `id`: {_id: …}.
  void leave(const std::string& reason, Bytes id);
  /// Documents that need no more work in this run.
  [[nodiscard]] std::uint64_t done() const;
};

/// How a backfill came to its end.
struct BackfillEnd {
  std::string subject;  ///< "shop.orders: number, by the strategy counter"
  std::string why;      ///< why it ended early; empty: it did not
  /// Documents without a value, counted at the end; nothing: that was not possible.
  std::optional<std::uint64_t> left;
  Commands show_left;  ///< which show them
  std::chrono::nanoseconds took{};
};

/// The report, of several lines.
[[nodiscard]] std::string report_of(const BackfillTally& tally, const BackfillEnd& end);

/// The report of a dry run: how many documents would get a value, have one, and (tally.left) could
/// not get one. `samples`: the first and the last value, if there are any.
[[nodiscard]] std::string rehearsal_of(const std::string& subject, std::uint64_t would_get,
                                       std::uint64_t have_one, const BackfillTally& tally,
                                       const std::string& samples);

}  // namespace idproxy::app::jobs
