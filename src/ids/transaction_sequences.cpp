#include "idproxy/ids/transaction_sequences.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "idproxy/ids/open_transactions.hpp"

namespace idproxy::ids {

void TransactionSequences::note(const std::string& transaction,
                                std::weak_ptr<GaplessQueue> sequence, Time now) {
  constexpr std::size_t kMost = OpenTransactions::kMost;
  const std::scoped_lock lock(mutex_);
  if (used_.size() >= sweep_at_) {
    std::erase_if(
        used_, [&](const auto& each) { return now - each.second.at >= OpenTransactions::kKept; });
    // Many at once, since each look at all of them takes a millisecond.
    if (used_.size() >= kMost) used_.erase(used_.begin(), std::next(used_.begin(), kMost / 8));
    sweep_at_ = std::min(kMost, std::max<std::size_t>(1024, 2 * used_.size()));
  }
  Used& used = used_[transaction];
  used.at = now;
  used.sequences.insert(std::move(sequence));
}

bool TransactionSequences::has(const std::string& transaction, Time now) const {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(transaction);
  return found != used_.end() && now - found->second.at < OpenTransactions::kKept;
}

std::vector<std::shared_ptr<GaplessQueue>> TransactionSequences::end(
    const std::string& transaction) {
  std::vector<std::shared_ptr<GaplessQueue>> sequences;
  const std::scoped_lock lock(mutex_);
  const auto found = used_.extract(transaction);
  if (found.empty()) return sequences;
  for (const auto& each : found.mapped().sequences) {
    if (auto sequence = each.lock()) sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace idproxy::ids
