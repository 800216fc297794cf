#include "app/views/wait_reason.hpp"

#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {

std::string why_not_ready(const JsonView& status) {
  const std::string phase = status["phase"].text();
  if (phase != "ready") return "the proxy is " + phase;
  std::string first;
  std::size_t others = 0;
  for (const JsonView& rule : status["rules"].items()) {
    const std::string ns = rule["ns"].text();
    if (!rule["ready"].is_false() || has_wildcards(ns)) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    const std::string reason = rule["reason"].text();
    first = "the rule for " + ns + ", " + rule["field"].text() + " is not ready" +
            (reason.empty() ? "" : ": " + reason);
  }
  if (others > 0) first += " (" + and_more(others) + ")";
  return first;
}

}  // namespace idproxy::app::views
