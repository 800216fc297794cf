#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace idproxy::ids {

/// The numbers of a sequence that open transactions have used. Only their own writes can see these,
/// and continue after them. Forgets a transaction 60 s after its last write, when mongod has ended
/// it by default (transactionLifetimeLimitSeconds). Times are monotonic. Not thread-safe.
class OpenTransactions {
 public:
  using Time = std::chrono::nanoseconds;

  static constexpr std::chrono::seconds kKept{60};
  static constexpr std::size_t kMost = 65'536;

  /// The last number that the transaction has used; nothing if it has used none.
  [[nodiscard]] std::optional<std::int64_t> last_of(const std::string& transaction, Time now) const;
  /// The transaction has used the numbers up to `last`.
  void note(const std::string& transaction, std::int64_t last, Time now);
  /// The transaction has ended. False if it had used no numbers.
  bool end(const std::string& transaction) { return used_.erase(transaction) > 0; }
  [[nodiscard]] std::size_t size() const { return used_.size(); }
  /// True if it knows of one that may still be open.
  [[nodiscard]] bool any(Time now) const;

 private:
  struct Used {
    std::int64_t last;
    Time at;
  };
  std::unordered_map<std::string, Used> used_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace idproxy::ids
