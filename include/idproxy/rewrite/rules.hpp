#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idproxy/rewrite/rule.hpp"

namespace idproxy::rewrite {

/// One field of one namespace and the rule that fills it.
struct Assignment {
  const Rule* rule;
  std::size_t rule_index;         ///< in file order
  std::vector<std::string> path;  ///< segments of rule->field
  [[nodiscard]] bool is_id() const { return path.size() == 1 && path[0] == "_id"; }
};

/// What applies to one namespace, in file order; no two fields are equal or prefixes of each other.
using Plan = std::vector<Assignment>;

/// The rules of a configuration. Immutable: all io threads read one object.
class RuleSet {
 public:
  /// `store_db`: the database of the id store, which no rule touches.
  RuleSet(std::vector<Rule> rules, std::string store_db);

  /// The first matching rule of each field; empty where no rule applies, and always for system.*,
  /// $cmd and the like, and the databases admin, local, config and `store_db`.
  [[nodiscard]] Plan plan(std::string_view db, std::string_view collection) const;
  /// False if no database can make a rule apply to this collection.
  [[nodiscard]] bool possible(std::string_view collection) const;
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<Rule> rules_;
  std::string store_db_;
};

/// The plans of the namespaces that one io thread has seen. Not thread-safe.
class Namespaces {
 public:
  explicit Namespaces(std::shared_ptr<const RuleSet> rules) : rules_(std::move(rules)) {}

  /// Null where no rule applies. Shared, because exchanges outlive what is remembered here; the
  /// reference is valid until the next call.
  [[nodiscard]] const std::shared_ptr<const Plan>& plan(std::string_view db,
                                                        std::string_view collection);
  [[nodiscard]] bool possible(std::string_view collection);

 private:
  std::shared_ptr<const RuleSet> rules_;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
  std::unordered_map<std::string, bool> collections_;
  std::string key_;
  // The last answer: classify() and the Exchange ask the same, and so does the next insert.
  std::string last_db_;
  std::string last_collection_;
  std::shared_ptr<const Plan> last_;
};

}  // namespace idproxy::rewrite
