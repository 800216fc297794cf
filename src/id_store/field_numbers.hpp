#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "id_store/field_places.hpp"
#include "id_store/mongo.hpp"
#include "id_store/number_texts.hpp"
#include "id_store/numbers.hpp"
#include "id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// What the fields that are filled from a counter hold. Reads the primary, through indexes only:
/// what cannot be read so ends the job, and the reason says what to type.
class FieldNumbers {
 public:
  /// All outlive it.
  FieldNumbers(mongo::Client& client, const ids::CounterSpec& spec,
               std::span<const ids::CounterField> fields)
      : client_(client), spec_(spec), numbers_(spec), fields_(fields) {}

  struct Look {
    /// The numbers furthest ahead, up to the counter's max, in all fields; the first is the one
    /// furthest ahead of all.
    std::vector<std::int64_t> furthest;
    /// False: there are strings of varying width, which do not sort as their numbers do, so that
    /// `furthest` says nothing.
    bool is_known = true;
    /// A unique index, which only a counter of one field in one collection can have, sees to it
    /// that a number given out twice is not stored twice.
    bool is_guarded = false;

    [[nodiscard]] std::optional<std::int64_t> most() const {
      return furthest.empty() ? std::nullopt : std::optional(furthest.front());
    }
  };
  /// At least `count` of the furthest numbers, as far as there are so many.
  [[nodiscard]] Outcome<Look> look(std::size_t count);

  /// The first `count` numbers in a row, from `from` on, that no field holds; fewer if there is no
  /// such row nearby, and none (but a place to go on from) if all that was looked at is taken.
  [[nodiscard]] Outcome<ids::Range> first_free(std::int64_t from, std::uint64_t count);

 private:
  /// Found once: a job does not see indexes come and go.
  [[nodiscard]] Outcome<void> find_places();
  [[nodiscard]] Outcome<void> look_at_numbers(const FieldPlace& place, std::size_t count,
                                              Look& look);
  [[nodiscard]] Outcome<void> look_at_texts(const FieldPlace& place, std::size_t count, Look& look);
  [[nodiscard]] Outcome<bool> holds_texts(const FieldPlace& place, TextClass which);
  [[nodiscard]] mongo::Document texts_up_to_max(TextClass which,
                                                const ids::NumberFormat& format) const;
  [[nodiscard]] Outcome<std::vector<std::int64_t>> furthest(const FieldPlace& place,
                                                            const mongo::Document& bracket,
                                                            std::int32_t order, std::size_t count);
  [[nodiscard]] std::vector<std::int64_t> page(std::int64_t from) const;
  [[nodiscard]] Outcome<std::set<std::int64_t>> taken(std::span<const std::int64_t> numbers);

  mongo::Client& client_;
  const ids::CounterSpec& spec_;
  Numbers numbers_;
  std::span<const ids::CounterField> fields_;
  std::optional<std::vector<FieldPlace>> places_;
};

}  // namespace idproxy::id_store
