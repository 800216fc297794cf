#include "idproxy/ids/sequences.hpp"

#include <algorithm>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/builder.hpp"

namespace idproxy::ids {
namespace {

/// True for "", which programs in Go, Java and C# store for a field that was never set.
bool is_empty_text(const FieldValue& value) {
  return value.is == FieldValue::Is::there && value.element.type == bson::Type::string &&
         value.element.text().empty();
}

std::string bytes_of(const Buffer& buffer) {
  return std::string(as_text(buffer.view()));
}

/// Queries and indexes treat an explicit null as a missing field.
bool is_missing(const FieldValue& value) {
  return value.is == FieldValue::Is::missing ||
         (value.is == FieldValue::Is::there && value.element.type == bson::Type::null);
}

std::string refusal_of(const SequenceOptions& options, std::span<const std::size_t> in_template,
                       std::size_t field, const FieldValue& value) {
  const bool is_scope = field < options.scope.size();
  const bool is_text = std::ranges::find(in_template, field) != in_template.end();
  if (value.is == FieldValue::Is::in_array) return "lies within an array";
  if (value.is == FieldValue::Is::twice) return "occurs twice";
  if (is_missing(value) || (is_scope && is_empty_text(value))) {
    const bool null_will_do =
        is_scope && !is_text && options.on_missing == SequenceOptions::OnMissing::null;
    const std::string lack = is_missing(value) ? "is missing" : "is empty";
    return null_will_do
               ? ""
               : lack + ": the rule's `" + (is_scope ? "scope" : "template") + "` needs it";
  }
  if (is_scope) {
    Buffer ignored;
    const std::string why = append_scope(ignored, {}, value.element);
    if (!why.empty()) return why + ": it cannot be a scope";
  }
  if (!is_text || text_in_template(value.element)) return {};
  return "is neither an integer nor a string of at most " + std::to_string(kMostInScope) +
         " bytes: it cannot stand in the rule's `template`";
}

}  // namespace

std::string sequence_key(std::string_view name, std::string_view scope, std::string_view period) {
  if (scope.empty() && period.empty()) return {};
  Buffer out;
  bson::Scope key(out);
  bson::append_string(out, "c", name);
  if (!scope.empty()) {
    bson::append_head(out, bson::Type::document, "s");
    out.append(as_bytes(scope));
  }
  if (!period.empty()) bson::append_string(out, "p", period);
  key.close();
  return bytes_of(out);
}

void choose_in(CounterPlace& place, const std::string& key, const std::string& scope) {
  place.key_is = CounterPlace::KeyIs::document;
  if (place.scope_field.empty()) {
    place.key = key;
    return;
  }
  Buffer named;
  bson::Scope filter(named);
  bson::append_string(named, place.name_field, place.key);
  filter.close();
  place.filter = bytes_of(named);
  place.key_field = place.scope_field;
  place.key = reference_value(scope);
}

Sequences::Sequences(const SequenceOptions& options, std::string name, NumberFormat format,
                     const Clock& clock, Open open)
    : options_(options),
      name_(std::move(name)),
      format_(std::move(format)),
      clock_(clock),
      open_(std::move(open)),
      fields_(options_.scope) {
  if (!options_.text) return;
  for (const std::string& field : options_.text->fields()) {
    const auto known = std::ranges::find(fields_, field);
    in_template_.push_back(static_cast<std::size_t>(known - fields_.begin()));
    if (known == fields_.end()) fields_.push_back(field);
  }
}

std::string Sequences::refusal(std::span<const FieldValue> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string why = refusal_of(options_, in_template_, i, values[i]);
    if (!why.empty()) return "field '" + fields_[i] + "' " + why;
  }
  return {};
}

/// {field: value, …}, sorted by field.
std::string Sequences::scope_of(std::span<const FieldValue> values) const {
  if (options_.scope.empty()) return {};
  Buffer out;
  bson::Scope document(out);
  for (std::size_t i = 0; i < options_.scope.size(); ++i) {
    bson::Element value = values[i].element;
    if (is_missing(values[i])) value.type = bson::Type::null;
    (void)append_scope(out, options_.scope[i], value);  // refusal() has said that it can be one
  }
  document.close();
  return bytes_of(out);
}

Sequences::Chosen Sequences::choose(std::span<const FieldValue> values,
                                    std::chrono::nanoseconds wall) const {
  const auto day = options_.zone.date_at(wall);
  Chosen chosen;
  chosen.scope = scope_of(values);
  chosen.key = sequence_key(name_, chosen.scope, period_of(options_.reset, day, options_.year));
  chosen.format = chosen.stored = format_;
  if (!options_.text) return chosen;
  const std::vector<std::string> texts = texts_of(values);
  std::vector<const std::string*> fixed;
  fixed.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    fixed.push_back(in_template_[i] < options_.scope.size() ? &texts[i] : nullptr);
  }
  chosen.format = options_.text->format(day, texts, options_.check);
  chosen.stored = options_.text->format_of_all({day, options_.reset, fixed}, options_.check);
  return chosen;
}

std::vector<std::string> Sequences::texts_of(std::span<const FieldValue> values) const {
  std::vector<std::string> texts;
  texts.reserve(in_template_.size());
  for (const std::size_t field : in_template_) {
    texts.push_back(text_in_template(values[field].element).value_or(""));
  }
  return texts;
}

void RecentSequences::renew(const Store& newest) {
  const std::scoped_lock lock(mutex_);
  newest_ = &newest;
  for (Sequence& each : sequences_) each.is_told = false;
}

}  // namespace idproxy::ids
