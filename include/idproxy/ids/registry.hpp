#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "idproxy/ids/parameters.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// A strategy as a rule names it.
struct Kind {
  using Make = std::unique_ptr<Strategy> (*)(Parameters& parameters, Sources sources,
                                             std::string_view store_db);

  std::string_view name;
  Make function;

  /// Reads and checks the rule's keys; faults go to `parameters`, and then the result is not used.
  /// `store_db`: the database of the id store, where counters lie unless their rule says otherwise.
  [[nodiscard]] std::unique_ptr<Strategy> make(Parameters& parameters, Sources sources,
                                               std::string_view store_db = "idproxy") const {
    return function(parameters, sources, store_db);
  }
};

/// All strategies, in the order in which messages list them.
[[nodiscard]] std::span<const Kind> kinds();

}  // namespace idproxy::ids
