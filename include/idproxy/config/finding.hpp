#pragma once

#include <string>

namespace idproxy::config {

/// An error or warning about a configuration file. `line` and `column` count from 1; both are 0 if
/// the finding concerns the whole file.
struct Finding {
  enum class Severity { warning, error };
  Severity severity;
  int line = 0;
  int column = 0;
  std::string message;  ///< "rules[2].digits: must be 1 to 18 with output int64, is 19"
};

/// Formats a finding like a compiler: "FILE:LINE:COLUMN: error: MESSAGE".
[[nodiscard]] std::string format(const std::string& file, const Finding& finding);

}  // namespace idproxy::config
