#include "idproxy/base/parameters.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <span>
#include <utility>

#include "idproxy/base/scalars.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy {
namespace {

/// The value as a message describes it: "text 'twelve'", "19", "true", "null", "a list".
std::string description(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::null) return "null";
  if (node.kind == TreeNode::Kind::sequence) return "a list";
  if (node.kind == TreeNode::Kind::mapping) return "a mapping";
  // A variable's value may be secret, so messages show the variable's name.
  if (!node.written.empty()) return "text '" + shown(node.written) + "' with its variable replaced";
  const bool has_unit = read_duration(node.text).reading == Reading::ok ||
                        read_size(node.text).reading == Reading::ok;
  if (!node.is_text() || (has_unit && !node.quoted)) return shown(node.text);
  return "text '" + shown(node.text) + "'";
}

std::string range_of_integers(std::int64_t min, std::int64_t max) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (min == Limits::min() && max == Limits::max()) return "an integer";
  return "an integer " + std::to_string(min) + " to " + std::to_string(max);
}

using Type = KeySpec::Type;

/// Of a key with bounds.
KeySpec within(Type type, double min, double max, std::string fallback,
               std::vector<std::string_view> words = {}) {
  using Limits = std::numeric_limits<std::int64_t>;
  KeySpec spec{.type = type, .words = std::move(words), .fallback = std::move(fallback)};
  if (min > static_cast<double>(Limits::min())) spec.min = min;
  if (max < static_cast<double>(Limits::max())) spec.max = max;
  return spec;
}

KeySpec within(std::chrono::milliseconds min, std::chrono::milliseconds max,
               std::chrono::milliseconds fallback, std::vector<std::string_view> words = {}) {
  return within(Type::duration, static_cast<double>(min.count()), static_cast<double>(max.count()),
                duration_text(fallback), std::move(words));
}

std::string range_of_durations(std::chrono::milliseconds min, std::chrono::milliseconds max,
                               Reading reading) {
  return "a duration of " + duration_text(min) + " to " + duration_text(max) +
         (reading == Reading::no_unit ? " with its unit (ms, s, m or h)" : "");
}

}  // namespace

bool TreeNode::is_boolean() const {
  return !quoted && (text == "true" || text == "false");
}

bool TreeNode::is_text() const {
  return quoted || (!is_boolean() && read_number(text).reading == Reading::malformed);
}

Parameters::Parameters(const TreeNode* node, std::string path, Place place, Findings& findings)
    : node_(node), path_(std::move(path)), place_(place), findings_(findings) {}

template <class Read, class Value, class Expected>
std::optional<Value> Parameters::bounded(std::string_view key, Read read, Value min, Value max,
                                         Expected expected) {
  const TreeNode* node = scalar(key, expected(Reading::ok));
  if (node == nullptr) return std::nullopt;
  const auto found = read(node->text);
  // What has a unit may be in quotes, a number may not.
  const bool bare = !node->quoted || read_number(node->text).reading == Reading::malformed;
  const bool fits = found.reading == Reading::ok && found.value >= min && found.value <= max;
  if (fits && bare) return found.value;
  mismatch(key, expected(found.reading), *node);
  return std::nullopt;
}

std::int64_t Parameters::integer(std::string_view key, std::int64_t min, std::int64_t max,
                                 std::int64_t fallback) {
  know(key, within(Type::integer, static_cast<double>(min), static_cast<double>(max),
                   std::to_string(fallback)));
  const auto expected = [&](Reading reading) {
    return range_of_integers(min, max) + (reading == Reading::too_large ? " (of 64 bits)" : "");
  };
  return bounded(key, read_integer, min, max, expected).value_or(fallback);
}

std::optional<std::int64_t> Parameters::integer_unless(std::string_view key, std::string_view word,
                                                       std::int64_t min, std::int64_t max) {
  know(key, within(Type::integer, static_cast<double>(min), static_cast<double>(max),
                   std::string(word), {word}));
  const auto expected = [&](Reading) {
    return std::string(word) + " or " + range_of_integers(min, max);
  };
  if (has_word(key, word)) return std::nullopt;
  return bounded(key, read_integer, min, max, expected);
}

