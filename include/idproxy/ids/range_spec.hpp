#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::ids {

/// The ranges of a rule with the strategy counter-ranges (docs/strategies.md#counter-ranges), as
/// MongoDB's blog has them: documents of one collection,
///
///   {_id: "COUNTER DOCUMENT NUMBER 7", COUNT: 7000000042, MAX_VALUE: 7999999999}
///
/// COUNT is the next number that the range gives out, MAX_VALUE the last one.
struct RangesSpec {
  /// The ranges from which a proxy takes its numbers.
  enum class Pick {
    sticky,  ///< from `active` ranges, each until it has none left
    random,  ///< each block from another range, all of which are equally likely
  };
  /// Range i: first + i * width … first + (i + 1) * width - 1, which is below 2^63 - 1.
  struct Layout {
    std::int64_t count = 1000;
    std::int64_t width = 1'000'000'000;
    std::int64_t first = 0;
    [[nodiscard]] std::int64_t first_of(std::int64_t number) const {
      return first + number * width;
    }
    [[nodiscard]] std::int64_t last_of(std::int64_t number) const {
      return first_of(number) + (width - 1);
    }
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  std::string name;              ///< of the ranges: rules with the same name share them
  CounterSpec counter;           ///< what all ranges have in common; without key, start and max
  std::optional<Layout> layout;  ///< nothing: as the collection has them
  Pick pick = Pick::sticky;
  std::uint32_t active = 4;  ///< ranges from which a proxy takes numbers at a time, 1..64
  bool create = true;        ///< the proxy makes documents that are missing
  friend bool operator==(const RangesSpec&, const RangesSpec&) = default;
};

/// One range, at one moment.
struct RangeState {
  std::int64_t number;  ///< in its _id
  std::int64_t first;
  std::int64_t last;
  std::int64_t next;  ///< beyond `last`: it has no number left
  [[nodiscard]] bool has_numbers() const { return next <= last; }
  friend bool operator==(const RangeState&, const RangeState&) = default;
};

/// The prefix of every range's _id.
inline constexpr std::string_view kRangePrefix = "COUNTER DOCUMENT NUMBER ";

/// "COUNTER DOCUMENT NUMBER 7"
[[nodiscard]] std::string range_key(std::int64_t number);
/// The number in a range's _id; nothing if it is not one that range_key() makes.
[[nodiscard]] std::optional<std::int64_t> range_number(std::string_view key);

/// The counter that a range is.
[[nodiscard]] CounterSpec counter_of(const RangesSpec& spec, const RangeState& range);

/// A range's document, as the store has read it. Nothing: the field is missing or not an integer.
struct RangeDocument {
  std::int64_t number;
  std::optional<std::int64_t> count;      ///< COUNT
  std::optional<std::int64_t> max_value;  ///< MAX_VALUE
};

/// The ranges of a collection, as its documents define them.
struct RangeFindings {
  std::vector<RangeState> ranges;   ///< ascending; complete if `missing` and `fault` are empty
  std::vector<RangeState> missing;  ///< to be created, descending; `next` is their first number
  std::string fault;                ///< why they cannot be used, for people; empty: they can
};

/// Checks that the documents are those that the rule describes, and that no two ranges have a
/// number in common. A range begins where the rule's layout says; without one, behind the range
/// before it, and the first of all where it stands now. A range whose COUNT is no integer has no
/// numbers.
///
/// Without a layout the documents themselves are the ranges. If there are none, the rule gets those
/// of the default layout. They are created from the last to the first, so that a set of them
/// without number 0 was interrupted, and is completed.
[[nodiscard]] RangeFindings check_ranges(const RangesSpec& spec,
                                         std::span<const RangeDocument> documents);

}  // namespace idproxy::ids
