#include "config/reader.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "config/scalars.hpp"
#include "config/words.hpp"
#include "idproxy/bson/builder.hpp"

namespace idproxy::config {
namespace {

/// The value as a message describes it: "text 'twelve'", "19", "true", "null", "a list".
std::string description(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::null) return "null";
  if (node.kind == TreeNode::Kind::sequence) return "a list";
  if (node.kind == TreeNode::Kind::mapping) return "a mapping";
  // A variable's value may be secret, so messages show the variable's name.
  if (!node.written.empty()) return "text '" + shown(node.written) + "' with its variable replaced";
  const bool is_boolean = node.text == "true" || node.text == "false";
  const bool bare = is_boolean || read_number(node.text).reading != Reading::malformed ||
                    read_duration(node.text).reading == Reading::ok ||
                    read_size(node.text).reading == Reading::ok;
  if (bare && !node.quoted) return shown(node.text);
  return "text '" + shown(node.text) + "'";
}

std::string range_of_integers(std::int64_t min, std::int64_t max) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (min == Limits::min() && max == Limits::max()) return "an integer";
  return "an integer " + std::to_string(min) + " to " + std::to_string(max);
}

std::string range_of_durations(std::chrono::milliseconds min, std::chrono::milliseconds max) {
  return "a duration of " + duration_text(min) + " to " + duration_text(max);
}

}  // namespace

Reader::Reader(const TreeNode* node, std::string path, Place place, Findings& findings)
    : node_(node), path_(std::move(path)), place_(place), findings_(findings) {}

std::int64_t Reader::integer(std::string_view key, std::int64_t min, std::int64_t max,
                             std::int64_t fallback) {
  const std::string expected = range_of_integers(min, max);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr) return fallback;
  const auto read = read_integer(node->text);
  const bool fits = read.reading == Reading::ok && read.value >= min && read.value <= max;
  if (fits && !node->quoted) return read.value;
  const bool too_large = read.reading == Reading::too_large;
  mismatch(key, expected + (too_large ? " (of 64 bits)" : ""), *node);
  return fallback;
}

double Reader::number(std::string_view key, double min, double max, double fallback) {
  const std::string expected = "a number " + number_text(min) + " to " + number_text(max);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr) return fallback;
  const auto read = read_number(node->text);
  const bool fits = read.reading == Reading::ok && read.value >= min && read.value <= max;
  if (fits && !node->quoted) return read.value;
  mismatch(key, expected, *node);
  return fallback;
}

bool Reader::boolean(std::string_view key, bool fallback) {
  constexpr std::string_view kExpected = "true or false";
  const TreeNode* node = scalar(key, kExpected);
  if (node == nullptr) return fallback;
  if (!node->quoted && node->text == "true") return true;
  if (!node->quoted && node->text == "false") return false;
  mismatch(key, kExpected, *node);
  return fallback;
}

std::string Reader::text(std::string_view key, std::string_view fallback) {
  const TreeNode* node = scalar(key, "text");
  return node == nullptr ? std::string(fallback) : node->text;
}

std::size_t Reader::choice(std::string_view key, std::initializer_list<std::string_view> allowed) {
  const std::span<const std::string_view> words(allowed.begin(), allowed.size());
  const std::string expected = (words.size() > 1 ? "one of " : "") + listed(words);
  const TreeNode* node = find(key);
  // Words need no quotes, so an unquoted null is a word if it is among the choices.
  const bool says_null = node != nullptr && node->kind == TreeNode::Kind::null &&
                         std::find(words.begin(), words.end(), "null") != words.end();
  if (!says_null) node = scalar(key, expected);
  known_.emplace(key);
  if (node == nullptr) return 0;
  const auto at = std::find(words.begin(), words.end(), says_null ? "null" : node->text);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  error(key, "must be " + expected + ", is " + description(*node) + suggestion(node->text, words));
  return 0;
}

std::chrono::milliseconds Reader::duration(std::string_view key, std::chrono::milliseconds min,
                                           std::chrono::milliseconds max,
                                           std::chrono::milliseconds fallback) {
  const std::string expected = range_of_durations(min, max);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr) return fallback;
  return duration_in(*node, key, expected, min, max).value_or(fallback);
}

std::chrono::milliseconds Reader::duration_or_off(std::string_view key,
                                                  std::chrono::milliseconds min,
                                                  std::chrono::milliseconds max,
                                                  std::chrono::milliseconds fallback) {
  const std::string expected = "off or " + range_of_durations(min, max);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr) return fallback;
  if (node->text == "off") return {};
  return duration_in(*node, key, expected, min, max).value_or(fallback);
}

