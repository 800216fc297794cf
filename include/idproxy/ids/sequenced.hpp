#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

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
};

/// A strategy whose numbers have no gaps. Thread-safe.
class Sequenced {
 public:
  virtual ~Sequenced() = default;

  /// For one write.
  [[nodiscard]] virtual std::unique_ptr<Turn> turn(TurnTaker taker) = 0;
  /// Identifies the sequence in this process. A write that needs several turns takes them in the
  /// order of the names and keeps all of them until it is done, so that no two writes wait for each
  /// other.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace idproxy::ids
