#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace idproxy::ids {

/// Notes what open transactions have used. Forgets a transaction 60 s after its last write, when
/// mongod has ended it by default (transactionLifetimeLimitSeconds). Times are monotonic. Not
/// thread-safe.
template <class Used>
class OpenTransactions {
 public:
  using Time = std::chrono::nanoseconds;

  static constexpr std::chrono::seconds kKept{60};
  static constexpr std::size_t kMost = 65'536;

  /// What the transaction has used; null: nothing. Valid until the next note() or end().
  [[nodiscard]] const Used* find(const std::string& transaction, Time now) const {
    const auto found = open_.find(transaction);
    return found != open_.end() && now - found->second.at < kKept ? &found->second.used : nullptr;
  }
  /// The transaction writes: the caller notes what it has used. One that is forgotten too early
  /// gets a number that it has used itself. Then the server aborts it.
  [[nodiscard]] Used& note(const std::string& transaction, Time now) {
    if (open_.size() >= sweep_at_) {
      std::erase_if(open_, [&](const auto& each) { return now - each.second.at >= kKept; });
      // Many at once, since each look at all of them takes a millisecond.
      if (open_.size() >= kMost) open_.erase(open_.begin(), std::next(open_.begin(), kMost / 8));
      sweep_at_ = std::min(kMost, std::max<std::size_t>(1024, 2 * open_.size()));
    }
    Open& open = open_[transaction];
    open.at = now;
    return open.used;
  }
  /// The transaction has ended. Returns what it had used; nothing: it had used nothing.
  std::optional<Used> end(const std::string& transaction) {
    auto ended = open_.extract(transaction);
    if (ended.empty()) return std::nullopt;
    return std::move(ended.mapped().used);
  }
  /// What the first of those that may still be open has used, in the order of `less`; null: there
  /// is none. Valid until the next note() or end().
  template <class Less>
  [[nodiscard]] const Used* first(Time now, const Less& less) const {
    const Used* first = nullptr;
    for (const auto& [transaction, open] : open_) {
      if (now - open.at >= kKept) continue;
      if (first == nullptr || less(open.used, *first)) first = &open.used;
    }
    return first;
  }
  [[nodiscard]] std::size_t size() const { return open_.size(); }
  /// True if it knows of one that may still be open, and of none with this name. Empty: no name.
  [[nodiscard]] bool any_other(const std::string& transaction, Time now) const {
    return (transaction.empty() || find(transaction, now) == nullptr) && any(now);
  }
  /// True if it knows of one that may still be open.
  [[nodiscard]] bool any(Time now) const {
    return std::ranges::any_of(open_,
                               [&](const auto& each) { return now - each.second.at < kKept; });
  }

 private:
  struct Open {
    Used used{};
    Time at{};
  };
  std::unordered_map<std::string, Open> open_;
  std::size_t sweep_at_ = 1024;
};

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
