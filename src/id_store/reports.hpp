#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

/// No thread can be started for it. Inserts do not ask for this: what is in memory still serves.
[[nodiscard]] ids::Error no_thread();
/// `what`: "the ranges have".
[[nodiscard]] ids::Error not_looked_at(std::string what);

/// A counter, range or sequence that gives no values now, with the fields that rules fill from it.
struct NotReadyReport {
  ids::Error why;
  std::vector<ids::CounterField> fields;
};

/// A counter, range or sequence that has numbers, with the fields that rules fill from it.
struct InUse {
  ids::CounterNumbers numbers;
  std::vector<ids::CounterField> fields;
  std::string sequence{};  ///< as ids::RuleNumbers
  std::string period{};    ///< likewise
  /// Fills in how many numbers there are, in all and of a template's width.
  void count(std::int64_t start, std::int64_t step, std::int64_t max);
};

}  // namespace idproxy::id_store