std::optional<std::chrono::milliseconds> Reader::duration_in(const TreeNode& node,
                                                             std::string_view key,
                                                             std::string_view expected,
                                                             std::chrono::milliseconds min,
                                                             std::chrono::milliseconds max) {
  const auto read = read_duration(node.text);
  if (read.reading == Reading::ok && read.value >= min && read.value <= max) return read.value;
  const bool no_unit = read.reading == Reading::no_unit;
  mismatch(key, std::string(expected) + (no_unit ? " with its unit (ms, s, m or h)" : ""), node);
  return std::nullopt;
}

std::int64_t Reader::size(std::string_view key, std::int64_t min, std::int64_t max,
                          std::int64_t fallback, std::string_view why) {
  const std::string bounds = "a size of " + size_text(min) + " to " + size_text(max);
  const std::string expected = why.empty() ? bounds : bounds + ", " + std::string(why);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr) return fallback;
  const auto read = read_size(node->text);
  if (read.reading == Reading::ok && read.value >= min && read.value <= max) return read.value;
  const bool no_unit = read.reading == Reading::no_unit;
  mismatch(key, no_unit ? bounds + " with its unit (B, KiB, MiB or GiB)" : expected, *node);
  return fallback;
}

std::string Reader::required_text(std::string_view key) {
  if (!given(key)) {
    known_.emplace(key);
    error(key, "is missing");
    return {};
  }
  const TreeNode* node = scalar(key, "text");
  if (node != nullptr && node->text.empty()) error(key, "must not be empty");
  return node == nullptr ? std::string() : node->text;
}

std::optional<std::string> Reader::optional_text(std::string_view key) {
  known_.emplace(key);
  if (is_none(key)) return std::nullopt;
  const TreeNode* node = scalar(key, "text or null");
  if (node == nullptr) return std::nullopt;
  if (!node->text.empty()) return node->text;
  error(key, "must not be empty; null stands for none");
  return std::nullopt;
}

std::optional<std::int64_t> Reader::integer_unless(std::string_view key, std::string_view word,
                                                   std::int64_t min, std::int64_t max) {
  const std::string expected = std::string(word) + " or " + range_of_integers(min, max);
  const TreeNode* node = scalar(key, expected);
  if (node == nullptr || node->text == word) return std::nullopt;
  const auto read = read_integer(node->text);
  const bool fits = read.reading == Reading::ok && read.value >= min && read.value <= max;
  if (fits && !node->quoted) return read.value;
  mismatch(key, expected, *node);
  return std::nullopt;
}

Reader& Reader::section(std::string_view key) {
  if (const auto known = sections_.find(key); known != sections_.end()) return *known->second;
  known_.emplace(key);
  const TreeNode* node = find(key);
  if (node != nullptr && node->kind != TreeNode::Kind::mapping) {
    mismatch(key, "a mapping of keys to values", *node);
    node = nullptr;
  }
  Reader& child = add_child(node, name_of(key), place_of(key));
  sections_.emplace(key, &child);
  return child;
}

Reader* Reader::optional_section(std::string_view key) {
  known_.emplace(key);
  return is_none(key) ? nullptr : &section(key);
}

std::optional<std::vector<Reader*>> Reader::list(std::string_view key) {
  known_.emplace(key);
  if (is_none(key)) return std::vector<Reader*>();
  const TreeNode* node = find(key);
  if (node->kind != TreeNode::Kind::sequence) {
    mismatch(key, "a list", *node);
    return std::nullopt;
  }
  std::vector<Reader*> items;
  for (const TreeNode& item : node->children) {
    const std::string path = name_of(key) + "[" + std::to_string(items.size()) + "]";
    const bool usable = item.kind == TreeNode::Kind::mapping;
    if (!usable && item.kind != TreeNode::Kind::refused) {
      findings_.error(item.place,
                      path + ": must be a mapping of keys to values, is " + description(item));
    }
    items.push_back(&add_child(usable ? &item : nullptr, path, item.place));
  }
  return items;
}

