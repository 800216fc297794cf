#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "idproxy/ids/store.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::rewrite {

/// Which values of a field are replaced (docs/strategies.md#assign).
enum class Assign {
  missing,          ///< the field is absent
  missing_or_null,  ///< or null
  driver,           ///< or an ObjectId made within driver_window of now, as drivers make them
  always,           ///< whatever is there
};

/// How a generated value that is taken already is answered with a fresh one.
struct Retry {
  /// Re-sends of one document after the first send; nothing: as its strategy says.
  std::optional<std::uint32_t> attempts{};
  std::chrono::milliseconds backoff{0};       ///< before the first re-send; doubles with each
  std::chrono::milliseconds backoff_max{50};  ///< which it does not pass
  std::chrono::milliseconds deadline{2000};   ///< for all of them, from the first duplicate on
};

/// What becomes of a duplicate of ours inside a transaction, which the server has aborted with it.
enum class InTransaction {
  transient,  ///< a TransientTransactionError: the driver's withTransaction begins anew
  surface,    ///< passed on as it is
};

/// One rule of the configuration. Immutable once in a RuleSet.
struct Rule {
  std::string ns;     ///< glob (base/glob.hpp) over "db.collection"
  std::string field;  ///< dotted path
  Assign assign = Assign::missing;
  std::chrono::seconds driver_window{300};
  std::string keep_driver_id;  ///< field that gets a replaced ObjectId; empty: none
  Retry retry;
  InTransaction in_transaction = InTransaction::transient;
  bool report = false;  ///< insert replies carry the values that were assigned
  ids::UniqueIndex unique_index = ids::UniqueIndex::warn;
  std::string strategy_name;  ///< as configured, for errors and logs
  /// Shared, because a reload that does not change `source` keeps its strategy's state while both
  /// rule sets are in use.
  std::shared_ptr<ids::Strategy> strategy;
  /// Where values come from, in one text: equal if a reload goes on with them. Empty: never equal.
  std::string source;
  std::string definition;  ///< all that was configured, in one text
};

}  // namespace idproxy::rewrite
