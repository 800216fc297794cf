#include "rewrite/upsert.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/zero_value.hpp"
#include "rewrite/upsert_paths.hpp"
#include "rewrite/upsert_values.hpp"

namespace idproxy::rewrite {
namespace {

using Verdict = UpsertVerdict;

constexpr Verdict kNotNeeded{Verdict::Kind::not_needed, {}};
constexpr Verdict kAssign{Verdict::Kind::assign, {}};
constexpr Verdict kMalformed{Verdict::Kind::malformed, {}};

constexpr Verdict forward(ForwardReason reason) {
  return {Verdict::Kind::forward, reason};
}

/// kAssign if the names found do not stand in the way.
Verdict unless(Names names, ForwardReason reason) {
  switch (names) {
    case Names::no:
      return kAssign;
    case Names::yes:
      return forward(reason);
    case Names::malformed:
      return kMalformed;
    case Names::too_deep:
      break;
  }
  return forward(ForwardReason::unknown_form);
}

Verdict judge_filter(Bytes filter, std::string_view field, ForwardReason reason) {
  return filter.empty() ? kAssign : unless(filter_names(filter, field), reason);
}

/// For one operator with its paths, such as $set: {a: 1, "b.c": 2}.
Verdict judge_operator(const bson::Element& update_operator, const Assignment& assignment) {
  const std::string_view field = assignment.rule->field;
  const bool on_insert = update_operator.key == "$setOnInsert";
  bool gives = false;
  bson::Elements paths(update_operator.value);
  while (const auto path = paths.next()) {
    if (const auto value = on_insert ? value_set_by(*path, field) : std::nullopt) {
      gives = gives || !replaces(assignment.rule->assign, *value);
    } else if (names_path(update_operator, *path, field)) {
      return forward(ForwardReason::update_names_field);
    }
  }
  if (paths.malformed()) return kMalformed;
  return gives ? kNotNeeded : kAssign;
}

Verdict judge_operators(Bytes update, const Assignment& assignment) {
  Verdict result = kAssign;
  bool on_insert = false;
  bson::Elements operators(update);
  while (const auto each = operators.next()) {
    if (!each->key.starts_with('$') || each->type != bson::Type::document) {
      return forward(ForwardReason::unknown_form);
    }
    // Server 6.0.5 accepts this operator twice, but no documentation says so.
    if (each->key == "$setOnInsert" && std::exchange(on_insert, true)) {
      return forward(ForwardReason::unknown_form);
    }
    const Verdict verdict = judge_operator(*each, assignment);
    if (verdict == kNotNeeded) {
      result = kNotNeeded;
    } else if (verdict != kAssign) {
      return verdict;
    }
  }
  return operators.malformed() ? kMalformed : result;
}

/// For an update that is a document without operators: the server stores it in place of the
/// document that it finds, so that a value in it would change that document.
Verdict judge_replacement(const UpsertStatement& statement, const Assignment& assignment) {
  const auto value = field_at(statement.update.value, assignment.rule->field);
  const bool gives = value && value->is == ids::FieldValue::Is::there;
  if (gives && !replaces(assignment.rule->assign, value->element)) return kNotNeeded;
  if (assignment.is_id()) {
    // The server takes `_id` from the filter if it is there.
    const Verdict verdict =
        judge_filter(statement.filter, "_id", ForwardReason::filter_names_field);
    return verdict == kAssign ? forward(ForwardReason::replacement) : verdict;
  }
  return forward(ForwardReason::replacement_loses_field);
}

Verdict judge_document(const UpsertStatement& statement, const Assignment& assignment) {
  bson::Elements elements(statement.update.value);
  const auto first = elements.next();
  if (elements.malformed()) return kMalformed;
  if (!first) return forward(ForwardReason::empty_update);
  if (!first->key.starts_with('$')) return judge_replacement(statement, assignment);
  const Verdict verdict = judge_operators(statement.update.value, assignment);
  if (verdict != kAssign) return verdict;
  return judge_filter(statement.filter, assignment.rule->field, ForwardReason::filter_names_field);
}

Verdict judge_stage(const bson::Element& stage, std::string_view field) {
  if (stage.type != bson::Type::document) return forward(ForwardReason::unknown_form);
  bson::Elements elements(stage.value);
  const auto what = elements.next();
  if (!what || elements.next()) {
    return elements.malformed() ? kMalformed : forward(ForwardReason::unknown_form);
  }
  if (elements.malformed()) return kMalformed;
  static constexpr std::array<std::string_view, 4> kReplacing{"$project", "$unset", "$replaceRoot",
                                                              "$replaceWith"};
  if (std::ranges::find(kReplacing, what->key) != kReplacing.end()) {
    return forward(ForwardReason::pipeline_replaces);
  }
  const bool sets = what->key == "$set" || what->key == "$addFields";
  if (!sets || what->type != bson::Type::document) return forward(ForwardReason::unknown_form);
  return unless(stage_names(what->value, field), ForwardReason::update_names_field);
}

Verdict judge_pipeline(const UpsertStatement& statement, const Assignment& assignment) {
  const std::string_view field = assignment.rule->field;
  bson::Elements stages(statement.update.value);
  while (const auto stage = stages.next()) {
    const Verdict verdict = judge_stage(*stage, field);
    if (verdict != kAssign) return verdict;
  }
  if (stages.malformed()) return kMalformed;
  const Verdict verdict = judge_filter(statement.filter, field, ForwardReason::filter_names_field);
  if (verdict != kAssign) return verdict;
  // On an insert the stage finds no `_id`, unless the filter gives one.
  return judge_filter(statement.filter, "_id", ForwardReason::filter_fixes_id);
}

}  // namespace

UpsertVerdict judge(const UpsertStatement& statement, const Assignment& assignment) {
  if (statement.kind == UpsertStatement::Kind::plain || assignment.implied) return kNotNeeded;
  if (statement.kind == UpsertStatement::Kind::unknown) {
    return forward(ForwardReason::unknown_form);
  }
  const Verdict verdict = statement.is_pipeline() ? judge_pipeline(statement, assignment)
                                                  : judge_document(statement, assignment);
  if (verdict != kAssign) return verdict;
  if (assignment.rule->upserts == Upserts::forward) return forward(ForwardReason::configured);
  if (assignment.reservations != nullptr) return forward(ForwardReason::reserved);
  if (assignment.sequences != nullptr) {
    const auto values = known_values(statement, assignment.sequences->fields());
    if (!values || !assignment.sequences->refusal(*values).empty()) {
      return forward(ForwardReason::depends_on_document);
    }
  }
  // A larger one can hardly succeed, and with a value it might exceed the limit for BSON.
  if (static_cast<std::int64_t>(statement.whole.size()) > bson::kMaxUserDocument) {
    return forward(ForwardReason::too_large);
  }
  return kAssign;
}

}  // namespace idproxy::rewrite
