#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "id_store/mongo.hpp"
#include "id_store/namespaces.hpp"
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

  struct Most {
    std::optional<std::int64_t> number;  ///< the one furthest ahead, up to the counter's max
    bool is_known = true;    ///< false: strings of varying width do not sort as their numbers do
    bool is_guarded = true;  ///< a unique index guards each field
  };
  /// Over all fields.
  [[nodiscard]] Outcome<Most> most();

  /// The first `count` numbers in a row, from `from` on, that no field holds; fewer if there is no
  /// such row nearby, and none (but a place to go on from) if all that was looked at is taken.
  [[nodiscard]] Outcome<ids::Range> first_free(std::int64_t from, std::uint64_t count);

 private:
  /// A field in one collection.
  struct Place {
    const ids::CounterField* field;
    Namespace ns;
    bool is_guarded;  ///< by a unique index
    bool is_empty;    ///< the collection, and there is no index through which to look again
  };
  /// Indexes that begin with a field.
  struct Indexed {
    bool is_indexed = false;
    bool is_unique = false;
  };
  [[nodiscard]] Outcome<std::vector<Place>> places();
  [[nodiscard]] Outcome<void> add_place(const ids::CounterField& field, const Namespace& ns,
                                        std::vector<Place>& places);
  [[nodiscard]] Outcome<Indexed> indexed(const ids::CounterField& field, const Namespace& ns);
  [[nodiscard]] Outcome<bool> is_empty(const Namespace& ns);
  [[nodiscard]] Outcome<std::optional<std::int64_t>> most_number(const Place& place);
  [[nodiscard]] Outcome<std::optional<std::int64_t>> most_text(const Place& place);
  [[nodiscard]] bool is_sorted(const ids::NumberFormat& format) const;
  [[nodiscard]] std::vector<std::int64_t> page(std::int64_t from) const;
  [[nodiscard]] Outcome<std::set<std::int64_t>> taken(const std::vector<Place>& places,
                                                      std::span<const std::int64_t> numbers);

  mongo::Client& client_;
  const ids::CounterSpec& spec_;
  Numbers numbers_;
  std::span<const ids::CounterField> fields_;
};

}  // namespace idproxy::id_store
