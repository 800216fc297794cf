#pragma once

#include <string>

#include "config/reader.hpp"
#include "idproxy/rewrite/rule.hpp"

/// Checks the counters of rules, apart from the keys that their strategy checks. Rules without a
/// counter pass.
namespace idproxy::config {

/// Reports names that MongoDB does not accept, and a rule that applies to its own counter
/// collection.
void check_counter(const rewrite::Rule& rule, Reader& reader);

/// Makes `warn` a `require` where values repeat by design, so that only an index tells them apart.
void demand_index(rewrite::Rule& rule, Reader& reader);

/// Reports conflicts between two rules that share a counter document. Returns true if it reported
/// an error, at `later`; `path` names `earlier`.
bool check_shared_counter(const rewrite::Rule& earlier, const std::string& path,
                          const rewrite::Rule& later, Reader& reader);
/// Reports if `rule` applies to the collection with the counters of `counting`, which `path` names.
/// Returns true if it reported an error, at `rule`.
bool check_counter_collection(const rewrite::Rule& counting, const std::string& path,
                              const rewrite::Rule& rule, Reader& reader);

}  // namespace idproxy::config
