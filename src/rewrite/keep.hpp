#pragma once

#include <string_view>

#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/statements.hpp"
#include "rewrite/upsert_statement.hpp"

/// Updates that would take a stored value away: which of them can leave it where it is. Decided
/// from the statement alone, as docs/keep.md describes.
namespace idproxy::rewrite {

/// What a statement does with the stored value of one rule.
struct KeepVerdict {
  enum class Kind {
    untouched,  ///< nothing
    kept,       ///< it would take the value away; UpsertEdit writes it so that the value stays
    lost,       ///< it takes the value away, or sets another one: `reason`
    malformed,  ///< mongod will refuse the command
  };
  Kind kind{};
  LossReason reason{};

  bool operator==(const KeepVerdict&) const = default;
};

/// `is_alone`: it may be sent without upsert first, since its command has no other statement.
[[nodiscard]] KeepVerdict judge_keep(const UpsertStatement& statement, const Assignment& assignment,
                                     bool is_alone);

/// True if some statement of an update or findAndModify concerns the stored values of these rules,
/// or might.
[[nodiscard]] bool touches_values(const WriteCommand& command, const Plan& plan);

}  // namespace idproxy::rewrite
