#pragma once

#include <span>
#include <string>
#include <vector>

#include "id_store/mongo.hpp"
#include "id_store/namespaces.hpp"
#include "id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// A field in one collection.
struct FieldPlace {
  const ids::CounterField* field;
  Namespace ns;
  bool is_unique;  ///< it is _id, or there is a unique index on it alone
  bool is_empty;   ///< the collection, and there is no index through which to look again
};

/// The collections of the fields, with wildcards resolved. If one cannot be read through an index,
/// the job ends, and the reason says what to type. `fields` must outlive the places.
[[nodiscard]] Outcome<std::vector<FieldPlace>> find_places(
    mongo::Client& client, const ids::CounterPlace& counter,
    std::span<const ids::CounterField> fields);

/// True if the counter fills one field of one collection: only then can an index keep numbers from
/// being stored twice.
[[nodiscard]] bool can_be_guarded(std::span<const ids::CounterField> fields);

/// {find, filter: {field: filter}, projection: {field: 1}}, limited in time.
[[nodiscard]] mongo::Document find_in(const Namespace& ns, std::string_view field,
                                      const mongo::Document& filter);

/// The job's reply after a failed read.
[[nodiscard]] ids::CounterReply unreadable(const Namespace& ns, const mongo::Reply& reply);

}  // namespace idproxy::id_store
