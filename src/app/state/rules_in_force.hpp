#pragma once

#include <memory>
#include <string>
#include <vector>

#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::state {

/// Rules and the id store's Watch for them, with the same rule_index. As long as this exists, the
/// id store checks the collections of the rules; after the start only Reload holds it.
struct RulesInForce {
  std::shared_ptr<const rewrite::RuleSet> set;
  std::shared_ptr<id_store::Watch> watch;
};

/// The configuration for an id store that only looks: it makes no index, and reads no whole
/// collection.
[[nodiscard]] config::Config only_looking(config::Config config);

/// `before`: the rules in force; null at the start.
[[nodiscard]] RulesInForce make_rules(std::vector<rewrite::Rule> rules, const std::string& store_db,
                                      id_store::Store& store,
                                      const rewrite::RuleSet* before = nullptr);

/// Equal for rules with equal configurations, in an order of its own: 12 hexadecimal digits.
[[nodiscard]] std::string rules_hash(const rewrite::RuleSet& rules);

}  // namespace idproxy::app::state
