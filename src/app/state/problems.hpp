#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/state/health.hpp"
#include "app/state/snapshot.hpp"

namespace idproxy::app::state {

/// Something that is wrong now, for an operator.
struct Problem {
  enum class Level { error, warning };  ///< error: clients notice
  Level level;
  std::string text;    ///< a sentence without its full stop
  std::string remedy;  ///< what to do
  std::string page;    ///< where the documentation says more: "troubleshooting.md#it-hangs"
  /// As `doctor` names it, a server or "shop.orders, number"; empty: none that it looks at.
  std::string subject;
  /// What it is, as Diagnosis::id where `doctor` finds the same; empty: it finds nothing like it.
  std::string_view id;
};

/// Everything that is wrong, the worst first.
[[nodiscard]] std::vector<Problem> problems_of(Phase phase, const Snapshot& snapshot,
                                               std::chrono::sys_seconds now);

}  // namespace idproxy::app::state
