#pragma once

#include <span>
#include <string>
#include <string_view>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/rewrite/rule.hpp"

/// What the wildcards of a rule leave alone: what its `except` names, what rules with
/// `strategy: none` in front of it take out, and what no wildcard means by itself.
namespace idproxy::config {

inline constexpr std::string_view kNone = "none";  ///< the strategy of rules that take out

/// A rule and its reader. An invalid `ns` or `field` is left empty. With the strategy none, an
/// empty field stands for all.
struct Draft {
  rewrite::Rule rule;
  Parameters* reader;
  [[nodiscard]] bool is_none() const { return rule.strategy_name == kNone; }
  /// True if this rule fills the field, or takes it out.
  [[nodiscard]] bool takes(std::string_view field) const;
};

/// Reads `except` of a rule whose ns has been read.
[[nodiscard]] Exceptions read_except(const std::string& ns, Parameters& reader);

/// Adds to what the rule's `except` has already: of the rules in front of it, and by itself. Notes
/// all of it.
void leave_alone(rewrite::Rule& rule, std::span<const Draft> before, Parameters& reader);

/// Warns of rules with the strategy none that take nothing out of any rule below.
void check_nones(std::span<const Draft> drafts);

/// False if no collection is matched by both rules.
[[nodiscard]] bool overlap(const rewrite::Rule& a, const rewrite::Rule& b);

/// A text that is equal for equal exceptions.
[[nodiscard]] std::string exceptions_text(const Exceptions& except);

}  // namespace idproxy::config
