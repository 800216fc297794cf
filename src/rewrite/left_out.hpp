#pragma once

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/rule.hpp"

/// What is left out of updates so that stored values stay (`keep: always`).
namespace idproxy::rewrite {

/// True if a value in an update is none to the rule: what `assign` replaces, and with `keep:
/// always` null.
[[nodiscard]] bool calls_missing(const Rule& rule, const bson::Element& value);

/// True if this element of an operator is what a rule with `keep: always` leaves out: $unset of its
/// field, or $set of it to what the rule calls missing.
[[nodiscard]] bool is_left_out(const bson::Element& update_operator, const bson::Element& path,
                               const Rule& rule);

/// The same for an element of set_of(): the field set to a constant that the rule calls missing,
/// {number: null} or, as Django has it, {number: {$literal: null}}.
[[nodiscard]] bool is_left_out_of_stage(const bson::Element& path, const Rule& rule);

/// What is in a stage {$set: {…}} or {$addFields: {…}} of a pipeline.
[[nodiscard]] std::optional<bson::Element> set_of(const bson::Element& stage);

}  // namespace idproxy::rewrite
