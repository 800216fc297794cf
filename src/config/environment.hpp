#pragma once

#include "config/tree.hpp"

namespace idproxy::config {

/// Replaces each ${NAME} in the scalar values of the tree by that environment variable, once: what
/// a variable holds is not looked into. Keys stay as they are. A variable that is not defined, and
/// a
/// "${" that does not begin ${NAME}, are errors.
void substitute_environment(TreeNode& node, Findings& findings);

}  // namespace idproxy::config
