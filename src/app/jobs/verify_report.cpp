#include "app/jobs/verify_report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "app/jobs/report_lines.hpp"
#include "app/json_view.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/time_zone.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::jobs {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostInReport = 20;  // sequences

struct KindNames {
  VerifyKind kind;
  const char* key;    // in JSON
  const char* label;  // in the report
};
constexpr std::array<KindNames, 10> kKindNames{{
    {VerifyKind::missing, "missing", "without the field"},
    {VerifyKind::null, "null", "null"},
    {VerifyKind::duplicate, "duplicates", "duplicates"},
    {VerifyKind::wrong_type, "wrong_type", "of another type"},
    {VerifyKind::wrong_form, "wrong_form", "not as the rule writes"},
    {VerifyKind::wrong_check, "wrong_check", "wrong check digits"},
    {VerifyKind::no_sequence, "no_sequence", "in no sequence"},
    {VerifyKind::gap, "gaps", "gaps"},
    {VerifyKind::beyond_counter, "beyond_counter", "beyond the counter"},
    {VerifyKind::beyond_max, "beyond_max", "beyond max"},
}};

const KindNames& names_of(VerifyKind kind) {
  return *std::ranges::find(kKindNames, kind, &KindNames::kind);
}

std::string moment_text(std::chrono::system_clock::time_point time) {
  using std::chrono::floor;
  return utc_text("%E4Y-%m-%dT%H:%M:%SZ",
                  floor<std::chrono::milliseconds>(time.time_since_epoch()));
}

std::chrono::system_clock::time_point end_of(const VerifyRun& run) {
  return run.begin + std::chrono::duration_cast<std::chrono::system_clock::duration>(run.took);
}

std::uint64_t rate_of(const VerifyRun& run, const VerifyFindings& findings) {
  const double seconds = std::chrono::duration<double>(run.took).count();
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(findings.documents) / seconds)
                     : 0;
}

std::string types_text(const std::map<std::string, std::uint64_t>& types) {
  std::string text;
  for (const auto& [type, count] : types) {
    text += (text.empty() ? "" : ", ") + type + " " + with_commas(count);
  }
  return text;
}

/// "1005 in 2 documents", "1002 to 1004, 3 numbers", "{ "_id" : 7 }: "x""
std::string example_text(VerifyKind kind, const VerifyExample& example) {
  std::string text = example.id;
  if (!example.value.empty()) text += (text.empty() ? "" : ": ") + example.value;
  const std::string count = with_commas(example.count);
  if (kind == VerifyKind::duplicate) text += " in " + count + " documents";
  if (kind == VerifyKind::gap) text += example.count == 1 ? "" : ", " + count + " numbers";
  return text + (example.sequence.empty() ? "" : " of " + example.sequence);
}

void add_found(ReportLines& lines, VerifyKind kind, const VerifyFound& found,
               const VerifyFindings& findings) {
  lines.add(names_of(kind).label, found.count,
            kind == VerifyKind::wrong_type ? types_text(findings.types) : "");
  for (const VerifyExample& each : found.examples) {
    lines.add_text("    " + example_text(kind, each));
  }
  const std::uint64_t others = found.count - found.examples.size();
  if (others > 0 && !found.examples.empty()) {
    lines.add_text("    " + and_more(others));
  }
  if (!found.remedy.empty()) lines.add_text("    what helps: " + found.remedy);
}

std::string counts_text(const VerifySequence& sequence) {
  if (!sequence.is_counted) return "too many gaps to say how many are missing";
  return with_commas(sequence.numbers) + " numbers, " + with_commas(sequence.missing) + " missing";
}

void add_sequences(ReportLines& lines, const VerifyFindings& findings) {
  if (findings.sequences == 0) return;
  lines.add("sequences", findings.sequences);
  const std::size_t shown = std::min(kMostInReport, findings.first_sequences.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const VerifySequence& each = findings.first_sequences[i];
    lines.add_text("    " + (each.name.empty() ? "" : each.name + ": ") +
                   std::to_string(each.first) + " to " + std::to_string(each.last) + ", " +
                   counts_text(each));
  }
  if (findings.sequences > shown) {
    lines.add_text("    " + and_more(findings.sequences - shown));
  }
}

/// Whoever stored them, a driver or an earlier program, wrote them so. Nothing is wrong with them.
void add_number_types(ReportLines& lines, const VerifyFindings& findings) {
  if (findings.number_types.empty()) return;
  lines.add_text("  equal numbers of other types than the rule writes: " +
                 types_text(findings.number_types));
}

