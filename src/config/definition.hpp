#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/tree.hpp"

namespace idproxy::config {

/// Two values have one text exactly if they say the same: keys are sorted, and it does not matter
/// whether text is in quotes; 1 and "1" differ. Variables are replaced: not for logs.
///
///   {strategy: uuid, digits: 12, a: [true, "true", null]}  ->
///   {"a":[true,"true",null],"digits":12,"strategy":"uuid"}
[[nodiscard]] std::string canonical_text(const TreeNode& node);
/// As if it did not have these keys.
[[nodiscard]] std::string canonical_text(const TreeNode& mapping,
                                         std::span<const std::string_view> without);

}  // namespace idproxy::config
