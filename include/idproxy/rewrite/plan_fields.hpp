#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "idproxy/bson/field_finder.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// The fields that the assignments of a plan are for, and what the documents of its namespace
/// mostly look like.
struct PlanFields {
  explicit PlanFields(const std::shared_ptr<const Plan>& plan);

  /// The plan, which this keeps nothing of alive.
  std::weak_ptr<const Plan> plan;
  bool has_sequences = false;
  // Bits of assignments:
  std::uint32_t all = 0;
  std::uint32_t top_level = 0;     // the path has one name
  std::uint32_t stays = 0;         // that, and a value that is there stays, whatever it is
  std::uint32_t second_level = 0;  // likewise, but the path has two names
  std::uint32_t front = 0;         // for `_id`, the first element
  std::uint32_t ids = 0;           // for `_id`, by a rule of its own
  /// Of the first name on the path of each assignment. None: there are too many, or sequences.
  std::optional<bson::FieldFinder> first_names;
  /// Of the second name on the path, or the only one. None: no path has two.
  std::optional<bson::FieldFinder> second_names;
};

/// The fields of the plans that were used last, since applications insert into several collections
/// in turn. Not thread-safe.
class RecentPlans {
 public:
  /// Valid until the next call.
  PlanFields& of(const std::shared_ptr<const Plan>& plan);

 private:
  std::vector<std::unique_ptr<PlanFields>> plans_;  // the last one first
};

}  // namespace idproxy::rewrite
