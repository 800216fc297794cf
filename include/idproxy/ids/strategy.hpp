#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

class Store;
class Sequenced;
class Strategy;
struct CounterUse;
struct GaplessSpec;
struct RangesSpec;
struct SequenceOptions;

/// The clock and the randomness of strategies. Both must outlive every strategy.
struct Sources {
  const Clock& clock;
  RandomSource& random;
};

/// A source of values that may have to ask the id store for them.
class StoreSource {
 public:
  /// The longest time that a caller waits for ids (docs/strategies.md#when-no-value-is-available).
  static constexpr std::chrono::seconds kPatience{2};

  virtual ~StoreSource() = default;

  /// Asks for `n` values after Draw::need(), first come, first served. `waiter` gets one answer, on
  /// any thread, perhaps before this returns, unless the ticket is destroyed first.
  [[nodiscard]] virtual Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) = 0;
  /// How long the caller of ask() should wait for the answer at most.
  [[nodiscard]] virtual std::chrono::nanoseconds patience() const { return kPatience; }
  /// The store's reason for the delay, for people; empty if none is known.
  [[nodiscard]] virtual std::string why_waiting() const { return {}; }
  /// Appends the granted values to `out`.
  virtual void accept(Grant grant, Values& out) = 0;
  /// After an error, or without an answer in time: appends the `n` values in another way. Returns
  /// `why` if there is no other way.
  [[nodiscard]] virtual Draw make_do(std::size_t /*n*/, Values& /*out*/, Error why) { return why; }
};

/// A strategy whose values come from the id store and return to it. Thread-safe.
class StoreBacked : public StoreSource {
 public:
  /// Takes back the values at the positions `which` (ascending) of `values`, which were drawn from
  /// this object. The server has said that they are not stored: they may be handed out again.
  virtual void take_back(const Values& values, std::span<const std::uint32_t> which) = 0;
};

/// The circumstances in which the server found a value to be taken.
enum class Taken {
  in_batch,        ///< the proxy will try a new value
  in_transaction,  ///< the server has aborted the transaction
};

/// A strategy that learns from duplicates of its values. Thread-safe.
class DuplicateObserver {
 public:
  virtual ~DuplicateObserver() = default;

  /// Event: the server reports that the values at the positions `which` of `values` are taken.
  /// `in_request`: the number of this object's values that it has found taken in this request so
  /// far, including these.
  virtual void collided(const Values& values, std::span<const std::uint32_t> which,
                        std::size_t in_request, Taken where) = 0;
  /// An insert with values of this object succeeded.
  virtual void went_well() {}
  /// True from a collision until went_well(): only then went_well() must be called.
  [[nodiscard]] bool in_a_row() const { return in_a_row_.load(std::memory_order_relaxed); }

 protected:
  std::atomic<bool> in_a_row_{false};
};

/// A strategy that draws from a space which fills with the collection's documents. Thread-safe.
class BoundedSpace {
 public:
  virtual ~BoundedSpace() = default;

  /// How often to send one document again after a duplicate, unless its rule sets the number.
  [[nodiscard]] virtual std::uint32_t attempts() const = 0;
  /// One of `tried` values of a batch was taken, and `untried` more of the batch have not been
  /// tried. True if so many of these must be taken, too, that they should be drawn anew.
  [[nodiscard]] virtual bool doubts(std::size_t tried, std::size_t untried) = 0;
};

/// A strategy that draws from a counter. Thread-safe.
class CounterRule {
 public:
  virtual ~CounterRule() = default;

  /// The counter, to check rules against each other. No rule may apply to the collection that holds
  /// it.
  [[nodiscard]] virtual const CounterUse& use() const = 0;
  /// If its numbers come from ranges: all about them. The place of use() then has the collection of
  /// the ranges, and no key. Null: it is one counter.
  [[nodiscard]] virtual const RangesSpec* ranges() const { return nullptr; }
  /// Tells the store what it must know of this rule before any of its collections is used. Called
  /// before bind(), and again with each reload that leaves the rule unchanged; then other threads
  /// may still bind it for the previous set of rules, with another Store of the same counters.
  virtual void announce(Store& store) = 0;
};

/// A strategy with several sequences of values. Fields of the document, the date, or both say which
/// of them serves a document. Thread-safe.
class Sequences {
 public:
  virtual ~Sequences() = default;

