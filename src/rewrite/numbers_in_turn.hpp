#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/ids/source.hpp"
#include "rewrite/collisions.hpp"

namespace idproxy::rewrite {

/// True if a statement gets a number of a sequence without gaps.
[[nodiscard]] bool needs_turn(const Plan& plan, const GivenValues& given);

/// The numbers of sequences without gaps in one write. The statements of each sequence get
/// consecutive numbers in their order, command by command: what a command does not store, the next
/// command uses. Takes the turns in the order of Source::name(), all of them before the first
/// command, and keeps them.
class NumbersInTurn {
 public:
  /// Borrows `plan` and `given`. `transaction`: see ids::TurnTaker.
  NumbersInTurn(const Plan& plan, GivenValues& given, const std::string& transaction);

  /// Draws numbers for these statements, which are all that are still to be sent, where there are
  /// none. Returns nothing once all are there. Each statement then has a value that is at least as
  /// long as the one that send() gives it.
  [[nodiscard]] std::optional<Need> provide(std::span<const std::int32_t> statements);
  /// The store's numbers for the last Need.
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
  /// The numbers of one sequence.
  struct Line {
    std::size_t assignment;
    std::uint32_t source;   // index in GivenSequences::all
    ids::Source* sequence;  // the same
    std::string name;       // of the sequence
    std::unique_ptr<ids::Turn> turn{};
    bool has_numbers = false;
    bool is_over = false;    // no statement that is still to be sent needs a number
    std::size_t next = 0;    // the first that is not stored: index in GivenValues::values
    std::size_t places = 0;  // of the statements at hand
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void find_lines();
  void sort_lines();
  template <class Use>
  void each_place(std::span<const std::int32_t> statements, const Use& use) const;
  void count_places(std::span<const std::int32_t> statements);
  void number(std::span<const std::int32_t> statements);
  [[nodiscard]] std::optional<Need> draw(Line& line);
  void note_source(const Line& line);

  const Plan& plan_;
  GivenValues& given_;
  std::vector<Line> lines_;            // in the order in which turns are taken
  std::vector<std::uint32_t> places_;  // by GivenValues::given: index in lines_, or kNone
  bool is_counted_ = false;            // Line::places is of the statements to provide for
  std::size_t asked_ = 0;              // index in lines_
};

}  // namespace idproxy::rewrite
