#include "app/jobs/report_lines.hpp"

#include <algorithm>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::jobs {
namespace {

constexpr std::size_t kLabel = 22;
constexpr std::size_t kNumber = 14;

}  // namespace

void ReportLines::add(std::string_view label, std::uint64_t count, const std::string& note) {
  const std::string number = with_commas(count);
  text_ += "  " + std::string(label);
  text_.append(kLabel - std::min(kLabel, label.size()), ' ');
  text_.append(kNumber - std::min(kNumber, number.size()), ' ');
  text_ += number + (note.empty() ? "" : "  " + printable(note)) + '\n';
}

void ReportLines::add_text(std::string_view text) {
  text_ += printable(text) + '\n';
}

}  // namespace idproxy::app::jobs