std::optional<std::int64_t> Parameters::optional_integer(std::string_view key, std::int64_t min,
                                                         std::int64_t max) {
  KeySpec spec = within(Type::integer, static_cast<double>(min), static_cast<double>(max), "");
  spec.nullable = true;
  know(key, std::move(spec));
  if (is_none(key)) return std::nullopt;
  return bounded(key, read_integer, min, max,
                 [&](Reading) { return range_of_integers(min, max) + " or null"; });
}

double Parameters::number(std::string_view key, double min, double max, double fallback) {
  know(key, within(Type::number, min, max, number_text(fallback)));
  const auto expected = [&](Reading) {
    return "a number " + number_text(min) + " to " + number_text(max);
  };
  return bounded(key, read_number, min, max, expected).value_or(fallback);
}

bool Parameters::boolean(std::string_view key, bool fallback) {
  know(key, {.type = Type::boolean, .fallback = fallback ? "true" : "false"});
  constexpr std::string_view kExpected = "true or false";
  const TreeNode* node = scalar(key, kExpected);
  if (node == nullptr) return fallback;
  if (node->is_boolean()) return node->text == "true";
  mismatch(key, kExpected, *node);
  return fallback;
}

std::string Parameters::text(std::string_view key, std::string_view fallback) {
  know(key, {.type = Type::text, .fallback = std::string(fallback)});
  const TreeNode* node = scalar(key, "text");
  return node == nullptr ? std::string(fallback) : node->text;
}

std::size_t Parameters::choice(std::string_view key,
                               std::initializer_list<std::string_view> allowed) {
  know(key, {.type = Type::word, .words = allowed, .fallback = std::string(*allowed.begin())});
  const std::span<const std::string_view> words(allowed.begin(), allowed.size());
  const std::string expected = (words.size() > 1 ? "one of " : "") + listed(words);
  const TreeNode* node = find(key);
  // Words need no quotes, so an unquoted null is a word if it is among the choices.
  const bool says_null = node != nullptr && node->kind == TreeNode::Kind::null &&
                         std::find(words.begin(), words.end(), "null") != words.end();
  if (!says_null) node = scalar(key, expected);
  if (node == nullptr) return 0;
  const auto at = std::find(words.begin(), words.end(), says_null ? "null" : node->text);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  error(key, "must be " + expected + ", is " + description(*node) + suggestion(node->text, words));
  return 0;
}

std::chrono::milliseconds Parameters::duration(std::string_view key, std::chrono::milliseconds min,
                                               std::chrono::milliseconds max,
                                               std::chrono::milliseconds fallback) {
  know(key, within(min, max, fallback));
  const auto expected = [&](Reading reading) { return range_of_durations(min, max, reading); };
  return bounded(key, read_duration, min, max, expected).value_or(fallback);
}

std::chrono::milliseconds Parameters::duration_or_off(std::string_view key,
                                                      std::chrono::milliseconds min,
                                                      std::chrono::milliseconds max,
                                                      std::chrono::milliseconds fallback) {
  constexpr std::string_view kOff = "off";
  know(key, within(min, max, fallback, {kOff}));
  const auto expected = [&](Reading reading) {
    return "off or " + range_of_durations(min, max, reading);
  };
  if (has_word(key, kOff)) return {};
  return bounded(key, read_duration, min, max, expected).value_or(fallback);
}

std::int64_t Parameters::size(std::string_view key, std::int64_t min, std::int64_t max,
                              std::int64_t fallback, std::string_view why) {
  know(key,
       within(Type::size, static_cast<double>(min), static_cast<double>(max), size_text(fallback)));
  const auto expected = [&](Reading reading) {
    const std::string bounds = "a size of " + size_text(min) + " to " + size_text(max);
    if (reading == Reading::no_unit) return bounds + " with its unit (B, KiB, MiB or GiB)";
    return why.empty() ? bounds : bounds + ", " + std::string(why);
  };
  return bounded(key, read_size, min, max, expected).value_or(fallback);
}

std::string Parameters::required_text(std::string_view key) {
  know(key, {.type = Type::text, .required = true});
  if (!given(key)) {
    error(key, "is missing");
    return {};
  }
  const TreeNode* node = scalar(key, "text");
  if (node != nullptr && node->text.empty()) error(key, "must not be empty");
  return node == nullptr ? std::string() : node->text;
}

