#include "app/report_lines.hpp"

#include <algorithm>

#include "app/progress.hpp"

namespace idproxy::app {
namespace {

constexpr std::size_t kLabel = 22;
constexpr std::size_t kNumber = 14;

}  // namespace

void ReportLines::add(std::string_view label, std::uint64_t count, const std::string& note) {
  const std::string number = with_commas(count);
  text_ += "  " + std::string(label);
  text_.append(kLabel - std::min(kLabel, label.size()), ' ');
  text_.append(kNumber - std::min(kNumber, number.size()), ' ');
  text_ += number + (note.empty() ? "" : "  " + note) + '\n';
}

}  // namespace idproxy::app
