#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "config/tree.hpp"

namespace idproxy::config {

/// A text that is equal for two values if and only if they mean the same: keys are sorted, and
/// quotes around text do not matter; 1 and "1" differ. Variables are expanded, so do not log it.
///
///   {strategy: uuid, digits: 12, a: [true, "true", null]}  ->
///   {"a":[true,"true",null],"digits":12,"strategy":"uuid"}
[[nodiscard]] std::string canonical_text(const TreeNode& node);
/// The text of the mapping without these keys.
[[nodiscard]] std::string canonical_text(const TreeNode& mapping,
                                         std::span<const std::string_view> without);
/// The texts of a mapping's values by key. Those of a mapping in it have dotted keys:
///
///   {strategy: uuid, retry: {attempts: 3}}  ->  {"retry.attempts": "3", "strategy": "\"uuid\""}
[[nodiscard]] std::map<std::string, std::string> canonical_texts(const TreeNode& mapping);

}  // namespace idproxy::config