  /// The dotted fields of the document, each once; empty: only the date matters.
  [[nodiscard]] virtual const std::vector<std::string>& fields() const = 0;
  /// Why no sequence serves a document with these values, by fields(), as half a sentence that
  /// shows none of them; empty: one does.
  [[nodiscard]] virtual std::string refusal(std::span<const FieldValue> values) const = 0;
  /// The sequence that serves the document now. Only if refusal() is empty.
  [[nodiscard]] virtual std::shared_ptr<Strategy> sequence(std::span<const FieldValue> values) = 0;
  /// The sequence that would have served it at another time. `wall`: as Clock::wall().
  [[nodiscard]] virtual std::shared_ptr<Strategy> sequence_at(std::span<const FieldValue> values,
                                                              std::chrono::nanoseconds wall) = 0;
  /// True if its sequences are Strategy::sequenced().
  [[nodiscard]] virtual bool in_turn() const { return false; }
};

/// A strategy whose numbers are consecutive in each collection. Thread-safe.
class SequenceRule {
 public:
  virtual ~SequenceRule() = default;

  /// The rule's sequence; the ns of its field is the rule's glob.
  [[nodiscard]] virtual const GaplessSpec& spec() const = 0;
  /// If any(), each collection has several sequences.
  [[nodiscard]] virtual const SequenceOptions& options() const = 0;
};

/// Makes the values of one rule. Does no I/O and has no clock of its own; values of the id store
/// that are not held must be asked for. Thread-safe: all io threads share one object. A strategy
/// with a lock takes it once per call, that is once per insert command.
///
/// Every strategy has next(). Each ability that only some strategies have is an interface of its
/// own, which the functions below return. The object that bind() returns need not offer the same
/// interfaces as the rule's own object.
class Strategy {
 public:
  static constexpr std::uint32_t kAttempts = 8;
  /// Of a sequence: another proxy that writes all the time often takes the next number first.
  static constexpr std::uint32_t kAttemptsInTurn = 100;
  static constexpr std::size_t kMostBytes = 64;  // more than the text of a UUID or of 34 digits

  virtual ~Strategy() = default;

  /// The strategy object for the collection `ns` ("db.collection"); null if this object serves all
  /// collections. May be called often; what must be remembered about a collection belongs to the
  /// store.
  [[nodiscard]] virtual std::shared_ptr<Strategy> bind(std::string_view /*ns*/,
                                                       Store& /*store*/) const {
    return nullptr;
  }

  /// The most bytes that a value takes, as counted by Values.
  [[nodiscard]] virtual std::size_t most_bytes() const { return kMostBytes; }

  /// Appends `n` values to `out`. They differ from each other and from the values already in `out`,
  /// which are those that this request got before. After Draw::need(), store_source() has them.
  /// After an error `out` may hold some of the new values; the caller must not use them.
  [[nodiscard]] virtual Draw next(std::size_t n, Values& out) = 0;

  // Valid as long as this object; null if it does not have the interface.
  [[nodiscard]] virtual StoreBacked* store_backed() { return nullptr; }
  /// The source to ask after Draw::need().
  [[nodiscard]] virtual StoreSource* store_source() { return store_backed(); }
  [[nodiscard]] virtual DuplicateObserver* duplicate_observer() { return nullptr; }
  [[nodiscard]] virtual BoundedSpace* bounded_space() { return nullptr; }
  [[nodiscard]] virtual CounterRule* counter_rule() { return nullptr; }
  /// If not null, values come from its sequences, and next() of this object is of no use.
  [[nodiscard]] virtual Sequences* sequences() { return nullptr; }
  [[nodiscard]] virtual SequenceRule* sequence_rule() { return nullptr; }
  /// Values are drawn through its turns, and never with next().
  [[nodiscard]] virtual Sequenced* sequenced() { return nullptr; }

  /// True if values are drawn through turns: its own, or those of its sequences.
  [[nodiscard]] bool in_turn() {
    const Sequences* several = sequences();
    return sequenced() != nullptr || (several != nullptr && several->in_turn());
  }

  /// How often to send one document again after a duplicate, unless its rule sets the number.
  [[nodiscard]] std::uint32_t attempts() {
    if (const BoundedSpace* space = bounded_space()) return space->attempts();
    return in_turn() ? kAttemptsInTurn : kAttempts;
  }
};

}  // namespace idproxy::ids
