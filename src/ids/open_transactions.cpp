#include "idproxy/ids/open_transactions.hpp"

#include <algorithm>
#include <iterator>

namespace idproxy::ids {

std::optional<std::int64_t> OpenTransactions::last_of(const std::string& transaction,
                                                      Time now) const {
  const auto found = used_.find(transaction);
  if (found == used_.end() || now - found->second.at >= kKept) return std::nullopt;
  return found->second.last;
}

bool OpenTransactions::any(Time now) const {
  return std::ranges::any_of(used_, [&](const auto& each) { return now - each.second.at < kKept; });
}

/// A transaction that is forgotten too early gets a number that it has used itself. Then the server
/// aborts it.
void OpenTransactions::note(const std::string& transaction, std::int64_t last, Time now) {
  if (used_.size() >= sweep_at_) {
    std::erase_if(used_, [&](const auto& each) { return now - each.second.at >= kKept; });
    // Many at once, since each look at all of them takes a millisecond.
    if (used_.size() >= kMost) used_.erase(used_.begin(), std::next(used_.begin(), kMost / 8));
    sweep_at_ = std::min(kMost, std::max<std::size_t>(1024, 2 * used_.size()));
  }
  used_.insert_or_assign(transaction, Used{last, now});
}

}  // namespace idproxy::ids
