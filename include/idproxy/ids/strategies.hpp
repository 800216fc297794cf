#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::ids {

/// Reads and checks the rule's keys. Faults go to `parameters`; the caller must not use the result
/// then. `store_db`: the database of the id store, which holds counters unless their rule names
/// another one.
using MakeRuleSource = std::unique_ptr<RuleSource>(Parameters& parameters, Sources sources,
                                                   std::string_view store_db);

/// A strategy and its name in rules.
struct Kind {
  std::string_view name;
  MakeRuleSource* make;
};

/// Makes ObjectIds, as the rule `strategy: objectid` does.
[[nodiscard]] std::unique_ptr<RuleSource> make_object_ids(Sources sources);

/// All strategies, in the order in which messages list them.
[[nodiscard]] std::span<const Kind> kinds();

}  // namespace idproxy::ids
