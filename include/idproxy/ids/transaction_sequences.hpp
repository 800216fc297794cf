#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace idproxy::ids {

class GaplessQueue;

/// The sequences without gaps of which open transactions have used numbers. Forgets transactions as
/// OpenTransactions does. Times are monotonic. Thread-safe.
class TransactionSequences {
 public:
  using Time = std::chrono::nanoseconds;

  /// The transaction has used numbers of this sequence.
  void note(const std::string& transaction, std::weak_ptr<GaplessQueue> sequence, Time now);
  /// True if it has used numbers of any.
  [[nodiscard]] bool has(const std::string& transaction, Time now) const;
  /// The transaction has ended. Returns the sequences that have to know.
  [[nodiscard]] std::vector<std::shared_ptr<GaplessQueue>> end(const std::string& transaction);

 private:
  struct Used {
    std::set<std::weak_ptr<GaplessQueue>, std::owner_less<>> sequences;
    Time at;
  };
  mutable std::mutex mutex_;  // guards all that follows
  std::unordered_map<std::string, Used> used_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace idproxy::ids
