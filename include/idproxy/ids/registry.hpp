#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// A strategy and its name in rules.
struct Kind {
  using Make = std::unique_ptr<Strategy> (*)(Parameters& parameters, Sources sources,
                                             std::string_view store_db);

  std::string_view name;
  Make function;

  /// Reads and checks the rule's keys. Faults go to `parameters`; the caller must not use the
  /// result then. `store_db`: the database of the id store, which holds counters unless their rule
  /// names another one.
  [[nodiscard]] std::unique_ptr<Strategy> make(Parameters& parameters, Sources sources,
                                               std::string_view store_db = "idproxy") const {
    return function(parameters, sources, store_db);
  }
};

/// Makes ObjectIds, as the rule `strategy: objectid` does.
[[nodiscard]] std::unique_ptr<Strategy> make_object_ids(Sources sources);

/// All strategies, in the order in which messages list them.
[[nodiscard]] std::span<const Kind> kinds();

}  // namespace idproxy::ids
