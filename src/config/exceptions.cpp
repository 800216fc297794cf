#include "config/exceptions.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "config/names.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

/// Collections that stop working with what rules add. A rule that matches nothing else means them.
struct LeftAlone {
  std::string_view pattern;
  bool only_replaced_ids;
  std::string_view why;
};

// The names decide, since the collections may not be there yet. "db.files" is no GridFS: a bucket
// has a name in front of ".files". Nothing refers to the _id of a chunk.
constexpr std::array<LeftAlone, 3> kLeftAlone{{
    {"*.__keyVault", false, "drivers refuse keys with further fields"},
    {"*.enxcol_.*", false, "encryption refuses further fields"},
    {"*.*.files", true, "GridFS finds a file's chunks by the _id that the driver made"},
}};

/// Why an exception of this ns is none, or "".
std::string fault_of_exception(const std::string& exception, const std::string& ns) {
  if (!has_wildcards(ns)) {
    return "needs an ns with wildcards: '" + shown(ns) + "' names one collection";
  }
  if (std::string fault = fault_of_pattern(exception); !fault.empty()) return fault;
  if (!glob_covers(exception, ns)) return {};
  return "'" + shown(exception) + "' takes out all that '" + shown(ns) +
         "' matches, so that the rule would never apply";
}

/// Adds an exception, and what people are told of it.
void take_out(rewrite::Rule& rule, Glob exception, std::string_view why, std::string& note) {
  note += (note.empty() ? "leaves alone '" : "; '") + shown(exception.pattern) + "' (";
  note.append(why).append(")");
  rule.except.push_back(std::move(exception));
}

void add_nones(rewrite::Rule& rule, std::span<const Draft> before, std::string& note) {
  for (const Draft& none : before) {
    if (!none.is_none() || !none.takes(rule.field) || !overlap(none.rule, rule)) continue;
    take_out(rule, {none.rule.ns, none.rule.except}, none.reader->path() + ", none", note);
  }
}

void add_own(rewrite::Rule& rule, std::string& note) {
  for (const auto& [pattern, only_replaced_ids, why] : kLeftAlone) {
    const bool concerns = !only_replaced_ids || rule.replaces_driver_ids();
    const bool is_meant = glob_covers(pattern, rule.ns);
    if (!concerns || is_meant || covers_any(rule.except, pattern)) continue;
    if (!globs_overlap(pattern, rule.ns)) continue;
    take_out(rule, {std::string(pattern)}, "unless a rule names it: " + std::string(why), note);
  }
}

}  // namespace

bool Draft::takes(std::string_view field) const {
  if (!is_none()) return rule.field == field;
  return rule.field.empty() || is_prefix(rule.field, field);
}

Exceptions read_except(const std::string& ns, Parameters& reader) {
  Exceptions except;
  for (const std::string& each : reader.texts("except")) {
    if (ns.empty()) continue;
    const std::string fault = fault_of_exception(each, ns);
    if (!fault.empty()) {
      reader.error("except", fault);
    } else if (!globs_overlap(each, ns)) {
      reader.warning("except", "'" + shown(each) + "' takes nothing out: '" + shown(ns) +
                                   "' matches no such collection");
    } else {
      except.push_back({each});
    }
  }
  return except;
}

void leave_alone(rewrite::Rule& rule, std::span<const Draft> before, Parameters& reader) {
  if (!has_wildcards(rule.ns)) return;
  std::string note;
  for (Glob& each : std::exchange(rule.except, {})) take_out(rule, std::move(each), "except", note);
  add_nones(rule, before, note);
  add_own(rule, note);
  if (!note.empty()) reader.note("ns", note);
}

void check_nones(std::span<const Draft> drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Draft& none = drafts[i];
    if (!none.is_none() || none.rule.ns.empty()) continue;
    const auto below = drafts.subspan(i + 1);
    const bool takes_out = std::ranges::any_of(below, [&](const Draft& each) {
      return !each.is_none() && none.takes(each.rule.field) &&
             globs_overlap(none.rule.ns, each.rule.ns) &&
             !covers_any(none.rule.except, each.rule.ns);
    });
    if (takes_out) continue;
    none.reader->warning("strategy", "none takes nothing out: no rule below this one applies to '" +
                                         shown(none.rule.ns) + "' and fills the field");
  }
}

bool overlap(const rewrite::Rule& a, const rewrite::Rule& b) {
  return globs_overlap(a.ns, a.except, b.ns, b.except);
}

std::string exceptions_text(const Exceptions& except) {
  std::string text;
  for (const Glob& each : except) {
    text += each.pattern + '(' + exceptions_text(each.except) + ") ";
  }
  return text;
}

}  // namespace idproxy::config
