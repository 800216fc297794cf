#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/gapless_sequence.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/open_transactions.hpp"
#include "idproxy/ids/sequenced.hpp"
#include "idproxy/ids/transaction_sequences.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// A snapshot of a GaplessQueue for metrics and status.
struct GaplessStatistics {
  std::optional<std::int64_t> next;  ///< the next number to give out, if it is known
  std::size_t waiting;               ///< writes that wait for their turn
  std::optional<Error> failure;      ///< why the store gives no numbers
  bool is_unguarded;                 ///< `failure`: there is no unique index
};

/// A sequence without gaps, with the writes of this process that wait for their turn. Thread-safe:
/// one lock, held for a handful of instructions. Ownership is shared: the strategies of all io
/// threads and the store refer to it. Answers writes and wakes the store after it has released the
/// lock.
class GaplessQueue final : public Queue, public std::enable_shared_from_this<GaplessQueue> {
 public:
  /// `wake` makes the store call begin() soon; it must be callable from any thread and never block.
  /// `clock` must outlive the queue.
  /// `transactions`: those that have used numbers of any sequence; null: of this one only.
  GaplessQueue(const GaplessSpec& spec, const Clock& clock, std::function<void()> wake,
               std::shared_ptr<TransactionSequences> transactions = nullptr);

  [[nodiscard]] const GaplessSpec& spec() const { return spec_; }

  // ---- for writes; see GaplessSequence

  /// A ticket for one write, which ends with leave(), stored() or unknown().
  [[nodiscard]] std::uint64_t enter(TurnTaker::Takes takes);
  /// `transaction`: that the write belongs to; empty: none.
  [[nodiscard]] std::optional<Result<Range>> take(std::uint64_t ticket, std::uint64_t n,
                                                  const std::string& transaction);
  /// `waiter` gets the answer, perhaps before this returns.
  [[nodiscard]] Ticket ask(std::uint64_t ticket, std::uint64_t n, GaplessLook look,
                           const std::string& transaction, std::unique_ptr<Waiter> waiter);
  void cancel(std::uint64_t ticket) override;
  void leave(std::uint64_t ticket);
  void stored(std::uint64_t ticket, std::int64_t last);
  void unknown(std::uint64_t ticket);

  // ---- for the writes of transactions. Only they can see the numbers that they have used, and
  // they continue after them

  /// The last number that the transaction has used; nothing if it has used none.

  [[nodiscard]] std::optional<std::int64_t> last_of(const std::string& transaction) const;
  /// The transaction has used the numbers up to `last`.
  void note(const std::string& transaction, std::int64_t last);
  /// The transaction has been committed or aborted, or perhaps.
  void transaction_ended(const std::string& transaction);

  // ---- for the store

  [[nodiscard]] std::optional<GaplessJob> begin();
  void finish(const GaplessReply& reply);
  [[nodiscard]] std::optional<std::chrono::nanoseconds> due() const;
  void announce();
  void stop();
  /// Nobody uses the queue any more.
  void let_go();
  [[nodiscard]] bool idle() const;
  [[nodiscard]] GaplessStatistics statistics() const;

 private:
  /// Calls `event`, which returns an Action, under the lock, and carries the Action out without it.
  template <class Event>
  void handle(const Event& event);
  [[nodiscard]] bool has_numbers_of_others(const std::string& transaction) const;
  [[nodiscard]] bool may_wait_in_server() const;

  const GaplessSpec spec_;
  const Clock& clock_;
  const std::function<void()> wake_;
  const std::shared_ptr<TransactionSequences> sequences_in_transactions_;

  mutable std::mutex mutex_;  // guards all that follows
  GaplessSequence sequence_;
  WaitList waiters_;                             // for what they need, see sequence_
  std::set<std::uint64_t> have_others_;          // tickets of writes that take several turns
  OpenTransactions<std::int64_t> transactions_;  // the last number of each
};

}  // namespace idproxy::ids
