#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "id_store/field_places.hpp"
#include "id_store/numbers.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// Why FieldNumbers::not_indexed() refuses where the server reads no collection as a whole.
inline constexpr std::string_view kNoTableScan =
    ", since the server is set to read no collection as a whole (notablescan)";

/// The texts of numbers (NumberFormat::Output::string) in four classes, by sign and by whether
/// `pad` covers their digits; in ascending order of the numbers. Example with prefix "A-" and pad
/// 3:
///
///   wide_negative  A--1000 …    their order as texts is not that of the numbers
///   negative       A--999 … A--001
///   positive       A-000 … A-999
///   wide           A-1000 …     their order as texts is not that of the numbers
///
/// Only within a class do texts of one width sort by the magnitude of their numbers.
enum class TextClass { wide_negative, negative, positive, wide };

[[nodiscard]] inline bool is_wide(TextClass of) {
  return of == TextClass::wide_negative || of == TextClass::wide;
}
[[nodiscard]] inline bool is_negative(TextClass of) {
  return of == TextClass::wide_negative || of == TextClass::negative;
}

[[nodiscard]] TextClass class_of(std::int64_t number, const ids::NumberFormat& format);

/// How strings compare. Every collation compares digits as bytes do, or with numericOrdering as
/// numbers; other characters need not come before or behind them as there.
enum class TextOrder { of_bytes, of_collation, of_numbers };

/// A range in the order of the index; both ends inclusive.
struct TextRange {
  std::optional<std::string> from;
  std::optional<std::string> to;
};
/// A query condition for the texts of a class within a range, which hardly any other text meets:
/// {$gte, $lt or $lte, $regex}. By a collation, too, each class but the wide ones is a range, since
/// its texts differ in their digits only, and check digits follow the number. Texts from 0 on that
/// the collation calls equal to these are among them.
[[nodiscard]] mongo::Document texts_of(TextClass which, const ids::NumberFormat& format,
                                       const TextRange& within = {},
                                       TextOrder order = TextOrder::of_bytes);

/// A regular expression for the texts of all numbers from 0 on, with one group: the number. Only of
/// formats whose check digits follow the number.
[[nodiscard]] std::string pattern_of_all(const ids::NumberFormat& format);

/// What a job reads, and how.
struct FieldJob {
  mongo::Client& client;
  const ids::CounterSpec& spec;
  std::span<const ids::CounterField> fields;
  Numbers numbers{spec};
  /// Searched once, so that the job does not notice new or dropped indexes.
  std::optional<FieldPlaces> places{};
  std::optional<std::chrono::steady_clock::time_point> scans_end{};
  bool linearizable = false;
  bool index_has_gone = false;
  TextClass lowest = TextClass::wide_negative;
};

/// The numbers stored in the fields that a counter fills. Reads the primary, through indexes unless
/// told otherwise; without a usable index the job ends, and the reason has the command that creates
/// one.
class FieldNumbers {
 public:
  /// The arguments must outlive it.
  FieldNumbers(mongo::Client& client, const ids::CounterSpec& spec,
               std::span<const ids::CounterField> fields)
      : job_{client, spec, fields} {}

  /// From now on reads whole collections where no index can be used, for `limit` altogether. If
  /// that is not enough, the job ends.
  void allow_scans(std::chrono::milliseconds limit) {
    job_.scans_end = std::chrono::steady_clock::now() + limit;
  }
  /// From now on reads only what no failover can undo, which takes a write on the primary; of a
  /// server without a replica set, what it has.
  void read_linearizable() { job_.linearizable = true; }
  /// There are no numbers below 0: does not look for their texts.
  void expect_no_negatives() { job_.lowest = TextClass::positive; }
  /// Takes the places from an earlier job. They must be of the same fields.
  void use(FieldPlaces places) { job_.places = std::move(places); }
  /// The places, after read_furthest().
  [[nodiscard]] const FieldPlaces& places() const { return *job_.places; }
  /// The places of which whole collections must be read.
  [[nodiscard]] ids::Result<std::vector<FieldPlace>> places_to_scan();
  /// FieldPlaces::indexes, after places_to_scan().
  [[nodiscard]] const std::string& indexes() const { return job_.places->indexes; }
  /// Look::is_guarded, after places_to_scan().
  [[nodiscard]] bool are_guarded() const;
  /// The job's reply if a place may not be scanned. `why`: in brackets behind "without an index",
  /// with a blank before it, or empty.
  /// False if the server refuses to read the whole collection (its parameter notablescan).
  [[nodiscard]] bool may_scan(const FieldPlace& place);
  [[nodiscard]] ids::Error not_indexed(const FieldPlace& place, std::string_view why);

  struct Reading {
    std::size_t asked = 0;  ///< read_furthest()'s `count`
    /// The numbers furthest ahead, up to the counter's max, in all fields; the first is the one
    /// furthest ahead of all.
    std::vector<std::int64_t> furthest{};
    /// False: there are strings of varying width, or hidden numbers, which do not sort as their
    /// numbers do, and `furthest` means nothing, or has the latest of those.
    bool is_known = true;
    /// A unique index keeps a number that is given out twice from being stored twice. Only a
    /// counter of one field in one collection can have one.
    bool is_guarded = false;
    /// Whole collections were read for it.
    bool read_all = false;

    [[nodiscard]] std::optional<std::int64_t> most() const {
      return furthest.empty() ? std::nullopt : std::optional(furthest.front());
    }
  };
  /// At least `count` of the furthest numbers, if there are as many.
  [[nodiscard]] ids::Result<Reading> read_furthest(std::size_t count);
  /// True if an index went during the last read_furthest(), which has failed for that: read again,
  /// with another object.
  [[nodiscard]] bool index_has_gone() const { return job_.index_has_gone; }

  /// The first `count` consecutive numbers from `from` on that no field holds; fewer if there is no
  /// such run nearby. If every number that was checked is taken, the range is empty and begins
  /// where the next search must continue.
  [[nodiscard]] ids::Result<ids::Range> first_free(std::int64_t from, std::uint64_t count);

  /// Those of `numbers` that a field holds, in their order, after read_furthest(). Of too many,
  /// only the first ones are looked up.
  [[nodiscard]] ids::Result<std::vector<ids::Range>> taken_among(
      std::span<const ids::Range> numbers);

 private:
  FieldJob job_;
};

/// True if the numbers of one of the fields are hidden: none is found but by its value.
[[nodiscard]] bool has_hidden(std::span<const ids::CounterField> fields);

/// True if texts of one of the fields vary around their numbers (NumberFormat::pattern). Free
/// numbers cannot be looked for then.
[[nodiscard]] bool has_pattern(std::span<const ids::CounterField> fields);

}  // namespace idproxy::id_store
