#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "idproxy/rewrite/rule.hpp"

/// The rule that a command is for.
namespace idproxy::app::jobs {

/// Returns what is wrong with the collection that a command is given, for people; empty: nothing.
[[nodiscard]] std::string fault_of_ns(const std::string& ns);

/// The position of the rule that fills the field, or why none does, for people. `file`: of the
/// configuration.
[[nodiscard]] boost::system::result<std::size_t, std::string> find_rule(
    const std::string& file, const std::string& ns, const std::string& field,
    const std::vector<rewrite::Rule>& rules);

/// Inserts a copy of the rule at `index` for this collection alone in front of a rule with
/// wildcards, so that the rule's state is that of this collection.
void add_rule_of(const std::string& ns, std::vector<rewrite::Rule>& rules, std::size_t index);

}  // namespace idproxy::app::jobs
