#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collisions.hpp"
#include "idproxy/ids/sequenced.hpp"

namespace idproxy::rewrite {

/// True if a statement gets a number of a sequence without gaps.
[[nodiscard]] bool needs_turn(const Plan& plan, const GivenValues& given);

/// The numbers of sequences without gaps in one write. Its statements get consecutive numbers in
/// their order, command by command: what a command does not store, the next command uses.
class NumbersInTurn {
 public:
  /// Borrows `plan` and `given`. `transaction`: see ids::Sequenced.
  NumbersInTurn(const Plan& plan, GivenValues& given, const std::string& transaction);

  /// What is missing: numbers that the store must be asked for, or that there are none.
  struct Missing {
    const Assignment* assignment;
    ids::StoreSource* source;
    std::size_t count;
    std::optional<ids::Error> error;
  };
  /// Draws numbers for these statements, which are all that are still to be sent, where there are
  /// none. Returns nothing once all are there.
  [[nodiscard]] std::optional<Missing> provide(std::span<const std::int32_t> statements);
  /// The store's numbers for the last Missing.
  void accept(ids::Grant grant);

  /// Event: these statements are sent, and get the next numbers.
  void send(std::span<const std::int32_t> statements);
  /// Event: of the statements that were sent, the server has stored these and no others.
  void stored(std::span<const std::int32_t> statements, ids::Durability durability);
  /// The rule of a number of a sequence that is taken; null if the collision is of other values.
  [[nodiscard]] const Assignment* sequence_in(const Collision& collision) const;
  /// Event: the server says that numbers are taken.
  void taken(const Collision& collision);
  /// Event: it is not known which numbers are stored.
  void lost();

 private:
  /// The numbers of one rule.
  struct Line {
    std::size_t assignment;
    std::unique_ptr<ids::Turn> turn;
    bool has_numbers = false;
    std::size_t next = 0;  // the first that is not stored: index in GivenValues::values
  };
  template <class Use>
  void each_place(std::span<const std::int32_t> statements, const Line& line, const Use& use) const;
  [[nodiscard]] std::size_t places(std::span<const std::int32_t> statements,
                                   const Line& line) const;

  [[nodiscard]] bool concerns(const Collision& collision, const Line& line) const;

  const Plan& plan_;
  GivenValues& given_;
  std::vector<Line> lines_;
  Line* asked_ = nullptr;
};

}  // namespace idproxy::rewrite
