#include "app/jobs/backfill_report.hpp"

#include <algorithm>
#include <boost/algorithm/string/join.hpp>

#include "app/jobs/report_lines.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::app::jobs {
namespace {

constexpr const char* kNextStep =
    "Next: start or reload the proxy with this rule, and run this again for what was stored before "
    "that";

std::string examples_of(const BackfillTally::Left& left) {
  return left.examples.empty() ? "" : ", such as " + boost::algorithm::join(left.examples, ", ");
}

/// Those that are left for no reason of their own: because the run ended, or because they came
/// meanwhile.
void add_others(ReportLines& lines, std::uint64_t documents, const std::string& why) {
  if (documents == 0) return;
  const std::string reason =
      why.empty()
          ? "stored meanwhile without a value: start or reload the proxy with this rule, and "
            "run this again. If it serves already, an application bypasses it"
          : why;
  lines.add_text("    " + with_commas(documents) + ": " + reason);
}

void add_left(ReportLines& lines, const BackfillTally& tally, const BackfillEnd& end) {
  std::uint64_t explained = 0;
  for (const auto& [reason, left] : tally.left) explained += left.documents;
  if (!end.left) {
    lines.add_text("  left: cannot be counted now");
  } else {
    lines.add("left", *end.left);
  }
  for (const auto& [reason, left] : tally.left) {
    lines.add_text("    " + with_commas(left.documents) + ": " + reason + examples_of(left));
  }
  const std::uint64_t others = end.left.value_or(explained);
  add_others(lines, others - std::min(others, explained), end.why);
  const bool is_untold = !end.why.empty() && others <= explained;
  if (is_untold) lines.add_text("  ended early: " + end.why);
}

}  // namespace

void BackfillTally::leave(const std::string& reason, Bytes id) {
  Left& same = left[reason];
  ++same.documents;
  if (same.examples.size() < kExamples) same.examples.push_back(id_store::mongo::json_of(id));
}

std::uint64_t BackfillTally::done() const {
  std::uint64_t documents = given + got_one + deleted;
  for (const auto& [reason, left_for_it] : left) documents += left_for_it.documents;
  return documents;
}

std::string report_of(const BackfillTally& tally, const BackfillEnd& end) {
  ReportLines lines;
  lines.add_text(end.subject);
  const bool has_values = tally.given > 0;
  lines.add("given", tally.given, has_values ? tally.first + " to " + tally.last : "");
  lines.add("had one before", tally.had_one);
  lines.add_unless_none("got one meanwhile", tally.got_one, "from another program or backfill");
  lines.add_unless_none("deleted meanwhile", tally.deleted);
  lines.add_unless_none("duplicates renewed", tally.renewed);
  lines.add_unless_none("numbers not stored", tally.gaps, "gaps");
  add_left(lines, tally, end);
  const double seconds = std::chrono::duration<double>(end.took).count();
  const double rate = seconds > 0 ? static_cast<double>(tally.given) / seconds : 0;
  lines.add_text("  took " + seconds_text(end.took) + ", " +
                 with_commas(static_cast<std::uint64_t>(rate)) + " documents a second");
  if (end.left == 0U && has_values) lines.add_text(kNextStep);
  if (end.left.value_or(1) > 0 && !end.show_left.empty()) {
    lines.add_text("To see those that are left: " + end.show_left.text());
  }
  return lines.take();
}

std::string rehearsal_of(const std::string& subject, std::uint64_t would_get,
                         std::uint64_t have_one, const BackfillTally& tally,
                         const std::string& samples) {
  ReportLines lines;
  lines.add_text(subject);
  lines.add("would get a value", would_get, samples);
  lines.add("have one", have_one);
  for (const auto& [reason, left] : tally.left) {
    lines.add("cannot get one", left.documents, reason + examples_of(left));
  }
  return lines.take();
}

}  // namespace idproxy::app::jobs