std::vector<std::string> Reader::texts(std::string_view key) {
  const TreeNode* node = find(key);
  known_.emplace(key);
  if (node == nullptr) return {};
  if (node->kind != TreeNode::Kind::sequence) {
    mismatch(key, "a list of texts", *node);
    return {};
  }
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

std::string Reader::document(std::string_view key) {
  known_.emplace(key);
  if (is_none(key)) return {};
  const TreeNode* node = find(key);
  if (node->kind != TreeNode::Kind::mapping) {
    mismatch(key, "a mapping of names to values", *node);
    return {};
  }
  if (node->children.empty()) return {};
  Buffer out;
  bson::Scope document(out);
  for (const TreeNode& member : node->children) {
    append_member(member, name_of(key) + "." + member.key, out);
  }
  document.close();
  return std::string(as_text(out.view()));
}

/// Types as in YAML: an unquoted scalar is null, a boolean or an integer if it looks like one.
void Reader::append_member(const TreeNode& member, const std::string& path, Buffer& out) {
  constexpr std::string_view kExpected =
      ": must be text, an integer of 64 bits, true, false or null";
  const std::string& name = member.key;
  if (name.empty() || name.starts_with('$') || name.find('.') != std::string::npos) {
    findings_.error(member.key_place, path + ": is not the name of a top-level field");
  } else if (member.kind == TreeNode::Kind::null) {
    bson::append_head(out, bson::Type::null, name);
  } else if (member.kind != TreeNode::Kind::scalar) {
    if (member.kind == TreeNode::Kind::refused) return;
    findings_.error(member.key_place,
                    path + std::string(kExpected) + ", is " + description(member));
  } else if (member.quoted || read_number(member.text).reading == Reading::malformed) {
    const bool boolean = !member.quoted && (member.text == "true" || member.text == "false");
    if (!boolean) return bson::append_string(out, name, member.text);
    bson::append_bool(out, name, member.text == "true");
  } else if (const auto integer = read_integer(member.text); integer.reading == Reading::ok) {
    bson::append_int64(out, name, integer.value);
  } else {
    findings_.error(member.key_place, path + std::string(kExpected) + ", is " +
                                          description(member) + " (quote it to make it text)");
  }
}

bool Reader::given(std::string_view key) const {
  return find(key) != nullptr;
}

bool Reader::is_section(std::string_view key) const {
  const TreeNode* node = find(key);
  return node != nullptr && node->kind == TreeNode::Kind::mapping;
}

void Reader::gone(std::string_view key) {
  gone_.emplace(key);
  if (given(key)) warning(key, "has no effect any more");
}

bool Reader::is_none(std::string_view key) const {
  const TreeNode* node = find(key);
  return node == nullptr || node->kind == TreeNode::Kind::null;
}

void Reader::error(std::string_view key, std::string_view reason) {
  findings_.error(place_of(key), message(key, reason));
}

void Reader::warning(std::string_view key, std::string_view reason) {
  findings_.warning(place_of(key), message(key, reason));
}

std::vector<std::string> Reader::keys() const {
  std::vector<std::string> names;
  if (node_ == nullptr) return names;
  for (const TreeNode& child : node_->children) names.push_back(child.key);
  return names;
}

void Reader::finish() {
  for (const auto& child : children_) child->finish();
  if (node_ == nullptr || accepts_all_) return;
  for (const TreeNode& child : node_->children) {
    if (!known_.contains(child.key) && !gone_.contains(child.key)) report_unknown(child);
  }
}

void Reader::report_unknown(const TreeNode& child) {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  std::string message = "unknown key '" + shown(child.key) + "'";
  const std::string meant = suggestion(child.key, known);
  message += meant.empty() ? "; known here: " + listed(known, ", ") : meant;
  findings_.error(child.key_place, path_.empty() ? message : path_ + ": " + message);
}

const TreeNode* Reader::find(std::string_view key) const {
  if (node_ == nullptr) return nullptr;
  for (const TreeNode& child : node_->children) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

const TreeNode* Reader::scalar(std::string_view key, std::string_view expected) {
  known_.emplace(key);
  const TreeNode* node = find(key);
  if (node == nullptr || node->kind == TreeNode::Kind::scalar) return node;
  mismatch(key, expected, *node);
  return nullptr;
}

void Reader::mismatch(std::string_view key, std::string_view expected, const TreeNode& found) {
  if (found.kind == TreeNode::Kind::refused) return;
  error(key, "must be " + std::string(expected) + ", is " + description(found));
}

std::string Reader::message(std::string_view key, std::string_view reason) const {
  std::string text(reason);
  const TreeNode* node = find(key);
  if (node != nullptr && !node->written.empty()) {
    const std::string value = "'" + shown(node->text) + "'";
    const std::size_t at = text.find(value);
    if (at != std::string::npos) text.replace(at, value.size(), "'" + shown(node->written) + "'");
  }
  return name_of(key) + ": " + text;
}

std::string_view Reader::as_written(std::string_view key) const {
  const TreeNode* node = find(key);
  if (node == nullptr) return {};
  return node->written.empty() ? node->text : node->written;
}

std::string Reader::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

Place Reader::place_of(std::string_view key) const {
  const TreeNode* node = find(key);
  return node == nullptr ? place_ : node->key_place;
}

Reader& Reader::add_child(const TreeNode* node, std::string path, Place place) {
  children_.push_back(std::make_unique<Reader>(node, std::move(path), place, findings_));
  return *children_.back();
}

}  // namespace idproxy::config
