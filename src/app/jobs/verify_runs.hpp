#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace idproxy::app::jobs {

/// The numbers of one sequence that documents have, as runs without gaps: in any order, though not
/// twice. Its memory grows with the gaps, not with the numbers. Beyond kMostRuns the lowest gap is
/// counted as final: that is right if numbers come in ascending order, as they are read.
class VerifyRuns {
 public:
  static constexpr std::size_t kMostRuns = 100'000;

  struct Gap {
    std::int64_t first;
    std::int64_t last;
    friend bool operator==(const Gap&, const Gap&) = default;
  };

  /// `step`: between two numbers that follow each other; its sign does not matter, nor 0.
  explicit VerifyRuns(std::int64_t step, std::size_t most = kMostRuns);

  void add(std::int64_t number);

  // Only if it is not.
  [[nodiscard]] std::int64_t first() const { return runs_.begin()->first; }
  [[nodiscard]] std::int64_t last() const { return runs_.rbegin()->second; }
  /// True if gaps were counted as final: right only if numbers came in ascending order.
  [[nodiscard]] bool has_closed() const { return closed_count_ > 0; }
  /// Different numbers.
  [[nodiscard]] std::uint64_t numbers() const { return numbers_; }
  /// Numbers between the first and the last one that are not there.
  [[nodiscard]] std::uint64_t missing() const;
  [[nodiscard]] std::uint64_t gap_count() const { return closed_count_ + runs_.size() - 1; }
  /// The lowest `most` gaps at most.
  [[nodiscard]] std::vector<Gap> gaps(std::size_t most) const;

 private:
  using Runs = std::map<std::int64_t, std::int64_t>;  // first to last
  static constexpr std::size_t kMostRemembered = 20;

  [[nodiscard]] bool follow(std::int64_t a, std::int64_t b) const;
  [[nodiscard]] std::uint64_t between(std::int64_t a, std::int64_t b) const;
  void close_lowest();

  const std::uint64_t step_;
  const std::size_t most_;
  Runs runs_;
  std::uint64_t numbers_ = 0;
  std::uint64_t closed_count_ = 0;
  std::uint64_t closed_missing_ = 0;
  std::vector<Gap> closed_;  // the first kMostRemembered
};

}  // namespace idproxy::app::jobs
