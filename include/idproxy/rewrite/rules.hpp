#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  ids::Strategy* strategy;        ///< `bound`, or the rule's
  std::shared_ptr<ids::Strategy> bound;
  std::optional<ids::Error> not_ready;  ///< why no value can be had now
  [[nodiscard]] std::uint32_t attempts() const {
    return rule->retry.attempts.value_or(strategy->attempts());
  }
  [[nodiscard]] bool is_id() const { return path.size() == 1 && path[0] == "_id"; }
};

/// What applies to one namespace, in file order; no two fields are equal or prefixes of each other.
using Plan = std::vector<Assignment>;

/// The rules of a configuration. Immutable: all io threads read one object.
class RuleSet {
 public:
  /// `store_db`: the database of the id store, which no rule touches. `store` outlives this object;
  /// null if no strategy needs one.
  RuleSet(std::vector<Rule> rules, std::string store_db, ids::Store* store = nullptr);

  /// The first matching rule of each field; empty where no rule applies, and always for views and
  /// time-series collections as far as the store knows them, system.*, $cmd and the like, the
  /// databases admin, local, config and `store_db`, and other collections of the store. True until
  /// version() changes.
  [[nodiscard]] Plan plan(std::string_view db, std::string_view collection) const;
  [[nodiscard]] std::uint64_t version() const { return store_ == nullptr ? 0 : store_->version(); }
  /// False if no database can make a rule apply to this collection.
  [[nodiscard]] bool possible(std::string_view collection) const;
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  /// Null if there is none.
  [[nodiscard]] const ids::Store* store() const { return store_; }

 private:
  [[nodiscard]] bool is_untouchable(std::string_view db, std::string_view collection,
                                    const std::string& ns) const;

  std::vector<Rule> rules_;
  std::string store_db_;
  std::vector<std::string> store_namespaces_;
  ids::Store* store_;
};

/// The plans of the namespaces that one io thread has seen. Not thread-safe.
class Namespaces {
 public:
  explicit Namespaces(std::shared_ptr<const RuleSet> rules)
      : rules_(std::move(rules)), version_(rules_->version()) {}

  /// Null where no rule applies. Shared, because exchanges outlive what is remembered here; the
  /// reference is valid until the next call.
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
