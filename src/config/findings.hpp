#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/config/finding.hpp"

namespace idproxy::config {

/// Where something stands in the file; both count from 1. {0, 0}: the file as a whole.
struct Place {
  int line = 0;
  int column = 0;
};

/// Collects what is wrong or worth a thought, so that one run names all of it.
class Findings {
 public:
  void error(Place place, std::string message) {
    ++errors_;
    add(Finding::Severity::error, place, std::move(message));
  }
  void warning(Place place, std::string message) {
    add(Finding::Severity::warning, place, std::move(message));
  }

  /// How many errors so far. A check that needs a sound value compares it before and after.
  [[nodiscard]] std::size_t errors() const { return errors_; }

  /// All of them in the order of the file; what was found first stays first within one place.
  [[nodiscard]] std::vector<Finding> in_file_order() && {
    std::vector<Finding> findings;
    for (auto& [position, finding] : all_) findings.push_back(std::move(finding));
    all_.clear();
    return findings;
  }

 private:
  /// A key that is read twice has its faults once.
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
