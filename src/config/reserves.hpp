#pragma once

#include <string>

#include "idproxy/base/parameters.hpp"
#include "idproxy/rewrite/rule.hpp"

/// Reads and checks `reserve` (docs/reserve.md).
namespace idproxy::config {

/// Fills `rule.reserve`. The rule has everything else already; what of it was invalid is empty.
void read_reserve(rewrite::Rule& rule, Parameters& reader);

/// Reports if a rule keeps its reservations in the collection of the other one's reservations,
/// counters or documents. Returns true if it reported an error, at `later`; `path` names `earlier`.
bool check_reservations(const rewrite::Rule& earlier, const std::string& path,
                        const rewrite::Rule& later, Parameters& reader);

}  // namespace idproxy::config
