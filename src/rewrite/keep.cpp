#include "rewrite/keep.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/zero_value.hpp"
#include "rewrite/left_out.hpp"
#include "rewrite/upsert.hpp"

namespace idproxy::rewrite {
namespace {

using Is = ids::FieldValue::Is;

constexpr KeepVerdict kStaysUntouched{KeepVerdict::Kind::untouched, {}};
constexpr KeepVerdict kStays{KeepVerdict::Kind::kept, {}};
constexpr KeepVerdict kBroken{KeepVerdict::Kind::malformed, {}};

constexpr KeepVerdict lost(LossReason reason) {
  return {KeepVerdict::Kind::lost, reason};
}

// ---- replacements ----------------------------------------------------------------------------

/// The names of a document so far. Most have few, for which a table costs more than it saves.
class SeenNames {
 public:
  /// False if it is there.
  bool add(std::string_view name) {
    const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
    if (std::find(few_.begin(), end, name) != end) return false;
    if (count_ == few_.size()) return more_.insert(name).second;
    few_[count_++] = name;
    return true;
  }

 private:
  std::array<std::string_view, 24> few_;
  std::size_t count_ = 0;  // of few_
  std::unordered_set<std::string_view> more_;
};

/// A top level that is stored otherwise by a pipeline, or that mongod refuses only in a
/// replacement.
std::optional<LossReason> fault_of_names(Bytes replacement) {
  SeenNames names;
  for (const bson::Element& element : bson::Elements(replacement)) {
    if (element.key.starts_with('$')) return LossReason::dollar_name;
    if (element.type == bson::Type::timestamp && load_i64(element.value.data()) == 0) {
      return LossReason::server_time;
    }
    if (!names.add(element.key)) return LossReason::repeated_name;
  }
  return std::nullopt;
}

bool repeats_a_name(Bytes document) {
  SeenNames names;
  for (const bson::Element& element : bson::Elements(document)) {
    if (!names.add(element.key)) return true;
  }
  return false;
}

/// The pipeline merges the documents around the field: what it cannot merge.
std::optional<LossReason> fault_around(Bytes replacement, const std::vector<std::string>& path) {
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    const auto around = bson::find(replacement, path[i]);
    if (!around) return std::nullopt;
    if (around->type != bson::Type::document) return LossReason::other_form;
    replacement = around->value;
    if (repeats_a_name(replacement)) return LossReason::repeated_name;
  }
  return std::nullopt;
}

/// Why an upsert's filter is none for a pipeline. One that goes alone is sent as a replacement if
/// it is to insert a document.
std::optional<LossReason> fault_of_filter(const UpsertStatement& statement, std::string_view field,
                                          bool is_alone) {
  if (statement.kind != UpsertStatement::Kind::upsert || statement.filter.empty()) {
    return std::nullopt;
  }
  const FilterForm form = form_of(statement.filter);
  if (form == FilterForm::refused) return LossReason::unknown_form;
  if (is_alone) return std::nullopt;
  if (form == FilterForm::repeats) return LossReason::filter_repeats_field;
  const bool is_named = filter_names(statement.filter, field) != Names::no;
  return is_named ? std::optional(LossReason::filter_names_field) : std::nullopt;
}

/// Why a pipeline cannot do what the replacement does, but for the field.
std::optional<LossReason> why_not_kept(const UpsertStatement& statement,
                                       const Assignment& assignment, bool is_alone) {
  // Of a pipeline, mongod accepts somewhat more levels of the replacement (194), and leaves of a
  // document's 16 MiB 60 bytes less (observed, 4.4.2 to 6.0.5).
  constexpr std::size_t kLevels = 170;
  constexpr auto kMost = static_cast<std::size_t>(bson::kMaxUserDocument) - 80;
  // Half of what may surround a document in its statement is left to the pipeline and a value.
  constexpr auto kMostWhole =
      static_cast<std::size_t>(bson::kMaxUserDocument + bson::kMaxInternalDocument) / 2;
  using Kinds = UpsertStatement::Kind;
  if (statement.kind == Kinds::unknown) return LossReason::unknown_form;
  if (statement.is_encrypted) return LossReason::encrypted;
  if (statement.has_array_filters) return LossReason::array_filters;
  if (const auto fault = fault_around(statement.update, assignment.path)) return fault;
  if (const auto fault = fault_of_names(statement.update)) return fault;
  if (statement.update.size() > kMost || statement.whole.size() > kMostWhole) {
    return LossReason::too_large;
  }
  if (!bson::well_formed(statement.update, kLevels)) return LossReason::too_deep;
  return fault_of_filter(statement, assignment.rule->field, is_alone);
}

KeepVerdict judge_kept_replacement(const UpsertStatement& statement, const Assignment& assignment,
                                   bool is_alone) {
  const auto value = field_at(statement.update, assignment.rule->field);
  if (!value) return kBroken;
  if (statement.multi) return kStaysUntouched;  // mongod refuses a replacement of several documents
  if (value->is == Is::there && !calls_missing(*assignment.rule, value->element)) {
    const bool is_null = value->element.type == bson::Type::null;
    return is_null ? lost(LossReason::sets_missing) : kStaysUntouched;
  }
  if (assignment.rule->keep == Keep::off) return lost(LossReason::off);
  const auto reason = why_not_kept(statement, assignment, is_alone);
  return reason ? lost(*reason) : kStays;
}

// ---- operators and pipelines -----------------------------------------------------------------

/// What one path of an operator, such as a of {$set: {a: 1}}, does with the field.
KeepVerdict judge_path(const bson::Element& update_operator, const bson::Element& path,
                       const Rule& rule) {
  if (update_operator.key == "$setOnInsert" || !names_path(update_operator, path, rule.field)) {
    return kStaysUntouched;
  }
  if (is_left_out(update_operator, path, rule)) return kStays;
  if (update_operator.key == "$rename") return lost(LossReason::renames);
  if (update_operator.key == "$unset") return lost(LossReason::unset);
  if (update_operator.key != "$set") return lost(LossReason::sets);
  const auto value = value_set_by(path, rule.field);
  const bool is_value = value && value->type != bson::Type::null && !replaces(rule.assign, *value);
  return lost(is_value ? LossReason::sets : LossReason::sets_missing);
}

/// Of several paths, one that is lost counts.
KeepVerdict judge_operators(Bytes update, const Rule& rule) {
  KeepVerdict result = kStaysUntouched;
  bson::Elements operators(update);
  while (const auto each = operators.next()) {
    if (each->type != bson::Type::document) return kStaysUntouched;  // mongod refuses the update
    bson::Elements paths(each->value);
    while (const auto path = paths.next()) {
      const KeepVerdict verdict = judge_path(*each, *path, rule);
      const bool is_lost = result.kind == KeepVerdict::Kind::lost;
      if (verdict != kStaysUntouched && !is_lost) result = verdict;
    }
    if (paths.malformed()) return kBroken;
  }
  return operators.malformed() ? kBroken : result;
}

KeepVerdict judge_set(Bytes specification, const Rule& rule) {
  KeepVerdict result = kStaysUntouched;
  for (const bson::Element& path : bson::Elements(specification)) {
    if (!overlap(path.key, rule.field)) continue;
    if (!is_left_out_of_stage(path, rule)) return lost(LossReason::pipeline);
    result = kStays;
  }
  return result;
}

/// Of a stage other than $set and $addFields.
bool changes_field(const bson::Element& stage, std::string_view field) {
  const auto what = bson::Elements(stage.value).next();
  if (!what) return false;
  if (what->key != "$unset") return true;  // it makes the document anew
  if (what->type == bson::Type::string) return overlap(what->text(), field);
  if (what->type != bson::Type::array) return false;  // which mongod refuses
  for (const bson::Element& name : bson::Elements(what->value)) {
    if (name.type == bson::Type::string && overlap(name.text(), field)) return true;
  }
  return false;
}

KeepVerdict judge_stage(const bson::Element& stage, const Rule& rule) {
  if (stage.type != bson::Type::document) return kStaysUntouched;
  if (const auto set = set_of(stage)) return judge_set(set->value, rule);
  return changes_field(stage, rule.field) ? lost(LossReason::pipeline) : kStaysUntouched;
}

/// An upsert whose pipeline names the field gets no value, so that it is sent as it is.
KeepVerdict judge_pipeline(const UpsertStatement& statement, const Rule& rule) {
  KeepVerdict result = kStaysUntouched;
  bson::Elements stages(statement.update);
  while (const auto stage = stages.next()) {
    const KeepVerdict verdict = judge_stage(*stage, rule);
    if (verdict.kind == KeepVerdict::Kind::lost) return verdict;
    if (verdict.kind == KeepVerdict::Kind::kept) result = verdict;
  }
  if (stages.malformed()) return kBroken;
  const bool is_upsert = statement.kind != UpsertStatement::Kind::plain;
  return result == kStays && is_upsert ? lost(LossReason::pipeline) : result;
}

}  // namespace

KeepVerdict judge_keep(const UpsertStatement& statement, const Assignment& assignment,
                       bool is_alone) {
  if (statement.update.empty() || assignment.is_id() || assignment.implied) return kStaysUntouched;
  if (statement.is_pipeline) return judge_pipeline(statement, *assignment.rule);
  if (!statement.is_replacement) return judge_operators(statement.update, *assignment.rule);
  return judge_kept_replacement(statement, assignment, is_alone);
}

bool touches_values(const WriteCommand& command, const Plan& plan) {
  if (!plan.can_lose_values()) return false;
  Statements statements(command);
  while (const auto statement = statements.next()) {
    const auto found = UpsertStatement::read(*statement, command.kind);
    if (!found) return false;  // mongod refuses the command
    // Most replacements lack the field, and the scan will find out at the same cost.
    if (found->is_replacement) return true;
    const bool touches = std::ranges::any_of(plan, [&](const Assignment& each) {
      return judge_keep(*found, each, true) != kStaysUntouched;
    });
    if (touches) return true;
  }
  return false;
}

}  // namespace idproxy::rewrite
