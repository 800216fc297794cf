#include "idproxy/ids/sequence_choice.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/buffer.hpp"
#include "idproxy/bson/builder.hpp"

namespace idproxy::ids {
namespace {

/// True for "", which programs in Go, Java and C# store for a field that was never set.
bool is_empty_text(const FieldValue& value) {
  return value.is == FieldValue::Is::there && value.element.type == bson::Type::string &&
         value.element.text().empty();
}

/// An element without a name or a place in a document.
bson::Element null_element() {
  bson::Element element;
  element.type = bson::Type::null;
  return element;
}

std::string bytes_of(const Buffer& buffer) {
  return std::string(as_text(buffer.view()));
}

}  // namespace

SequenceChoice::SequenceChoice(SequenceOptions options)
    : options_(std::move(options)), fields_(options_.scope) {
  if (!options_.text) return;
  for (const std::string& field : options_.text->fields()) {
    const auto known = std::ranges::find(fields_, field);
    in_template_.push_back(static_cast<std::size_t>(known - fields_.begin()));
    if (known == fields_.end()) fields_.push_back(field);
  }
}

/// Queries and indexes treat an explicit null as a missing field.
bool SequenceChoice::is_missing(const FieldValue& value) const {
  return value.is == FieldValue::Is::missing ||
         (value.is == FieldValue::Is::there && value.element.type == bson::Type::null);
}

std::string SequenceChoice::refusal(std::span<const FieldValue> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string why = refusal(i, values[i]);
    if (!why.empty()) return "field '" + fields_[i] + "' " + why;
  }
  return {};
}

std::string SequenceChoice::refusal(std::size_t field, const FieldValue& value) const {
  const bool is_scope = field < options_.scope.size();
  const bool is_text = std::ranges::find(in_template_, field) != in_template_.end();
  if (value.is == FieldValue::Is::in_array) return "lies within an array";
  if (value.is == FieldValue::Is::twice) return "occurs twice";
  if (is_missing(value) || (is_scope && is_empty_text(value))) {
    const bool null_will_do =
        is_scope && !is_text && options_.on_missing == SequenceOptions::OnMissing::null;
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

/// {field: value, …}, sorted by field.
std::string SequenceChoice::scope_of(std::span<const FieldValue> values) const {
  if (options_.scope.empty()) return {};
  Buffer out;
  bson::Scope document(out);
  for (std::size_t i = 0; i < options_.scope.size(); ++i) {
    const auto value = is_missing(values[i]) ? null_element() : values[i].element;
    (void)append_scope(out, options_.scope[i], value);  // refusal() has said that it can be one
  }
  document.close();
  return bytes_of(out);
}

SequenceChoice::Chosen SequenceChoice::choose(std::string_view name, const NumberFormat& format,
                                              std::span<const FieldValue> values,
                                              std::chrono::nanoseconds wall) const {
  const auto day = options_.zone.date_at(wall);
  Chosen chosen;
  chosen.scope = scope_of(values);
  if (!chosen.scope.empty() || options_.reset != Reset::none) {
    Buffer out;
    bson::Scope key(out);
    bson::append_string(out, "c", name);
    if (!chosen.scope.empty()) {
      bson::append_head(out, bson::Type::document, "s");
      out.append(as_bytes(chosen.scope));
    }
    if (options_.reset != Reset::none)
      bson::append_string(out, "p", period_of(options_.reset, day));
    key.close();
    chosen.key = bytes_of(out);
  }
  chosen.format = chosen.stored = format;
  if (options_.text) write(chosen, values, day);
  return chosen;
}

/// Sets the formats, by the template.
void SequenceChoice::write(Chosen& chosen, std::span<const FieldValue> values,
                           std::chrono::year_month_day day) const {
  std::vector<std::string> texts;
  texts.reserve(in_template_.size());
  for (const std::size_t field : in_template_) {
    texts.push_back(text_in_template(values[field].element).value_or(""));
  }
  std::vector<const std::string*> fixed;
  fixed.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    fixed.push_back(in_template_[i] < options_.scope.size() ? &texts[i] : nullptr);
  }
  chosen.format = options_.text->format(day, texts, options_.check);
  chosen.stored = options_.text->format_of_all({day, options_.reset, fixed}, options_.check);
}

}  // namespace idproxy::ids
