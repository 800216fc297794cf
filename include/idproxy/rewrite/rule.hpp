#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "idproxy/ids/strategy.hpp"

namespace idproxy::rewrite {

/// Which values of a field are replaced (id-strategies 1.1).
enum class Assign {
  missing,          ///< the field is absent
  missing_or_null,  ///< or null
  driver,           ///< or an ObjectId made within driver_window of now, as drivers make them
  always,           ///< whatever is there
};

/// One rule of the configuration. Immutable once in a RuleSet.
struct Rule {
  std::string ns;     ///< glob over "db.collection": '*' any run of characters, '?' one
  std::string field;  ///< dotted path
  Assign assign = Assign::missing;
  std::chrono::seconds driver_window{300};
  std::string keep_driver_id;  ///< field that gets a replaced ObjectId; empty: none
  std::string strategy_name;   ///< as configured, for errors and logs
  std::unique_ptr<ids::Strategy> strategy;
};

/// True if `pattern` (see Rule::ns) matches all of `text`. Time is at most their product.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);
/// True if some text is matched by both patterns.
[[nodiscard]] bool globs_overlap(std::string_view a, std::string_view b);

}  // namespace idproxy::rewrite