std::optional<std::string> Parameters::optional_text(std::string_view key) {
  know(key, {.type = Type::text, .nullable = true});
  if (is_none(key)) return std::nullopt;
  const TreeNode* node = scalar(key, "text or null");
  if (node == nullptr) return std::nullopt;
  if (!node->text.empty()) return node->text;
  error(key, "must not be empty; null stands for none");
  return std::nullopt;
}

Parameters& Parameters::section(std::string_view key) {
  know(key, {.section = true});
  if (const auto known = sections_.find(key); known != sections_.end()) return *known->second;
  const TreeNode* node = of_kind(TreeNode::Kind::mapping, key, "a mapping of keys to values");
  Parameters& child = add_child(node, name_of(key), place_of(key));
  sections_.emplace(key, &child);
  return child;
}

Parameters* Parameters::optional_section(std::string_view key) {
  know(key, {.section = true, .nullable = true});
  return is_none(key) ? nullptr : &section(key);
}

std::optional<std::vector<Parameters*>> Parameters::list(std::string_view key) {
  know(key, {.list = true, .nullable = true});
  if (is_none(key)) return std::vector<Parameters*>();
  const TreeNode* node = of_kind(TreeNode::Kind::sequence, key, "a list");
  if (node == nullptr) return std::nullopt;
  std::vector<Parameters*> items;
  for (const TreeNode& item : node->children) {
    const std::string path = name_of(key) + "[" + std::to_string(items.size()) + "]";
    const bool usable = item.kind == TreeNode::Kind::mapping;
    if (!usable && item.kind != TreeNode::Kind::refused) {
      findings_.error(item.place,
                      path + ": must be a mapping of keys to values, is " + description(item));
    }
    items.push_back(&add_child(usable ? &item : nullptr, path, item.place));
    sections_.emplace(std::string(key) + path.substr(path.rfind('[')), items.back());
  }
  return items;
}

std::vector<std::string> Parameters::texts(std::string_view key) {
  know(key, {.type = Type::texts, .fallback = "[]"});
  const TreeNode* node = of_kind(TreeNode::Kind::sequence, key, "a list of texts");
  if (node == nullptr) return {};
  std::vector<std::string> items;
  for (const TreeNode& item : node->children) {
    if (item.kind == TreeNode::Kind::scalar) {
      items.push_back(item.text);
    } else {
      mismatch(key, "a list of texts; one of them", item);
    }
  }
  return items;
}

std::vector<Parameters::Member> Parameters::members(std::string_view key) {
  know(key, {.type = Type::members, .nullable = true, .fallback = "{}"});
  if (is_none(key)) return {};
  const TreeNode* node = of_kind(TreeNode::Kind::mapping, key, "a mapping of names to values");
  if (node == nullptr) return {};
  std::vector<Member> members;
  for (const TreeNode& member : node->children) {
    add_member(member, name_of(key) + "." + member.key, members);
  }
  return members;
}

const TreeNode* Parameters::conditions(std::string_view key) {
  know(key, {.type = Type::conditions, .nullable = true, .fallback = "{}"});
  return is_none(key) ? nullptr : of_kind(TreeNode::Kind::mapping, key, "a mapping of conditions");
}

/// Types as in YAML: an unquoted scalar is null, a boolean or an integer if it looks like one.
void Parameters::add_member(const TreeNode& member, const std::string& path,
                            std::vector<Member>& members) {
  constexpr std::string_view kExpected =
      ": must be text, an integer of 64 bits, true, false or null";
  const std::string& name = member.key;
  if (name.empty() || name.starts_with('$') || name.find('.') != std::string::npos) {
    findings_.error(member.key_place, path + ": is not the name of a top-level field");
  } else if (member.kind == TreeNode::Kind::null) {
    members.push_back({name, nullptr});
  } else if (member.kind != TreeNode::Kind::scalar) {
    if (member.kind == TreeNode::Kind::refused) return;
    findings_.error(member.key_place,
                    path + std::string(kExpected) + ", is " + description(member));
  } else if (member.is_text()) {
    members.push_back({name, member.text});
  } else if (member.is_boolean()) {
    members.push_back({name, member.text == "true"});
  } else if (const auto integer = read_integer(member.text); integer.reading == Reading::ok) {
    members.push_back({name, integer.value});
  } else {
    findings_.error(member.key_place, path + std::string(kExpected) + ", is " +
                                          description(member) + " (quote it to make it text)");
  }
}

bool Parameters::is_section(std::string_view key) {
  know(key, {.section = true});
  const TreeNode* node = find(key);
  return node != nullptr && node->kind == TreeNode::Kind::mapping;
}

