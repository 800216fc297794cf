#include "app/report_lines.hpp"

#include <bson/bson.h>

#include <algorithm>
#include <memory>

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

std::string json_of(Bytes document) {
  bson_t view;
  if (!bson_init_static(&view, document.data(), document.size())) return "{}";
  const std::unique_ptr<char, void (*)(void*)> json(bson_as_relaxed_extended_json(&view, nullptr),
                                                    bson_free);
  return json ? json.get() : "{}";
}

}  // namespace idproxy::app
