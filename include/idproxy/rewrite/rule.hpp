#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/base/glob.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/rewrite/condition.hpp"

namespace idproxy::rewrite {

/// When a field gets a generated value (docs/strategies.md#assign).
enum class Assign {
  missing,          ///< if the field is absent
  missing_or_null,  ///< if it is absent or null
  /// If it is absent, null, a number equal to 0, "", or an ObjectId or a UUID of zeros.
  missing_or_zero,
  /// If it is absent, null, or an ObjectId whose time is within driver_window of now, as drivers
  /// make them.
  driver,
  always,  ///< in any case; replaces an existing value
};

/// How documents whose generated value is taken are sent again with a fresh one.
struct Retry {
  /// The most re-sends of one document; nothing: the strategy's default.
  std::optional<std::uint32_t> attempts{};
  std::chrono::milliseconds backoff{0};       ///< pause before the first re-send; doubles each time
  std::chrono::milliseconds backoff_max{50};  ///< the longest pause
  /// For all re-sends, from the first duplicate or the last progress on.
  std::chrono::milliseconds deadline{2000};
};

/// A reason for which a document is not sent again.
enum class RetryBound {
  attempts,  ///< Retry::attempts
  deadline,  ///< Retry::deadline
  max_time,  ///< the client's maxTimeMS
  no_value,  ///< there is no fresh value
  multi,     ///< an update with `multi: true` may have changed other documents
  server,    ///< the server refuses to execute a part of the batch again
};
/// As the key or option that sets it, for logs.
[[nodiscard]] std::string_view name_of(RetryBound bound);
/// The second half of a sentence that begins with "until".
[[nodiscard]] std::string_view explain(RetryBound bound);

/// How to answer when a generated value is a duplicate inside a transaction, which the server has
/// then aborted.
enum class InTransaction {
  transient,  ///< with a TransientTransactionError: the driver's withTransaction starts again
  surface,    ///< with the server's own answer
};

/// The treatment of upserts (docs/duplicates.md#upserts).
enum class Upserts {
  assign,   ///< they get values where that is safe; others are forwarded unchanged
  forward,  ///< all are forwarded unchanged
  refuse,   ///< as assign, but a command with one that is not safe fails
};

/// Which updates leave a stored value where it is, although they would take it away
/// (docs/keep.md).
enum class Keep {
  replacements,  ///< replacements without the field
  always,        ///< also $unset of the field, and $set of it to what the rule calls missing
  off,           ///< none
};

/// One rule of the configuration. Immutable once in a RuleSet.
struct Rule {
  std::string ns;     ///< glob over "db.collection"
  Exceptions except;  ///< what `ns` leaves alone: by keys, by rules in front of it, and by itself
  std::string field;  ///< dotted path
  Assign assign = Assign::missing;
  std::vector<Condition> when;  ///< only documents for which all hold get a value
  std::chrono::seconds driver_window{300};
  std::string keep_driver_id;  ///< field to keep a replaced ObjectId in; empty: none
  Retry retry;
  InTransaction in_transaction = InTransaction::transient;
  Upserts upserts = Upserts::assign;
  Keep keep = Keep::replacements;
  bool report = false;  ///< replies to writes report the assigned values
  ids::UniqueIndex unique_index = ids::UniqueIndex::warn;
  /// The collection in which values are reserved before their documents are sent; nothing: they are
  /// not reserved.
  std::optional<ids::ReserveSpec> reserve;
  /// With `reserve`: makes the `_id` of documents that have none, for a reservation names it.
  std::shared_ptr<ids::RuleSource> id_strategy;
  std::string strategy_name;  ///< configured name, for errors and logs
  /// Shared, because a reload that does not change `source` keeps its strategy's state while both
  /// rule sets are in use.
  std::shared_ptr<ids::RuleSource> strategy;
  /// The origin of the values as a text. A reload continues with the values of an old rule whose
  /// text is equal. Empty: never equal.
  std::string source;
  /// The whole configuration of the rule, by key: {"block.size": "5", …}. Its texts may have
  /// secrets: log the keys alone.
  std::map<std::string, std::string> definition;
  /// How many rules in front of it in the file only take collections out, so that they are no
  /// Rules.
  std::size_t nones_before = 0;
  /// True if it may replace the ObjectIds that drivers make.
  [[nodiscard]] bool replaces_driver_ids() const {
    return field == "_id" && (assign == Assign::driver || assign == Assign::always);
  }
  [[nodiscard]] bool matches(std::string_view concrete_ns) const {
    return glob_matches(ns, except, concrete_ns);
  }
};

}  // namespace idproxy::rewrite
