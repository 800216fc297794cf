#pragma once

#include "config/tree.hpp"

namespace idproxy::config {

/// Replaces each ${NAME} in scalar values, but not in keys, by that environment variable; does not
/// expand the variable's value again. An undefined variable, or a "${" that does not begin ${NAME},
/// is an error.
void substitute_environment(TreeNode& node, Findings& findings);

}  // namespace idproxy::config
