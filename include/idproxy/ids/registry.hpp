#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "idproxy/ids/parameters.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::ids {

/// A strategy as a rule names it.
struct Kind {
  std::string_view name;
  /// Reads and checks the rule's keys; faults go to `parameters`, and then the result is not used.
  std::unique_ptr<Strategy> (*make)(Parameters& parameters, Sources sources);
};

/// All strategies, in the order in which messages list them.
[[nodiscard]] std::span<const Kind> kinds();

}  // namespace idproxy::ids
