#pragma once

#include <string>

#include "config/reader.hpp"
#include "idproxy/rewrite/rule.hpp"

/// What can be wrong with the counters of rules, beside the keys that their strategy checks. Rules
/// without a counter pass.
namespace idproxy::config {

/// Reports names that MongoDB does not take, and a rule that would number its own counters.
void check_counter(const rewrite::Rule& rule, Reader& reader);

/// Both return true if they have reported an error of `later`; `path` names `earlier`.
bool check_shared_counter(const rewrite::Rule& earlier, const std::string& path,
                          const rewrite::Rule& later, Reader& reader);
/// ... of `rule`; `path` names `counting`, whose counters lie where `rule` would touch them.
bool check_counter_collection(const rewrite::Rule& counting, const std::string& path,
                              const rewrite::Rule& rule, Reader& reader);

}  // namespace idproxy::config
