#include "config/environment.hpp"

#include <bson/bson.h>

#include <cstdlib>
#include <string_view>

#include "config/words.hpp"

namespace idproxy::config {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

bool is_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         text.find_first_not_of(kLetters) == std::string_view::npos;
}

std::string_view hint_for(std::string_view name) {
  if (name != "CREDENTIALS_DIRECTORY") return {};
  return ": systemd defines it for a service with LoadCredential=; by hand, set it to the "
         "directory "
         "that the files are in";
}

/// Appends the variable's value. Returns an error text, or "".
std::string append_variable(std::string_view name, std::string& out) {
  const std::string zero_terminated(name);
  // Safe during a reload, too: no thread of this process ever sets a variable.
  const char* value = std::getenv(zero_terminated.c_str());  // NOLINT(concurrency-mt-unsafe)
  const std::string variable = "environment variable '" + shown(name) + "' is ";
  if (value == nullptr) return variable + "not defined" + std::string(hint_for(name));
  const std::string_view text(value);
  if (!bson_utf8_validate(text.data(), text.size(), false)) return variable + "not UTF-8 text";
  out += text;
  return {};
}

std::string expand(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t start = text.find("${");
    out += text.substr(0, start);
    if (start == std::string_view::npos) return {};
    const std::size_t end = text.find('}', start);
    if (end == std::string_view::npos || !is_name(text.substr(start + 2, end - start - 2))) {
      return "'${' must begin the name of an environment variable, as in ${NAME}";
    }
    if (auto fault = append_variable(text.substr(start + 2, end - start - 2), out); !fault.empty())
      return fault;
    text.remove_prefix(end + 1);
  }
}

void substitute_scalar(TreeNode& node, Findings& findings) {
  if (node.text.find("${") == std::string::npos) return;
  std::string value;
  if (auto fault = expand(node.text, value); !fault.empty()) {
    findings.error(node.place, std::move(fault));
    node.kind = TreeNode::Kind::refused;
    return;
  }
  node.written = std::move(node.text);
  node.text = std::move(value);
}

}  // namespace

// The tree is at most kMaxDepth deep.
void substitute_environment(TreeNode& node, Findings& findings) {
  if (node.kind == TreeNode::Kind::scalar) substitute_scalar(node, findings);
  for (TreeNode& child : node.children) substitute_environment(child, findings);
}

}  // namespace idproxy::config
