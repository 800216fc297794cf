#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

/// The clock and the randomness of strategies. Both must outlive every strategy.
struct Sources {
  const Clock& clock;
  RandomSource& random;
};

/// why_waiting() where the store has given no reason.
inline constexpr const char* kNotInTime = "the id store has not answered in time";

/// A source of values that may have to ask the id store for them.
class StoreSource {
 public:
  /// The longest time that a caller waits for ids (docs/strategies.md#when-no-value-is-available).
  static constexpr std::chrono::seconds kPatience{2};

  virtual ~StoreSource() = default;

  // After Draw::need(). A source that always has its values is never asked.

  /// Asks for `n` values, first come, first served. `waiter` gets one answer, on any thread,
  /// perhaps before this returns, unless the ticket is destroyed first.
  [[nodiscard]] virtual Ticket ask(std::size_t /*n*/, std::unique_ptr<Waiter> /*waiter*/) {
    return {};
  }
  /// The same for a caller that does not wait for it, and draws the values later.
  [[nodiscard]] Ticket want(std::size_t n) { return ask(n, std::make_unique<Nobody>()); }
  /// How long the caller of ask() should wait for the answer at most.
  [[nodiscard]] virtual std::chrono::nanoseconds patience() const { return kPatience; }
  /// The store's reason for the delay, for people; empty if none is known.
  [[nodiscard]] virtual std::string why_waiting() const { return {}; }
  /// The transaction of somebody else that the caller waits for; null: none is known.
  [[nodiscard]] virtual std::shared_ptr<const NumberHolder> held_by() const { return nullptr; }
  /// Appends the granted values to `out`.
  virtual void accept(Grant /*grant*/, Values& /*out*/) {}
  /// After an error, or without an answer in time: appends the `n` values in another way. Returns
  /// `why` if there is no other way.
  [[nodiscard]] virtual Draw make_do(std::size_t /*n*/, Values& /*out*/, Error why) { return why; }
};

/// Whether a failover can still undo what a write has stored.
enum class Durability {
  by_majority,  ///< no: a majority of the members has it
  not_yet,      ///< perhaps
};

/// The numbers of one write from a sequence without gaps. From its first numbers on, the write has
/// the sequence's turn: no other write of this process gets numbers until the Turn is destroyed.
/// Then the next number follows the last stored one, and the numbers that nobody stored are given
/// out again.
///
///   next() or ask(), accept()      numbers
///   sent()                         they are on their way: from now on they may be stored
///   stored(…)                      which of them are
///   taken() or lost(), next(), …   others, in place of those that are not stored
///
/// A Turn that is destroyed between sent() and stored() leaves the sequence in doubt, so that the
/// store looks which numbers are stored before it gives out the next one. Not thread-safe.
class Turn : public StoreSource {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Appends the next `n` numbers to `out`, consecutive and ascending, if it is this write's turn
  /// and the sequence knows them; else Draw::need(). Must not be called again before taken() or
  /// lost().
  [[nodiscard]] virtual Draw next(std::size_t n, Values& out) = 0;

  /// Event: some of the numbers, the lowest that are not stored, are sent to the server.
  virtual void sent() = 0;
  /// Event: the server has answered. The lowest `n` of the numbers that were not stored are now,
  /// and none of the others is.
  virtual void stored(std::size_t n, Durability durability) = 0;
  /// True if held_by() names somebody. Costs little.
  [[nodiscard]] virtual bool is_held() const { return false; }
  /// Event: the server says that somebody else has stored one of the numbers.
  virtual void taken() = 0;
  /// Event: the server has answered, but it is not known which numbers are stored.
  virtual void lost() = 0;
};

/// A write that needs turns.
struct TurnTaker {
  /// Identifies the client's transaction that the write belongs to; empty: none. A transaction's
  /// writes continue after its own numbers, which nobody else can see yet, and do not wait for
  /// their turn.
  std::string transaction{};
  /// It takes the turns of other sequences, too.
  enum class Takes { one, several };
  Takes takes = Takes::one;
  /// The client, for people.
  std::uint64_t connection = 0;
  std::string application{};
};

/// The circumstances in which the server found a value to be taken.
enum class Taken {
  in_batch,        ///< the proxy will try a new value
  in_transaction,  ///< the server has aborted the transaction
};

/// What the values of a collection, or of one of its sequences, come from. Does no I/O and has no
/// clock of its own; values of the id store that are not held must be asked for. Thread-safe: all
/// io threads share one object. A source with a lock takes it once per call, that is once per
/// insert command.
///
/// Each function that only some sources have a use for does nothing in all others.
class Source : public StoreSource {
 public:
  static constexpr std::uint32_t kAttempts = 8;
  static constexpr std::size_t kMostBytes = 64;  // more than the text of a UUID or of 34 digits

  /// The most bytes that a value takes, as counted by Values.
  [[nodiscard]] virtual std::size_t most_bytes() const { return kMostBytes; }

  /// Appends `n` values to `out`. They differ from each other and from the values already in `out`,
  /// which are those that this request got before. After Draw::need(), ask() gets them from the
  /// store. After an error `out` may hold some of the new values; the caller must not use them.
  [[nodiscard]] virtual Draw next(std::size_t n, Values& out) = 0;
  /// True if next() has `n` values now, and the store would notice nothing of it.
  [[nodiscard]] virtual bool holds(std::size_t /*n*/) const { return true; }

  // ---- numbers without gaps, which come through turns and never from next()

  /// For one write.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that have turns keep it.
  [[nodiscard]] virtual std::unique_ptr<Turn> turn(TurnTaker /*taker*/) { return nullptr; }
  /// Identifies the sequence in this process. A write that needs several turns takes them in the
  /// order of the names and keeps all of them until it is done, so that no two writes wait for each
  /// other.
  [[nodiscard]] virtual std::string name() const { return {}; }

  // ---- events of values that were drawn from this object

  /// True if unused values return to the id store.
  [[nodiscard]] virtual bool lends() const { return false; }
  /// Takes back the values at the positions `which` (ascending) of `values`. The server has said
  /// that they are not stored: they may be handed out again.
  virtual void take_back(const Values& /*values*/, std::span<const std::uint32_t> /*which*/) {}
  /// The server reports that the values at the positions `which` of `values` are taken.
  /// `in_request`: the number of this object's values that it has found taken in this request so
  /// far, including these.
  virtual void collided(const Values& /*values*/, std::span<const std::uint32_t> /*which*/,
                        std::size_t /*in_request*/, Taken /*where*/) {}
  /// An insert with values of this object succeeded.
  virtual void went_well() {}
  /// True from a collision until went_well(): only then went_well() must be called.
  [[nodiscard]] bool in_a_row() const { return in_a_row_.load(std::memory_order_relaxed); }

  // ---- of a space that fills with the collection's documents

  /// How often to send one document again after a duplicate, unless its rule sets the number.
  [[nodiscard]] virtual std::uint32_t attempts() const { return kAttempts; }
  /// One of `tried` values of a batch was taken, and `untried` more of the batch have not been
  /// tried. True if so many of these must be taken, too, that they should be drawn anew.
  [[nodiscard]] virtual bool doubts(std::size_t /*tried*/, std::size_t /*untried*/) {
    return false;
  }

 protected:
  std::atomic<bool> in_a_row_{false};
};

}  // namespace idproxy::ids
