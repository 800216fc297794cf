#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/typed_command.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/range_spec.hpp"

/// Parts of the commands of one counter, and of their replies.
namespace idproxy::id_store {

/// The key as people read it: text, or JSON.
[[nodiscard]] std::string key_text(const ids::CounterPlace& place);

/// {key_field: key, …filter}; for CounterPlace::is_scope(), the filter first.
[[nodiscard]] mongo::Document identity_of(const ids::CounterPlace& place);

/// Makes the unique index on `name_field` and `scope_field`; nothing: the layout has none.
[[nodiscard]] std::optional<mongo::Document> make_index_of(const ids::CounterPlace& place);

/// The mongosh command that makes it.
[[nodiscard]] Commands index_by_hand(const ids::CounterPlace& place);

/// {$set: {V: value}}
[[nodiscard]] mongo::Document set_value(const std::string& field, std::int64_t value);

/// [{$set: {V: {$add: [base, increment]}}}]
[[nodiscard]] mongo::Array set_sum(const std::string& field, const mongo::Document& base,
                                   std::int64_t increment);

/// The findAndModify that takes `increment` numbers of a range from the stored one on, or from
/// `from` on if that is further, and never counts beyond the number behind the last one.
[[nodiscard]] mongo::Document allocate_from_range(const ids::CounterPlace& place,
                                                  const mongo::Document& query,
                                                  std::int64_t increment,
                                                  std::optional<std::int64_t> from);

/// {$toLong: "$V"}
[[nodiscard]] mongo::Document to_long(const std::string& field);

/// The `value` of findAndModify's reply; nothing if no document matched. A view into the reply.
[[nodiscard]] std::optional<Bytes> value_of(const mongo::Reply& reply);

/// The mongosh command that sets the counter to `value`.
[[nodiscard]] Commands set_by_hand(const ids::CounterPlace& place, std::int64_t value);

/// The mongosh command that gives a user of the database `source` the `role` of `db`.
[[nodiscard]] Commands grant(const std::string& user, const std::string& source,
                             const std::string& role, const std::string& db);

/// The document to insert for a missing counter. Its _id is derived from key and filter, so that
/// two proxies cannot create it twice, and two counters cannot share it.
[[nodiscard]] mongo::Document new_counter(const ids::CounterSpec& spec, std::int64_t value);

/// {fpe, space}, which say how the counter's numbers are hidden; empty: they are not.
[[nodiscard]] mongo::Document seal_of(const ids::CounterSpec& spec);

/// The document to insert for a missing range, `next` beyond `last` if it must give no numbers.
[[nodiscard]] mongo::Document new_range(const ids::CounterPlace& place,
                                        const ids::RangeState& range);

// Marks: documents {_id: {collection, query: {key_field: key, …filter}, field: value_field}} in a
// collection beside the counter's own. A mark says that numbers of the counter may have been given
// out, so that a counter that is missing was lost.

/// The value_field that marks leave out. Those of release 0.2 leave out every one.
inline constexpr std::string_view kUnnamedInMarks = "COUNT";

/// Finds the counter's mark. One of release 0.2 may be that of another counter in the same
/// document: it counts only while there is no such document.
[[nodiscard]] mongo::Document find_mark(const ids::CounterPlace& place, bool document_exists);

/// Writes the mark unless it is there.
[[nodiscard]] mongo::Document write_mark(const ids::CounterPlace& place);

/// The part of an error that is safe to show: "13 Unauthorized".
[[nodiscard]] std::string code_name(const mongo::Reply& reply);

}  // namespace idproxy::id_store
