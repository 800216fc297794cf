#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/open_transactions.hpp"

namespace idproxy::ids {

class GaplessQueue;

/// The sequences without gaps of which open transactions have used numbers. Times are monotonic.
/// Thread-safe.
class TransactionSequences {
 public:
  using Time = std::chrono::nanoseconds;

  /// The transaction has used numbers of this sequence.
  void note(const std::string& transaction, std::weak_ptr<GaplessQueue> sequence, Time now) {
    const std::scoped_lock lock(mutex_);
    used_.note(transaction, now).insert(std::move(sequence));
  }
  /// True if it has used numbers of any.
  [[nodiscard]] bool has(const std::string& transaction, Time now) const {
    const std::scoped_lock lock(mutex_);
    return used_.find(transaction, now) != nullptr;
  }
  /// The transaction has ended. Returns the sequences that have to know.
  [[nodiscard]] std::vector<std::shared_ptr<GaplessQueue>> end(const std::string& transaction) {
    std::vector<std::shared_ptr<GaplessQueue>> sequences;
    const std::scoped_lock lock(mutex_);
    for (const auto& each : used_.end(transaction).value_or(Used())) {
      if (auto sequence = each.lock()) sequences.push_back(std::move(sequence));
    }
    return sequences;
  }

 private:
  using Used = std::set<std::weak_ptr<GaplessQueue>, std::owner_less<>>;
  mutable std::mutex mutex_;
  OpenTransactions<Used> used_;  // guarded by mutex_
};

}  // namespace idproxy::ids
