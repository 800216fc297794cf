#pragma once

#include <string>

namespace idproxy::config {

/// What was found in a file, in the order of its lines. `line` and `column` count from 1; 0 when
/// the finding belongs to the file as a whole.
struct Finding {
  enum class Severity { warning, error };
  Severity severity;
  int line = 0;
  int column = 0;
  std::string message;  ///< "rules[2].digits: must be 1 to 18 with output int64, is 19"
};

/// "FILE:LINE:COLUMN: error: MESSAGE", as compilers print it.
[[nodiscard]] std::string format(const std::string& file, const Finding& finding);

}  // namespace idproxy::config
