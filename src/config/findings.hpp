#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/config/finding.hpp"

namespace idproxy::config {

/// A position in the file; both count from 1. {0, 0}: the whole file.
struct Place {
  int line = 0;
  int column = 0;
};

/// Collects errors and warnings, so that one run reports all of them.
class Findings {
 public:
  void error(Place place, std::string message) {
    ++errors_;
    add(Finding::Severity::error, place, std::move(message));
  }
  void warning(Place place, std::string message) {
    add(Finding::Severity::warning, place, std::move(message));
  }

  /// The number of errors so far. A check that needs valid values compares it before and after
  /// reading them.
  [[nodiscard]] std::size_t errors() const { return errors_; }

  /// All findings in the order of the file; those of one place in the order in which they were
  /// added.
  [[nodiscard]] std::vector<Finding> in_file_order() && {
    std::vector<Finding> findings;
    for (auto& [position, finding] : all_) findings.push_back(std::move(finding));
    all_.clear();
    return findings;
  }

 private:
  /// Drops repeated findings: a key may be read twice.
  void add(Finding::Severity severity, Place place, std::string message) {
    const auto [first, last] = all_.equal_range(std::pair(place.line, place.column));
    const bool known = std::any_of(first, last, [&](const auto& item) {
      return item.second.severity == severity && item.second.message == message;
    });
    if (known) return;
    all_.emplace(std::pair(place.line, place.column),
                 Finding{severity, place.line, place.column, std::move(message)});
  }

  std::multimap<std::pair<int, int>, Finding> all_;  // by line and column
  std::size_t errors_ = 0;
};

}  // namespace idproxy::config
