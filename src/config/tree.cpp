#include "config/tree.hpp"

#include <bson/bson.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

Place place_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

/// Builds the tree from the parser's events. Collects faults of content and continues; throws the
/// parser's own exception if it cannot continue.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(Findings& findings) : findings_(findings) {}

  [[nodiscard]] TreeNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!ended_) return;
    throw YAML::ParserException(mark, "a second document starts here: there must be one only");
  }
  void OnDocumentEnd() override { ended_ = true; }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    findings_.error(place_of(mark),
                    "anchors are not allowed (&" + shown(name) + "): write the value out");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    findings_.error(place_of(mark), "aliases are not allowed: write the value out");
    add(make(TreeNode::Kind::refused, mark));
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add(make(TreeNode::Kind::null, mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    // "?" is a plain scalar without a tag, "!" one in quotes.
    TreeNode node = make(TreeNode::Kind::scalar, mark);
    node.quoted = tag == "!";
    node.text = value;
    if (!node.quoted) refuse_tag(node, tag);
    if (value.find('\0') != std::string::npos) refuse(node, "text must not contain a NUL");
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(TreeNode::Kind::sequence, mark, tag);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(TreeNode::Kind::mapping, mark, tag);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A sequence or mapping whose end has not been read.
  struct Open {
    TreeNode node;
    std::optional<TreeNode> key;  // mapping: the key whose value comes next
    std::map<std::string, Place> keys;
  };

  static TreeNode make(TreeNode::Kind kind, const YAML::Mark& mark) {
    TreeNode node;
    node.kind = kind;
    node.place = place_of(mark);
    return node;
  }

  void refuse(TreeNode& node, std::string reason) {
    findings_.error(node.place, std::move(reason));
    node.kind = TreeNode::Kind::refused;
  }

  void refuse_tag(TreeNode& node, const std::string& tag) {
    if (tag == "?" || tag.empty()) return;
    refuse(node, "tags are not allowed ('" + shown(tag) + "'): the key decides the type");
  }

  void open(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& tag) {
    if (open_.size() == kMaxDepth) {
      throw YAML::ParserException(mark,
                                  "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    TreeNode node = make(kind, mark);
    refuse_tag(node, tag);
    node.kind = kind;  // its content is still read: it may hold more to report
    open_.push_back({std::move(node), std::nullopt, {}});
  }

  void close() {
    TreeNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(TreeNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& in = open_.back();
    if (in.node.kind == TreeNode::Kind::sequence) {
      in.node.children.push_back(std::move(node));
    } else if (in.key) {
      const TreeNode key = std::move(*in.key);
      in.key.reset();
      add_value(in, key, std::move(node));
    } else {
      in.key = std::move(node);
    }
  }

  void add_value(Open& mapping, const TreeNode& key, TreeNode value) {
    if (key.kind == TreeNode::Kind::refused) return;
    if (key.kind != TreeNode::Kind::scalar) {
      findings_.error(key.place, "a key must be text");
      return;
    }
    const auto [first, is_new] = mapping.keys.emplace(key.text, key.place);
    if (!is_new) {
      findings_.error(key.place, "repeated key '" + shown(key.text) + "', first in line " +
                                     std::to_string(first->second.line));
      return;
    }
    value.key = key.text;
    value.key_place = key.place;
    mapping.node.children.push_back(std::move(value));
  }

  Findings& findings_;
  std::vector<Open> open_;
  TreeNode root_;
  bool ended_ = false;  // the document
};

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

/// Rejects what yaml-cpp would misread: it takes byte 04 for the end of the file, and guesses
/// encodings.
bool check_line(std::string_view line, int number, Findings& findings) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!is_control(line[i])) continue;
    findings.error({number, static_cast<int>(i) + 1}, "control characters are not allowed");
    return false;
  }
  if (bson_utf8_validate(line.data(), line.size(), false)) return true;
  findings.error({number, 1}, "this line is not UTF-8 text");
  return false;
}

bool check_bytes(std::string_view text, Findings& findings) {
  if (text.size() > kMaxFileBytes) {
    findings.error({}, "the file is larger than 1 MiB");
    return false;
  }
  for (int number = 1; !text.empty(); ++number) {
    if (!check_line(take_part(text, "\n"), number, findings)) return false;
  }
  return true;
}

std::string_view line_of(std::string_view text, int number) {
  for (; number > 0 && !text.empty(); --number) take_part(text, "\n");
  return text.substr(0, text.find('\n'));
}

/// How to correct the fault at this place, or "". The parser's message only says what it expected.
std::string hint_for(std::string_view text, const YAML::Mark& mark) {
  if (mark.is_null() || text.empty()) return {};
  const std::string_view line = line_of(text, mark.line);
  const std::string_view indentation = line.substr(0, line.find_first_not_of(" \t"));
  if (indentation.find('\t') != std::string_view::npos) {
    return ": this line is indented with a tab: indent with spaces";
  }
  // For a lone *, the parser's position is after it.
  const auto column = static_cast<std::size_t>(mark.column);
  const std::string_view behind = line.substr(std::min(column, line.size()));
  const bool lone = column > 0 && column <= line.size() && line[column - 1] == '*';
  if (lone || behind.starts_with('*')) {
    return ": a value that begins with * must be in quotes, as in \"*.orders\"";
  }
  if (behind.empty() || std::string_view("@`%").find(behind[0]) == std::string_view::npos)
    return {};
  return std::string(": a value that begins with ") + behind[0] + " must be in quotes";
}

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

constexpr std::string_view kDefaultMark = ":-";  // as a shell has it

bool is_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         text.find_first_not_of(kLetters) == std::string_view::npos;
}

