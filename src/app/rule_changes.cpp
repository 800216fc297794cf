#include "app/rule_changes.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace idproxy::app {
namespace {

using Rules = std::vector<rewrite::Rule>;
using Names = std::vector<std::string>;

constexpr std::size_t kMostRulesNamed = 20;  // of those changed, added or removed
constexpr std::size_t kMostKeysNamed = 8;
constexpr std::size_t kMostNameBytes = 2000;  // of all names of a kind

/// "a, b and 3 more"
std::string listed(const Names& names, std::size_t most) {
  std::string text;
  std::size_t count = 0;
  while (count < std::min(names.size(), most) &&
         text.size() + names[count].size() <= kMostNameBytes) {
    text += (count == 0 ? "" : ", ") + names[count];
    ++count;
  }
  const std::size_t left = names.size() - count;
  if (left == 0) return text;
  return text + (count == 0 ? "" : " and ") + std::to_string(left) + (count == 0 ? "" : " more");
}

std::string name_of(const rewrite::Rule& rule) {
  return rule.ns + "." + rule.field;
}

/// The keys that only one of them has, or that have other values.
Names changed_keys(const rewrite::Rule& a, const rewrite::Rule& b) {
  Names keys;
  for (const auto& [key, value] : a.definition) {
    const auto other = b.definition.find(key);
    if (other == b.definition.end() || other->second != value) keys.push_back(key);
  }
  for (const auto& [key, value] : b.definition) {
    if (!a.definition.contains(key)) keys.push_back(key);
  }
  std::ranges::sort(keys);
  return keys;
}

/// Pairs rules of the same namespace and field, in their order.
struct Difference {
  Names changed, added, removed;
  bool reordered = false;

  Difference(const Rules& before, const Rules& after) {
    std::vector<bool> paired(before.size());
    std::size_t last = 0;
    for (const rewrite::Rule& rule : after) {
      const std::size_t its = partner_of(rule, before, paired);
      if (its == before.size()) {
        added.push_back(name_of(rule));
        continue;
      }
      paired[its] = true;
      reordered = reordered || its < last;
      last = its;
      const Names keys = changed_keys(before[its], rule);
      if (!keys.empty()) {
        changed.push_back(name_of(rule) + " (" + listed(keys, kMostKeysNamed) + ")");
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!paired[i]) removed.push_back(name_of(before[i]));
    }
  }

 private:
  static std::size_t partner_of(const rewrite::Rule& rule, const Rules& before,
                                const std::vector<bool>& paired) {
    std::size_t i = 0;
    while (i < before.size() && (paired[i] || name_of(before[i]) != name_of(rule))) ++i;
    return i;
  }
};

}  // namespace

std::string rule_changes(const Rules& before, const Rules& after) {
  const Difference found(before, after);
  std::string text;
  for (const auto& [what, names] :
       {std::pair<std::string_view, const Names&>{"changed ", found.changed},
        {"added ", found.added},
        {"removed ", found.removed}}) {
    if (names.empty()) continue;
    text.append(text.empty() ? "" : "; ").append(what).append(listed(names, kMostRulesNamed));
  }
  if (found.reordered) text.append(text.empty() ? "" : "; ").append("order");
  return text;
}

}  // namespace idproxy::app
