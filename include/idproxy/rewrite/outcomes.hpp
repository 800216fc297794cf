#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace idproxy::rewrite {

/// What became of one rule's values since the start. Thread-safe; each counter is exact, together
/// they are no snapshot.
struct RuleOutcomes {
  using Counter = std::atomic<std::uint64_t>;
  Counter assigned{0};        ///< values put into documents
  Counter resent{0};          ///< documents sent again with a fresh value, once per re-send
  Counter cured{0};           ///< documents that a fresh value got stored
  Counter given_up{0};        ///< duplicates of ours that went to the client
  Counter foreign{0};         ///< duplicates, on other keys, of documents that had a value of ours
  Counter transient{0};       ///< transactions that the client was told to run again
  Counter surfaced{0};        ///< duplicates of ours in transactions that went to the client
  Counter unacknowledged{0};  ///< values put into documents that nobody will hear of (w: 0)
  /// The log has said that all documents of an insert brought an _id that their driver made.
  std::atomic<bool> driver_made_logged{false};

  /// A transaction has been aborted by a value of this rule. False if that happened `most` times in
  /// a row already, the first of them at most kRow ago: telling the client to begin anew leads
  /// nowhere. `now` is monotonic.
  [[nodiscard]] bool may_run_again(std::chrono::nanoseconds now, std::uint32_t most);
  /// An insert with a value of this rule went well inside a transaction: the row is over.
  void went_well() {
    if (aborts_.load(std::memory_order_relaxed) != 0) aborts_ = 0;
  }
  [[nodiscard]] bool in_a_row() const { return aborts_.load(std::memory_order_relaxed) != 0; }

  static constexpr std::chrono::seconds kRow{10};

 private:
  // Two words that are not changed together: racing threads may count one abort more or less.
  std::atomic<std::uint32_t> aborts_{0};
  std::atomic<std::int64_t> first_abort_{0};
};

}  // namespace idproxy::rewrite
