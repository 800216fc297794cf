#include "app/state/rules_in_force.hpp"

#include <cstddef>
#include <utility>

#include "idproxy/base/digest.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::app::state {
namespace {

bson::Type value_type_of(const ids::RuleSource& strategy) {
  ids::Values values;
  strategy.append_samples(1, values);
  return values.type();
}

/// A number of a sequence may be stored by somebody else, which only a unique index reveals.
ids::UniqueIndex unique_index_of(const rewrite::Rule& rule) {
  const bool demands = rule.strategy->about().gapless.has_value();
  const bool warns = rule.unique_index == ids::UniqueIndex::warn;
  return demands && warns ? ids::UniqueIndex::require : rule.unique_index;
}

/// Tells the store the limits of the rule's random numbers, and its sequence, before anybody
/// inserts.
void use_literal(const rewrite::RuleSet& set, const rewrite::Rule& rule) {
  const auto [db, collection] = split_ns(rule.ns);
  if (collection.empty() || has_wildcards(rule.ns)) return;
  const ids::RuleSource::About& about = rule.strategy->about();
  if (!about.fills_up && !about.gapless) return;
  (void)set.plan(db, collection);
}

}  // namespace

std::string rules_hash(const rewrite::RuleSet& rules) {
  constexpr std::size_t kDigits = 12;
  std::string text;
  for (const rewrite::Rule& rule : rules.rules()) {
    for (const auto& [key, value] : rule.definition) text.append(key) += '\0' + value + '\0';
    text += '\0';
  }
  return sha256(text).substr(0, kDigits);
}

config::Config only_looking(config::Config config) {
  using ids::UniqueIndex;
  for (rewrite::Rule& rule : config.rules) {
    if (rule.unique_index == UniqueIndex::create) rule.unique_index = UniqueIndex::offer;
  }
  config.id_store.scans = false;
  return config;
}

RulesInForce make_rules(std::vector<rewrite::Rule> rules, const std::string& store_db,
                        id_store::Store& store, const rewrite::RuleSet* before) {
  std::vector<id_store::WatchedRule> watched;
  watched.reserve(rules.size());
  for (const rewrite::Rule& rule : rules) {
    const ids::RuleSource::About& about = rule.strategy->about();
    watched.push_back({rule.ns, rule.field, unique_index_of(rule), about.fills_up,
                       about.fills_up ? rule.source : "", value_type_of(*rule.strategy)});
    watched.back().reserve = rule.reserve;
    watched.back().scope = about.sequences.scope_as_written;
    watched.back().repeats = about.sequences.repeats();
    watched.back().except = rule.except;
  }
  auto watch = store.watch(std::move(watched));
  auto set = std::make_shared<const rewrite::RuleSet>(std::move(rules), store_db, watch, before);
  for (const rewrite::Rule& rule : set->rules()) use_literal(*set, rule);
  watch->rules_are_made();
  return {std::move(set), std::move(watch)};
}

}  // namespace idproxy::app::state