void Parameters::gone(std::string_view key) {
  know(key, {.gone = true});
  if (given(key)) warning(key, "has no effect any more");
}

bool Parameters::is_none(std::string_view key) const {
  const TreeNode* node = find(key);
  return node == nullptr || node->kind == TreeNode::Kind::null;
}

void Parameters::error(std::string_view key, std::string_view reason, const std::string& file,
                       FileFinding::About about) {
  findings_.add({FileFinding::Severity::error, place_of(key), message(key, reason), file, about,
                 name_of(key)});
}

void Parameters::warning(std::string_view key, std::string_view reason, FileFinding::About about) {
  findings_.add({FileFinding::Severity::warning,
                 place_of(key),
                 message(key, reason),
                 {},
                 about,
                 name_of(key)});
}

KeySpec& Parameters::spec(std::string_view key) {
  return specs_.find(key)->second;
}

void Parameters::falls_back_to(std::string_view key, std::string_view text) {
  spec(key).fallback = text;
  spec(key).computed = true;
}

void Parameters::know(std::string_view key, KeySpec spec) {
  spec.order = specs_.size();
  const auto [known, is_new] = specs_.emplace(key, spec);
  assert(spec.type == Type::none || known->second.type == Type::none ||
         spec.type == known->second.type);
  if (is_new || known->second.type != Type::none) return;
  spec.order = known->second.order;
  spec.section = spec.section || known->second.section;
  if (spec.type != Type::none) known->second = std::move(spec);
}

std::vector<std::string> Parameters::keys() {
  has_any_keys_ = true;
  std::vector<std::string> names;
  if (node_ == nullptr) return names;
  for (const TreeNode& child : node_->children) names.push_back(child.key);
  return names;
}

void Parameters::finish() {
  for (const auto& child : children_) child->finish();
  if (node_ == nullptr || accepts_all_) return;
  for (const TreeNode& child : node_->children) {
    if (!specs_.contains(child.key)) report_unknown(child);
  }
}

void Parameters::report_unknown(const TreeNode& child) {
  std::vector<std::string_view> known;
  for (const auto& [key, spec] : specs_) {
    if (!spec.gone) known.push_back(key);
  }
  std::string message = "unknown key '" + shown(child.key) + "'";
  const std::string meant = suggestion(child.key, known);
  message += meant.empty() ? "; known here: " + listed(known, ", ") : meant;
  findings_.add({.severity = FileFinding::Severity::error,
                 .place = child.key_place,
                 .message = path_.empty() ? message : path_ + ": " + message,
                 .key = path_});
}

const TreeNode* Parameters::find(std::string_view key) const {
  if (node_ == nullptr) return nullptr;
  for (const TreeNode& child : node_->children) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

const TreeNode* Parameters::of_kind(TreeNode::Kind kind, std::string_view key,
                                    std::string_view expected) {
  const TreeNode* node = find(key);
  if (node == nullptr || node->kind == kind) return node;
  mismatch(key, expected, *node);
  return nullptr;
}

void Parameters::mismatch(std::string_view key, std::string_view expected, const TreeNode& found) {
  if (found.kind == TreeNode::Kind::refused) return;
  error(key, "must be " + std::string(expected) + ", is " + description(found));
}

std::string Parameters::message(std::string_view key, std::string_view reason) const {
  std::string text(reason);
  const TreeNode* node = find(key);
  if (node != nullptr && !node->written.empty()) {
    const std::string value = "'" + shown(node->text) + "'";
    const std::size_t at = text.find(value);
    if (at != std::string::npos) text.replace(at, value.size(), "'" + shown(node->written) + "'");
  }
  return name_of(key) + ": " + text;
}

std::string_view Parameters::as_written(std::string_view key) const {
  const TreeNode* node = find(key);
  if (node == nullptr) return {};
  return node->written.empty() ? node->text : node->written;
}

std::string Parameters::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

Place Parameters::place_of(std::string_view key) const {
  const TreeNode* node = find(key);
  return node == nullptr ? place_ : node->key_place;
}

Parameters& Parameters::add_child(const TreeNode* node, std::string path, Place place) {
  children_.push_back(std::make_unique<Parameters>(node, std::move(path), place, findings_));
  return *children_.back();
}

}  // namespace idproxy
