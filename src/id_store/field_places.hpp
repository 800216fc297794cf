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

/// Where the fields stand, wildcards resolved. What cannot be read through an index ends the job,
/// and the reason says what to type. `fields` outlive the places.
[[nodiscard]] Outcome<std::vector<FieldPlace>> find_places(
    mongo::Client& client, const ids::CounterPlace& counter,
    std::span<const ids::CounterField> fields);

/// True if the counter fills one field of one collection: only then can an index see to it that no
/// number is stored twice.
[[nodiscard]] bool can_be_guarded(std::span<const ids::CounterField> fields);

/// {find, filter: {field: filter}, projection: {field: 1}}, limited in time.
[[nodiscard]] mongo::Document find_in(const Namespace& ns, std::string_view field,
                                      const mongo::Document& filter);

/// How a job ends after such a reply.
[[nodiscard]] ids::CounterReply unreadable(const Namespace& ns, const mongo::Reply& reply);

}  // namespace idproxy::id_store
