#pragma once

#include <map>
#include <string>
#include <string_view>

namespace idproxy::config {

/// docs/configuration.md and docs/permuted.md.
[[nodiscard]] std::string_view configuration_page();

/// What the tables of those pages say that keys mean: "listen.port" -> "Port of the first server…".
/// With a strategy's name, the keys of its rules. Links are reduced to their texts.
[[nodiscard]] std::map<std::string, std::string> key_meanings(std::string_view strategy);

}  // namespace idproxy::config
