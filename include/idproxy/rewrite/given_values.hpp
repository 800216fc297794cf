#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "idproxy/ids/sequences.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/statements.hpp"

/// The values that a write gives its statements (those of an insert are its documents), which are
/// identified by their index in the client's batch, and the sources that made them: of each
/// assignment its own, or its sequences.
namespace idproxy::rewrite {

/// A place in a statement that gets a generated value.
struct Given {
  std::int32_t statement;
  std::uint16_t assignment;  ///< index in the plan
  std::uint32_t value;       ///< index in GivenValues::values[assignment]
};

/// A stored value that a statement would take away, and that stays (docs/keep.md). If the statement
/// inserts a document, that may be Given one.
struct Kept {
  std::int32_t statement;
  std::uint16_t assignment;  ///< index in the plan
};

/// The sequences that the values of one assignment come from (ids::Sequences).
struct GivenSequences {
  std::vector<std::shared_ptr<ids::Source>> all;                ///< each once
  std::vector<std::uint32_t> of_value;                          ///< by value: an index in `all`
  std::unordered_map<const ids::Source*, std::uint32_t> known;  ///< indexes in `all`

  /// Notes that the next value comes from this sequence.
  void add_value(std::shared_ptr<ids::Source> sequence);
  /// The same of the one of these sequences that the fields of its document lead to.
  void add_value(const ids::Sequences& sequences, std::span<const ids::FieldValue> fields,
                 ids::Opening opening);
  /// How many values come from each.
  [[nodiscard]] std::vector<std::size_t> counts() const;
};

/// The values that the statements of one command get.
struct GivenValues {
  std::vector<ids::Values> values;  ///< by assignment: all drawn values, also those that collided
  std::vector<Given> given;         ///< sorted by statement, then by rule in file order
  std::vector<std::size_t> wanted;  ///< by assignment: how many values the first send needs
  /// By assignment; empty if no strategy of the plan has sequences.
  std::vector<GivenSequences> sequences{};
  std::vector<UpsertParts> upserts{};  ///< by statement; empty for an insert
  std::vector<Kept> kept{};            ///< sorted as `given`
  /// For the scan: with `only_used`, `sequences` has null for those that are not in use.
  ids::Opening opening = ids::Opening::any;

  /// The values of this statement; empty if it gets none.
  [[nodiscard]] std::span<const Given> of(std::int32_t statement) const;
  [[nodiscard]] std::span<const Kept> kept_of(std::int32_t statement) const;
  /// True if a document that this statement has found may have the value that was meant for one
  /// that it inserts: a replacement gives it to documents without the field.
  [[nodiscard]] bool may_be_used_by_found(std::int32_t statement) const {
    return !upserts.empty() && upserts[static_cast<std::size_t>(statement)].is_replacement &&
           !kept_of(statement).empty();
  }
  /// Calls `use` with the index in `given` of each value of these statements, which ascend.
  template <class Use>
  void each_of(std::span<const std::int32_t> statements, const Use& use) const {
    auto from = given.begin();
    for (const std::int32_t statement : statements) {
      from = std::ranges::lower_bound(from, given.end(), statement, {}, &Given::statement);
      for (; from != given.end() && from->statement == statement; ++from) {
        use(static_cast<std::size_t>(from - given.begin()));
      }
    }
  }
  /// True if the value at this index of `given` is there.
  [[nodiscard]] bool is_drawn(std::size_t at) const {
    const Given& its = given[at];
    return its.assignment < values.size() && its.value < values[its.assignment].size();
  }
  [[nodiscard]] bool is_multi(std::int32_t statement) const {
    return !upserts.empty() && upserts[static_cast<std::size_t>(statement)].multi;
  }
  /// Keeps the memory.
  void clear();
  /// Memory of this, the values and what is noted about them, in bytes.
  [[nodiscard]] std::size_t capacity() const;
};

/// Gives each place in `given` the next value of its rule, in the order of the statements, and sets
/// given.wanted.
void number_values(const Plan& plan, GivenValues& given);

/// True if a statement gets a number of a sequence without gaps.
[[nodiscard]] bool needs_turn(const Plan& plan, const GivenValues& given);

/// The number of sources that made values for the assignment, or may have.
[[nodiscard]] std::size_t sources_of(const GivenValues& given, std::size_t assignment);
/// The index of the one that made this value, below sources_of().
[[nodiscard]] std::size_t source_of(const GivenValues& given, std::size_t assignment,
                                    std::uint32_t value);
[[nodiscard]] ids::Source& source_at(const Plan& plan, const GivenValues& given,
                                     std::size_t assignment, std::size_t source);

/// Values of one assignment that one source has made.
struct FromSource {
  std::size_t assignment;
  ids::Source* source;
  std::vector<std::uint32_t> which;  ///< indexes in given.values[assignment], ascending
};
/// Some values of `given`, by their sources.
[[nodiscard]] std::vector<FromSource> by_source(const Plan& plan, const GivenValues& given,
                                                std::span<const Given> some);

/// Returns values that are stored nowhere to those strategies that take values back, so that they
/// can serve other statements; not numbers without gaps, which return with their turns. `is_unused`
/// is called with indexes of given.given.
void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused);

}  // namespace idproxy::rewrite
