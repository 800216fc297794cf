#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace idproxy::app::jobs {

/// The lines of a report, of any texts: "  given                      1,998  1001 to 2998"
class ReportLines {
 public:
  void add(std::string_view label, std::uint64_t count, const std::string& note = {});
  void add_unless_none(std::string_view label, std::uint64_t count, const std::string& note = {}) {
    if (count > 0) add(label, count, note);
  }
  void add_text(std::string_view text);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace idproxy::app::jobs
