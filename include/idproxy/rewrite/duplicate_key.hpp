#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// The fields of `plan` that a fresh value may help against an 11000 error: those that are a key of
/// the violated index, or lie below one. `error` is an entry of writeErrors or the body of a reply:
///
///   {…, code: 11000, errmsg: "E11000 duplicate key error collection: DB.COLL index: NAME dup key:
///    …", keyPattern: {KEY: 1, …}, keyValue: {…}}
///
/// An index on a path below the field is none of ours: it collides on null, whatever we assign.
/// keyValue is not read: it may be absent, an ICU sort key in hex, or no UTF-8 (observed, 6.0.5).
/// A server without keyPattern (before 4.2) names the index in errmsg, and only names that say
/// which field they are about are believed: `_id_`, and FIELD_…. `ns`: "db.collection". The result
/// holds positions in the plan.
[[nodiscard]] std::vector<std::uint16_t> curable(Bytes error, std::string_view ns,
                                                 const Plan& plan);

}  // namespace idproxy::rewrite
