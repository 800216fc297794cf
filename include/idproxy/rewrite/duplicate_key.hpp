#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// True if the statement with the error may have brought a value of its own for `_id`, or got one.
using MayHaveId = std::function<bool()>;

/// The assignments, as positions in `plan`, for which a fresh value may cure a duplicate key error:
/// those whose field is a key of the violated index or lies below one. `error` is an entry of
/// writeErrors or the body of a reply:
///
///   {…, code: 11000, errmsg: "E11000 duplicate key error collection: DB.COLL index: NAME dup key:
///    …", keyPattern: {KEY: 1, …}, keyValue: {…}}
///
/// An index on a path below an assigned field does not count: the value has no such subfield, so
/// the index sees null whatever value is assigned. keyValue is not read, because it may be absent,
/// contain an ICU sort key in hex, or be invalid UTF-8 (observed, 6.0.5).
///
/// Some servers send no keyPattern: MongoDB before 4.2, and others that speak its protocol. Their
/// errmsg is all there is, in one of these forms:
///
///   … collection: DB.COLL index: NAME dup key: …
///   … collection: DB.COLL index: NAME
///   Duplicate key violation on the requested collection: Index 'NAME'
///   … collection: DB.COLL                                     (FerretDB 1)
///
/// An index with a name counts only if that says which field it is on: `_id_` or FIELD_…. Without a
/// name, the only unique index of the collection is meant. That on `_id` is another one, unless
/// `may_have_id` says that it cannot be. `ns`: "db.collection".
[[nodiscard]] std::vector<std::uint16_t> curable(
    Bytes error, std::string_view ns, const Plan& plan,
    const MayHaveId& may_have_id = [] { return true; });

/// True if the error's keyPattern has no other key than this field, not even one around it.
[[nodiscard]] bool is_on_field_alone(Bytes error, std::string_view field);

}  // namespace idproxy::rewrite
