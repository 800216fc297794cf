#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/id_store/watch.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app {

/// False if a rule's `ns` names one collection.
[[nodiscard]] bool has_wildcards(std::string_view ns);

/// Why each rule gives no values in the collection that it names, in file order; empty for rules
/// that are ready, and for those with wildcards, whose collections are checked with their first
/// insert. The texts name no collections except those in the configuration.
[[nodiscard]] std::vector<std::string> reasons_of(const rewrite::RuleSet& rules);

/// Returns the note for a rule that is ready although no unique index guards its field
/// (Watch::lack_index()), with the `command` that makes one.
[[nodiscard]] std::string note_on_index(const rewrite::Rule& rule, const std::string& command);

/// Rules for the log: "0 (shop.orders, number), 2 (shop.bills, _id) and 7 more".
class RuleList {
 public:
  void add(std::size_t rule_index, const rewrite::Rule& rule);
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::size_t kMostListed = 20;  // it counts the others, to stay short
  std::size_t count_ = 0;
  std::string text_;
};

struct RuleLists {
  std::string ready;
  std::string not_ready;
};
/// `reasons` as from reasons_of().
[[nodiscard]] RuleLists lists_of(const std::vector<rewrite::Rule>& rules,
                                 const std::vector<std::string>& reasons);

/// Logs once for each change which rules cannot get numbers from their counters: not_ready with the
/// reason, and ready_again. One thread.
class ReadinessLog {
 public:
  /// An obstacle that passes changes nothing.
  void look(const std::vector<rewrite::Rule>& rules,
            const std::vector<id_store::Watch::CounterObstacle>& obstacles);

 private:
  using Key = std::pair<std::string, std::string>;  // ns, field
  std::map<Key, std::string> reported_;             // the reasons that the log has
};

}  // namespace idproxy::app
