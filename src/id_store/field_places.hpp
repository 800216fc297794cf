#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "id_store/index.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// A field in one collection.
struct FieldPlace {
  enum class Access {
    nothing,  ///< the collection is empty, and there is no index through which to look again
    index,
    scan,  ///< no index can be used: the whole collection must be read
  };
  const ids::CounterField* field;
  Namespace ns;
  bool is_unique = false;  ///< it is _id, or a unique index guards it
  Access access = Access::index;
  std::string hint{};       ///< Access::index: the index's name; empty: _id
  std::string condition{};  ///< Index::Partial::condition of that index
  std::string collation{};  ///< Index::collation of that index
};

struct FieldPlaces {
  std::vector<FieldPlace> all;
  std::string indexes;  ///< as the servers list them: differs if an index differs
};

/// The unique index that the counter's field needs.
[[nodiscard]] UniqueField unique_field(const ids::CounterField& field);

/// The collections of the fields, with wildcards resolved, except of fields whose stored values say
/// nothing. `fields` must outlive the places.
[[nodiscard]] ids::Result<FieldPlaces> find_places(mongo::Client& client,
                                                   const ids::CounterPlace& counter,
                                                   std::span<const ids::CounterField> fields);

/// True if the counter fills one field of one collection: only then can an index keep numbers from
/// being stored twice.
[[nodiscard]] bool can_be_guarded(std::span<const ids::CounterField> fields);

/// {field: filter}, with the condition of the index and the scope of the counter.
[[nodiscard]] mongo::Document filter_in(const FieldPlace& place, const mongo::Document& filter);
/// The collation with which commands read the place: that of the index, so that they can use it;
/// without one byte by byte, as two texts differ for a rule. Empty: they compare no strings.
[[nodiscard]] mongo::Document collation_in(const FieldPlace& place);
/// {find, filter: filter_in(…), projection: {field: 1}}, limited in time.
[[nodiscard]] mongo::Document find_in(const FieldPlace& place, const mongo::Document& filter,
                                      std::chrono::milliseconds limit);

/// "orderNo in shop.orders"
[[nodiscard]] std::string text_of(const FieldPlace& place);

}  // namespace idproxy::id_store
