#pragma once

#include <string>
#include <vector>

#include "idproxy/base/parameters.hpp"
#include "idproxy/rewrite/condition.hpp"

namespace idproxy::config {

/// The `when` of a rule for `field`; empty if it has none.
[[nodiscard]] std::vector<rewrite::Condition> read_when(const std::string& field, Parameters& rule);

}  // namespace idproxy::config
