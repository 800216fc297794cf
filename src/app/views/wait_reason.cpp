#include "app/views/wait_reason.hpp"

#include "idproxy/base/finding.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

/// In version 0.2.0 and before findings had no ids: then "".
std::string text_of(std::string_view id, const std::string& subject, const JsonView& status) {
  for (const JsonView& each : status["wrong"].items()) {
    const bool is_it = each["id"].text() == id && each["subject"].text() == subject;
    if (is_it) return each["text"].text();
  }
  return {};
}

}  // namespace

std::string why_not_ready(const JsonView& status) {
  const std::string phase = status["phase"].text();
  if (phase != "ready") {
    const std::string text = text_of(finding::kProxyStopping.id, "", status);
    return text.empty() ? "the proxy is " + phase : text;
  }
  std::string first;
  std::size_t others = 0;
  for (const JsonView& rule : status["rules"].items()) {
    const std::string ns = rule["ns"].text();
    if (!rule["ready"].is_false() || has_wildcards(ns)) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    const std::string subject = rule_subject(ns, rule["field"].text());
    first = text_of(finding::kRuleNotReady.id, subject, status);
    if (first.empty()) first = subject + " is not ready";
  }
  if (others > 0) first += " (" + and_more(others) + ")";
  return first;
}

}  // namespace idproxy::app::views
