#pragma once

#include <string>

#include "idproxy/base/parameters.hpp"
#include "idproxy/rewrite/rule.hpp"

/// Checks the counters of rules, apart from the keys that their strategy checks. Rules without a
/// counter pass.
namespace idproxy::config {

/// True if the rule keeps counters in this collection.
[[nodiscard]] bool has_counters_in(const rewrite::Rule& rule, const std::string& ns);

/// Reports names that MongoDB does not accept, and a rule that applies to its own counter
/// collection.
void check_counter(const rewrite::Rule& rule, Parameters& reader);

/// Makes `warn` a `require` where values repeat by design, so that only an index tells them apart.
void demand_index(rewrite::Rule& rule, Parameters& reader);

/// Reports conflicts between two rules that share a counter document. Returns true if it reported
/// an error, at `later`; `path` names `earlier`.
bool check_shared_counter(const rewrite::Rule& earlier, const std::string& path,
                          const rewrite::Rule& later, Parameters& reader);
/// Reports if `rule` applies to the collection with the counters of `counting`, which `path` names.
/// Returns true if it reported an error, at `rule`.
bool check_counter_collection(const rewrite::Rule& counting, const std::string& path,
                              const rewrite::Rule& rule, Parameters& reader);

}  // namespace idproxy::config