constexpr std::string_view kCredentials = "CREDENTIALS_DIRECTORY";

/// Why a text cannot be used.
struct Unexpanded {
  std::string text{};  ///< empty: it can
  FileFinding::About about = FileFinding::About::text;
};

std::string_view hint_for(std::string_view name) {
  if (name != kCredentials) return {};
  return ": systemd defines it for a service with LoadCredential=; by hand, set it to the "
         "directory "
         "that the files are in";
}

/// Appends the variable's value, or `fallback` if there is one and the variable is not defined or
/// empty.
Unexpanded append_variable(std::string_view name, std::optional<std::string_view> fallback,
                           std::string& out) {
  const std::string zero_terminated(name);
  // Safe during a reload, too: no thread of this process ever sets a variable.
  const char* value = std::getenv(zero_terminated.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (fallback && (value == nullptr || *value == '\0')) {
    out += *fallback;
    return {};
  }
  const std::string variable = "environment variable '" + shown(name) + "' is ";
  if (value == nullptr) {
    return {variable + "not defined" + std::string(hint_for(name)),
            name == kCredentials ? FileFinding::About::credentials : FileFinding::About::variable};
  }
  const std::string_view text(value);
  if (!bson_utf8_validate(text.data(), text.size(), false)) return {variable + "not UTF-8 text"};
  out += text;
  return {};
}

Unexpanded expand(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t start = text.find("${");
    out += text.substr(0, start);
    if (start == std::string_view::npos) return {};
    const std::size_t end = text.find('}', start);
    const std::string_view inside = text.substr(start + 2, end - start - 2);
    const std::size_t colon = inside.find(kDefaultMark);
    const std::string_view name = inside.substr(0, colon);
    if (end == std::string_view::npos || !is_name(name)) {
      return {
          "'${' must begin the name of an environment variable, as in ${NAME} or "
          "${NAME:-default}"};
    }
    std::optional<std::string_view> fallback;
    if (colon != std::string_view::npos) fallback = inside.substr(colon + kDefaultMark.size());
    if (fallback && fallback->find("${") != std::string_view::npos) {
      return {"the default of '" + shown(name) + "' must not contain another variable"};
    }
    if (auto fault = append_variable(name, fallback, out); !fault.text.empty()) return fault;
    text.remove_prefix(end + 1);
  }
}

void substitute_scalar(TreeNode& node, Findings& findings) {
  if (node.text.find("${") == std::string::npos) return;
  std::string value;
  if (auto fault = expand(node.text, value); !fault.text.empty()) {
    findings.error(node.place, std::move(fault.text), fault.about);
    node.kind = TreeNode::Kind::refused;
    return;
  }
  node.written = std::move(node.text);
  node.text = std::move(value);
}

// The tree is at most kMaxDepth deep.
void append(const TreeNode& node, std::string& out) {
  using Kind = TreeNode::Kind;
  if (node.kind == Kind::null || node.kind == Kind::refused) {
    out += "null";
  } else if (node.kind == Kind::scalar) {
    out += node.is_text() ? in_quotes(node.text) : node.text;
  } else {
    const bool is_mapping = node.kind == Kind::mapping;
    std::vector<const TreeNode*> children;
    children.reserve(node.children.size());
    for (const TreeNode& child : node.children) children.push_back(&child);
    if (is_mapping) std::ranges::sort(children, {}, &TreeNode::key);
    out += is_mapping ? '{' : '[';
    for (const TreeNode* child : children) {
      if (child != children.front()) out += ',';
      if (is_mapping) out += in_quotes(child->key) + ':';
      append(*child, out);
    }
    out += is_mapping ? '}' : ']';
  }
}

void add_texts(const TreeNode& mapping, const std::string& before,
               std::map<std::string, std::string>& texts) {
  for (const TreeNode& child : mapping.children) {
    const std::string key = before + child.key;
    if (child.kind == TreeNode::Kind::mapping) {
      add_texts(child, key + ".", texts);
    } else {
      append(child, texts[key]);
    }
  }
}

}  // namespace

std::optional<TreeNode> parse_tree(const std::string& text, Findings& findings) {
  if (!check_bytes(text, findings)) return std::nullopt;
  Builder builder(findings);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& fault) {
    findings.error(place_of(fault.mark),
                   "not valid YAML: " + fault.msg + hint_for(text, fault.mark));
    return std::nullopt;
  } catch (const std::exception& fault) {
    findings.error({}, std::string("not valid YAML: ") + fault.what());
    return std::nullopt;
  }
  return builder.take_root();
}

// The tree is at most kMaxDepth deep.
void substitute_environment(TreeNode& node, Findings& findings) {
  if (node.kind == TreeNode::Kind::scalar) substitute_scalar(node, findings);
  for (TreeNode& child : node.children) substitute_environment(child, findings);
}

std::map<std::string, std::string> canonical_texts(const TreeNode& mapping) {
  std::map<std::string, std::string> texts;
  add_texts(mapping, {}, texts);
  return texts;
}

std::string canonical_text(const TreeNode& node) {
  std::string text;
  append(node, text);
  return text;
}

std::string canonical_text(const TreeNode& mapping, std::span<const std::string_view> without) {
  TreeNode rest = mapping;
  std::erase_if(rest.children, [&](const TreeNode& child) {
    return std::ranges::find(without, child.key) != without.end();
  });
  return canonical_text(rest);
}

}  // namespace idproxy::config
