#include "idproxy/config/finding.hpp"

namespace idproxy::config {

std::string format(const std::string& file, const Finding& finding) {
  const bool is_error = finding.severity == Finding::Severity::error;
  std::string text = file;
  if (finding.line > 0) {
    text += ":" + std::to_string(finding.line) + ":" + std::to_string(finding.column);
  }
  return text + (is_error ? ": error: " : ": warning: ") + finding.message;
}

}  // namespace idproxy::config
