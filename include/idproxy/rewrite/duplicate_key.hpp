#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// The assignments, as positions in `plan`, for which a fresh value may cure a duplicate key error:
/// those whose field is a key of the violated index or lies below one. `error` is an entry of
/// writeErrors or the body of a reply:
///
///   {…, code: 11000, errmsg: "E11000 duplicate key error collection: DB.COLL index: NAME dup key:
///    …", keyPattern: {KEY: 1, …}, keyValue: {…}}
///
/// An index on a path below an assigned field does not count: the value has no such subfield, so
/// the index sees null whatever value is assigned. keyValue is not read, because it may be absent,
/// contain an ICU sort key in hex, or be invalid UTF-8 (observed, 6.0.5). A server without
/// keyPattern (before 4.2) names the index only in errmsg. Then an index counts only if its name
/// says which field it is on: `_id_` or FIELD_…. `ns`: "db.collection".
[[nodiscard]] std::vector<std::uint16_t> curable(Bytes error, std::string_view ns,
                                                 const Plan& plan);

/// True if the error's keyPattern has no other key than this field, not even one around it.
[[nodiscard]] bool is_on_field_alone(Bytes error, std::string_view field);

}  // namespace idproxy::rewrite
