#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/ids/scope.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "rewrite/upsert_statement.hpp"

/// Upserts: in which of them a value can be assigned, and where. A value must get into the document
/// that the server inserts, and must not change a document that the filter matches. Decided from
/// the statement alone, as docs/server-behaviour.md#upserts describes.
namespace idproxy::rewrite {

/// Whether an upsert gets a value for a field.
struct UpsertVerdict {
  enum class Kind {
    not_needed,   ///< it inserts nothing, or the client sends a value of its own
    unfulfilled,  ///< it inserts a document that does not fulfil the rule's conditions
    assign,       ///< add the value, as edit_of() does
    forward,      ///< leave the statement alone, for `reason`
    malformed,    ///< mongod will refuse the command
  };
  Kind kind{};
  ForwardReason reason{};

  bool operator==(const UpsertVerdict&) const = default;
};

/// `kept`: the statement is written so that a stored value stays, as judge_keep() says. Then a
/// replacement can give a value, too.
[[nodiscard]] UpsertVerdict judge(const UpsertStatement& statement, const Assignment& assignment,
                                  bool kept = false);

// ---- the document that it inserts, as far as the upsert itself states its fields: the server
// makes it from the equalities of the filter, and then applies the update to it
// (docs/server-behaviour.md#upserts)

/// Returns the value that this element of a $set or $setOnInsert puts into the field: {field:
/// value}, or for a dotted field also {a: {b: value}}. Nothing if it does not name the field, or if
/// the value is not clear.
[[nodiscard]] std::optional<bson::Element> value_set_by(const bson::Element& set,
                                                        std::string_view field);
/// True if this element of an operator such as $inc concerns the field: its path is the field's, a
/// beginning or a continuation of it, or both lead into one array.
[[nodiscard]] bool names_path(const bson::Element& update_operator, const bson::Element& element,
                              std::string_view field);

/// Returns the values of these fields in the document that the upsert inserts, if each of them is
/// certain: a literal that the upsert states once, or both in the filter and in the update; or no
/// value, because the upsert does not name the field. Views into the statement. Nothing for
/// pipelines.
[[nodiscard]] std::optional<std::vector<ids::FieldValue>> known_values(
    const UpsertStatement& statement, std::span<const std::string> fields);

/// True if the document that the upsert inserts needs no value, because it has one in the rule's
/// field that is not null and that the rule would leave.
[[nodiscard]] bool brings_value(const UpsertStatement& statement, const Rule& rule);
/// True if that is a zero, as leaves_zero() says.
[[nodiscard]] bool brings_zero(const UpsertStatement& statement, const Rule& rule);
/// False if the server makes the `_id` of the document.
[[nodiscard]] bool may_bring_id(const UpsertStatement& statement);

}  // namespace idproxy::rewrite
