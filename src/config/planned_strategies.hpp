#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/reader.hpp"

/// The strategies that have their keys, but not yet their code: a rule that names one is an error,
/// and so is what is wrong with its keys.
namespace idproxy::config {

[[nodiscard]] std::span<const std::string_view> planned_strategies();

/// Reads the keys of one of them.
void read_planned_strategy(std::string_view name, const std::string& store_db, Reader& rule);

}  // namespace idproxy::config
