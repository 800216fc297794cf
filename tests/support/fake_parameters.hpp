#pragma once

#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/parameters.hpp"

namespace idproxy::test {

/// The keys of a rule as a file has them. Base of FakeParameters, since Parameters refers to it.
struct FakeFile {
  using Table = std::map<std::string, std::string>;

  explicit FakeFile(const Table& table) {
    root.kind = TreeNode::Kind::mapping;
    for (const auto& [path, value] : table) add(root, path, value);
  }

  static void add(TreeNode& mapping, std::string_view path, const std::string& value) {
    const std::size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    TreeNode* child = nullptr;
    for (TreeNode& each : mapping.children) {
      if (each.key == key) child = &each;
    }
    if (child == nullptr) child = &mapping.children.emplace_back();
    child->key = key;
    if (dot != std::string_view::npos) {
      child->kind = TreeNode::Kind::mapping;
      return add(*child, path.substr(dot + 1), value);
    }
    child->kind = value == "null" ? TreeNode::Kind::null : TreeNode::Kind::scalar;
    child->text = value;
    if (key != "scope") return;
    child->kind = TreeNode::Kind::sequence;
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      TreeNode& item = child->children.emplace_back();
      item.kind = TreeNode::Kind::scalar;
      item.text = word;
    }
  }

  TreeNode root;
  Findings findings;
};

/// The keys of a rule, from a table with values as YAML spells them without quotes:
///
///   FakeParameters parameters(FakeParameters::Table{{"digits", "9"}, {"block.size", "100"}});
///
/// A dot separates a section from its key. The value of `scope` is a list, with blanks between its
/// items.
class FakeParameters final : private FakeFile, public Parameters {
 public:
  using FakeFile::Table;

  explicit FakeParameters(const Table& table = {})
      : FakeFile(table), Parameters(&root, "", {}, findings) {}
  FakeParameters(const FakeParameters&) = delete;
  FakeParameters& operator=(const FakeParameters&) = delete;

  /// "KEY: REASON", in the order in which they were reported.
  [[nodiscard]] std::vector<std::string> errors() const {
    return texts(FileFinding::Severity::error, false);
  }
  [[nodiscard]] std::vector<std::string> warnings() const {
    return texts(FileFinding::Severity::warning, false);
  }
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> texts;
    for (const FileFinding& each : findings.notes()) texts.push_back(each.message);
    return texts;
  }
  /// Keys that the strategy did not ask for.
  [[nodiscard]] std::vector<std::string> unknown() {
    finish();
    return texts(FileFinding::Severity::error, true);
  }

 private:
  [[nodiscard]] std::vector<std::string> texts(FileFinding::Severity severity, bool unknown) const {
    std::vector<std::string> texts;
    for (const FileFinding& each : findings.in_file_order()) {
      const bool is_unknown = each.message.find("unknown key '") != std::string::npos;
      if (each.severity == severity && is_unknown == unknown) texts.push_back(each.message);
    }
    return texts;
  }
};

}  // namespace idproxy::test
