#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

/// A sequence without gaps, as its rule describes it (docs/strategies.md#gapless).
struct GaplessSpec {
  CounterField field;
  std::int64_t start = 1;
  std::int64_t max = 0;    ///< the last number that the rule's `output` can hold
  bool floor = true;       ///< remember the highest number, so that none is given out twice
  std::string store_db{};  ///< the id store's database, which has the floor
  /// Sequences::Chosen::key of one of several sequences; empty: it is the only one of its
  /// collection.
  std::string place{};
  /// Of all sequences of one collection.
  [[nodiscard]] std::string key() const { return field.ns + "." + field.field; }
  /// Identifies the sequence among all of a store.
  [[nodiscard]] std::string name() const {
    return place.empty() ? key() : key().append(1, '\0').append(place);
  }
  friend bool operator==(const GaplessSpec&, const GaplessSpec&) = default;
};

/// The way in which the store finds out which numbers are stored.
enum class GaplessRead {
  /// Waits until no failover can undo what it has seen.
  sure,
  /// Reads what the primary has now. For a write whose number was taken: it goes to that same
  /// primary, so that a failover that undoes what was read also undoes the write.
  quick,
};

/// A task for the store, for one sequence.
struct GaplessJob {
  enum class Kind {
    read,  ///< read the largest number that is stored or was given out before
    keep,  ///< remember `floor` as the highest number that was given out
  };
  Kind kind;
  GaplessRead how = GaplessRead::sure;
  std::int64_t floor = 0;
};

/// The result of a job. read: the largest number; nothing: there is none. Of an unguarded field,
/// the inspector of collections has told the operator, and creates an index if the rule says so.
using GaplessReply = Result<std::optional<std::int64_t>>;

}  // namespace idproxy::ids
