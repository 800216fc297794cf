#pragma once

#include <string>
#include <vector>

#include "idproxy/rewrite/rule.hpp"

namespace idproxy::app {

/// How two lists of rules differ, for the log, without values:
///
///   changed shop.orders.number (block.size, start); added shop.bills.n; removed shop.old.n; order
///
/// Empty if they do not. Names at most 20 rules and 8 keys of each, and counts the others.
[[nodiscard]] std::string rule_changes(const std::vector<rewrite::Rule>& before,
                                       const std::vector<rewrite::Rule>& after);

}  // namespace idproxy::app
