#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idproxy/rewrite/outcomes.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::rewrite {

/// One field of one namespace and the rule that fills it.
struct Assignment {
  const Rule* rule;
  RuleOutcomes* outcomes;         ///< of the rule
  std::size_t rule_index;         ///< in file order
  std::vector<std::string> path;  ///< segments of rule->field
  ids::Strategy* strategy;        ///< `bound`, or the rule's
  std::shared_ptr<ids::Strategy> bound;
  std::optional<ids::Error> not_ready;  ///< why no value can be had now
  [[nodiscard]] std::uint32_t attempts() const {
    return rule->retry.attempts.value_or(strategy->attempts());
  }
  [[nodiscard]] bool is_id() const { return path.size() == 1 && path[0] == "_id"; }
};

/// What applies to one namespace, in file order; no two fields are equal or prefixes of each other.
/// Valid as long as its RuleSet.
using Plan = std::vector<Assignment>;

/// The rules of a configuration. Immutable but for what has become of their values: all io threads
/// read one object. A reload makes another one; exchanges that have begun go on with theirs.
class RuleSet {
 public:
  /// `store_db`: the database of the id store, which no rule touches. `store`: null if no strategy
  /// needs one. A rule of the same source as one of `before` takes over its strategy, so that
  /// values go on in their order, and its outcomes; of several equal ones, each in turn.
  RuleSet(std::vector<Rule> rules, std::string store_db,
          std::shared_ptr<ids::Store> store = nullptr, const RuleSet* before = nullptr);

  /// The first matching rule of each field; empty where no rule applies, and always for views and
  /// time-series collections as far as the store knows them, system.*, $cmd and the like, the
  /// databases admin, local, config and `store_db`, and other collections of the store. True until
  /// version() changes.
  [[nodiscard]] Plan plan(std::string_view db, std::string_view collection) const;
  [[nodiscard]] std::uint64_t version() const { return store_ == nullptr ? 0 : store_->version(); }
  /// False if no database can make a rule apply to this collection.
  [[nodiscard]] bool possible(std::string_view collection) const;
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  /// Of the rule at this place in file order.
  [[nodiscard]] RuleOutcomes& outcomes(std::size_t rule_index) const {
    return *outcomes_[rule_index];
  }
  /// Of all rules.
  [[nodiscard]] std::uint64_t sum(RuleOutcomes::Counter RuleOutcomes::* counter) const;
  /// Null if there is none.
  [[nodiscard]] const ids::Store* store() const { return store_.get(); }

 private:
  void take_over(const RuleSet& before);
  [[nodiscard]] bool is_untouchable(std::string_view db, std::string_view collection,
                                    const std::string& ns) const;

  std::shared_ptr<ids::Store> store_;  // it outlives what it has given to strategies
  std::vector<Rule> rules_;
  std::vector<std::shared_ptr<RuleOutcomes>> outcomes_;  // by rule
  std::string store_db_;
  std::vector<std::string> store_namespaces_;
};

/// The plans of the namespaces that one io thread has seen. Not thread-safe. After a reload another
/// one takes its place.
class Namespaces {
 public:
  explicit Namespaces(std::shared_ptr<const RuleSet> rules)
      : rules_(std::move(rules)), version_(rules_->version()) {}

  /// Null where no rule applies. Shared, because exchanges outlive what is remembered here, and
  /// the RuleSet, which the plan keeps; the reference is valid until the next call.
  [[nodiscard]] const std::shared_ptr<const Plan>& plan(std::string_view db,
                                                        std::string_view collection);
  [[nodiscard]] bool possible(std::string_view collection);

 private:
  std::shared_ptr<const RuleSet> rules_;
  std::uint64_t version_;  // of rules_, that the plans are of
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
  std::unordered_map<std::string, bool> collections_;
  std::string key_;
  // The last answer: classify() and the Exchange ask the same, and so does the next insert.
  std::string last_db_;
  std::string last_collection_;
  std::shared_ptr<const Plan> last_;
};

}  // namespace idproxy::rewrite
