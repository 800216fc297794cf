#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/reader.hpp"

/// Strategies whose keys are defined but which are not implemented yet. A rule that names one is an
/// error; its keys are checked nevertheless.
namespace idproxy::config {

[[nodiscard]] std::span<const std::string_view> planned_strategies();

/// Reads and checks the keys of one of them.
void read_planned_strategy(std::string_view name, Reader& rule);

}  // namespace idproxy::config