std::string verdict_of(const VerifyRun& run, const VerifyFindings& findings) {
  const std::uint64_t count = findings.count();
  const std::string found = with_commas(count) + (count == 1 ? " finding" : " findings");
  if (!run.why.empty()) return "incomplete: " + run.why + "; " + found + " in what was read";
  return count == 0 ? "verified: nothing is wrong" : found;
}

/// The text is JSON that this program has written.
json::value parsed(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  return error ? json::value(text) : value;
}

json::object found_json(VerifyKind kind, const VerifyFound& found) {
  json::array examples;
  for (const VerifyExample& each : found.examples) {
    json::object example;
    if (!each.id.empty()) example = parsed(each.id).as_object();
    if (!each.value.empty()) example["value"] = each.value;
    if (!each.sequence.empty()) example["sequence"] = parsed(each.sequence);
    if (kind == VerifyKind::duplicate) example["documents"] = each.count;
    if (kind == VerifyKind::gap) example["numbers"] = each.count;
    examples.push_back(std::move(example));
  }
  json::object object{{"count", found.count}, {"examples", std::move(examples)}};
  if (!found.remedy.empty()) object["remedy"] = found.remedy;
  return object;
}

json::object types_json(const std::map<std::string, std::uint64_t>& counts) {
  json::object types;
  for (const auto& [type, count] : counts) types[type] = count;
  return types;
}

json::object sequence_json(const VerifySequence& sequence) {
  json::object object{{"first", sequence.first},
                      {"last", sequence.last},
                      {"numbers", sequence.numbers},
                      {"missing", sequence.missing}};
  if (!sequence.is_counted) object["numbers"] = object["missing"] = nullptr;
  if (!sequence.name.empty()) object["sequence"] = parsed(sequence.name);
  return object;
}

}  // namespace

std::string verify_report(const VerifyRun& run, const VerifyFindings& findings) {
  ReportLines lines;
  lines.add_text(run.ns + ": " + run.field + ", by the strategy " + run.strategy +
                 (run.scope.empty() ? "" : ", of " + run.scope));
  lines.add("with the field", findings.documents,
            run.index.empty() ? "sorted by the server: no index has their order"
                              : "in the order of the index " + run.index);
  if (!run.allow.empty()) lines.add("allowed", findings.allowed, "by " + printable(run.allow));
  for (const auto& [kind, found] : findings.kinds) add_found(lines, kind, found, findings);
  add_sequences(lines, findings);
  add_number_types(lines, findings);
  if (!run.note.empty()) lines.add_text("  " + run.note);
  lines.add_text("  unique index: " + (run.unguarded.empty() ? "there" : run.unguarded));
  lines.add_text("  read from " + moment_text(run.begin) + " to " + moment_text(end_of(run)) +
                 ", took " + seconds_text(run.took) + ", " + with_commas(rate_of(run, findings)) +
                 " documents a second");
  lines.add_text(verdict_of(run, findings));
  return lines.take();
}

std::string verify_json(const VerifyRun& run, const VerifyFindings& findings) {
  json::object report{{"ns", run.ns},
                      {"field", run.field},
                      {"strategy", run.strategy},
                      {"complete", run.why.empty()},
                      {"findings", findings.count()},
                      {"documents", findings.documents}};
  if (!run.why.empty()) report["why"] = run.why;
  if (!run.scope.empty()) report["scope"] = parsed(run.scope);
  if (!run.allow.empty()) {
    report["allow"] = run.allow;
    report["allowed"] = findings.allowed;
  }
  for (const auto& [kind, found] : findings.kinds) {
    report[names_of(kind).key] = found_json(kind, found);
  }
  report["types"] = types_json(findings.types);
  report["number_types"] = types_json(findings.number_types);
  json::array sequences;
  for (const VerifySequence& each : findings.first_sequences) {
    sequences.push_back(sequence_json(each));
  }
  report["sequences"] = {{"count", findings.sequences}, {"first", std::move(sequences)}};
  if (!run.note.empty()) report["note"] = run.note;
  report["order"] = text_or_null(run.index);
  report["unique_index"] = run.unguarded.empty() ? json::value(true) : json::value(run.unguarded);
  report["begin"] = moment_text(run.begin);
  report["end"] = moment_text(end_of(run));
  report["seconds"] = std::chrono::duration<double>(run.took).count();
  report["documents_per_second"] = rate_of(run, findings);
  return json_line(report);
}

}  // namespace idproxy::app::jobs
