#include "rewrite/upsert.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/zero_value.hpp"
#include "rewrite/left_out.hpp"
#include "rewrite/upsert_statement.hpp"

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

/// For one operator with its paths, such as $set: {a: 1, "b.c": 2}. Those that are left out do not
/// count.
Verdict judge_operator(const bson::Element& update_operator, const Assignment& assignment) {
  const std::string_view field = assignment.rule->field;
  const bool on_insert = update_operator.key == "$setOnInsert";
  bool gives = false;
  bson::Elements paths(update_operator.value);
  while (const auto path = paths.next()) {
    if (const auto value = on_insert ? value_set_by(*path, field) : std::nullopt) {
      gives = gives || !replaces(assignment.rule->assign, *value);
    } else if (names_path(update_operator, *path, field) &&
               !is_left_out(update_operator, *path, *assignment.rule)) {
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
/// document that it finds, so that a value in it would change that document, unless a pipeline does
/// the same and leaves a stored value.
Verdict judge_replacement(const UpsertStatement& statement, const Assignment& assignment,
                          bool kept) {
  if (kept) {
    const bool is_plain =
        statement.filter.empty() || form_of(statement.filter) == FilterForm::plain;
    if (!is_plain) return forward(ForwardReason::filter_repeats_field);
    return judge_filter(statement.filter, assignment.rule->field,
                        ForwardReason::filter_names_field);
  }
  const auto value = field_at(statement.update, assignment.rule->field);
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

Verdict judge_document(const UpsertStatement& statement, const Assignment& assignment, bool kept) {
  bson::Elements elements(statement.update);
  const auto first = elements.next();
  if (elements.malformed()) return kMalformed;
  if (!first && !kept) return forward(ForwardReason::empty_update);
  if (statement.is_replacement) return judge_replacement(statement, assignment, kept);
  const Verdict verdict = judge_operators(statement.update, assignment);
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
  bson::Elements stages(statement.update);
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

/// What is to be done, unless the document that it inserts certainly fulfils the conditions.
std::optional<Verdict> judge_conditions(const UpsertStatement& statement,
                                        std::span<const Condition> conditions) {
  std::vector<std::string> fields;
  for (const Condition& each : conditions) fields.push_back(each.field);
  if (fields.empty()) return std::nullopt;
  const auto values = known_values(statement, fields);
  if (!values) return forward(ForwardReason::depends_on_document);
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    if (!holds(conditions[i], (*values)[i])) return Verdict{Verdict::Kind::unfulfilled, {}};
  }
  return std::nullopt;
}

}  // namespace

UpsertVerdict judge(const UpsertStatement& statement, const Assignment& assignment, bool kept) {
  if (statement.kind == UpsertStatement::Kind::plain || assignment.implied) return kNotNeeded;
  if (statement.kind == UpsertStatement::Kind::unknown) {
    return forward(ForwardReason::unknown_form);
  }
  const Verdict verdict = statement.is_pipeline ? judge_pipeline(statement, assignment)
                                                : judge_document(statement, assignment, kept);
  if (verdict != kAssign) return verdict;
  if (assignment.rule->upserts == Upserts::forward) return forward(ForwardReason::configured);
  if (const auto otherwise = judge_conditions(statement, assignment.rule->when)) return *otherwise;
  if (assignment.reservations != nullptr) return forward(ForwardReason::reserved);
  if (assignment.sequences != nullptr) {
    const auto values = known_values(statement, assignment.sequences->fields());
    if (!values || !assignment.sequences->refusal(*values).empty()) {
      return forward(ForwardReason::depends_on_document);
    }
  }
  // A document may have 16 MiB, and what surrounds it in the statement 16 KiB: of these, half is
  // left to the values. If the document becomes too large by its value, the server says so.
  constexpr std::int64_t kMost = (bson::kMaxUserDocument + bson::kMaxInternalDocument) / 2;
  if (static_cast<std::int64_t>(statement.whole.size()) > kMost) {
    return forward(ForwardReason::too_large);
  }
  return kAssign;
}

namespace {

using Is = ids::FieldValue::Is;

/// One field of the document that is inserted, as far as a filter or an update determines it.
struct Stated {
  enum class Kind {
    nothing,
    literal,    ///< `value`
    overrules,  ///< `value`, although the filter says otherwise
    other,      ///< a value that the statement does not show
    unclear,    ///< perhaps a value
  };
  Kind kind = Kind::nothing;
  bson::Element value{};

  [[nodiscard]] bool is_known() const { return kind == Kind::literal || kind == Kind::overrules; }
  void add(const Stated& more) {
    if (more.kind == Kind::nothing) return;
    // Two statements on one field: the server refuses them, or they depend on each other.
    *this = kind == Kind::nothing ? more : Stated{Kind::unclear};
  }
};

// ---- the filter ------------------------------------------------------------------------------

bool is_literal(const bson::Element& value) {
  if (value.type == bson::Type::regex || value.type == bson::Type::undefined) return false;
  if (value.type != bson::Type::document) return true;
  bson::Elements elements(value.value);
  const auto first = elements.next();
  return !first || !first->key.starts_with('$');
}

/// The value that {field: value} or {field: {$eq: value}} asks for; nothing for other conditions.
std::optional<bson::Element> equality(const bson::Element& condition) {
  if (is_literal(condition)) return condition;
  if (condition.type != bson::Type::document) return std::nullopt;
  bson::Elements elements(condition.value);
  const auto only = elements.next();
  if (!only || only->key != "$eq" || elements.next() || elements.malformed()) return std::nullopt;
  return is_literal(*only) ? only : std::nullopt;
}

/// True if the condition names the field, at any depth.
bool names_field(const bson::Element& condition, std::string_view field) {
  Buffer alone;
  bson::Scope document(alone);
  bson::append_copy(alone, condition);
  document.close();
  return filter_names(alone.view(), field) != Names::no;
}

Stated stated_by_condition(const bson::Element& condition, std::string_view field) {
  const auto value = condition.key == field ? equality(condition) : std::nullopt;
  if (value) return {Stated::Kind::literal, *value};
  return {names_field(condition, field) ? Stated::Kind::unclear : Stated::Kind::nothing};
}

/// The clauses of $and count as the filter itself.
Stated stated_by_filter(Bytes filter, std::string_view field) {
  Stated stated;
  std::vector<Bytes> clauses;  // no recursion, because the input decides how deep it goes
  if (!filter.empty()) clauses.push_back(filter);
  while (!clauses.empty()) {
    bson::Elements conditions(clauses.back());
    clauses.pop_back();
    while (const auto condition = conditions.next()) {
      if (condition->key != "$and" || condition->type != bson::Type::array) {
        stated.add(stated_by_condition(*condition, field));
        continue;
      }
      for (const bson::Element& clause : bson::Elements(condition->value)) {
        if (clause.type == bson::Type::document) clauses.push_back(clause.value);
      }
    }
  }
  return stated;
}

// ---- the update ------------------------------------------------------------------------------

/// Returns the effect of an operator on a field that it names exactly.
Stated made_by(const bson::Element& update_operator, const bson::Element& operand,
               std::string_view field) {
  static constexpr std::array<std::string_view, 6> kMakes{"$inc", "$mul",         "$min",
                                                          "$max", "$currentDate", "$bit"};
  const bool sets = update_operator.key == "$set" || update_operator.key == "$setOnInsert";
  const auto value = sets ? value_set_by(operand, field) : std::nullopt;
  if (value) return {Stated::Kind::literal, *value};
  const bool makes = std::ranges::find(kMakes, update_operator.key) != kMakes.end();
  return {makes && operand.key == field ? Stated::Kind::other : Stated::Kind::unclear};
}

Stated stated_by_operators(Bytes update, std::string_view field) {
  Stated stated;
  for (const bson::Element& each : bson::Elements(update)) {
    if (each.type != bson::Type::document) return {Stated::Kind::unclear};
    for (const bson::Element& operand : bson::Elements(each.value)) {
      if (!names_path(each, operand, field)) continue;
      stated.add(made_by(each, operand, field));
    }
  }
  return stated;
}

Stated stated_by_replacement(Bytes document, std::string_view field) {
  const auto value = field_at(document, field);
  if (value && value->is == Is::there) return {Stated::Kind::literal, value->element};
  return {value && value->is == Is::missing ? Stated::Kind::nothing : Stated::Kind::unclear};
}

// ---- both ------------------------------------------------------------------------------------

bool equal(const bson::Element& a, const bson::Element& b) {
  return a.type == b.type && std::ranges::equal(a.value, b.value);
}

Stated merged(const Stated& filter, const Stated& update) {
  using Kind = Stated::Kind;
  if (update.kind == Kind::nothing) return filter;
  if (filter.kind == Kind::nothing || update.kind == Kind::unclear) return update;
  if (update.kind == Kind::other) return update;
  const bool agree = filter.kind == Kind::literal && equal(filter.value, update.value);
  return {agree ? Kind::literal : Kind::overrules, update.value};
}

/// The server makes an `_id` if the upsert has none.
Stated stated_by(const UpsertStatement& statement, std::string_view field) {
  if (statement.kind != UpsertStatement::Kind::upsert || statement.is_pipeline) {
    return {Stated::Kind::unclear};
  }
  const Stated filter = stated_by_filter(statement.filter, field);
  if (!statement.is_replacement) {
    return merged(filter, stated_by_operators(statement.update, field));
  }
  // Of the filter, only the `_id` gets into a document that replaces another one.
  const Stated update = stated_by_replacement(statement.update, field);
  return field == "_id" ? merged(filter, update) : update;
}

}  // namespace

std::optional<bson::Element> value_set_by(const bson::Element& set, std::string_view field) {
  if (set.key == field) return set;
  const bool is_around = field.starts_with(set.key) && field[set.key.size()] == '.';
  if (!is_around || set.type != bson::Type::document) return std::nullopt;
  const auto value = field_at(set.value, field.substr(set.key.size() + 1));
  return value && value->is == Is::there ? std::optional(value->element) : std::nullopt;
}

namespace {

/// True if a path of the update enters an array where the field's path goes on in a document, as
/// a.$[].x does for a.b. The server does not accept both in one update (error 40).
bool enters_array(std::string_view path, std::string_view field) {
  const auto differs = std::ranges::mismatch(path, field).in1;
  const auto same = path.substr(0, static_cast<std::size_t>(differs - path.begin()));
  const auto dot = same.rfind('.');
  return dot != std::string_view::npos && path.substr(dot + 1).starts_with('$');
}

bool conflicts(std::string_view path, std::string_view field) {
  return overlap(path, field) || enters_array(path, field);
}

}  // namespace

bool names_path(const bson::Element& update_operator, const bson::Element& element,
                std::string_view field) {
  const bool renames = update_operator.key == "$rename" && element.type == bson::Type::string;
  return conflicts(element.key, field) || (renames && conflicts(element.text(), field));
}

std::optional<std::vector<ids::FieldValue>> known_values(const UpsertStatement& statement,
                                                         std::span<const std::string> fields) {
  std::vector<ids::FieldValue> values;
  if (fields.empty()) return values;
  for (const std::string& field : fields) {
    const Stated stated = stated_by(statement, field);
    const bool is_missing = stated.kind == Stated::Kind::nothing && !overlap(field, "_id");
    if (!is_missing && stated.kind != Stated::Kind::literal) return std::nullopt;
    values.push_back({is_missing ? Is::missing : Is::there, stated.value});
  }
  return values;
}

bool brings_value(const UpsertStatement& statement, const Rule& rule) {
  const Stated stated = stated_by(statement, rule.field);
  if (stated.kind == Stated::Kind::other) return true;
  return stated.is_known() && stated.value.type != bson::Type::null &&
         !replaces(rule.assign, stated.value);
}

bool brings_zero(const UpsertStatement& statement, const Rule& rule) {
  const Stated stated = stated_by(statement, rule.field);
  return stated.is_known() && leaves_zero(rule.assign, stated.value);
}

bool may_bring_id(const UpsertStatement& statement) {
  return stated_by(statement, "_id").kind != Stated::Kind::nothing;
}

}  // namespace idproxy::rewrite
